//! Dispatch: each token's row to the rows of its experts; zeros where nobody goes.
//!
//! A team of threads has one token: it reads its row once, and writes it to up to K places.
//! It also looks after a few packed rows and zeroes those that nobody claims. No operations;
//! bytes: one read of each token, one write of each packed row, 8 a row and entry for
//! indices. What limits it is memory, 4.2 TB/s of reading and writing on an H200, or with
//! few tokens the launch (1.2 us) and one round trip (0.5 us): indices and the token's row
//! are asked for at once, and nothing is read after them.
//!
//! [`slots`] takes few entries with a caller's slots, in one launch: every block reads all
//! of them and builds the table of claims for itself, in shared memory. So each block knows
//! of a fault before it writes anything.

use super::DispatchParams;
use super::copy::Unit;
use super::policy::dispatch::{AT_ONCE, SLOTS_ITEMS, SLOTS_THREADS, THREADS, claims_at};
use super::rank::{id, of_lane};
use super::slots::{NO_ROW, check_offsets, fetch_offsets, row};
use super::status;
use crate::simt::thread::{
    block_idx_x, block_idx_y, lane_id, sync_threads, sync_threads_or, thread_idx_x,
};
use crate::simt::warp::{FULL_MASK, ballot};
use crate::simt::{Shared, atomic};

/// What a thread does: its team's token and rows, and its units of a row.
#[derive(Clone, Copy, Debug)]
struct Task {
    token: u32,
    has_token: bool,
    /// The row that this lane looks after.
    watched: u32,
    watches: bool,
    first: u32,
    end: u32,
    step: u32,
}

impl Task {
    #[inline(always)]
    fn new(p: &DispatchParams, threads: u32) -> Self {
        let thread = thread_idx_x();
        let team = block_idx_x() * (threads >> p.log2_team) + (thread >> p.log2_team);
        let watched = u64::from(team) * u64::from(p.rows_per_team) + u64::from(lane_id());
        let start = block_idx_y() * p.chunk;
        let step = 1 << p.log2_team;
        Self {
            token: team,
            has_token: team < p.tokens,
            watched: watched as u32,
            watches: lane_id() < p.rows_per_team && watched < u64::from(p.from.row_count),
            first: start + (thread & (step - 1)),
            end: (start + p.chunk).min(p.row_units),
            step,
        }
    }

    /// The units of the token from `at` on.
    #[inline(always)]
    #[track_caller]
    unsafe fn read<U: Unit>(&self, p: &DispatchParams, at: u32) -> [U::Value; AT_ONCE] {
        let mut values = [U::ZERO; AT_ONCE];
        if self.has_token {
            let token = self.token as usize * p.row_units as usize;
            unroll!(AT_ONCE, i => {
                let unit = at + i as u32 * self.step;
                if unit < self.end {
                    // SAFETY: a unit of the token's row.
                    values[i] = unsafe { U::load(p.hidden, token + unit as usize) };
                }
            });
        }
        values
    }

    /// Writes the units of a packed row from `at` on.
    #[inline(always)]
    #[track_caller]
    unsafe fn write<U: Unit>(
        &self,
        p: &DispatchParams,
        row: u32,
        at: u32,
        values: &[U::Value; AT_ONCE],
    ) {
        let row = row as usize * p.row_units as usize;
        unroll!(AT_ONCE, i => {
            let unit = at + i as u32 * self.step;
            if unit < self.end {
                // SAFETY: a unit of a row that is this team's alone.
                unsafe { U::store(p.packed, row + unit as usize, values[i]) };
            }
        });
    }

    /// Copies the token to the rows that the lanes of the warp hold, and zeroes the watched
    /// rows of the lanes that say so.
    #[inline(always)]
    #[track_caller]
    unsafe fn finish<U: Unit>(
        &self,
        p: &DispatchParams,
        row: u32,
        empty: bool,
        values: [U::Value; AT_ONCE],
    ) {
        let mut empties = ballot(FULL_MASK, empty);
        while empties != 0 {
            let row = of_lane(self.watched, empties.trailing_zeros());
            empties &= empties - 1;
            let mut at = self.first;
            while at < self.end {
                // SAFETY: nobody else writes a row that nobody claims.
                unsafe { self.write::<U>(p, row, at, &[U::ZERO; AT_ONCE]) };
                at += self.step * AT_ONCE as u32;
            }
        }
        let kept = ballot(FULL_MASK, row != NO_ROW);
        let mut values = values;
        let mut at = self.first;
        // The same for all lanes, of whom the last may have one turn less to do.
        let mut turn = at - lane_id();
        while turn < self.end {
            let mut left = kept;
            while left != 0 {
                let row = of_lane(row, left.trailing_zeros());
                left &= left - 1;
                // SAFETY: rows below `row_count`, each claimed by one entry.
                unsafe { self.write::<U>(p, row, at, &values) };
            }
            at += self.step * AT_ONCE as u32;
            turn += self.step * AT_ONCE as u32;
            if turn < self.end {
                // SAFETY: a unit of the token's row.
                values = unsafe { self.read::<U>(p, at) };
            }
        }
    }
}

/// Dispatches by a plan, or by claims.
///
/// # Safety
/// Launched as the policy says; arrays as the parameters say.
#[inline(always)]
pub unsafe fn planned<U: Unit>(p: DispatchParams) {
    let task = Task::new(&p, THREADS);
    let nobody = if p.claimed != 0 { 0 } else { u32::MAX };
    // SAFETY: entries of a token, rows below `source_count`, units of the token's row.
    unsafe {
        let mut row = NO_ROW;
        let entry = task
            .token
            .wrapping_mul(p.from.top_k)
            .wrapping_add(lane_id());
        if task.has_token && lane_id() < p.from.top_k {
            row = p.rows.load(entry as usize) as u32;
        }
        let mut empty = task.watches;
        if task.watches && task.watched < p.source_count {
            empty = p.sources.load(task.watched as usize) == nobody;
        }
        let values = task.read::<U>(&p, task.first);
        if row != NO_ROW && row >= p.from.row_count {
            let position = status::entry(task.token, lane_id());
            super::place::report(p.status, status::ROW, position, row as i32);
            row = NO_ROW;
        }
        if p.claimed != 0 {
            let mut fault = false;
            unroll!(3, kind => {
                fault |= p.status.load(kind) != status::NONE;
            });
            if fault {
                return;
            }
            if row != NO_ROW && p.sources.load(row as usize) != entry + 1 {
                row = NO_ROW;
            }
        }
        task.finish::<U>(&p, row, empty, values);
    }
}

/// Dispatches few entries by a caller's slots.
///
/// # Safety
/// Launched as the policy says; arrays as the parameters say.
#[inline(always)]
pub unsafe fn slots<U: Unit>(p: DispatchParams) {
    let task = Task::new(&p, SLOTS_THREADS);
    let entries = p.tokens * p.from.top_k;
    let offsets = Shared::<i32>::dynamic(0);
    let owners = Shared::<u32>::dynamic(claims_at(p.from.experts));
    // SAFETY: entries below `entries`; shared words for offsets and rows, between barriers.
    unsafe {
        let mut found = [(-1, 0i64); SLOTS_ITEMS];
        unroll!(SLOTS_ITEMS, i => {
            let entry = thread_idx_x() + i as u32 * SLOTS_THREADS;
            if entry < entries {
                let slot = p.from.slots.load(entry as usize);
                found[i] = (slot, id(p.from.ids, p.from.wide != 0, entry));
            }
        });
        let mut own = (-1, 0);
        let own_entry = task
            .token
            .wrapping_mul(p.from.top_k)
            .wrapping_add(lane_id());
        if task.has_token && lane_id() < p.from.top_k {
            let slot = p.from.slots.load(own_entry as usize);
            own = (slot, id(p.from.ids, p.from.wide != 0, own_entry));
        }
        let values = task.read::<U>(&p, task.first);
        fetch_offsets(&p.from, offsets, SLOTS_THREADS);
        let mut at = thread_idx_x();
        while at < p.from.row_count {
            owners.store(at, 0);
            at += SLOTS_THREADS;
        }
        sync_threads();
        let first = block_idx_x() == 0 && block_idx_y() == 0;
        let mut fault = check_offsets(&p.from, offsets, SLOTS_THREADS, p.status, first);
        unroll!(SLOTS_ITEMS, i => {
            let entry = thread_idx_x() + i as u32 * SLOTS_THREADS;
            let (slot, id) = found[i];
            let found = row(&p.from, offsets, slot, id);
            fault |= found.is_fault();
            if first {
                found.report(p.status, entry, p.from.top_k);
            }
            if found.row != NO_ROW {
                atomic::fetch_max_shared(owners, found.row, entry + 1);
            }
        });
        if sync_threads_or(fault) {
            return;
        }
        let mut row = row(&p.from, offsets, own.0, own.1).row;
        if row != NO_ROW && owners.load(row) != own_entry + 1 {
            row = NO_ROW;
        }
        let empty = task.watches && owners.load(task.watched) == 0;
        task.finish::<U>(&p, row, empty, values);
    }
}
