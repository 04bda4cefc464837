//! Typed arrays that live on a device.

use crate::cuda::CudaBuffer;
use crate::device::{Backend, Device};
use crate::dtype::Data;
use crate::emulated::EmulatedBuffer;
use crate::error::{Error, Result};

/// `len` elements of type `T` on one device.
#[derive(Debug)]
pub struct Buffer<T: Data> {
    pub(crate) storage: Storage<T>,
    device: Device,
}

#[derive(Debug)]
pub(crate) enum Storage<T: Data> {
    Host(Vec<T>),
    Cuda(CudaBuffer<T>),
    Emulated(EmulatedBuffer<T>),
}

impl<T: Data> Buffer<T> {
    pub(crate) fn from_slice(device: &Device, data: &[T]) -> Result<Self> {
        let storage = match &device.backend {
            Backend::Cpu => {
                let mut vec = host_vec(data.len())?;
                vec.extend_from_slice(data);
                Storage::Host(vec)
            }
            Backend::Cuda(cuda) => Storage::Cuda(CudaBuffer::from_slice(cuda, data)?),
            Backend::Emulated(device) => {
                Storage::Emulated(EmulatedBuffer::from_slice(device, data)?)
            }
        };
        Ok(Self {
            storage,
            device: device.clone(),
        })
    }

    pub(crate) fn zeros(device: &Device, len: usize) -> Result<Self> {
        let storage = match &device.backend {
            Backend::Cpu => {
                let mut vec = host_vec(len)?;
                vec.resize(len, T::default());
                Storage::Host(vec)
            }
            Backend::Cuda(cuda) => Storage::Cuda(CudaBuffer::zeros(cuda, len)?),
            Backend::Emulated(device) => Storage::Emulated(EmulatedBuffer::zeros(device, len)?),
        };
        Ok(Self {
            storage,
            device: device.clone(),
        })
    }

    /// Elements.
    pub fn len(&self) -> usize {
        match &self.storage {
            Storage::Host(vec) => vec.len(),
            Storage::Cuda(buffer) => buffer.len(),
            Storage::Emulated(buffer) => buffer.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Where it lives.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Replaces its contents.
    ///
    /// # Errors
    /// [`Error::Length`] unless `data` has exactly [`len`](Self::len) elements; the driver's error.
    pub fn write(&mut self, data: &[T]) -> Result<()> {
        self.check_len("write", data.len())?;
        match &mut self.storage {
            Storage::Host(vec) => vec.copy_from_slice(data),
            Storage::Cuda(buffer) => buffer.write(data)?,
            Storage::Emulated(buffer) => buffer.write(data)?,
        }
        Ok(())
    }

    /// Copies its contents to `out`, after everything that was started on the device.
    ///
    /// # Errors
    /// [`Error::Length`] unless `out` has exactly [`len`](Self::len) elements; the driver's error,
    /// which may be that of an earlier launch.
    pub fn read(&self, out: &mut [T]) -> Result<()> {
        self.check_len("read", out.len())?;
        match &self.storage {
            Storage::Host(vec) => out.copy_from_slice(vec),
            Storage::Cuda(buffer) => buffer.read(out)?,
            Storage::Emulated(buffer) => buffer.read(out)?,
        }
        Ok(())
    }

    /// Its contents, after everything that was started on the device.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`]; the driver's error, which may be that of an earlier launch.
    pub fn to_vec(&self) -> Result<Vec<T>> {
        let mut vec = host_vec(self.len())?;
        vec.resize(self.len(), T::default());
        self.read(&mut vec)?;
        Ok(vec)
    }

    fn check_len(&self, operation: &'static str, found: usize) -> Result<()> {
        if found == self.len() {
            return Ok(());
        }
        Err(Error::Length {
            operation,
            argument: "data",
            found,
            expected: self.len(),
            shape: "the buffer's length".to_owned(),
        })
    }
}

/// A host vector with room for `len` elements; an error instead of an abort without memory.
fn host_vec<T>(len: usize) -> Result<Vec<T>> {
    let mut vec = Vec::new();
    vec.try_reserve_exact(len)
        .map_err(|error| Error::OutOfMemory {
            bytes: len.saturating_mul(size_of::<T>()),
            device: "cpu".to_owned(),
            reason: error.to_string(),
        })?;
    Ok(vec)
}
