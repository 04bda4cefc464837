//! Typed launches: from an operation's arguments to a kernel's parameter struct and
//! launch shape. One file per operation, for every device that runs kernels.

pub(crate) mod linear_scan;

use crate::buffer::Buffer;
use crate::dtype::Data;
use crate::error::Result;
use gpu_kernels::linear_scan::LinearScanParams;
use gpu_kernels::simt::{Entry, Global, LaunchShape};

/// A device that runs kernels: the GPU, or the emulator.
pub(crate) trait Launcher {
    /// Starts kernel `K`.
    ///
    /// The caller has checked that the buffers which `params` views cover what the kernel
    /// accesses for these parameters and this shape, and that they outlive the launch.
    fn launch<K: Entry>(&self, shape: LaunchShape, params: K::Params) -> Result<()>;

    /// At least `bytes` bytes of scratch memory for the next launch, aligned to 256: all
    /// zero, and the kernel leaves it all zero. Launches share it, one after the other.
    #[allow(dead_code)] // For kernels whose blocks pass state on; none of those yet.
    fn scratch(&self, bytes: usize) -> Result<Global<u32>>;
}

impl<T: Data> Buffer<T> {
    /// The kernel's view of this buffer. The CPU's buffers have none.
    pub(crate) fn global(&self) -> Global<T> {
        match &self.storage {
            crate::buffer::Storage::Host(_) => Global::null(),
            crate::buffer::Storage::Cuda(buffer) => buffer.global(),
            crate::buffer::Storage::Emulated(buffer) => buffer.global(),
        }
    }
}

/// The entry points for sequences of this element type.
pub trait Kernels: gpu_kernels::simt::Element {
    /// Linear scan.
    type LinearScan: Entry<Params = LinearScanParams<Self>>;
}

macro_rules! kernels {
    ($($element:ty: $linear_scan:ident;)*) => { $(
        impl Kernels for $element {
            type LinearScan = gpu_kernels::linear_scan::$linear_scan;
        }
    )* };
}
kernels! {
    f32: LinearScanF32;
    half::f16: LinearScanF16;
    half::bf16: LinearScanBf16;
}
