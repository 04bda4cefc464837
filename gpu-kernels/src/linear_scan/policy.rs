//! Tile sizes of the linear scan and the launches that follow from them.

use crate::scan::block::{THREADS, board_bytes};
use crate::scan::lookback::{Scratch, window_bytes};
use crate::simt::{LaunchShape, Multiprocessors};

/// Threads of a block.
pub const BLOCK: u32 = THREADS;

/// Blocks that should fit on a multiprocessor. A block has a tile of 64 KB for about
/// 10 us, most of it waiting; three of them keep enough bytes under way. The gradient scan
/// has three arrays of a tile in shared memory, so two fit. Tiles of any size of two 16-bit
/// channels a lane take more registers than so many blocks leave.
pub const fn blocks(rows: bool, size: u32, full: bool, backward: bool) -> u32 {
    let many_registers = rows && size < 4 && !full;
    (if backward { 2 } else { 3 }) - if many_registers { 1 } else { 0 }
}

/// The most time steps of a segment (one thread's), and the fewest: what one access holds.
const LOG2_STEPS: u32 = 5;
const LEAST_LOG2_STEPS: u32 = 3;

/// The most lanes of a tile whose sequence goes on in another tile: one warp steps for them.
const WARP: u32 = 32;

/// The fewest lanes. Below 8 a row of a tile is less than a sector of 32 bytes, and a
/// lane would have to step through more segments than pays.
const LEAST_LANES: u32 = 8;

/// How a tile lies in the tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Orientation {
    /// `[.., L, D]`: a lane is a 32-bit word of a row, 1 f32 or 2 f16 channels.
    Rows,
    /// `[.., D, L]`: a lane is a channel.
    Columns,
}

/// How the work is cut. Depends on nothing but length, channels, element size and layout,
/// so that a sequence is rounded the same way whatever else is in the batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tiling {
    /// Channels of a lane.
    pub channels_per_lane: u32,
    /// Time steps of a segment: 2 to this power.
    pub log2_steps: u32,
    /// Lanes of a tile: 2 to this power.
    pub log2_lanes: u32,
}

impl Tiling {
    /// For sequences of `length` steps of `channels` channels of `size` bytes.
    pub fn new(length: u64, channels: u64, size: u32, orientation: Orientation) -> Self {
        let rows = orientation == Orientation::Rows;
        let channels_per_lane = if rows { 4 / size } else { 1 };
        let (most_log2_steps, most_log2_lanes) = full(rows, size);
        let log2_steps = log2_ceil(length).clamp(LEAST_LOG2_STEPS, most_log2_steps);
        // With few time steps the block is wide instead of idle.
        let segments = length
            .div_ceil(1 << log2_steps)
            .max(1)
            .min(u64::from(BLOCK >> most_log2_lanes));
        let most = BLOCK >> log2_ceil(segments);
        let lanes = channels.div_ceil(u64::from(channels_per_lane));
        let log2_lanes = log2_ceil(lanes).clamp(LEAST_LANES.ilog2(), most.ilog2());
        Self {
            channels_per_lane,
            log2_steps,
            log2_lanes,
        }
    }

    /// Whether the tile is the usual one, for which there is a kernel of its own.
    pub fn is_full(&self, size: u32, orientation: Orientation) -> bool {
        (self.log2_steps, self.log2_lanes) == full(orientation == Orientation::Rows, size)
    }

    /// Segments of a tile: 2 to this power.
    pub const fn log2_segments(&self) -> u32 {
        BLOCK.ilog2() - self.log2_lanes
    }

    /// Time steps of a tile.
    pub const fn steps(&self) -> u32 {
        1 << (self.log2_steps + self.log2_segments())
    }

    /// Channels of a tile.
    pub const fn channels(&self) -> u32 {
        self.channels_per_lane << self.log2_lanes
    }

    /// Bytes of one array of a tile in shared memory.
    pub const fn array_bytes(&self, size: u32, orientation: Orientation) -> u32 {
        let gaps = match orientation {
            Orientation::Rows => gap_bytes(self.log2_lanes) << self.log2_segments(),
            Orientation::Columns => 0,
        };
        self.steps() * self.channels() * size + gaps
    }
}

/// The usual tile: `log2_steps` and `log2_lanes` where there are time steps and channels enough.
pub const fn full(rows: bool, size: u32) -> (u32, u32) {
    if rows {
        (LOG2_STEPS, WARP.ilog2())
    } else {
        // Long runs of time, 4 KB of a channel.
        (LOG2_STEPS + (4 / size).ilog2(), LEAST_LANES.ilog2())
    }
}

/// The gap behind each segment of a tile of rows. Where a warp's threads read several
/// segments, their lanes would else fall on the same banks.
pub const fn gap_bytes(log2_lanes: u32) -> u32 {
    if log2_lanes < WARP.ilog2() {
        4 << log2_lanes
    } else {
        0
    }
}

fn log2_ceil(n: u64) -> u32 {
    n.max(1).next_power_of_two().ilog2()
}

/// Scratch of the look-back.
pub const fn scratch(groups: u32, tiles: u32, log2_lanes: u32, channels_per_lane: u32) -> Scratch {
    Scratch {
        chains: groups,
        tiles,
        channels: channels_per_lane << log2_lanes,
    }
}

/// Shared memory for the maps of a look-back that has room for three blocks, and the most
/// it takes where the chain is what limits the speed.
const WINDOW_BYTES: u32 = 4 << 10;
const WIDE_WINDOW_BYTES: u32 = 16 << 10;

/// Up to this many chains, the tiles under way are more than a small window apart, ...
const FEW_CHAINS: u64 = 8;

/// ... unless it holds this many of them.
const MANY_TILES: u32 = 64;

/// How far a look-back reaches: of `chains` chains of `channels` channels.
fn window(chains: u64, channels: u32) -> u32 {
    let small = WINDOW_BYTES / window_bytes(1, channels);
    let bytes = if chains <= FEW_CHAINS && small < MANY_TILES {
        WIDE_WINDOW_BYTES
    } else {
        WINDOW_BYTES
    };
    bytes / window_bytes(1, channels)
}

/// A launch as the host prepares it. Blocks work on one tile after the other.
#[derive(Clone, Copy, Debug)]
pub struct Launch {
    /// Grid, block, shared memory.
    pub shape: LaunchShape,
    /// 64-bit words of scratch memory; 0 for none.
    pub scratch_words: u64,
    /// Groups of channels.
    pub groups: u32,
    /// Tiles of a group.
    pub tiles: u32,
    /// Tiles of a sequence.
    pub tiles_per_sequence: u32,
    /// How far the look-back reaches. Decides nothing but speed.
    pub window: u32,
    /// How the work is cut.
    pub tiling: Tiling,
}

/// What a launch is for.
#[derive(Clone, Copy, Debug)]
pub struct Work {
    /// Sequences.
    pub sequences: u64,
    /// Time steps of each, or of all of them together if `packed`.
    pub length: u64,
    /// Channels.
    pub channels: u64,
    /// Bytes of an element.
    pub size: u32,
    /// How the tensors lie.
    pub orientation: Orientation,
    /// Whether the sequences have lengths of their own.
    pub packed: bool,
    /// The scan of the gradients.
    pub backward: bool,
}

/// The launch for `work` on `multiprocessors`, or `None` if it would need more tiles than
/// can be counted.
pub fn launch(work: &Work, multiprocessors: Multiprocessors) -> Option<Launch> {
    let &Work {
        sequences,
        length,
        channels,
        size,
        orientation,
        packed,
        backward,
    } = work;
    let tiling = Tiling::new(length, channels, size, orientation);
    let groups = channels.div_ceil(u64::from(tiling.channels()));
    let per_sequence = length.div_ceil(u64::from(tiling.steps())).max(1);
    let tiles = if packed {
        // Sequence s has its tiles from `offsets[s] / steps + s` on, always enough of them.
        length / u64::from(tiling.steps()) + sequences
    } else {
        sequences.checked_mul(per_sequence)?
    };
    let tickets = tiles
        .checked_mul(groups)
        .filter(|&tickets| tickets < 1 << 30)? as u32;
    let (groups, tiles) = (groups as u32, tiles as u32);
    let scratch = scratch(groups, tiles, tiling.log2_lanes, tiling.channels_per_lane);
    let chained = per_sequence > 1;
    let chains = u64::from(groups) * if packed { 1 } else { sequences };
    let window = window(chains, tiling.channels());
    let arrays = if backward { 3 } else { 2 };
    let rows = orientation == Orientation::Rows;
    let most_blocks = blocks(rows, size, tiling.is_full(size, orientation), backward);
    let mut shared_bytes = board_bytes(tiling.log2_lanes, tiling.channels_per_lane)
        + arrays * tiling.array_bytes(size, orientation);
    if chained {
        shared_bytes += window_bytes(window, tiling.channels());
    }
    let blocks = multiprocessors
        .blocks(shared_bytes, most_blocks)
        .min(tickets);
    Some(Launch {
        shape: LaunchShape::linear(blocks, BLOCK, shared_bytes),
        scratch_words: if chained { scratch.words() } else { 0 },
        groups,
        tiles,
        tiles_per_sequence: per_sequence as u32,
        window,
        tiling,
    })
}
