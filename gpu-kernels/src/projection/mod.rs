//! Projections `activation(x W^T + bias)` by several weights at once: parameters, launch
//! shape, entry points.

mod finish;
mod kernel;
mod operand;
mod params;
mod plain;
pub mod policy;
#[cfg(all(test, feature = "emulator"))]
mod tests;

pub use operand::Operand;
pub use params::{PARTS, Part, ProjectionParams, Required};

use half::{bf16, f16};
use kernel::project;
use plain::project_plain;
use policy::{BLOCK, BLOCKS, PLAIN_BLOCK};

entries! {
    module "projection";
    /// f32, rows of whole 16 bytes.
    ProjectionF32 = projection_f32(ProjectionParams<f32>)
        => project::<f32>, bounds(BLOCK, BLOCKS);
    /// f32, any row.
    ProjectionF32Plain = projection_f32_plain(ProjectionParams<f32>)
        => project_plain::<f32>, bounds(PLAIN_BLOCK, 2);
    /// f16, rows of whole 16 bytes.
    ProjectionF16 = projection_f16(ProjectionParams<f16>)
        => project::<f16>, bounds(BLOCK, BLOCKS);
    /// f16, any row.
    ProjectionF16Plain = projection_f16_plain(ProjectionParams<f16>)
        => project_plain::<f16>, bounds(PLAIN_BLOCK, 2);
    /// bf16, rows of whole 16 bytes.
    ProjectionBf16 = projection_bf16(ProjectionParams<bf16>)
        => project::<bf16>, bounds(BLOCK, BLOCKS);
    /// bf16, any row.
    ProjectionBf16Plain = projection_bf16_plain(ProjectionParams<bf16>)
        => project_plain::<bf16>, bounds(PLAIN_BLOCK, 2);
}
