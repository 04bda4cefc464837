//! Typed launches: from an operation's arguments to a kernel's parameter struct and
//! launch shape. One file per operation, for every device that runs kernels.

pub(crate) mod ceilings;
pub(crate) mod linear_scan;
pub(crate) mod selective_scan;
pub(crate) mod selective_scan_step;

use crate::buffer::Buffer;
use crate::dtype::Data;
use crate::error::Result;
use gpu_kernels::linear_scan::LinearScanParams;
use gpu_kernels::selective_scan::{SelectiveScanParams, SelectiveScanStepParams};
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
    /// Selective scan over `[B, L, D]`, the kernel of that name.
    type SelectiveRowsNarrow: Entry<Params = SelectiveScanParams<Self>>;
    /// Selective scan over `[B, L, D]`, the kernel of that name.
    type SelectiveRowsAlone: Entry<Params = SelectiveScanParams<Self>>;
    /// Selective scan over `[B, L, D]`, the kernel of that name.
    type SelectiveRowsShared: Entry<Params = SelectiveScanParams<Self>>;
    /// Selective scan over `[B, L, D]`, the kernel of that name.
    type SelectiveRowsWide: Entry<Params = SelectiveScanParams<Self>>;
    /// Selective scan over `[B, D, L]`, the kernel of that name.
    type SelectiveColumnsNarrow: Entry<Params = SelectiveScanParams<Self>>;
    /// Selective scan over `[B, D, L]`, the kernel of that name.
    type SelectiveColumnsAlone: Entry<Params = SelectiveScanParams<Self>>;
    /// Selective scan over `[B, D, L]`, the kernel of that name.
    type SelectiveColumnsShared: Entry<Params = SelectiveScanParams<Self>>;
    /// Selective scan over `[B, D, L]`, the kernel of that name.
    type SelectiveColumnsWide: Entry<Params = SelectiveScanParams<Self>>;
    /// One step of the selective scan, 2 states a lane.
    type SelectiveStep2: Entry<Params = SelectiveScanStepParams<Self>>;
    /// The same, 4 states a lane.
    type SelectiveStep4: Entry<Params = SelectiveScanStepParams<Self>>;
    /// The same, 8 states a lane.
    type SelectiveStep8: Entry<Params = SelectiveScanStepParams<Self>>;
}

macro_rules! kernels {
    ($($element:ty: $($kernel:ident = $family:ident::$entry:ident)*;)*) => { $(
        impl Kernels for $element {
            $(type $kernel = gpu_kernels::$family::$entry;)*
        }
    )* };
}
kernels! {
    f32:
        RowsFull = linear_scan::LinearScanF32RowsFull
        Rows = linear_scan::LinearScanF32Rows
        ColumnsFull = linear_scan::LinearScanF32ColumnsFull
        Columns = linear_scan::LinearScanF32Columns
        SelectiveRowsNarrow = selective_scan::SelectiveScanF32RowsNarrow
        SelectiveRowsAlone = selective_scan::SelectiveScanF32RowsAlone
        SelectiveRowsShared = selective_scan::SelectiveScanF32RowsShared
        SelectiveRowsWide = selective_scan::SelectiveScanF32RowsWide
        SelectiveColumnsNarrow = selective_scan::SelectiveScanF32ColumnsNarrow
        SelectiveColumnsAlone = selective_scan::SelectiveScanF32ColumnsAlone
        SelectiveColumnsShared = selective_scan::SelectiveScanF32ColumnsShared
        SelectiveColumnsWide = selective_scan::SelectiveScanF32ColumnsWide
        SelectiveStep2 = selective_scan::SelectiveScanStepF32Lanes2
        SelectiveStep4 = selective_scan::SelectiveScanStepF32Lanes4
        SelectiveStep8 = selective_scan::SelectiveScanStepF32Lanes8;
    half::f16:
        RowsFull = linear_scan::LinearScanF16RowsFull
        Rows = linear_scan::LinearScanF16Rows
        ColumnsFull = linear_scan::LinearScanF16ColumnsFull
        Columns = linear_scan::LinearScanF16Columns
        SelectiveRowsNarrow = selective_scan::SelectiveScanF16RowsNarrow
        SelectiveRowsAlone = selective_scan::SelectiveScanF16RowsAlone
        SelectiveRowsShared = selective_scan::SelectiveScanF16RowsShared
        SelectiveRowsWide = selective_scan::SelectiveScanF16RowsWide
        SelectiveColumnsNarrow = selective_scan::SelectiveScanF16ColumnsNarrow
        SelectiveColumnsAlone = selective_scan::SelectiveScanF16ColumnsAlone
        SelectiveColumnsShared = selective_scan::SelectiveScanF16ColumnsShared
        SelectiveColumnsWide = selective_scan::SelectiveScanF16ColumnsWide
        SelectiveStep2 = selective_scan::SelectiveScanStepF16Lanes2
        SelectiveStep4 = selective_scan::SelectiveScanStepF16Lanes4
        SelectiveStep8 = selective_scan::SelectiveScanStepF16Lanes8;
    half::bf16:
        RowsFull = linear_scan::LinearScanBf16RowsFull
        Rows = linear_scan::LinearScanBf16Rows
        ColumnsFull = linear_scan::LinearScanBf16ColumnsFull
        Columns = linear_scan::LinearScanBf16Columns
        SelectiveRowsNarrow = selective_scan::SelectiveScanBf16RowsNarrow
        SelectiveRowsAlone = selective_scan::SelectiveScanBf16RowsAlone
        SelectiveRowsShared = selective_scan::SelectiveScanBf16RowsShared
        SelectiveRowsWide = selective_scan::SelectiveScanBf16RowsWide
        SelectiveColumnsNarrow = selective_scan::SelectiveScanBf16ColumnsNarrow
        SelectiveColumnsAlone = selective_scan::SelectiveScanBf16ColumnsAlone
        SelectiveColumnsShared = selective_scan::SelectiveScanBf16ColumnsShared
        SelectiveColumnsWide = selective_scan::SelectiveScanBf16ColumnsWide
        SelectiveStep2 = selective_scan::SelectiveScanStepBf16Lanes2
        SelectiveStep4 = selective_scan::SelectiveScanStepBf16Lanes4
        SelectiveStep8 = selective_scan::SelectiveScanStepBf16Lanes8;
}
