//! Tile sizes of the MoE kernels and the launches that follow from them.

use crate::simt::LaunchShape;

const WORD: u32 = size_of::<u32>() as u32;
const WARP: u32 = 32;

/// Most blocks of a grid in x.
const MOST_BLOCKS: u64 = (1 << 31) - 1;
/// Most blocks of a grid in y.
const MOST_BLOCKS_Y: u32 = 65_535;

/// Route.
pub mod route {
    use super::{LaunchShape, WARP, WORD};

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
    use super::{LaunchShape, Teams, WARP, WORD};

    /// Threads of a block.
    pub const THREADS: u32 = 256;
    /// Blocks that should fit on a multiprocessor.
    pub const BLOCKS: u32 = 8;
    /// Vectors that a thread has in flight, where there are many: 128 bytes.
    pub const VECTORS: usize = 8;
    /// The same in the kernel that takes packed rows in order.
    pub const GATHERED: usize = 4;
    /// Blocks of these on a multiprocessor.
    pub const VECTORS_BLOCKS: u32 = 4;
    /// Smaller units that a thread has in flight.
    pub const UNITS: usize = 4;

    /// Threads of a block of `DispatchSlots`.
    pub const SLOTS_THREADS: u32 = 512;
    /// Entries that each of its threads reads.
    pub const SLOTS_ITEMS: usize = 8;
    /// The most rows whose claims fit in a block's shared memory.
    pub const SLOTS_ROWS: u32 = 8192;

    /// Up to this many bytes a dispatch is bound by latency: one unit for each thread.
    const SMALL: u64 = 32 << 20;

    /// Byte of shared memory at which the claims begin, behind the offsets.
    #[inline(always)]
    pub const fn claims_at(experts: u32) -> u32 {
        (experts + 1).next_multiple_of(4) * WORD
    }

    /// Which kernel moves rows.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Way {
        /// `DispatchVectors`.
        Vectors,
        /// `DispatchVector`.
        Vector,
        /// `DispatchGather`.
        Gather,
        /// `DispatchWord`.
        Word,
        /// `DispatchHalf`.
        Half,
        /// `DispatchByte`.
        Byte,
    }

    /// A dispatch as the host prepares it.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Launch {
        /// Which kernel.
        pub way: Way,
        /// Grid, block, shared memory.
        pub shape: LaunchShape,
        /// Units of a row.
        pub row_units: u32,
        /// Units of a row that a block moves.
        pub chunk: u32,
        /// Threads of a token's team.
        pub log2_team: u32,
        /// Rows that a team looks after.
        pub rows_per_team: u32,
    }

    /// What is dispatched.
    #[derive(Clone, Copy, Debug)]
    pub struct Sizes {
        /// Tokens.
        pub tokens: u32,
        /// Entries of a token.
        pub top_k: u32,
        /// Packed rows, fewer than 2^31.
        pub rows: u32,
        /// Bytes of a row, at least 1.
        pub row_bytes: u64,
    }

    impl Sizes {
        /// Bytes of a unit, and units of a row.
        fn units(&self) -> (u64, u64) {
            let unit = [16, 4, 2]
                .into_iter()
                .find(|unit| self.row_bytes.is_multiple_of(*unit))
                .unwrap_or(1);
            (unit, self.row_bytes / unit)
        }

        fn is_small(&self) -> bool {
            u64::from(self.rows).saturating_mul(self.row_bytes) <= SMALL
        }
    }

    /// The launch by a plan or claims; `behind`: its rows may lie behind the packed ones.
    /// `None` if it would need more blocks than a grid has.
    pub fn launch(sizes: &Sizes, behind: bool) -> Option<Launch> {
        let (unit, row_units) = sizes.units();
        let narrow = row_units <= u64::from(WARP);
        let (way, in_flight, per_thread) = match unit {
            16 if narrow || sizes.is_small() => (Way::Vector, 1, 1),
            16 if sizes.top_k == 1 && !behind => {
                // Twice what is in flight, in smaller teams: more rows at once.
                let teams = Teams::new(sizes.rows, row_units, THREADS, GATHERED as u32, 8)?;
                return Some(teams.dispatch(Way::Gather, THREADS, 0, 0));
            }
            16 => (Way::Vectors, VECTORS as u32, VECTORS as u32),
            4 => (Way::Word, UNITS as u32, UNITS as u32),
            2 => (Way::Half, UNITS as u32, UNITS as u32),
            _ => (Way::Byte, UNITS as u32, UNITS as u32),
        };
        let (count, rows_per_team) = super::watch(sizes.tokens, sizes.rows);
        let teams = Teams::new(count, row_units, THREADS, in_flight, per_thread)?;
        Some(teams.dispatch(way, THREADS, 0, rows_per_team))
    }

    /// The launch of `DispatchSlots`, or `None` if it is not for these sizes.
    pub fn slots(sizes: &Sizes, experts: u32) -> Option<Launch> {
        let (unit, row_units) = sizes.units();
        let entries = u64::from(sizes.tokens) * u64::from(sizes.top_k);
        let most = u64::from(SLOTS_THREADS) * SLOTS_ITEMS as u64;
        if unit != 16 || entries > most || sizes.rows > SLOTS_ROWS || !sizes.is_small() {
            return None;
        }
        let (count, rows_per_team) = super::watch(sizes.tokens, sizes.rows);
        let teams = Teams::new(count, row_units, SLOTS_THREADS, 1, 1)?;
        let shared = claims_at(experts) + sizes.rows * WORD;
        Some(teams.dispatch(Way::Vector, SLOTS_THREADS, shared, rows_per_team))
    }

    impl Teams {
        fn dispatch(
            &self,
            way: Way,
            threads: u32,
            shared_bytes: u32,
            rows_per_team: u32,
        ) -> Launch {
            Launch {
                way,
                shape: self.shape(threads, shared_bytes),
                row_units: self.row_units,
                chunk: self.chunk,
                log2_team: self.log2_team,
                rows_per_team,
            }
        }
    }
}

/// Combine and its gradients.
pub mod combine {
    use super::{LaunchShape, MOST_BLOCKS, Teams, WARP, WORD};

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
}

/// Teams that look after `rows` rows beside `tasks` tasks, and how many rows each: at most
/// a lane's worth.
fn watch(tasks: u32, rows: u32) -> (u32, u32) {
    let teams = tasks.max(rows.div_ceil(WARP)).max(1);
    (teams, rows.div_ceil(teams))
}

/// Blocks that keep a large GPU busy.
const BUSY: u64 = 512;

/// The most units of a row: positions in it, and steps past its end, are 32-bit numbers.
const MOST_UNITS: u64 = 1 << 30;

/// How teams of threads share out rows.
#[derive(Clone, Copy, Debug)]
struct Teams {
    row_units: u32,
    log2_team: u32,
    chunk: u32,
    blocks: [u32; 2],
}

impl Teams {
    /// For `count` teams in blocks of `threads`. A thread has `in_flight` units in flight
    /// and `per_thread` of a row.
    fn new(
        count: u32,
        row_units: u64,
        threads: u32,
        in_flight: u32,
        per_thread: u32,
    ) -> Option<Self> {
        if row_units > MOST_UNITS {
            return None;
        }
        let row_units = row_units as u32;
        let fit = |units: u32| units.next_power_of_two().clamp(WARP, threads);
        let blocks = |team: u32| u64::from(count).div_ceil(u64::from(threads / team));
        // Where that leaves multiprocessors idle, larger teams with less for each thread.
        let mut team = fit(row_units.div_ceil(per_thread));
        while team < fit(row_units) && blocks(team) < BUSY {
            team *= 2;
        }
        // Then parts of a row, each as much as its threads have in flight.
        let mut chunk = row_units;
        if per_thread == 1 || blocks(team) < BUSY {
            chunk = team * in_flight;
        }
        // In a grid, parts are few.
        chunk = chunk.max(row_units.div_ceil(MOST_BLOCKS_Y).next_multiple_of(team));
        let parts = row_units.div_ceil(chunk).max(1);
        let blocks = blocks(team).max(1);
        (blocks <= MOST_BLOCKS).then_some(Self {
            row_units,
            log2_team: team.ilog2(),
            chunk,
            blocks: [blocks as u32, parts],
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
