//! Tile sizes of the linear scan and the launch shapes that follow from them.

use super::LinearScanParams;
use crate::simt::LaunchShape;

/// Threads of a block; each owns one channel of one sequence.
pub const BLOCK: u32 = 128;

/// The launch for these parameters, or `None` when there is nothing to compute.
pub fn launch<T>(params: &LinearScanParams<T>) -> Option<LaunchShape> {
    let columns = params.sequences.checked_mul(params.channels)?;
    let blocks = u32::try_from(columns.div_ceil(u64::from(BLOCK))).ok()?;
    (blocks > 0).then(|| LaunchShape::linear(blocks, BLOCK, 0))
}
