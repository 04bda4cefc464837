//! A caller's slots, many of them: checked, and turned into the arrays of a plan.
//!
//! Every entry's row goes to `rows`; each row's owner is found by an atomic maximum, so the
//! last entry that claims a row has it, whatever the order of the threads. Bytes: the slots
//! and ids once, 4 written an entry, 4 a row cleared and claimed; against the rows that are
//! then moved, nothing. Two launches, 1.2 us each.

use super::ClaimParams;
use super::policy::claim::THREADS;
use super::slots::{NO_ROW, check_offsets, fetch_offsets, find};
use crate::simt::thread::{block_idx_x, grid_dim_x, sync_threads, thread_idx_x};
use crate::simt::{Shared, atomic};

/// Nobody owns a row.
///
/// # Safety
/// `owners` has a word for each row.
#[inline(always)]
pub unsafe fn clear(p: ClaimParams) {
    let mut row = u64::from(block_idx_x()) * u64::from(THREADS) + u64::from(thread_idx_x());
    while row < u64::from(p.from.row_count) {
        // SAFETY: the caller's promise.
        unsafe { p.owners.store(row as usize, 0) };
        row += u64::from(grid_dim_x()) * u64::from(THREADS);
    }
}

/// Checks every entry and claims its row.
///
/// # Safety
/// Behind [`clear`]; arrays as the parameters say; a word of shared memory for each offset.
#[inline(always)]
pub unsafe fn claim(p: ClaimParams) {
    let offsets = Shared::<i32>::dynamic(0);
    // SAFETY: entries below `entries`, rows below `row_count`.
    unsafe {
        fetch_offsets(&p.from, offsets, THREADS);
        sync_threads();
        check_offsets(&p.from, offsets, THREADS, p.status, block_idx_x() == 0);
        let mut entry = block_idx_x() * THREADS + thread_idx_x();
        while entry < p.entries {
            let found = find(&p.from, offsets, entry);
            found.report(p.status, entry, p.from.top_k);
            p.rows.store(entry as usize, found.row as i32);
            if found.row != NO_ROW {
                atomic::fetch_max(p.owners, found.row as usize, entry + 1);
            }
            entry += grid_dim_x() * THREADS;
        }
    }
}
