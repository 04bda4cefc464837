//! Linear scan `h[t] = a[t] * h[t-1] + b[t]`: parameters, launch shape, entry points.

mod kernel;
mod params;
pub mod policy;

pub use params::{LinearScanParams, Required};

use half::{bf16, f16};

entries! {
    module "linear_scan";
    /// f32 sequences.
    LinearScanF32 = linear_scan_f32(LinearScanParams<f32>) => kernel::scan_columns::<f32>,
        bounds(policy::BLOCK, 0);
    /// f16 sequences, f32 state.
    LinearScanF16 = linear_scan_f16(LinearScanParams<f16>) => kernel::scan_columns::<f16>,
        bounds(policy::BLOCK, 0);
    /// bf16 sequences, f32 state.
    LinearScanBf16 = linear_scan_bf16(LinearScanParams<bf16>) => kernel::scan_columns::<bf16>,
        bounds(policy::BLOCK, 0);
}
