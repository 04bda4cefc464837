//! NVIDIA GPUs, through the CUDA driver API (`cust`).

use crate::dtype::Data;
use crate::error::{Error, Result};
use crate::launch::Launcher;
use gpu_kernels::simt::{Entry, Global, LaunchShape};
use std::marker::PhantomData;
use std::sync::Arc;

/// An open GPU: primary context, stream, loaded modules.
#[derive(Debug)]
pub struct CudaDevice {}

impl CudaDevice {
    pub(crate) fn open(ordinal: usize) -> Result<Arc<Self>> {
        Err(Error::DeviceUnavailable {
            device: format!("cuda:{ordinal}"),
            reason: "not built yet".to_owned(),
        })
    }
    pub(crate) fn ordinal(&self) -> usize {
        todo!()
    }
    pub(crate) fn name(&self) -> &str {
        todo!()
    }
    pub(crate) fn synchronize(&self) -> Result<()> {
        todo!()
    }
}

impl Launcher for CudaDevice {
    fn launch<K: Entry>(&self, _shape: LaunchShape, _params: K::Params) -> Result<()> {
        todo!()
    }
}

/// An array in a GPU's memory.
#[derive(Debug)]
pub(crate) struct CudaBuffer<T> {
    marker: PhantomData<T>,
}

impl<T: Data> CudaBuffer<T> {
    pub(crate) fn from_slice(_device: &Arc<CudaDevice>, _data: &[T]) -> Result<Self> {
        todo!()
    }
    pub(crate) fn zeros(_device: &Arc<CudaDevice>, _len: usize) -> Result<Self> {
        todo!()
    }
    pub(crate) fn len(&self) -> usize {
        todo!()
    }
    pub(crate) fn write(&mut self, _data: &[T]) -> Result<()> {
        todo!()
    }
    pub(crate) fn read(&self, _out: &mut [T]) -> Result<()> {
        todo!()
    }
    pub(crate) fn global(&self) -> Global<T> {
        todo!()
    }
}
