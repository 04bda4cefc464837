//! Route: tiles, tables and launches.

use super::{WARP, WORD};
use crate::simt::LaunchShape;

/// Threads of a block that routes alone.
pub const ALONE_THREADS: u32 = 512;
/// Entries of each of its threads. An entry more costs such a block 0.4 us; several
/// blocks need a second launch and take 5 us for few entries.
pub const ALONE_ITEMS: usize = 4;
/// The most entries of a block that routes alone.
pub const ALONE_ENTRIES: u32 = ALONE_THREADS * ALONE_ITEMS as u32;

/// Threads of a block that routes a tile.
pub const TILE_THREADS: u32 = 512;
/// Entries of each of its threads at once.
pub const TILE_ITEMS: usize = 2;
/// The most tiles; beyond that they grow.
pub const MOST_TILES: u32 = 2048;

/// The most rows that a block which routes alone gathers in shared memory: written from
/// there in order, not 32 sectors a warp.
pub const STAGED: u32 = 4096;

/// The most bytes of the table that every block reads for itself: an L2 cache delivers
/// that to all of them in about a microsecond, less than a launch takes.
pub const DIRECT_BYTES: u32 = 96 << 10;
/// Parts in which a block sums the table.
pub const PARTS: u32 = 8;

/// Entries that a block takes at once.
pub const fn tile_step() -> u32 {
    TILE_THREADS * TILE_ITEMS as u32
}

/// Words of a row of the table: whole 16-byte vectors.
pub const fn table_stride(experts: u32) -> u32 {
    experts.next_multiple_of(4)
}

/// Where a block's words of shared memory lie.
#[derive(Clone, Copy, Debug)]
pub struct Board {
    experts: u32,
    counters: u32,
}

impl Board {
    /// For a block of `warps` warps.
    #[inline(always)]
    pub const fn new(warps: u32, experts: u32) -> Self {
        // Whole vectors: what follows begins on one, too.
        let counters = (warps * experts).next_multiple_of(4);
        Self { experts, counters }
    }
    /// Of each expert, the rank at which the next run begins.
    #[inline(always)]
    pub const fn next(&self) -> u32 {
        self.counters
    }
    /// First row of each expert, and the end of the last one's.
    #[inline(always)]
    pub const fn starts(&self) -> u32 {
        self.next() + self.experts
    }
    /// End of the rows with an entry, of each expert.
    #[inline(always)]
    pub const fn ends(&self) -> u32 {
        self.starts() + self.experts + 1
    }
    /// A word for each warp.
    #[inline(always)]
    pub const fn sums(&self) -> u32 {
        self.ends() + self.experts
    }
    /// Sums of parts of the table.
    #[inline(always)]
    pub const fn partials(&self) -> u32 {
        (self.sums() + WARP).next_multiple_of(4)
    }
}

/// How a route runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// `RouteAlone`.
    Alone(LaunchShape),
    /// `RouteCount`, then perhaps `RouteTotals`, then `RoutePlace`.
    Tiles {
        /// Of `RouteCount`.
        count: LaunchShape,
        /// Of `RouteTotals`.
        totals: Option<LaunchShape>,
        /// Of `RoutePlace`.
        place: LaunchShape,
    },
}

/// A route as the host prepares it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Launch {
    /// Which kernels.
    pub way: Way,
    /// Blocks that share the entries.
    pub tiles: u32,
    /// Entries of each of them.
    pub tile_entries: u32,
    /// 32-bit words of scratch memory.
    pub table_words: u64,
}

/// The launches for `entries` entries, at most 2^29.
pub const fn launch(entries: u32, experts: u32) -> Launch {
    if entries <= ALONE_ENTRIES {
        let board = Board::new(ALONE_THREADS / WARP, experts);
        let shared = (board.partials() + STAGED) * WORD;
        return Launch {
            way: Way::Alone(LaunchShape::linear(1, ALONE_THREADS, shared)),
            tiles: 1,
            tile_entries: entries,
            table_words: 0,
        };
    }
    tiles(entries, experts)
}

/// The launches over several blocks.
pub const fn tiles(entries: u32, experts: u32) -> Launch {
    let steps = entries.div_ceil(tile_step());
    let tile_entries = steps.div_ceil(MOST_TILES) * tile_step();
    let tiles = entries.div_ceil(tile_entries);
    let stride = table_stride(experts);
    let direct = tiles as u64 * stride as u64 * WORD as u64 <= DIRECT_BYTES as u64;
    let board = Board::new(TILE_THREADS / WARP, experts);
    let partials = if direct { PARTS * 2 * stride } else { 0 };
    Launch {
        way: Way::Tiles {
            count: LaunchShape::linear(tiles, TILE_THREADS, board.counters * WORD),
            totals: if direct {
                None
            } else {
                Some(LaunchShape::linear(
                    stride.div_ceil(WARP),
                    TILE_THREADS,
                    TILE_THREADS * WORD,
                ))
            },
            place: LaunchShape::linear(tiles, TILE_THREADS, (board.partials() + partials) * WORD),
        },
        tiles,
        tile_entries,
        table_words: (tiles as u64 + 1) * stride as u64,
    }
}
