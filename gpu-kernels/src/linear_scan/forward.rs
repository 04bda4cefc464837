//! The entry points of the linear scan.

use super::kernel::scan_tiles;
use super::policy::{BLOCK, blocks};
use super::{Gradients, LinearScanParams};
use crate::scan::access::{Access, Columns, Rows};
use half::{bf16, f16};

/// # Safety
/// As [`scan_tiles`].
#[inline(always)]
unsafe fn scan<A: Access<V>, const V: usize, const FULL: bool>(
    params: LinearScanParams<A::Element>,
) {
    // SAFETY: the caller's promise.
    unsafe { scan_tiles::<A, V, FULL, false>(params, Gradients::NONE) }
}

entries! {
    module "linear_scan";
    /// f32, `[B, L, D]`, the usual tile.
    LinearScanF32RowsFull = linear_scan_f32_rows_full(LinearScanParams<f32>)
        => scan::<Rows<f32>, 1, true>, bounds(BLOCK, blocks(true, 4, true, false));
    /// f32, `[B, L, D]`, any tile.
    LinearScanF32Rows = linear_scan_f32_rows(LinearScanParams<f32>)
        => scan::<Rows<f32>, 1, false>, bounds(BLOCK, blocks(true, 4, false, false));
    /// f32, `[B, D, L]`, the usual tile.
    LinearScanF32ColumnsFull = linear_scan_f32_columns_full(LinearScanParams<f32>)
        => scan::<Columns<f32>, 1, true>, bounds(BLOCK, blocks(false, 4, true, false));
    /// f32, `[B, D, L]`, any tile.
    LinearScanF32Columns = linear_scan_f32_columns(LinearScanParams<f32>)
        => scan::<Columns<f32>, 1, false>, bounds(BLOCK, blocks(false, 4, false, false));
    /// f16, `[B, L, D]`, the usual tile.
    LinearScanF16RowsFull = linear_scan_f16_rows_full(LinearScanParams<f16>)
        => scan::<Rows<f16>, 2, true>, bounds(BLOCK, blocks(true, 2, true, false));
    /// f16, `[B, L, D]`, any tile.
    LinearScanF16Rows = linear_scan_f16_rows(LinearScanParams<f16>)
        => scan::<Rows<f16>, 2, false>, bounds(BLOCK, blocks(true, 2, false, false));
    /// f16, `[B, D, L]`, the usual tile.
    LinearScanF16ColumnsFull = linear_scan_f16_columns_full(LinearScanParams<f16>)
        => scan::<Columns<f16>, 1, true>, bounds(BLOCK, blocks(false, 2, true, false));
    /// f16, `[B, D, L]`, any tile.
    LinearScanF16Columns = linear_scan_f16_columns(LinearScanParams<f16>)
        => scan::<Columns<f16>, 1, false>, bounds(BLOCK, blocks(false, 2, false, false));
    /// bf16, `[B, L, D]`, the usual tile.
    LinearScanBf16RowsFull = linear_scan_bf16_rows_full(LinearScanParams<bf16>)
        => scan::<Rows<bf16>, 2, true>, bounds(BLOCK, blocks(true, 2, true, false));
    /// bf16, `[B, L, D]`, any tile.
    LinearScanBf16Rows = linear_scan_bf16_rows(LinearScanParams<bf16>)
        => scan::<Rows<bf16>, 2, false>, bounds(BLOCK, blocks(true, 2, false, false));
    /// bf16, `[B, D, L]`, the usual tile.
    LinearScanBf16ColumnsFull = linear_scan_bf16_columns_full(LinearScanParams<bf16>)
        => scan::<Columns<bf16>, 1, true>, bounds(BLOCK, blocks(false, 2, true, false));
    /// bf16, `[B, D, L]`, any tile.
    LinearScanBf16Columns = linear_scan_bf16_columns(LinearScanParams<bf16>)
        => scan::<Columns<bf16>, 1, false>, bounds(BLOCK, blocks(false, 2, false, false));
    /// Integers modulo 2^32 (for the tests of the layers), `[B, L, D]`, the usual tile.
    LinearScanU32RowsFull = linear_scan_u32_rows_full(LinearScanParams<u32>)
        => scan::<Rows<u32>, 1, true>, bounds(BLOCK, 2);
    /// Integers modulo 2^32 (for the tests of the layers), `[B, L, D]`, any tile.
    LinearScanU32Rows = linear_scan_u32_rows(LinearScanParams<u32>)
        => scan::<Rows<u32>, 1, false>, bounds(BLOCK, 2);
    /// Integers modulo 2^32 (for the tests of the layers), `[B, D, L]`, the usual tile.
    LinearScanU32ColumnsFull = linear_scan_u32_columns_full(LinearScanParams<u32>)
        => scan::<Columns<u32>, 1, true>, bounds(BLOCK, 2);
    /// Integers modulo 2^32 (for the tests of the layers), `[B, D, L]`, any tile.
    LinearScanU32Columns = linear_scan_u32_columns(LinearScanParams<u32>)
        => scan::<Columns<u32>, 1, false>, bounds(BLOCK, 2);
}
