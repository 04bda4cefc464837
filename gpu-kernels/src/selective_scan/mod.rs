//! Selective scan, the core of the Mamba S6 layer, and its step: parameters, launch shape,
//! entry points.

mod arithmetic;
mod kernel;
mod layout;
mod matrices;
mod params;
pub mod policy;

pub use params::{Required, SelectiveScanParams, SelectiveScanStepParams, options};

use half::{bf16, f16};
use kernel::scan;
use layout::{Columns, Rows};
use policy::BLOCK;

entries! {
    module "selective_scan";
    /// f32, `[B, L, D]`, 2 states a lane.
    SelectiveScanF32Rows2 = selective_scan_f32_rows_2(SelectiveScanParams<f32>)
        => scan::<Rows<f32>, 2, 8>, bounds(BLOCK, 0);
    /// f32, `[B, L, D]`, 4 states a lane.
    SelectiveScanF32Rows4 = selective_scan_f32_rows_4(SelectiveScanParams<f32>)
        => scan::<Rows<f32>, 4, 8>, bounds(BLOCK, 0);
    /// f32, `[B, L, D]`, 8 states a lane.
    SelectiveScanF32Rows8 = selective_scan_f32_rows_8(SelectiveScanParams<f32>)
        => scan::<Rows<f32>, 8, 4>, bounds(BLOCK, 0);
    /// f32, `[B, D, L]`, 2 states a lane.
    SelectiveScanF32Columns2 = selective_scan_f32_columns_2(SelectiveScanParams<f32>)
        => scan::<Columns<f32>, 2, 8>, bounds(BLOCK, 0);
    /// f32, `[B, D, L]`, 4 states a lane.
    SelectiveScanF32Columns4 = selective_scan_f32_columns_4(SelectiveScanParams<f32>)
        => scan::<Columns<f32>, 4, 8>, bounds(BLOCK, 0);
    /// f32, `[B, D, L]`, 8 states a lane.
    SelectiveScanF32Columns8 = selective_scan_f32_columns_8(SelectiveScanParams<f32>)
        => scan::<Columns<f32>, 8, 4>, bounds(BLOCK, 0);
    /// f16, `[B, L, D]`, 2 states a lane.
    SelectiveScanF16Rows2 = selective_scan_f16_rows_2(SelectiveScanParams<f16>)
        => scan::<Rows<f16>, 2, 8>, bounds(BLOCK, 0);
    /// f16, `[B, L, D]`, 4 states a lane.
    SelectiveScanF16Rows4 = selective_scan_f16_rows_4(SelectiveScanParams<f16>)
        => scan::<Rows<f16>, 4, 8>, bounds(BLOCK, 0);
    /// f16, `[B, L, D]`, 8 states a lane.
    SelectiveScanF16Rows8 = selective_scan_f16_rows_8(SelectiveScanParams<f16>)
        => scan::<Rows<f16>, 8, 4>, bounds(BLOCK, 0);
    /// f16, `[B, D, L]`, 2 states a lane.
    SelectiveScanF16Columns2 = selective_scan_f16_columns_2(SelectiveScanParams<f16>)
        => scan::<Columns<f16>, 2, 8>, bounds(BLOCK, 0);
    /// f16, `[B, D, L]`, 4 states a lane.
    SelectiveScanF16Columns4 = selective_scan_f16_columns_4(SelectiveScanParams<f16>)
        => scan::<Columns<f16>, 4, 8>, bounds(BLOCK, 0);
    /// f16, `[B, D, L]`, 8 states a lane.
    SelectiveScanF16Columns8 = selective_scan_f16_columns_8(SelectiveScanParams<f16>)
        => scan::<Columns<f16>, 8, 4>, bounds(BLOCK, 0);
    /// bf16, `[B, L, D]`, 2 states a lane.
    SelectiveScanBf16Rows2 = selective_scan_bf16_rows_2(SelectiveScanParams<bf16>)
        => scan::<Rows<bf16>, 2, 8>, bounds(BLOCK, 0);
    /// bf16, `[B, L, D]`, 4 states a lane.
    SelectiveScanBf16Rows4 = selective_scan_bf16_rows_4(SelectiveScanParams<bf16>)
        => scan::<Rows<bf16>, 4, 8>, bounds(BLOCK, 0);
    /// bf16, `[B, L, D]`, 8 states a lane.
    SelectiveScanBf16Rows8 = selective_scan_bf16_rows_8(SelectiveScanParams<bf16>)
        => scan::<Rows<bf16>, 8, 4>, bounds(BLOCK, 0);
    /// bf16, `[B, D, L]`, 2 states a lane.
    SelectiveScanBf16Columns2 = selective_scan_bf16_columns_2(SelectiveScanParams<bf16>)
        => scan::<Columns<bf16>, 2, 8>, bounds(BLOCK, 0);
    /// bf16, `[B, D, L]`, 4 states a lane.
    SelectiveScanBf16Columns4 = selective_scan_bf16_columns_4(SelectiveScanParams<bf16>)
        => scan::<Columns<bf16>, 4, 8>, bounds(BLOCK, 0);
    /// bf16, `[B, D, L]`, 8 states a lane.
    SelectiveScanBf16Columns8 = selective_scan_bf16_columns_8(SelectiveScanParams<bf16>)
        => scan::<Columns<bf16>, 8, 4>, bounds(BLOCK, 0);
}

#[cfg(all(test, feature = "emulator", not(target_arch = "nvptx64")))]
mod tests;
