//! Slots of the caller: launches that check and claim.

use super::WORD;
use crate::simt::LaunchShape;

/// Threads of a block.
pub const THREADS: u32 = 256;
/// The most blocks; beyond that they stride.
const MOST: u32 = 2048;

/// The launch that clears `rows` claims.
pub const fn clear(rows: u32) -> LaunchShape {
    LaunchShape::linear(blocks(rows), THREADS, 0)
}

/// The launch that checks and claims `entries` entries.
pub const fn claim(entries: u32, experts: u32) -> LaunchShape {
    LaunchShape::linear(blocks(entries), THREADS, (experts + 1) * WORD)
}

const fn blocks(n: u32) -> u32 {
    let blocks = n.div_ceil(THREADS);
    if blocks > MOST {
        MOST
    } else if blocks == 0 {
        1
    } else {
        blocks
    }
}
