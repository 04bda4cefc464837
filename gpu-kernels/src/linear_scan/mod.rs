//! Linear scan `h[t] = a[t] * h[t-1] + b[t]`: parameters, launch shape, entry points.

mod kernel;
mod params;
mod place;
pub mod policy;

pub use params::{LinearScanParams, Required};

use crate::scan::access::{Columns, Rows};
use half::{bf16, f16};
use kernel::scan_tiles;
use policy::{BLOCK, BLOCKS};

entries! {
    module "linear_scan";
    /// f32, `[B, L, D]`, the usual tile.
    LinearScanF32RowsFull = linear_scan_f32_rows_full(LinearScanParams<f32>)
        => scan_tiles::<Rows<f32>, 1, true>, bounds(BLOCK, BLOCKS);
    /// f32, `[B, L, D]`, any tile.
    LinearScanF32Rows = linear_scan_f32_rows(LinearScanParams<f32>)
        => scan_tiles::<Rows<f32>, 1, false>, bounds(BLOCK, BLOCKS);
    /// f32, `[B, D, L]`, the usual tile.
    LinearScanF32ColumnsFull = linear_scan_f32_columns_full(LinearScanParams<f32>)
        => scan_tiles::<Columns<f32>, 1, true>, bounds(BLOCK, BLOCKS);
    /// f32, `[B, D, L]`, any tile.
    LinearScanF32Columns = linear_scan_f32_columns(LinearScanParams<f32>)
        => scan_tiles::<Columns<f32>, 1, false>, bounds(BLOCK, BLOCKS);
    /// f16, `[B, L, D]`, the usual tile.
    LinearScanF16RowsFull = linear_scan_f16_rows_full(LinearScanParams<f16>)
        => scan_tiles::<Rows<f16>, 2, true>, bounds(BLOCK, BLOCKS);
    /// f16, `[B, L, D]`, any tile.
    LinearScanF16Rows = linear_scan_f16_rows(LinearScanParams<f16>)
        => scan_tiles::<Rows<f16>, 2, false>, bounds(BLOCK, BLOCKS);
    /// f16, `[B, D, L]`, the usual tile.
    LinearScanF16ColumnsFull = linear_scan_f16_columns_full(LinearScanParams<f16>)
        => scan_tiles::<Columns<f16>, 1, true>, bounds(BLOCK, BLOCKS);
    /// f16, `[B, D, L]`, any tile.
    LinearScanF16Columns = linear_scan_f16_columns(LinearScanParams<f16>)
        => scan_tiles::<Columns<f16>, 1, false>, bounds(BLOCK, BLOCKS);
    /// bf16, `[B, L, D]`, the usual tile.
    LinearScanBf16RowsFull = linear_scan_bf16_rows_full(LinearScanParams<bf16>)
        => scan_tiles::<Rows<bf16>, 2, true>, bounds(BLOCK, BLOCKS);
    /// bf16, `[B, L, D]`, any tile.
    LinearScanBf16Rows = linear_scan_bf16_rows(LinearScanParams<bf16>)
        => scan_tiles::<Rows<bf16>, 2, false>, bounds(BLOCK, BLOCKS);
    /// bf16, `[B, D, L]`, the usual tile.
    LinearScanBf16ColumnsFull = linear_scan_bf16_columns_full(LinearScanParams<bf16>)
        => scan_tiles::<Columns<bf16>, 1, true>, bounds(BLOCK, BLOCKS);
    /// bf16, `[B, D, L]`, any tile.
    LinearScanBf16Columns = linear_scan_bf16_columns(LinearScanParams<bf16>)
        => scan_tiles::<Columns<bf16>, 1, false>, bounds(BLOCK, BLOCKS);
    /// Integers modulo 2^32 (for the tests of the layers), `[B, L, D]`, the usual tile.
    LinearScanU32RowsFull = linear_scan_u32_rows_full(LinearScanParams<u32>)
        => scan_tiles::<Rows<u32>, 1, true>, bounds(BLOCK, 2);
    /// Integers modulo 2^32 (for the tests of the layers), `[B, L, D]`, any tile.
    LinearScanU32Rows = linear_scan_u32_rows(LinearScanParams<u32>)
        => scan_tiles::<Rows<u32>, 1, false>, bounds(BLOCK, 2);
    /// Integers modulo 2^32 (for the tests of the layers), `[B, D, L]`, the usual tile.
    LinearScanU32ColumnsFull = linear_scan_u32_columns_full(LinearScanParams<u32>)
        => scan_tiles::<Columns<u32>, 1, true>, bounds(BLOCK, 2);
    /// Integers modulo 2^32 (for the tests of the layers), `[B, D, L]`, any tile.
    LinearScanU32Columns = linear_scan_u32_columns(LinearScanParams<u32>)
        => scan_tiles::<Columns<u32>, 1, false>, bounds(BLOCK, 2);
}
