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
use policy::{BLOCK, STEP_BLOCK};
use step::step;

entries! {
    module "selective_scan";
    /// f32, `[B, L, D]`, 2 states a lane.
    SelectiveScanF32Rows2 = selective_scan_f32_rows_2(SelectiveScanParams<f32>)
        => scan::<Rows<f32>, 2, 4, 8>, bounds(BLOCK, 0);
    /// f32, `[B, L, D]`, 4 states a lane.
    SelectiveScanF32Rows4 = selective_scan_f32_rows_4(SelectiveScanParams<f32>)
        => scan::<Rows<f32>, 4, 8, 8>, bounds(BLOCK, 0);
    /// f32, `[B, L, D]`, 8 states a lane.
    SelectiveScanF32Rows8 = selective_scan_f32_rows_8(SelectiveScanParams<f32>)
        => scan::<Rows<f32>, 8, 4, 4>, bounds(BLOCK, 0);
    /// f32, `[B, D, L]`, 2 states a lane.
    SelectiveScanF32Columns2 = selective_scan_f32_columns_2(SelectiveScanParams<f32>)
        => scan::<Columns<f32>, 2, 4, 8>, bounds(BLOCK, 0);
    /// f32, `[B, D, L]`, 4 states a lane.
    SelectiveScanF32Columns4 = selective_scan_f32_columns_4(SelectiveScanParams<f32>)
        => scan::<Columns<f32>, 4, 8, 8>, bounds(BLOCK, 0);
    /// f32, `[B, D, L]`, 8 states a lane.
    SelectiveScanF32Columns8 = selective_scan_f32_columns_8(SelectiveScanParams<f32>)
        => scan::<Columns<f32>, 8, 4, 4>, bounds(BLOCK, 0);
    /// f16, `[B, L, D]`, 2 states a lane.
    SelectiveScanF16Rows2 = selective_scan_f16_rows_2(SelectiveScanParams<f16>)
        => scan::<Rows<f16>, 2, 4, 8>, bounds(BLOCK, 0);
    /// f16, `[B, L, D]`, 4 states a lane.
    SelectiveScanF16Rows4 = selective_scan_f16_rows_4(SelectiveScanParams<f16>)
        => scan::<Rows<f16>, 4, 8, 8>, bounds(BLOCK, 0);
    /// f16, `[B, L, D]`, 8 states a lane.
    SelectiveScanF16Rows8 = selective_scan_f16_rows_8(SelectiveScanParams<f16>)
        => scan::<Rows<f16>, 8, 4, 4>, bounds(BLOCK, 0);
    /// f16, `[B, D, L]`, 2 states a lane.
    SelectiveScanF16Columns2 = selective_scan_f16_columns_2(SelectiveScanParams<f16>)
        => scan::<Columns<f16>, 2, 4, 8>, bounds(BLOCK, 0);
    /// f16, `[B, D, L]`, 4 states a lane.
    SelectiveScanF16Columns4 = selective_scan_f16_columns_4(SelectiveScanParams<f16>)
        => scan::<Columns<f16>, 4, 8, 8>, bounds(BLOCK, 0);
    /// f16, `[B, D, L]`, 8 states a lane.
    SelectiveScanF16Columns8 = selective_scan_f16_columns_8(SelectiveScanParams<f16>)
        => scan::<Columns<f16>, 8, 4, 4>, bounds(BLOCK, 0);
    /// bf16, `[B, L, D]`, 2 states a lane.
    SelectiveScanBf16Rows2 = selective_scan_bf16_rows_2(SelectiveScanParams<bf16>)
        => scan::<Rows<bf16>, 2, 4, 8>, bounds(BLOCK, 0);
    /// bf16, `[B, L, D]`, 4 states a lane.
    SelectiveScanBf16Rows4 = selective_scan_bf16_rows_4(SelectiveScanParams<bf16>)
        => scan::<Rows<bf16>, 4, 8, 8>, bounds(BLOCK, 0);
    /// bf16, `[B, L, D]`, 8 states a lane.
    SelectiveScanBf16Rows8 = selective_scan_bf16_rows_8(SelectiveScanParams<bf16>)
        => scan::<Rows<bf16>, 8, 4, 4>, bounds(BLOCK, 0);
    /// bf16, `[B, D, L]`, 2 states a lane.
    SelectiveScanBf16Columns2 = selective_scan_bf16_columns_2(SelectiveScanParams<bf16>)
        => scan::<Columns<bf16>, 2, 4, 8>, bounds(BLOCK, 0);
    /// bf16, `[B, D, L]`, 4 states a lane.
    SelectiveScanBf16Columns4 = selective_scan_bf16_columns_4(SelectiveScanParams<bf16>)
        => scan::<Columns<bf16>, 4, 8, 8>, bounds(BLOCK, 0);
    /// bf16, `[B, D, L]`, 8 states a lane.
    SelectiveScanBf16Columns8 = selective_scan_bf16_columns_8(SelectiveScanParams<bf16>)
        => scan::<Columns<bf16>, 8, 4, 4>, bounds(BLOCK, 0);
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
