//! Route, last step: the place of every entry.
//!
//! Rank within the warp, counters of the block's warps, entries of the tiles before: their
//! sum is an entry's slot. The rows of all experts before its own, rounded up to the
//! alignment, come on top; every block computes them for itself.
//!
//! With few entries one block does it all, in one launch: it reads the ids once and waits
//! for memory once (0.6 us), then four barriers to the stores. Rows without an entry are
//! shared out among the warps of the grid.

use super::RouteParams;
use super::policy::route::{
    ALONE_ITEMS, ALONE_THREADS, Board, STAGED, TILE_ITEMS, TILE_THREADS, table_stride, tile_step,
};
use super::rank::{self, Counters, NONE, id, sum_before};
use super::route::{bounds, experts, own_first, read};
use super::status;
use crate::simt::thread::{block_idx_x, grid_dim_x, lane_id, sync_threads, thread_idx_x};
use crate::simt::warp::WARP_SIZE;
use crate::simt::{Global, Shared, atomic};

/// Routes all entries in one block.
///
/// # Safety
/// One block, for at most `ALONE_ENTRIES` entries; arrays and shared memory as parameters
/// and policy say.
#[inline(always)]
pub unsafe fn alone(p: RouteParams) {
    // SAFETY: the caller's promise.
    unsafe { place::<ALONE_ITEMS, ALONE_THREADS, true, false>(&p) }
}

/// Routes one tile of the entries.
///
/// # Safety
/// A block for each tile, behind [`count`](super::route::count), and if `SUMMED` behind
/// [`totals`](super::route::totals); arrays and shared memory
/// as parameters and policy say.
#[inline(always)]
pub unsafe fn tiles<const SUMMED: bool>(p: RouteParams) {
    // SAFETY: the caller's promise.
    unsafe { place::<TILE_ITEMS, TILE_THREADS, false, SUMMED>(&p) }
}

#[inline(always)]
#[track_caller]
unsafe fn place<const ITEMS: usize, const THREADS: u32, const ALONE: bool, const SUMMED: bool>(
    p: &RouteParams,
) {
    let warps = THREADS / WARP_SIZE;
    let thread = thread_idx_x();
    let board = Board::new(warps, p.experts);
    let words = Shared::<u32>::dynamic(0);
    let counters = Counters::new(words, p.experts, warps);
    // Of each expert: rank at which the next run's entries begin; first row; end of its
    // entries' rows.
    let next = words.add(board.next());
    let starts = words.add(board.starts());
    let ends = words.add(board.ends());
    let (mut first, end) = if ALONE { (0, p.entries) } else { bounds(p) };
    // One block has all rows, and mostly room for them: it writes them in order.
    let staged = ALONE && p.row_count <= STAGED;
    let stage = words.add(board.partials());
    // The experts whose sums this thread computes.
    let own = p.experts.div_ceil(THREADS);
    let own_first = (thread * own).min(p.experts);
    let own_end = (own_first + own).min(p.experts);
    // SAFETY: entries below `end`; shared words as `board` says, each thread's own between
    // two barriers; rows below `row_count`.
    unsafe {
        let mut ids = read::<ITEMS>(p, first, end);
        counters.clear();
        if !ALONE && !SUMMED {
            sum_columns::<THREADS>(p, words.add(board.partials()));
        }
        if staged {
            let mut row = thread;
            while row < p.row_count {
                stage.store(row, NONE);
                row += THREADS;
            }
        }
        let places = Places {
            counters,
            starts,
            stage: staged.then_some(stage),
        };
        let mut is_first = true;
        loop {
            let experts = experts(p, &ids);
            let ranks = counters.count(&experts);
            sync_threads();
            if is_first {
                let mut rows = 0;
                let mut expert = own_first;
                while expert < own_end {
                    let (mut before, mut total) = (0, 0);
                    if !ALONE {
                        (before, total) = columns::<SUMMED>(p, words.add(board.partials()), expert);
                    }
                    let run_end = counters.accumulate(expert, before);
                    if ALONE {
                        total = run_end;
                    } else {
                        next.store(expert, run_end);
                    }
                    let kept = total.min(p.capacity);
                    starts.store(expert, rows);
                    ends.store(expert, kept);
                    rows += round_up(kept, p.alignment);
                    expert += 1;
                }
                let before = sum_before(rows, words.add(board.sums()), warps);
                let mut expert = own_first;
                while expert < own_end {
                    let start = before + starts.load(expert);
                    starts.store(expert, start);
                    ends.store(expert, start + ends.load(expert));
                    expert += 1;
                }
                if thread == THREADS - 1 {
                    starts.store(p.experts, before + rows);
                }
            } else {
                let mut expert = own_first;
                while expert < own_end {
                    next.store(expert, counters.accumulate(expert, next.load(expert)));
                    expert += 1;
                }
            }
            sync_threads();
            places.write::<ITEMS>(p, first, end, &experts, &ranks);
            first += tile_step();
            if ALONE || first >= end {
                break;
            }
            ids = read(p, first, end);
            sync_threads();
            counters.clear();
            is_first = false;
        }
        if block_idx_x() == 0 {
            let mut expert = thread;
            while expert <= p.experts {
                p.offsets.store(expert as usize, starts.load(expert) as i32);
                expert += THREADS;
            }
        }
        if !staged {
            pad::<THREADS>(p, starts, ends);
            return;
        }
        sync_threads();
        let mut row = thread;
        while row < p.row_count {
            p.sources.store(row as usize, stage.load(row) as i32);
            row += THREADS;
        }
    }
}

/// The smallest multiple of `alignment` that is not below `n`.
#[inline(always)]
fn round_up(n: u32, alignment: u32) -> u32 {
    if alignment == 1 {
        return n;
    }
    n.div_ceil(alignment) * alignment
}

/// What an entry's place follows from.
#[derive(Clone, Copy, Debug)]
struct Places {
    counters: Counters,
    starts: Shared<u32>,
    /// Where the rows' entries are gathered, if they are.
    stage: Option<Shared<u32>>,
}

impl Places {
    /// Writes the places of this thread's entries, and tells of ids out of range.
    ///
    /// # Safety
    /// All threads of the block; counters and starts are complete.
    #[inline(always)]
    #[track_caller]
    unsafe fn write<const ITEMS: usize>(
        &self,
        p: &RouteParams,
        first: u32,
        end: u32,
        experts: &[u32; ITEMS],
        ranks: &[u32; ITEMS],
    ) {
        let first = first + own_first::<ITEMS>();
        // SAFETY: entries below `end`; a row below `row_count` has one entry.
        unsafe {
            let mut slots = [-1; ITEMS];
            let mut rows = [-1; ITEMS];
            unroll!(ITEMS, i => {
                if experts[i] != NONE {
                    let slot = self.counters.start(experts[i]) + ranks[i];
                    if slot < p.capacity {
                        slots[i] = slot as i32;
                        rows[i] = (self.starts.load(experts[i]) + slot) as i32;
                    }
                }
            });
            unroll!(ITEMS, i => {
                let entry = first + i as u32 * WARP_SIZE;
                if entry < end {
                    p.slots.store(entry as usize, slots[i]);
                    p.rows.store(entry as usize, rows[i]);
                    if let Some(stage) = self.stage {
                        if (rows[i] as u32) < p.row_count {
                            stage.store(rows[i] as u32, entry);
                        }
                    } else if (rows[i] as u32) < p.row_count {
                        p.sources.store(rows[i] as usize, entry as i32);
                    }
                }
            });
            if p.status.is_null() {
                return;
            }
            let mut bad = false;
            unroll!(ITEMS, i => {
                bad |= first + (i as u32 * WARP_SIZE) < end && experts[i] == NONE;
            });
            if bad {
                tell::<ITEMS>(p, first, end);
            }
        }
    }
}

/// Tells of this thread's first entry with an id out of range.
///
/// # Safety
/// It has one from `first` on.
#[inline(always)]
#[track_caller]
unsafe fn tell<const ITEMS: usize>(p: &RouteParams, first: u32, end: u32) {
    let mut entry = first;
    while entry < end {
        // SAFETY: an entry.
        unsafe {
            let found = id(p.ids, p.wide != 0, entry);
            if rank::expert(found, p.experts) == NONE {
                let position = status::entry(entry / p.top_k, entry % p.top_k);
                report(
                    p.status,
                    status::EXPERT_ID,
                    position,
                    status::saturate(found),
                );
                return;
            }
        }
        entry += WARP_SIZE;
    }
}

/// Lowers a status word.
///
/// # Safety
/// `status` has a word of this kind.
#[inline(always)]
#[track_caller]
pub unsafe fn report(words: Global<u64>, kind: usize, position: u32, value: i32) {
    // SAFETY: the caller's promise.
    unsafe { atomic::fetch_min64(words, kind, status::word(position, value)) };
}

/// Marks the rows without an entry: behind each expert's entries, and behind the last expert.
///
/// # Safety
/// All threads of all blocks; `starts` and `ends` are complete.
#[inline(always)]
#[track_caller]
unsafe fn pad<const THREADS: u32>(p: &RouteParams, starts: Shared<u32>, ends: Shared<u32>) {
    let (blocks, thread) = (grid_dim_x(), block_idx_x() * THREADS + thread_idx_x());
    // SAFETY: rows below `row_count` that no entry has, each one thread's.
    unsafe {
        if p.alignment > 1 {
            let mut expert = thread / WARP_SIZE;
            while expert < p.experts {
                let end = starts.load(expert + 1).min(p.row_count);
                let mut row = ends.load(expert) + lane_id();
                while row < end {
                    p.sources.store(row as usize, -1);
                    row += WARP_SIZE;
                }
                expert += blocks * (THREADS / WARP_SIZE);
            }
        }
        let mut row = u64::from(starts.load(p.experts)) + u64::from(thread);
        while row < u64::from(p.row_count) {
            p.sources.store(row as usize, -1);
            row += u64::from(blocks * THREADS);
        }
    }
}

/// Table rows that a thread reads at once.
const ROWS: usize = 8;
/// Parts that the table's rows are summed in.
const PARTS: u32 = 8;

/// Sums the table's columns in `PARTS` parts: the rows before this block's, and all of them.
/// A thread has four columns of a part; the parts lie in `partials`, `[PARTS, 2, stride]`.
///
/// # Safety
/// All threads of the block, behind [`count`](super::route::count).
#[inline(always)]
#[track_caller]
unsafe fn sum_columns<const THREADS: u32>(p: &RouteParams, partials: Shared<u32>) {
    const { assert!(PARTS == super::policy::route::PARTS) };
    let stride = table_stride(p.experts);
    let quads = stride / 4;
    let mut task = thread_idx_x();
    while task < quads * PARTS {
        let (part, quad) = (task / quads, task % quads);
        let mut before = [0u32; 4];
        let mut total = [0u32; 4];
        let mut row = part;
        while row < p.tiles {
            let mut counts = [[0u32; 4]; ROWS];
            unroll!(ROWS, i => {
                let row = row + i as u32 * PARTS;
                if row < p.tiles {
                    let at = row as usize * stride as usize + 4 * quad as usize;
                    // SAFETY: whole rows of the table; a multiple of 16 bytes.
                    counts[i] = unsafe { p.table.load4(at) };
                }
            });
            unroll!(ROWS, i => {
                let earlier = row + (i as u32 * PARTS) < block_idx_x();
                unroll!(4, column => {
                    total[column] += counts[i][column];
                    if earlier {
                        before[column] += counts[i][column];
                    }
                });
            });
            row += ROWS as u32 * PARTS;
        }
        let at = part * 2 * stride + 4 * quad;
        // SAFETY: this task's own words; multiples of 16 bytes.
        unsafe {
            partials.store4(at, before);
            partials.store4(at + stride, total);
        }
        task += THREADS;
    }
}

/// The entries of an expert in the tiles before this block's, and in all of them.
///
/// # Safety
/// Behind a barrier after [`sum_columns`], or with a summed table.
#[inline(always)]
#[track_caller]
unsafe fn columns<const SUMMED: bool>(
    p: &RouteParams,
    partials: Shared<u32>,
    expert: u32,
) -> (u32, u32) {
    let stride = table_stride(p.experts);
    // SAFETY: complete, and `expert` is below the stride.
    unsafe {
        if SUMMED {
            let at = |row: u32| row as usize * stride as usize + expert as usize;
            return (p.table.load(at(block_idx_x())), p.table.load(at(p.tiles)));
        }
        let (mut before, mut total) = (0, 0);
        unroll!(PARTS as usize, i => {
            let at = i as u32 * 2 * stride + expert;
            before += partials.load(at);
            total += partials.load(at + stride);
        });
        (before, total)
    }
}
