//! Arrays in emulated memory.

use super::EmulatedDevice;
use crate::dtype::Data;
use crate::error::{Error, Result};
use gpu_kernels::simt::Global;
use std::marker::PhantomData;
use std::sync::Arc;

/// `len` elements at an address of an emulated device; freed when dropped.
#[derive(Debug)]
pub(crate) struct EmulatedBuffer<T> {
    device: Arc<EmulatedDevice>,
    address: u64,
    len: usize,
    marker: PhantomData<T>,
}

impl<T: Data> EmulatedBuffer<T> {
    pub(crate) fn from_slice(device: &Arc<EmulatedDevice>, data: &[T]) -> Result<Self> {
        let mut buffer = Self::allocate(device, data.len(), false)?;
        buffer.write(data)?;
        Ok(buffer)
    }

    pub(crate) fn zeros(device: &Arc<EmulatedDevice>, len: usize) -> Result<Self> {
        Self::allocate(device, len, device.options.poison)
    }

    fn allocate(device: &Arc<EmulatedDevice>, len: usize, unwritten: bool) -> Result<Self> {
        let bytes = len
            .checked_mul(size_of::<T>())
            .ok_or_else(|| Error::OutOfMemory {
                bytes: usize::MAX,
                device: device.to_string(),
                reason: format!("{len} elements of {} bytes", size_of::<T>()),
            })?;
        let address = device
            .machine
            .alloc_zeroed(bytes, unwritten)
            .map_err(|error| device.memory_error(error))?;
        Ok(Self {
            device: device.clone(),
            address,
            len,
            marker: PhantomData,
        })
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn write(&mut self, data: &[T]) -> Result<()> {
        self.device
            .machine
            .write(self.address, bytemuck::cast_slice(data))
            .map_err(|error| self.device.memory_error(error))
    }

    pub(crate) fn read(&self, out: &mut [T]) -> Result<()> {
        self.device
            .machine
            .read(self.address, bytemuck::cast_slice_mut(out))
            .map_err(|error| self.device.memory_error(error))
    }

    pub(crate) fn global(&self) -> Global<T> {
        Global::from_address(self.address)
    }
}

impl<T> Drop for EmulatedBuffer<T> {
    fn drop(&mut self) {
        // The address is this buffer's own, so it is there to be freed.
        let freed = self.device.machine.free(self.address);
        debug_assert!(freed.is_ok(), "{freed:?}");
    }
}
