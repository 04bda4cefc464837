//! The entry points of the linear scan's gradients: a scan the other way, whose gates stand
//! one step late, fused with the products.
//!
//! Floors. Bytes: `a`, `h` and `grad_h` are read once, `grad_a` and `grad_b` written once.
//! Operations: one multiplication an element more than the scan. The memory is the wall.

use super::LinearScanBackwardParams;
use super::kernel::scan_tiles;
use super::policy::{BLOCK, blocks};
use crate::scan::access::{Access, Columns, Rows};
use half::{bf16, f16};

/// # Safety
/// As [`scan_tiles`].
#[inline(always)]
unsafe fn scan<A: Access<V>, const V: usize, const FULL: bool>(
    params: LinearScanBackwardParams<A::Element>,
) {
    // SAFETY: the caller's promise.
    unsafe { scan_tiles::<A, V, FULL, true>(params.scan, params.gradients) }
}

entries! {
    module "linear_scan_backward";
    /// f32, `[B, L, D]`, the usual tile.
    LinearScanBackwardF32RowsFull = linear_scan_backward_f32_rows_full(LinearScanBackwardParams<f32>)
        => scan::<Rows<f32>, 1, true>, bounds(BLOCK, blocks(true, 4, true, true));
    /// f32, `[B, L, D]`, any tile.
    LinearScanBackwardF32Rows = linear_scan_backward_f32_rows(LinearScanBackwardParams<f32>)
        => scan::<Rows<f32>, 1, false>, bounds(BLOCK, blocks(true, 4, false, true));
    /// f32, `[B, D, L]`, the usual tile.
    LinearScanBackwardF32ColumnsFull = linear_scan_backward_f32_columns_full(LinearScanBackwardParams<f32>)
        => scan::<Columns<f32>, 1, true>, bounds(BLOCK, blocks(false, 4, true, true));
    /// f32, `[B, D, L]`, any tile.
    LinearScanBackwardF32Columns = linear_scan_backward_f32_columns(LinearScanBackwardParams<f32>)
        => scan::<Columns<f32>, 1, false>, bounds(BLOCK, blocks(false, 4, false, true));
    /// f16, `[B, L, D]`, the usual tile.
    LinearScanBackwardF16RowsFull = linear_scan_backward_f16_rows_full(LinearScanBackwardParams<f16>)
        => scan::<Rows<f16>, 2, true>, bounds(BLOCK, blocks(true, 2, true, true));
    /// f16, `[B, L, D]`, any tile.
    LinearScanBackwardF16Rows = linear_scan_backward_f16_rows(LinearScanBackwardParams<f16>)
        => scan::<Rows<f16>, 2, false>, bounds(BLOCK, blocks(true, 2, false, true));
    /// f16, `[B, D, L]`, the usual tile.
    LinearScanBackwardF16ColumnsFull = linear_scan_backward_f16_columns_full(LinearScanBackwardParams<f16>)
        => scan::<Columns<f16>, 1, true>, bounds(BLOCK, blocks(false, 2, true, true));
    /// f16, `[B, D, L]`, any tile.
    LinearScanBackwardF16Columns = linear_scan_backward_f16_columns(LinearScanBackwardParams<f16>)
        => scan::<Columns<f16>, 1, false>, bounds(BLOCK, blocks(false, 2, false, true));
    /// bf16, `[B, L, D]`, the usual tile.
    LinearScanBackwardBf16RowsFull = linear_scan_backward_bf16_rows_full(LinearScanBackwardParams<bf16>)
        => scan::<Rows<bf16>, 2, true>, bounds(BLOCK, blocks(true, 2, true, true));
    /// bf16, `[B, L, D]`, any tile.
    LinearScanBackwardBf16Rows = linear_scan_backward_bf16_rows(LinearScanBackwardParams<bf16>)
        => scan::<Rows<bf16>, 2, false>, bounds(BLOCK, blocks(true, 2, false, true));
    /// bf16, `[B, D, L]`, the usual tile.
    LinearScanBackwardBf16ColumnsFull = linear_scan_backward_bf16_columns_full(LinearScanBackwardParams<bf16>)
        => scan::<Columns<bf16>, 1, true>, bounds(BLOCK, blocks(false, 2, true, true));
    /// bf16, `[B, D, L]`, any tile.
    LinearScanBackwardBf16Columns = linear_scan_backward_bf16_columns(LinearScanBackwardParams<bf16>)
        => scan::<Columns<bf16>, 1, false>, bounds(BLOCK, blocks(false, 2, false, true));
}
