//! Devices: where buffers live and operations run.

use crate::buffer::Buffer;
use crate::cuda::CudaDevice;
use crate::dtype::Data;
use crate::embedded;
use crate::emulated::{EmulatedDevice, Options};
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
    /// A GPU emulated on the host's processor: the kernels, with every access checked.
    Emulated,
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
    Emulated(Arc<EmulatedDevice>),
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

    /// A GPU emulated on the host's processor, to test kernels: it checks what they do and
    /// is thousands of times slower. The variables that [`Options`] names say how it runs;
    /// what is wrong with them is an error of the first launch. Every call makes a device
    /// of its own.
    pub fn emulated() -> Self {
        Self {
            backend: Backend::Emulated(EmulatedDevice::from_env()),
        }
    }

    /// [`emulated`](Self::emulated) with these options, whatever the environment says.
    pub fn emulated_with(options: Options) -> Self {
        Self {
            backend: Backend::Emulated(EmulatedDevice::new(options)),
        }
    }

    /// The first GPU that this binary has kernels for, else the CPU. [`Display`](fmt::Display)
    /// says which.
    pub fn auto() -> Self {
        // The binary's PTX is for one architecture and later ones; a card before it is of
        // no use here.
        let fits = |cuda: &Arc<CudaDevice>| {
            let (major, minor) = cuda.properties().compute_capability;
            let module = gpu_kernels::linear_scan::MODULE;
            embedded::best(module, major, minor).is_some()
        };
        (0..)
            .map_while(|ordinal| CudaDevice::open(ordinal).ok())
            .find(fits)
            .map_or_else(Self::cpu, |cuda| Self {
                backend: Backend::Cuda(cuda),
            })
    }

    /// `auto`, `cpu`, `cuda`, `cuda:N` or `emulated`.
    ///
    /// # Errors
    /// [`Error::DeviceUnavailable`] for anything else, or if that device is not there: an
    /// explicit device is never replaced by another. [`Error::Argument`] for a variable of
    /// the emulator that makes no sense.
    pub fn from_spec(spec: &str) -> Result<Self> {
        match spec.split_once(':') {
            None if spec == "auto" => Ok(Self::auto()),
            None if spec == "cpu" => Ok(Self::cpu()),
            None if spec == "cuda" => Self::cuda(0),
            None if spec == "emulated" => Ok(Self::emulated_with(Options::from_env()?)),
            Some(("cuda", ordinal)) if ordinal.parse::<usize>().is_ok() => {
                Self::cuda(ordinal.parse().unwrap_or_default())
            }
            _ => Err(Error::DeviceUnavailable {
                device: spec.to_owned(),
                reason: "expected auto, cpu, cuda, cuda:N or emulated".to_owned(),
            }),
        }
    }

    /// Which kind it is.
    pub fn kind(&self) -> DeviceKind {
        match self.backend {
            Backend::Cpu => DeviceKind::Cpu,
            Backend::Cuda(_) => DeviceKind::Cuda,
            Backend::Emulated(_) => DeviceKind::Emulated,
        }
    }

    /// Copies `data` to a new buffer on the device.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`], or the driver's error.
    pub fn upload<T: Data>(&self, data: &[T]) -> Result<Buffer<T>> {
        Buffer::from_slice(self, data)
    }

    /// A new buffer of `len` elements, all zero. The emulator, asked to look for reads of
    /// unwritten memory, counts these zeros as unwritten: whoever means to read them
    /// uploads them.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`], or the driver's error.
    pub fn alloc<T: Data>(&self, len: usize) -> Result<Buffer<T>> {
        Buffer::zeros(self, len)
    }

    /// The GPU behind it, for measuring; `None` for the others.
    pub fn as_cuda(&self) -> Option<&Arc<CudaDevice>> {
        match &self.backend {
            Backend::Cuda(device) => Some(device),
            Backend::Cpu | Backend::Emulated(_) => None,
        }
    }

    /// The emulated GPU behind it; `None` for the others.
    pub fn as_emulated(&self) -> Option<&Arc<EmulatedDevice>> {
        match &self.backend {
            Backend::Emulated(device) => Some(device),
            Backend::Cpu | Backend::Cuda(_) => None,
        }
    }

    /// Waits until everything that was started on the device has ended, and reports what failed.
    ///
    /// # Errors
    /// The driver's error.
    pub fn synchronize(&self) -> Result<()> {
        match &self.backend {
            Backend::Cpu | Backend::Emulated(_) => Ok(()),
            Backend::Cuda(device) => device.synchronize(),
        }
    }
}

impl PartialEq for Device {
    fn eq(&self, other: &Self) -> bool {
        match (&self.backend, &other.backend) {
            (Backend::Cpu, Backend::Cpu) => true,
            (Backend::Cuda(a), Backend::Cuda(b)) => a.ordinal() == b.ordinal(),
            (Backend::Emulated(a), Backend::Emulated(b)) => Arc::ptr_eq(a, b),
            _ => false,
        }
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.backend {
            Backend::Cpu => write!(f, "cpu ({} threads)", rayon::current_num_threads()),
            Backend::Cuda(device) => write!(f, "cuda:{} ({})", device.ordinal(), device.name()),
            Backend::Emulated(device) => write!(f, "{device}"),
        }
    }
}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Device({self})")
    }
}
