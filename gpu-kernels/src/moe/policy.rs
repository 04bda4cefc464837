//! Tile sizes of the MoE kernels and the launches that follow from them.

use crate::simt::LaunchShape;

const WORD: u32 = size_of::<u32>() as u32;
const WARP: u32 = 32;

/// Most blocks of a grid in x.
const MOST_BLOCKS: u64 = (1 << 31) - 1;
/// Most blocks of a grid in y.
const MOST_BLOCKS_Y: u64 = 65_535;

/// Route.
pub mod route {
    use super::{LaunchShape, WARP, WORD};

    /// Threads of a block that routes alone.
    pub const ALONE_THREADS: u32 = 1024;
    /// Entries of each of its threads, if they are few.
    pub const FEW: usize = 2;
    /// Entries of each of its threads, at most. A run of entries costs the block about
    /// 0.1 us; a second launch, which several blocks need, 1.2 us and its round trips.
    pub const MANY: usize = 8;

    /// Threads of a block that routes a tile.
    pub const TILE_THREADS: u32 = 512;
    /// Entries of each of its threads at once.
    pub const TILE_ITEMS: usize = 2;
    /// The most tiles: about four blocks for each multiprocessor of a large GPU.
    pub const MOST_TILES: u32 = 512;

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
        /// `RouteFew`.
        Few(LaunchShape),
        /// `RouteMany`.
        Many(LaunchShape),
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
        if entries <= ALONE_THREADS * MANY as u32 {
            let board = Board::new(ALONE_THREADS / WARP, experts);
            let shape = LaunchShape::linear(1, ALONE_THREADS, board.partials() * WORD);
            let few = entries <= ALONE_THREADS * FEW as u32;
            return Launch {
                way: if few {
                    Way::Few(shape)
                } else {
                    Way::Many(shape)
                },
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
                place: LaunchShape::linear(
                    tiles,
                    TILE_THREADS,
                    (board.partials() + partials) * WORD,
                ),
            },
            tiles,
            tile_entries,
            table_words: (tiles as u64 + 1) * stride as u64,
        }
    }
}

/// Slots of the caller.
pub mod claim {
    use super::{LaunchShape, WORD};

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
}

/// Dispatch.
pub mod dispatch {
    use super::{LaunchShape, Teams, WORD};

    /// Threads of a block.
    pub const THREADS: u32 = 256;
    /// Blocks that should fit on a multiprocessor.
    pub const BLOCKS: u32 = 4;
    /// Units that a thread has in flight: 128 bytes.
    pub const AT_ONCE: usize = 8;

    /// Threads of a block of `DispatchSlots`.
    pub const SLOTS_THREADS: u32 = 512;
    /// Blocks of it on a multiprocessor.
    pub const SLOTS_BLOCKS: u32 = 1;
    /// Entries that each of its threads reads.
    pub const SLOTS_ITEMS: usize = 8;
    /// The most rows whose claims fit in a block's shared memory.
    pub const SLOTS_ROWS: u32 = 8192;

    /// Byte of shared memory at which the claims begin, behind the offsets.
    #[inline(always)]
    pub const fn claims_at(experts: u32) -> u32 {
        (experts + 1).next_multiple_of(4) * WORD
    }

    /// A dispatch as the host prepares it.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Launch {
        /// Grid, block, shared memory.
        pub shape: LaunchShape,
        /// Units of a row that a block moves.
        pub chunk: u32,
        /// Threads of a token's team.
        pub log2_team: u32,
        /// Rows that a team looks after.
        pub rows_per_team: u32,
    }

    /// The launch by a plan or claims: of rows of `row_units` units, at least 1, with `rows`
    /// packed rows, below 2^31. `None` if it would need more blocks than a grid has.
    pub fn launch(tokens: u32, rows: u32, row_units: u64) -> Option<Launch> {
        teams(tokens, rows, row_units, THREADS, 0)
    }

    /// The launch of `DispatchSlots`, or `None` if there are too many entries or rows.
    pub fn slots(
        tokens: u32,
        top_k: u32,
        experts: u32,
        rows: u32,
        row_units: u64,
    ) -> Option<Launch> {
        let most = SLOTS_THREADS * SLOTS_ITEMS as u32;
        let entries = u64::from(tokens) * u64::from(top_k);
        if entries > u64::from(most) || rows > SLOTS_ROWS {
            return None;
        }
        let shared = claims_at(experts) + rows * WORD;
        teams(tokens, rows, row_units, SLOTS_THREADS, shared)
    }

    fn teams(tokens: u32, rows: u32, row_units: u64, threads: u32, shared: u32) -> Option<Launch> {
        let (count, rows_per_team) = super::watch(tokens, rows);
        let teams = Teams::new(count, row_units, threads, AT_ONCE as u32)?;
        Some(Launch {
            shape: teams.shape(threads, shared),
            chunk: teams.chunk,
            log2_team: teams.log2_team,
            rows_per_team,
        })
    }
}

/// Combine and its gradients.
pub mod combine {
    use super::{LaunchShape, MOST_BLOCKS, Teams, WARP, WORD};

    /// Threads of a block.
    pub const THREADS: u32 = 256;
    /// Blocks that should fit on a multiprocessor.
    pub const BLOCKS: u32 = 4;
    /// Up to this many rows a token, several columns are read at once instead.
    pub const FEW: u32 = 2;

    /// A combine as the host prepares it.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Launch {
        /// Grid, block, shared memory.
        pub shape: LaunchShape,
        /// Units of a row that a block computes.
        pub chunk: u32,
        /// Threads of a token's team.
        pub log2_team: u32,
        /// Whether the kernel for few rows is the one.
        pub few: bool,
    }

    /// The launch for rows of `row_units` units, at least 1; `slots`: of that many experts,
    /// as the caller says. `None` if it would need more blocks than a grid has.
    pub fn launch(tokens: u32, top_k: u32, slots: Option<u32>, row_units: u64) -> Option<Launch> {
        let few = top_k <= FEW;
        let columns = if few { 4 } else { 1 };
        let teams = Teams::new(tokens, row_units, THREADS, columns)?;
        let shared = slots.map_or(0, |experts| (experts + 1) * WORD);
        Some(Launch {
            shape: teams.shape(THREADS, shared),
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
}

/// Teams that look after `rows` rows beside `tasks` tasks, and how many rows each: at most
/// a lane's worth.
fn watch(tasks: u32, rows: u32) -> (u32, u32) {
    let teams = tasks.max(rows.div_ceil(WARP)).max(1);
    (teams, rows.div_ceil(teams))
}

/// Blocks that keep a large GPU busy.
const BUSY: u64 = 512;

/// How teams of threads share out rows.
#[derive(Clone, Copy, Debug)]
struct Teams {
    log2_team: u32,
    chunk: u32,
    blocks: [u32; 2],
}

impl Teams {
    /// For `count` teams in blocks of `threads`, each thread with `at_once` units in flight.
    fn new(count: u32, row_units: u64, threads: u32, at_once: u32) -> Option<Self> {
        let units = u32::try_from(row_units)
            .ok()
            .filter(|units| *units < 1 << 31)?;
        // As few threads as hold a row with all they have in flight; more if that leaves
        // multiprocessors idle.
        let most = units.next_power_of_two().clamp(WARP, threads);
        let mut team = units
            .div_ceil(at_once)
            .next_power_of_two()
            .clamp(WARP, threads);
        let blocks = |team: u32| u64::from(count).div_ceil(u64::from(threads / team));
        while team < most && blocks(team) < BUSY {
            team *= 2;
        }
        // A block's share of a row: all of it, or what its threads take at once.
        let mut chunk = units;
        let mut split = 1;
        while blocks(team) * u64::from(split) < BUSY && chunk > team {
            split += 1;
            chunk = units.div_ceil(split).next_multiple_of(team);
        }
        let split = units.div_ceil(chunk.max(1)).max(1);
        let blocks = blocks(team).max(1);
        (blocks <= MOST_BLOCKS && u64::from(split) <= MOST_BLOCKS_Y).then_some(Self {
            log2_team: team.ilog2(),
            chunk,
            blocks: [blocks as u32, split],
        })
    }

    fn shape(&self, threads: u32, shared_bytes: u32) -> LaunchShape {
        LaunchShape {
            grid: [self.blocks[0], self.blocks[1], 1],
            block: [threads, 1, 1],
            shared_bytes,
        }
    }
}
