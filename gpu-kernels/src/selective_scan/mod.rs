//! Selective scan, the core of the Mamba S6 layer, and its step: parameters, launch shape,
//! entry points.

mod arithmetic;
mod elements;
mod kernel;
mod lane;
mod layout;
mod matrices;
mod merged;
mod params;
pub mod policy;
pub mod segments;
mod split;
mod states;
mod step;

pub use params::{Required, SelectiveScanParams, SelectiveScanStepParams, options};

use half::{bf16, f16};
use kernel::scan;
use layout::{Columns, Rows};
use merged::merged;
use policy::STEP_BLOCK;
use step::step;

entries! {
    module "selective_scan";
    /// f32, `[B, L, D]`, 2 states of one channel a thread.
    SelectiveScanF32RowsNarrow = selective_scan_f32_rows_narrow(SelectiveScanParams<f32>)
        => scan::<Rows<f32>, 2, 1, 32, true>, bounds(256, 1);
    /// f32, `[B, L, D]`, 4 states of one channel a thread, one block on a multiprocessor.
    SelectiveScanF32RowsAlone = selective_scan_f32_rows_alone(SelectiveScanParams<f32>)
        => scan::<Rows<f32>, 4, 1, 32, true>, bounds(384, 1);
    /// f32, `[B, L, D]`, 4 states of two channels a thread, which has all parts.
    SelectiveScanF32RowsMerged = selective_scan_f32_rows_merged(SelectiveScanParams<f32>)
        => merged::<Rows<f32>, 4, 2, 16>, bounds(128, 5);
    /// f32, `[B, L, D]`, 8 states of two channels a thread.
    SelectiveScanF32RowsWide = selective_scan_f32_rows_wide(SelectiveScanParams<f32>)
        => scan::<Rows<f32>, 8, 2, 16, false>, bounds(192, 2);
    /// f32, `[B, D, L]`, 2 states of one channel a thread.
    SelectiveScanF32ColumnsNarrow = selective_scan_f32_columns_narrow(SelectiveScanParams<f32>)
        => scan::<Columns<f32>, 2, 1, 32, true>, bounds(256, 1);
    /// f32, `[B, D, L]`, 4 states of one channel a thread, one block on a multiprocessor.
    SelectiveScanF32ColumnsAlone = selective_scan_f32_columns_alone(SelectiveScanParams<f32>)
        => scan::<Columns<f32>, 4, 1, 32, true>, bounds(384, 1);
    /// f32, `[B, D, L]`, 4 states of two channels a thread, which has all parts.
    SelectiveScanF32ColumnsMerged = selective_scan_f32_columns_merged(SelectiveScanParams<f32>)
        => merged::<Columns<f32>, 4, 2, 16>, bounds(128, 4);
    /// f32, `[B, D, L]`, 8 states of two channels a thread.
    SelectiveScanF32ColumnsWide = selective_scan_f32_columns_wide(SelectiveScanParams<f32>)
        => scan::<Columns<f32>, 8, 2, 16, false>, bounds(192, 2);
    /// f16, `[B, L, D]`, 2 states of one channel a thread.
    SelectiveScanF16RowsNarrow = selective_scan_f16_rows_narrow(SelectiveScanParams<f16>)
        => scan::<Rows<f16>, 2, 1, 32, true>, bounds(256, 1);
    /// f16, `[B, L, D]`, 4 states of one channel a thread, one block on a multiprocessor.
    SelectiveScanF16RowsAlone = selective_scan_f16_rows_alone(SelectiveScanParams<f16>)
        => scan::<Rows<f16>, 4, 1, 32, true>, bounds(384, 1);
    /// f16, `[B, L, D]`, 4 states of two channels a thread, which has all parts.
    SelectiveScanF16RowsMerged = selective_scan_f16_rows_merged(SelectiveScanParams<f16>)
        => merged::<Rows<f16>, 4, 2, 16>, bounds(128, 5);
    /// f16, `[B, L, D]`, 8 states of two channels a thread.
    SelectiveScanF16RowsWide = selective_scan_f16_rows_wide(SelectiveScanParams<f16>)
        => scan::<Rows<f16>, 8, 2, 16, false>, bounds(192, 2);
    /// f16, `[B, D, L]`, 2 states of one channel a thread.
    SelectiveScanF16ColumnsNarrow = selective_scan_f16_columns_narrow(SelectiveScanParams<f16>)
        => scan::<Columns<f16>, 2, 1, 32, true>, bounds(256, 1);
    /// f16, `[B, D, L]`, 4 states of one channel a thread, one block on a multiprocessor.
    SelectiveScanF16ColumnsAlone = selective_scan_f16_columns_alone(SelectiveScanParams<f16>)
        => scan::<Columns<f16>, 4, 1, 32, true>, bounds(384, 1);
    /// f16, `[B, D, L]`, 4 states of two channels a thread, which has all parts.
    SelectiveScanF16ColumnsMerged = selective_scan_f16_columns_merged(SelectiveScanParams<f16>)
        => merged::<Columns<f16>, 4, 2, 16>, bounds(128, 4);
    /// f16, `[B, D, L]`, 8 states of two channels a thread.
    SelectiveScanF16ColumnsWide = selective_scan_f16_columns_wide(SelectiveScanParams<f16>)
        => scan::<Columns<f16>, 8, 2, 16, false>, bounds(192, 2);
    /// bf16, `[B, L, D]`, 2 states of one channel a thread.
    SelectiveScanBf16RowsNarrow = selective_scan_bf16_rows_narrow(SelectiveScanParams<bf16>)
        => scan::<Rows<bf16>, 2, 1, 32, true>, bounds(256, 1);
    /// bf16, `[B, L, D]`, 4 states of one channel a thread, one block on a multiprocessor.
    SelectiveScanBf16RowsAlone = selective_scan_bf16_rows_alone(SelectiveScanParams<bf16>)
        => scan::<Rows<bf16>, 4, 1, 32, true>, bounds(384, 1);
    /// bf16, `[B, L, D]`, 4 states of two channels a thread, which has all parts.
    SelectiveScanBf16RowsMerged = selective_scan_bf16_rows_merged(SelectiveScanParams<bf16>)
        => merged::<Rows<bf16>, 4, 2, 16>, bounds(128, 5);
    /// bf16, `[B, L, D]`, 8 states of two channels a thread.
    SelectiveScanBf16RowsWide = selective_scan_bf16_rows_wide(SelectiveScanParams<bf16>)
        => scan::<Rows<bf16>, 8, 2, 16, false>, bounds(192, 2);
    /// bf16, `[B, D, L]`, 2 states of one channel a thread.
    SelectiveScanBf16ColumnsNarrow = selective_scan_bf16_columns_narrow(SelectiveScanParams<bf16>)
        => scan::<Columns<bf16>, 2, 1, 32, true>, bounds(256, 1);
    /// bf16, `[B, D, L]`, 4 states of one channel a thread, one block on a multiprocessor.
    SelectiveScanBf16ColumnsAlone = selective_scan_bf16_columns_alone(SelectiveScanParams<bf16>)
        => scan::<Columns<bf16>, 4, 1, 32, true>, bounds(384, 1);
    /// bf16, `[B, D, L]`, 4 states of two channels a thread, which has all parts.
    SelectiveScanBf16ColumnsMerged = selective_scan_bf16_columns_merged(SelectiveScanParams<bf16>)
        => merged::<Columns<bf16>, 4, 2, 16>, bounds(128, 4);
    /// bf16, `[B, D, L]`, 8 states of two channels a thread.
    SelectiveScanBf16ColumnsWide = selective_scan_bf16_columns_wide(SelectiveScanParams<bf16>)
        => scan::<Columns<bf16>, 8, 2, 16, false>, bounds(192, 2);
    /// One step, f32, 2 states a lane.
    SelectiveScanStepF32Lanes2 = selective_scan_step_f32_2(SelectiveScanStepParams<f32>)
        => step::<f32, 2>, bounds(STEP_BLOCK, 0);
    /// One step, f32, 4 states a lane.
    SelectiveScanStepF32Lanes4 = selective_scan_step_f32_4(SelectiveScanStepParams<f32>)
        => step::<f32, 4>, bounds(STEP_BLOCK, 0);
    /// One step, f32, 8 states a lane.
    SelectiveScanStepF32Lanes8 = selective_scan_step_f32_8(SelectiveScanStepParams<f32>)
        => step::<f32, 8>, bounds(STEP_BLOCK, 0);
    /// One step, f16, 2 states a lane.
    SelectiveScanStepF16Lanes2 = selective_scan_step_f16_2(SelectiveScanStepParams<f16>)
        => step::<f16, 2>, bounds(STEP_BLOCK, 0);
    /// One step, f16, 4 states a lane.
    SelectiveScanStepF16Lanes4 = selective_scan_step_f16_4(SelectiveScanStepParams<f16>)
        => step::<f16, 4>, bounds(STEP_BLOCK, 0);
    /// One step, f16, 8 states a lane.
    SelectiveScanStepF16Lanes8 = selective_scan_step_f16_8(SelectiveScanStepParams<f16>)
        => step::<f16, 8>, bounds(STEP_BLOCK, 0);
    /// One step, bf16, 2 states a lane.
    SelectiveScanStepBf16Lanes2 = selective_scan_step_bf16_2(SelectiveScanStepParams<bf16>)
        => step::<bf16, 2>, bounds(STEP_BLOCK, 0);
    /// One step, bf16, 4 states a lane.
    SelectiveScanStepBf16Lanes4 = selective_scan_step_bf16_4(SelectiveScanStepParams<bf16>)
        => step::<bf16, 4>, bounds(STEP_BLOCK, 0);
    /// One step, bf16, 8 states a lane.
    SelectiveScanStepBf16Lanes8 = selective_scan_step_bf16_8(SelectiveScanStepParams<bf16>)
        => step::<bf16, 8>, bounds(STEP_BLOCK, 0);
}

#[cfg(all(test, feature = "emulator", not(target_arch = "nvptx64")))]
mod tests;
