//! Route over several blocks: entries of each expert in each tile, and their sums.
//!
//! A counting sort with few keys. Each block counts its tile and writes one row of a
//! table, `[tiles, experts]`; in the next launch ([`place`](super::place)) each block sums
//! the columns it needs and places its entries. The launch boundary is the one point where
//! all must have counted: it costs about 1.2 us, less than a last block that sums for all
//! (ticket, fence, read, write: four round trips of 0.6 us), and nobody waits for a block
//! that may not run.
//!
//! Bytes: the ids twice, and 12 written an entry. At the sizes in use time is latency: two
//! launches with two dependent round trips each (ids, then stores; ids and table, then
//! stores). For 65536 entries an H200 takes 2.1 us to count and 4.2 (64 experts) or 5.1 us
//! (256) to place. With many tiles and experts the table is long; then its columns are
//! summed once, in a launch between.

use super::RouteParams;
use super::policy::route::{TILE_ITEMS, TILE_THREADS, table_stride, tile_step};
use super::rank::{Counters, Ids, NONE, expert};
use crate::simt::Shared;
use crate::simt::thread::{block_idx_x, lane_id, sync_threads, thread_idx_x};
use crate::simt::warp::WARP_SIZE;

/// Asks for the ids of this thread's entries in the run of a block's entries that begins at
/// `first`: a warp has `ITEMS` times 32 consecutive ones.
///
/// # Safety
/// `ids` holds `end` entries.
#[inline(always)]
#[track_caller]
pub unsafe fn read<const ITEMS: usize>(p: &RouteParams, first: u32, end: u32) -> Ids<ITEMS> {
    let first = first + own_first::<ITEMS>();
    // SAFETY: the caller's promise.
    unsafe { Ids::read(p.ids, p.wide != 0, first, WARP_SIZE, end) }
}

/// The experts of these entries.
#[inline(always)]
pub fn experts<const ITEMS: usize>(p: &RouteParams, ids: &Ids<ITEMS>) -> [u32; ITEMS] {
    let mut experts = [NONE; ITEMS];
    unroll!(ITEMS, i => { experts[i] = expert(ids.get(i), p.experts); });
    experts
}

/// This thread's first entry in a run of its block's entries.
#[inline(always)]
pub fn own_first<const ITEMS: usize>() -> u32 {
    thread_idx_x() / WARP_SIZE * (ITEMS as u32 * WARP_SIZE) + lane_id()
}

/// First entry of this block's tile, and its end.
#[inline(always)]
pub fn bounds(p: &RouteParams) -> (u32, u32) {
    let first = block_idx_x() * p.tile_entries;
    (first, first.saturating_add(p.tile_entries).min(p.entries))
}

/// Counts this block's tile.
///
/// # Safety
/// A block for each tile; the table has a row for each; shared memory as the policy says.
#[inline(always)]
pub unsafe fn count(p: RouteParams) {
    let warps = TILE_THREADS / WARP_SIZE;
    let counters = Counters::new(Shared::dynamic(0), p.experts, warps);
    let (mut first, end) = bounds(&p);
    // SAFETY: entries below `end`, the block's own counters and row.
    unsafe {
        let mut ids = read::<TILE_ITEMS>(&p, first, end);
        counters.clear();
        loop {
            let experts = experts(&p, &ids);
            first += tile_step();
            if first < end {
                ids = read(&p, first, end);
            }
            counters.count(&experts);
            if first >= end {
                break;
            }
        }
        sync_threads();
        let row = block_idx_x() as usize * table_stride(p.experts) as usize;
        let mut expert = thread_idx_x();
        while expert < table_stride(p.experts) {
            let mut sum = 0;
            if expert < p.experts {
                sum = counters.sum(expert);
            }
            p.table.store(row + expert as usize, sum);
            expert += TILE_THREADS;
        }
    }
}

/// Table rows that a thread reads at once.
const ROWS: usize = 8;

/// Turns each of 32 columns of the table into the sums of the rows above, and writes the
/// sum of all into the row behind the last.
///
/// # Safety
/// A block for each 32 columns; 32 words of shared memory for each warp.
#[inline(always)]
pub unsafe fn totals(p: RouteParams) {
    let warps = TILE_THREADS / WARP_SIZE;
    let (lane, warp) = (lane_id(), thread_idx_x() / WARP_SIZE);
    let stride = table_stride(p.experts);
    let column = block_idx_x() * WARP_SIZE + lane;
    let per_warp = p.tiles.div_ceil(warps);
    let first = (warp * per_warp).min(p.tiles);
    let end = (first + per_warp).min(p.tiles);
    let inside = column < stride;
    let at = |row: u32| row as usize * stride as usize + column as usize;
    let sums = Shared::<u32>::dynamic(0);
    // SAFETY: rows up to `tiles` of a column below the stride, each cell one thread's.
    unsafe {
        let mut sum = 0;
        let mut row = first;
        while row < end {
            unroll!(ROWS, i => {
                if inside && row + (i as u32) < end {
                    sum += p.table.load(at(row + i as u32));
                }
            });
            row += ROWS as u32;
        }
        sums.store(warp * WARP_SIZE + lane, sum);
        sync_threads();
        let mut before = 0;
        let mut other = 0;
        while other < warp {
            before += sums.load(other * WARP_SIZE + lane);
            other += 1;
        }
        let mut row = first;
        while row < end {
            let mut counts = [0; ROWS];
            unroll!(ROWS, i => {
                if inside && row + (i as u32) < end {
                    counts[i] = p.table.load(at(row + i as u32));
                }
            });
            unroll!(ROWS, i => {
                if inside && row + (i as u32) < end {
                    p.table.store(at(row + i as u32), before);
                    before += counts[i];
                }
            });
            row += ROWS as u32;
        }
        if inside && warp == warps - 1 {
            p.table.store(at(p.tiles), before);
        }
    }
}
