//! Typed launches: from an operation's arguments to a kernel's parameter struct and
//! launch shape. One file per operation, for every device that runs kernels.

pub(crate) mod ceilings;
pub(crate) mod combine;
pub(crate) mod combine_backward;
pub(crate) mod dispatch;
pub(crate) mod dispatch_backward;
pub(crate) mod linear_scan;
mod moe;
pub(crate) mod route;

use crate::buffer::Buffer;
use crate::dtype::Data;
use crate::error::Result;
use gpu_kernels::linear_scan::LinearScanParams;
use gpu_kernels::moe::{CombineBackwardParams, CombineParams};
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
pub trait Kernels: gpu_kernels::simt::Element {
    /// Linear scan over `[B, L, D]`, the usual tile.
    type RowsFull: Entry<Params = LinearScanParams<Self>>;
    /// Linear scan over `[B, L, D]`, any tile.
    type Rows: Entry<Params = LinearScanParams<Self>>;
    /// Linear scan over `[B, D, L]`, the usual tile.
    type ColumnsFull: Entry<Params = LinearScanParams<Self>>;
    /// Linear scan over `[B, D, L]`, any tile.
    type Columns: Entry<Params = LinearScanParams<Self>>;
    /// Combine of rows of whole 16-byte vectors.
    type Combine: Entry<Params = CombineParams<Self>>;
    /// The same for one or two rows a token.
    type CombineFew: Entry<Params = CombineParams<Self>>;
    /// Combine of rows of any width.
    type CombineAny: Entry<Params = CombineParams<Self>>;
    /// Gradients of the combine of rows of whole 16-byte vectors.
    type CombineBackward: Entry<Params = CombineBackwardParams<Self>>;
    /// Gradients of the combine of rows of any width.
    type CombineBackwardAny: Entry<Params = CombineBackwardParams<Self>>;
}

macro_rules! kernels {
    ($($element:ty: $rows_full:ident $rows:ident $columns_full:ident $columns:ident
        $combine:ident $few:ident $any:ident $backward:ident $backward_any:ident;)*) => { $(
        impl Kernels for $element {
            type RowsFull = gpu_kernels::linear_scan::$rows_full;
            type Rows = gpu_kernels::linear_scan::$rows;
            type ColumnsFull = gpu_kernels::linear_scan::$columns_full;
            type Columns = gpu_kernels::linear_scan::$columns;
            type Combine = gpu_kernels::moe::$combine;
            type CombineFew = gpu_kernels::moe::$few;
            type CombineAny = gpu_kernels::moe::$any;
            type CombineBackward = gpu_kernels::moe::$backward;
            type CombineBackwardAny = gpu_kernels::moe::$backward_any;
        }
    )* };
}
kernels! {
    f32: LinearScanF32RowsFull LinearScanF32Rows LinearScanF32ColumnsFull LinearScanF32Columns
        CombineF32 CombineF32Few CombineF32Any CombineBackwardF32 CombineBackwardF32Any;
    half::f16: LinearScanF16RowsFull LinearScanF16Rows LinearScanF16ColumnsFull LinearScanF16Columns
        CombineF16 CombineF16Few CombineF16Any CombineBackwardF16 CombineBackwardF16Any;
    half::bf16: LinearScanBf16RowsFull LinearScanBf16Rows LinearScanBf16ColumnsFull LinearScanBf16Columns
        CombineBf16 CombineBf16Few CombineBf16Any CombineBackwardBf16 CombineBackwardBf16Any;
}
