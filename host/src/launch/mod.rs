//! Typed launches: from an operation's arguments to a kernel's parameter struct and
//! launch shape. One file per operation, for every device that runs kernels.

pub(crate) mod linear_scan;

use crate::buffer::Buffer;
use crate::dtype::Data;
use crate::error::Result;
use gpu_kernels::simt::{Entry, Global, LaunchShape};

/// A device that runs kernels: the GPU, or the emulator.
pub(crate) trait Launcher {
    /// Starts kernel `K`.
    ///
    /// The caller has checked that the buffers which `params` views cover what the kernel
    /// accesses for these parameters and this shape, and that they outlive the launch.
    fn launch<K: Entry>(&self, shape: LaunchShape, params: K::Params) -> Result<()>;
}

impl<T: Data> Buffer<T> {
    /// The kernel's view of this buffer. The CPU's buffers have none.
    pub(crate) fn global(&self) -> Global<T> {
        match &self.storage {
            crate::buffer::Storage::Host(_) => Global::null(),
            crate::buffer::Storage::Cuda(buffer) => buffer.global(),
        }
    }
}
