//! Selective scan, the core of the Mamba S6 layer, and its step: parameters, launch shape,
//! entry points.

mod arithmetic;
mod elements;
mod kernel;
mod lane;
mod layout;
mod matrices;
mod params;
pub mod policy;
mod step;

pub use params::{Required, SelectiveScanParams, SelectiveScanStepParams, options};

use half::{bf16, f16};
use kernel::scan;
use layout::{Columns, Rows};
use policy::STEP_BLOCK;
use step::step;

entries! {
    module "selective_scan";
    /// f32, `[B, L, D]`, 2 states of one channel a thread.
    SelectiveScanF32Rows2x1 = selective_scan_f32_rows_2x1(SelectiveScanParams<f32>)
        => scan::<Rows<f32>, 2, 1, 32, true>, bounds(256, 2);
    /// f32, `[B, L, D]`, 4 states of one channel a thread.
    SelectiveScanF32Rows4x1 = selective_scan_f32_rows_4x1(SelectiveScanParams<f32>)
        => scan::<Rows<f32>, 4, 1, 32, true>, bounds(384, 1);
    /// f32, `[B, L, D]`, 4 states of two channels a thread.
    SelectiveScanF32Rows4x2 = selective_scan_f32_rows_4x2(SelectiveScanParams<f32>)
        => scan::<Rows<f32>, 4, 2, 16, false>, bounds(256, 2);
    /// f32, `[B, L, D]`, 8 states of two channels a thread.
    SelectiveScanF32Rows8x2 = selective_scan_f32_rows_8x2(SelectiveScanParams<f32>)
        => scan::<Rows<f32>, 8, 2, 16, false>, bounds(192, 2);
    /// f32, `[B, D, L]`, 2 states of one channel a thread.
    SelectiveScanF32Columns2x1 = selective_scan_f32_columns_2x1(SelectiveScanParams<f32>)
        => scan::<Columns<f32>, 2, 1, 32, true>, bounds(256, 2);
    /// f32, `[B, D, L]`, 4 states of one channel a thread.
    SelectiveScanF32Columns4x1 = selective_scan_f32_columns_4x1(SelectiveScanParams<f32>)
        => scan::<Columns<f32>, 4, 1, 32, true>, bounds(384, 1);
    /// f32, `[B, D, L]`, 4 states of two channels a thread.
    SelectiveScanF32Columns4x2 = selective_scan_f32_columns_4x2(SelectiveScanParams<f32>)
        => scan::<Columns<f32>, 4, 2, 16, false>, bounds(256, 2);
    /// f32, `[B, D, L]`, 8 states of two channels a thread.
    SelectiveScanF32Columns8x2 = selective_scan_f32_columns_8x2(SelectiveScanParams<f32>)
        => scan::<Columns<f32>, 8, 2, 16, false>, bounds(192, 2);
    /// f16, `[B, L, D]`, 2 states of one channel a thread.
    SelectiveScanF16Rows2x1 = selective_scan_f16_rows_2x1(SelectiveScanParams<f16>)
        => scan::<Rows<f16>, 2, 1, 32, true>, bounds(256, 2);
    /// f16, `[B, L, D]`, 4 states of one channel a thread.
    SelectiveScanF16Rows4x1 = selective_scan_f16_rows_4x1(SelectiveScanParams<f16>)
        => scan::<Rows<f16>, 4, 1, 32, true>, bounds(384, 1);
    /// f16, `[B, L, D]`, 4 states of two channels a thread.
    SelectiveScanF16Rows4x2 = selective_scan_f16_rows_4x2(SelectiveScanParams<f16>)
        => scan::<Rows<f16>, 4, 2, 16, false>, bounds(256, 2);
    /// f16, `[B, L, D]`, 8 states of two channels a thread.
    SelectiveScanF16Rows8x2 = selective_scan_f16_rows_8x2(SelectiveScanParams<f16>)
        => scan::<Rows<f16>, 8, 2, 16, false>, bounds(192, 2);
    /// f16, `[B, D, L]`, 2 states of one channel a thread.
    SelectiveScanF16Columns2x1 = selective_scan_f16_columns_2x1(SelectiveScanParams<f16>)
        => scan::<Columns<f16>, 2, 1, 32, true>, bounds(256, 2);
    /// f16, `[B, D, L]`, 4 states of one channel a thread.
    SelectiveScanF16Columns4x1 = selective_scan_f16_columns_4x1(SelectiveScanParams<f16>)
        => scan::<Columns<f16>, 4, 1, 32, true>, bounds(384, 1);
    /// f16, `[B, D, L]`, 4 states of two channels a thread.
    SelectiveScanF16Columns4x2 = selective_scan_f16_columns_4x2(SelectiveScanParams<f16>)
        => scan::<Columns<f16>, 4, 2, 16, false>, bounds(256, 2);
    /// f16, `[B, D, L]`, 8 states of two channels a thread.
    SelectiveScanF16Columns8x2 = selective_scan_f16_columns_8x2(SelectiveScanParams<f16>)
        => scan::<Columns<f16>, 8, 2, 16, false>, bounds(192, 2);
    /// bf16, `[B, L, D]`, 2 states of one channel a thread.
    SelectiveScanBf16Rows2x1 = selective_scan_bf16_rows_2x1(SelectiveScanParams<bf16>)
        => scan::<Rows<bf16>, 2, 1, 32, true>, bounds(256, 2);
    /// bf16, `[B, L, D]`, 4 states of one channel a thread.
    SelectiveScanBf16Rows4x1 = selective_scan_bf16_rows_4x1(SelectiveScanParams<bf16>)
        => scan::<Rows<bf16>, 4, 1, 32, true>, bounds(384, 1);
    /// bf16, `[B, L, D]`, 4 states of two channels a thread.
    SelectiveScanBf16Rows4x2 = selective_scan_bf16_rows_4x2(SelectiveScanParams<bf16>)
        => scan::<Rows<bf16>, 4, 2, 16, false>, bounds(256, 2);
    /// bf16, `[B, L, D]`, 8 states of two channels a thread.
    SelectiveScanBf16Rows8x2 = selective_scan_bf16_rows_8x2(SelectiveScanParams<bf16>)
        => scan::<Rows<bf16>, 8, 2, 16, false>, bounds(192, 2);
    /// bf16, `[B, D, L]`, 2 states of one channel a thread.
    SelectiveScanBf16Columns2x1 = selective_scan_bf16_columns_2x1(SelectiveScanParams<bf16>)
        => scan::<Columns<bf16>, 2, 1, 32, true>, bounds(256, 2);
    /// bf16, `[B, D, L]`, 4 states of one channel a thread.
    SelectiveScanBf16Columns4x1 = selective_scan_bf16_columns_4x1(SelectiveScanParams<bf16>)
        => scan::<Columns<bf16>, 4, 1, 32, true>, bounds(384, 1);
    /// bf16, `[B, D, L]`, 4 states of two channels a thread.
    SelectiveScanBf16Columns4x2 = selective_scan_bf16_columns_4x2(SelectiveScanParams<bf16>)
        => scan::<Columns<bf16>, 4, 2, 16, false>, bounds(256, 2);
    /// bf16, `[B, D, L]`, 8 states of two channels a thread.
    SelectiveScanBf16Columns8x2 = selective_scan_bf16_columns_8x2(SelectiveScanParams<bf16>)
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
