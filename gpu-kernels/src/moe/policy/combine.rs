//! Combine and its gradients: launches.

use super::{MOST_BLOCKS, Teams, WARP, WORD};
use crate::simt::LaunchShape;

/// Threads of a block.
pub const THREADS: u32 = 256;
/// Blocks that should fit on a multiprocessor.
pub const BLOCKS: u32 = 4;
/// Up to this many rows a token, several units of a row are read at once instead.
pub const FEW: u32 = 2;
/// How many.
pub const COLUMNS: usize = 4;
/// Rows read at once where there are more.
pub const COPIES: usize = 8;

/// A combine as the host prepares it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Launch {
    /// Grid, block, shared memory.
    pub shape: LaunchShape,
    /// Units of a row.
    pub row_units: u32,
    /// Units of a row that a block computes.
    pub chunk: u32,
    /// Threads of a token's team.
    pub log2_team: u32,
    /// Whether the kernel for few rows is the one.
    pub few: bool,
}

/// The launch for rows of `row_units` units; `slots`: of that many experts, as the
/// caller says. `None` if it would need more blocks than a grid has.
pub fn launch(tokens: u32, top_k: u32, slots: Option<u32>, row_units: u64) -> Option<Launch> {
    let few = top_k <= FEW;
    let (in_flight, per_thread) = if few { (COLUMNS as u32, 8) } else { (1, 4) };
    let teams = Teams::new(tokens, row_units, THREADS, in_flight, per_thread)?;
    let shared = slots.map_or(0, |experts| (experts + 1) * WORD);
    Some(Launch {
        shape: teams.shape(THREADS, shared),
        row_units: teams.row_units,
        chunk: teams.chunk,
        log2_team: teams.log2_team,
        few,
    })
}

/// The launch of the gradients, and the rows that a warp looks after.
pub fn backward(entries: u32, rows: u32) -> Option<(LaunchShape, u32)> {
    let (warps, rows_per_team) = super::watch(entries, rows);
    let blocks = u64::from(warps).div_ceil(u64::from(THREADS / WARP)).max(1);
    (blocks <= MOST_BLOCKS).then(|| {
        (
            LaunchShape::linear(blocks as u32, THREADS, 0),
            rows_per_team,
        )
    })
}
