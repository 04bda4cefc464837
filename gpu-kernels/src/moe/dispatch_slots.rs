//! Dispatch of few entries by a caller's slots, in one launch.
//!
//! Every block reads all entries and builds the table of claims for itself, in shared
//! memory: the last entry of a row has it. So each block knows of a fault before it writes
//! anything, and nobody waits for another block. Bytes beside the rows: 8 an entry and
//! block, out of the L2 cache; one round trip, as in [`scatter`](super::dispatch::scatter),
//! and about 50 instructions for each of a thread's entries.

use super::DispatchParams;
use super::copy::Unit;
use super::dispatch::Task;
use super::policy::dispatch::{SLOTS_ITEMS, SLOTS_THREADS, claims_at};
use super::rank::Ids;
use super::slots::{NO_ROW, check_offsets, fetch_offsets, find, row};
use crate::simt::thread::{block_idx_x, block_idx_y, sync_threads, sync_threads_or, thread_idx_x};
use crate::simt::{Shared, atomic};

/// Dispatches few entries.
///
/// # Safety
/// Launched as the policy says; arrays as the parameters say.
#[inline(always)]
pub unsafe fn dispatch_slots<U: Unit, const AT_ONCE: usize>(p: DispatchParams) {
    let (from, thread) = (&p.from, thread_idx_x());
    let (entries, wide) = (p.tokens * from.top_k, from.wide != 0);
    let offsets = Shared::<i32>::dynamic(0);
    let owners = Shared::<u32>::dynamic(claims_at(from.experts));
    // SAFETY: entries below `entries`; shared words for offsets and rows, between barriers.
    unsafe {
        // All asked for before anything is looked at: one round trip.
        let task = Task::<U::Value, AT_ONCE>::start::<U>(&p, SLOTS_THREADS);
        let ids = Ids::<SLOTS_ITEMS>::read(from.ids, wide, thread, SLOTS_THREADS, entries);
        let mut slots = [-1; SLOTS_ITEMS];
        unroll!(SLOTS_ITEMS, i => {
            let entry = thread + i as u32 * SLOTS_THREADS;
            if entry < entries {
                slots[i] = from.slots.load(entry as usize);
            }
        });
        let end = if task.has_entry { task.entry + 1 } else { 0 };
        let own_id = Ids::<1>::read(from.ids, wide, task.entry, 1, end);
        let mut own_slot = -1;
        if task.has_entry {
            own_slot = from.slots.load(task.entry as usize);
        }
        let mut at = thread;
        while at < from.row_count {
            owners.store(at, 0);
            at += SLOTS_THREADS;
        }
        fetch_offsets(from, offsets, SLOTS_THREADS);
        sync_threads();

        let mut fault = check_offsets(from, offsets, SLOTS_THREADS, p.status, false);
        unroll!(SLOTS_ITEMS, i => {
            if slots[i] != -1 {
                let found = row(from, offsets, slots[i], ids.get(i));
                fault |= found.is_fault();
                if found.row != NO_ROW {
                    let entry = thread + i as u32 * SLOTS_THREADS;
                    atomic::fetch_max_shared(owners, found.row, entry + 1);
                }
            }
        });
        if sync_threads_or(fault) {
            // Every block knows; one tells.
            if block_idx_x() == 0 && block_idx_y() == 0 {
                check_offsets(from, offsets, SLOTS_THREADS, p.status, true);
                let mut entry = thread;
                while entry < entries {
                    find(from, offsets, entry).report(p.status, entry, from.top_k);
                    entry += SLOTS_THREADS;
                }
            }
            return;
        }
        let mut row = row(from, offsets, own_slot, own_id.get(0)).row;
        if row != NO_ROW && owners.load(row) != task.entry + 1 {
            row = NO_ROW;
        }
        let empty = task.watches && owners.load(task.watched) == 0;
        task.finish::<U>(&p, row, empty);
    }
}
