//! Typed launches: from an operation's arguments to a kernel's parameter struct and
//! launch shape. One file per operation, for every device that runs kernels.

pub(crate) mod ceilings;
pub(crate) mod combine;
pub(crate) mod combine_backward;
pub(crate) mod dispatch;
pub(crate) mod dispatch_backward;
pub(crate) mod linear_scan;
pub(crate) mod linear_scan_backward;
#[cfg(test)]
mod modular_tests;
mod moe;
pub(crate) mod projection;
#[cfg(test)]
mod recorder;
pub(crate) mod route;
pub(crate) mod selective_scan;
pub(crate) mod selective_scan_step;

use crate::buffer::Buffer;
use crate::dtype::Data;
use crate::error::{Error, Result};
use gpu_kernels::linear_scan::{
    self as scan_kernels, LinearScanBackwardParams, LinearScanParams, backward,
};
use gpu_kernels::moe::{self as moe_kernels, CombineBackwardParams, CombineParams};
use gpu_kernels::selective_scan::{
    self as selective, SelectiveScanParams, SelectiveScanStepParams,
};
use gpu_kernels::simt::{Entry, Global, LaunchShape, Multiprocessors};
use std::fmt::Debug;

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

    /// What a launch that fills the device has to know of it.
    fn multiprocessors(&self) -> Multiprocessors;
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

/// The kernel's view of an argument that may be absent.
fn optional<T: Data>(buffer: Option<&Buffer<T>>) -> Global<T> {
    buffer.map_or(Global::null(), Buffer::global)
}

/// The last word before the device: this argument, if it is there, is no shorter than what
/// the kernel accesses.
fn covers<T: Data>(
    operation: &'static str,
    argument: &'static str,
    buffer: Option<&Buffer<T>>,
    required: u64,
) -> Result<()> {
    match buffer {
        Some(buffer) if (buffer.len() as u64) < required => Err(Error::Length {
            operation,
            argument,
            found: buffer.len(),
            expected: usize::try_from(required).unwrap_or(usize::MAX),
            shape: "what the kernel accesses".to_owned(),
        }),
        _ => Ok(()),
    }
}

/// More than a launch can count.
fn too_large(operation: &'static str, op: &impl Debug) -> Error {
    Error::TooLarge {
        operation,
        shape: format!("{op:?}"),
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
    /// Gradients of the linear scan over `[B, L, D]`, the usual tile.
    type BackwardRowsFull: Entry<Params = LinearScanBackwardParams<Self>>;
    /// Gradients of the linear scan over `[B, L, D]`, any tile.
    type BackwardRows: Entry<Params = LinearScanBackwardParams<Self>>;
    /// Gradients of the linear scan over `[B, D, L]`, the usual tile.
    type BackwardColumnsFull: Entry<Params = LinearScanBackwardParams<Self>>;
    /// Gradients of the linear scan over `[B, D, L]`, any tile.
    type BackwardColumns: Entry<Params = LinearScanBackwardParams<Self>>;
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
    /// Selective scan over `[B, L, D]`, the kernel of that name.
    type SelectiveRowsNarrow: Entry<Params = SelectiveScanParams<Self>>;
    /// Selective scan over `[B, L, D]`, the kernel of that name.
    type SelectiveRowsAlone: Entry<Params = SelectiveScanParams<Self>>;
    /// Selective scan over `[B, L, D]`, the kernel of that name.
    type SelectiveRowsMerged: Entry<Params = SelectiveScanParams<Self>>;
    /// Selective scan over `[B, L, D]`, the kernel of that name.
    type SelectiveRowsWide: Entry<Params = SelectiveScanParams<Self>>;
    /// Selective scan over `[B, D, L]`, the kernel of that name.
    type SelectiveColumnsNarrow: Entry<Params = SelectiveScanParams<Self>>;
    /// Selective scan over `[B, D, L]`, the kernel of that name.
    type SelectiveColumnsAlone: Entry<Params = SelectiveScanParams<Self>>;
    /// Selective scan over `[B, D, L]`, the kernel of that name.
    type SelectiveColumnsMerged: Entry<Params = SelectiveScanParams<Self>>;
    /// Selective scan over `[B, D, L]`, the kernel of that name.
    type SelectiveColumnsWide: Entry<Params = SelectiveScanParams<Self>>;
    /// One step of the selective scan, 2 states a lane.
    type SelectiveStep2: Entry<Params = SelectiveScanStepParams<Self>>;
    /// The same, 4 states a lane.
    type SelectiveStep4: Entry<Params = SelectiveScanStepParams<Self>>;
    /// The same, 8 states a lane.
    type SelectiveStep8: Entry<Params = SelectiveScanStepParams<Self>>;
}

impl Kernels for f32 {
    type RowsFull = scan_kernels::LinearScanF32RowsFull;
    type Rows = scan_kernels::LinearScanF32Rows;
    type ColumnsFull = scan_kernels::LinearScanF32ColumnsFull;
    type Columns = scan_kernels::LinearScanF32Columns;
    type BackwardRowsFull = backward::LinearScanBackwardF32RowsFull;
    type BackwardRows = backward::LinearScanBackwardF32Rows;
    type BackwardColumnsFull = backward::LinearScanBackwardF32ColumnsFull;
    type BackwardColumns = backward::LinearScanBackwardF32Columns;
    type Combine = moe_kernels::CombineF32;
    type CombineFew = moe_kernels::CombineF32Few;
    type CombineAny = moe_kernels::CombineF32Any;
    type CombineBackward = moe_kernels::CombineBackwardF32;
    type CombineBackwardAny = moe_kernels::CombineBackwardF32Any;
    type SelectiveRowsNarrow = selective::SelectiveScanF32RowsNarrow;
    type SelectiveRowsAlone = selective::SelectiveScanF32RowsAlone;
    type SelectiveRowsMerged = selective::SelectiveScanF32RowsMerged;
    type SelectiveRowsWide = selective::SelectiveScanF32RowsWide;
    type SelectiveColumnsNarrow = selective::SelectiveScanF32ColumnsNarrow;
    type SelectiveColumnsAlone = selective::SelectiveScanF32ColumnsAlone;
    type SelectiveColumnsMerged = selective::SelectiveScanF32ColumnsMerged;
    type SelectiveColumnsWide = selective::SelectiveScanF32ColumnsWide;
    type SelectiveStep2 = selective::SelectiveScanStepF32Lanes2;
    type SelectiveStep4 = selective::SelectiveScanStepF32Lanes4;
    type SelectiveStep8 = selective::SelectiveScanStepF32Lanes8;
}

impl Kernels for half::f16 {
    type RowsFull = scan_kernels::LinearScanF16RowsFull;
    type Rows = scan_kernels::LinearScanF16Rows;
    type ColumnsFull = scan_kernels::LinearScanF16ColumnsFull;
    type Columns = scan_kernels::LinearScanF16Columns;
    type BackwardRowsFull = backward::LinearScanBackwardF16RowsFull;
    type BackwardRows = backward::LinearScanBackwardF16Rows;
    type BackwardColumnsFull = backward::LinearScanBackwardF16ColumnsFull;
    type BackwardColumns = backward::LinearScanBackwardF16Columns;
    type Combine = moe_kernels::CombineF16;
    type CombineFew = moe_kernels::CombineF16Few;
    type CombineAny = moe_kernels::CombineF16Any;
    type CombineBackward = moe_kernels::CombineBackwardF16;
    type CombineBackwardAny = moe_kernels::CombineBackwardF16Any;
    type SelectiveRowsNarrow = selective::SelectiveScanF16RowsNarrow;
    type SelectiveRowsAlone = selective::SelectiveScanF16RowsAlone;
    type SelectiveRowsMerged = selective::SelectiveScanF16RowsMerged;
    type SelectiveRowsWide = selective::SelectiveScanF16RowsWide;
    type SelectiveColumnsNarrow = selective::SelectiveScanF16ColumnsNarrow;
    type SelectiveColumnsAlone = selective::SelectiveScanF16ColumnsAlone;
    type SelectiveColumnsMerged = selective::SelectiveScanF16ColumnsMerged;
    type SelectiveColumnsWide = selective::SelectiveScanF16ColumnsWide;
    type SelectiveStep2 = selective::SelectiveScanStepF16Lanes2;
    type SelectiveStep4 = selective::SelectiveScanStepF16Lanes4;
    type SelectiveStep8 = selective::SelectiveScanStepF16Lanes8;
}

impl Kernels for half::bf16 {
    type RowsFull = scan_kernels::LinearScanBf16RowsFull;
    type Rows = scan_kernels::LinearScanBf16Rows;
    type ColumnsFull = scan_kernels::LinearScanBf16ColumnsFull;
    type Columns = scan_kernels::LinearScanBf16Columns;
    type BackwardRowsFull = backward::LinearScanBackwardBf16RowsFull;
    type BackwardRows = backward::LinearScanBackwardBf16Rows;
    type BackwardColumnsFull = backward::LinearScanBackwardBf16ColumnsFull;
    type BackwardColumns = backward::LinearScanBackwardBf16Columns;
    type Combine = moe_kernels::CombineBf16;
    type CombineFew = moe_kernels::CombineBf16Few;
    type CombineAny = moe_kernels::CombineBf16Any;
    type CombineBackward = moe_kernels::CombineBackwardBf16;
    type CombineBackwardAny = moe_kernels::CombineBackwardBf16Any;
    type SelectiveRowsNarrow = selective::SelectiveScanBf16RowsNarrow;
    type SelectiveRowsAlone = selective::SelectiveScanBf16RowsAlone;
    type SelectiveRowsMerged = selective::SelectiveScanBf16RowsMerged;
    type SelectiveRowsWide = selective::SelectiveScanBf16RowsWide;
    type SelectiveColumnsNarrow = selective::SelectiveScanBf16ColumnsNarrow;
    type SelectiveColumnsAlone = selective::SelectiveScanBf16ColumnsAlone;
    type SelectiveColumnsMerged = selective::SelectiveScanBf16ColumnsMerged;
    type SelectiveColumnsWide = selective::SelectiveScanBf16ColumnsWide;
    type SelectiveStep2 = selective::SelectiveScanStepBf16Lanes2;
    type SelectiveStep4 = selective::SelectiveScanStepBf16Lanes4;
    type SelectiveStep8 = selective::SelectiveScanStepBf16Lanes8;
}
