//! Typed launches: from an operation's arguments to a kernel's parameter struct and
//! launch shape. One file per operation, for every device that runs kernels.

pub(crate) mod ceilings;
pub(crate) mod linear_scan;
pub(crate) mod projection;

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

    /// At least `bytes` bytes of scratch memory for the next launch, aligned to 256. All
    /// zero at first; afterwards as the kernels of the same `purpose` left it. Launches
    /// share it, one after the other.
    fn scratch(&self, purpose: &'static str, bytes: usize) -> Result<Global<u32>>;
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
pub trait Kernels: projection::ProjectionKernels {
    /// Linear scan over `[B, L, D]`, the usual tile.
    type RowsFull: Entry<Params = LinearScanParams<Self>>;
    /// Linear scan over `[B, L, D]`, any tile.
    type Rows: Entry<Params = LinearScanParams<Self>>;
    /// Linear scan over `[B, D, L]`, the usual tile.
    type ColumnsFull: Entry<Params = LinearScanParams<Self>>;
    /// Linear scan over `[B, D, L]`, any tile.
    type Columns: Entry<Params = LinearScanParams<Self>>;
}

macro_rules! kernels {
    ($($element:ty: $rows_full:ident $rows:ident $columns_full:ident $columns:ident;)*) => { $(
        impl Kernels for $element {
            type RowsFull = gpu_kernels::linear_scan::$rows_full;
            type Rows = gpu_kernels::linear_scan::$rows;
            type ColumnsFull = gpu_kernels::linear_scan::$columns_full;
            type Columns = gpu_kernels::linear_scan::$columns;
        }
    )* };
}
kernels! {
    f32: LinearScanF32RowsFull LinearScanF32Rows LinearScanF32ColumnsFull LinearScanF32Columns;
    half::f16: LinearScanF16RowsFull LinearScanF16Rows LinearScanF16ColumnsFull LinearScanF16Columns;
    half::bf16: LinearScanBf16RowsFull LinearScanBf16Rows LinearScanBf16ColumnsFull LinearScanBf16Columns;
}
