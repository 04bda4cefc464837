//! Devices: where buffers live and operations run.

use crate::buffer::Buffer;
use crate::cuda::CudaDevice;
use crate::dtype::Data;
use crate::error::{Error, Result};
use std::fmt;
use std::sync::Arc;

/// Which kind of device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DeviceKind {
    /// The host's processor.
    Cpu,
    /// An NVIDIA GPU, through the CUDA driver.
    Cuda,
}

/// A device. Cheap to clone; clones share the GPU's context, modules and stream.
#[derive(Clone)]
pub struct Device {
    pub(crate) backend: Backend,
}

#[derive(Clone)]
pub(crate) enum Backend {
    Cpu,
    Cuda(Arc<CudaDevice>),
}

impl Device {
    /// The host's processor.
    pub fn cpu() -> Self {
        Self {
            backend: Backend::Cpu,
        }
    }

    /// GPU number `ordinal`, as the CUDA driver counts them.
    ///
    /// # Errors
    /// [`Error::DeviceUnavailable`] without a driver or without that GPU.
    pub fn cuda(ordinal: usize) -> Result<Self> {
        Ok(Self {
            backend: Backend::Cuda(CudaDevice::open(ordinal)?),
        })
    }

    /// The first GPU if there is one that works, else the CPU. [`Display`](fmt::Display)
    /// says which.
    pub fn auto() -> Self {
        Self::cuda(0).unwrap_or_else(|_| Self::cpu())
    }

    /// `auto`, `cpu`, `cuda` or `cuda:N`.
    ///
    /// # Errors
    /// [`Error::DeviceUnavailable`] for anything else, or if that device is not there: an
    /// explicit device is never replaced by another.
    pub fn from_spec(spec: &str) -> Result<Self> {
        match spec.split_once(':') {
            None if spec == "auto" => Ok(Self::auto()),
            None if spec == "cpu" => Ok(Self::cpu()),
            None if spec == "cuda" => Self::cuda(0),
            Some(("cuda", ordinal)) if ordinal.parse::<usize>().is_ok() => {
                Self::cuda(ordinal.parse().unwrap_or_default())
            }
            _ => Err(Error::DeviceUnavailable {
                device: spec.to_owned(),
                reason: "expected auto, cpu, cuda or cuda:N".to_owned(),
            }),
        }
    }

    /// Which kind it is.
    pub fn kind(&self) -> DeviceKind {
        match self.backend {
            Backend::Cpu => DeviceKind::Cpu,
            Backend::Cuda(_) => DeviceKind::Cuda,
        }
    }

    /// Copies `data` to a new buffer on the device.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`], or the driver's error.
    pub fn upload<T: Data>(&self, data: &[T]) -> Result<Buffer<T>> {
        Buffer::from_slice(self, data)
    }

    /// A new buffer of `len` elements, all zero.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`], or the driver's error.
    pub fn alloc<T: Data>(&self, len: usize) -> Result<Buffer<T>> {
        Buffer::zeros(self, len)
    }

    /// The GPU behind it, for measuring; `None` for the CPU.
    pub fn as_cuda(&self) -> Option<&Arc<CudaDevice>> {
        match &self.backend {
            Backend::Cpu => None,
            Backend::Cuda(device) => Some(device),
        }
    }

    /// Waits until everything that was started on the device has ended, and reports what failed.
    ///
    /// # Errors
    /// The driver's error.
    pub fn synchronize(&self) -> Result<()> {
        match &self.backend {
            Backend::Cpu => Ok(()),
            Backend::Cuda(device) => device.synchronize(),
        }
    }
}

impl PartialEq for Device {
    fn eq(&self, other: &Self) -> bool {
        match (&self.backend, &other.backend) {
            (Backend::Cpu, Backend::Cpu) => true,
            (Backend::Cuda(a), Backend::Cuda(b)) => a.ordinal() == b.ordinal(),
            _ => false,
        }
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.backend {
            Backend::Cpu => write!(f, "cpu ({} threads)", rayon::current_num_threads()),
            Backend::Cuda(device) => write!(f, "cuda:{} ({})", device.ordinal(), device.name()),
        }
    }
}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Device({self})")
    }
}
