//! Dispatch: each token's row to the rows of its experts; zeros where nobody goes.
//!
//! [`scatter`]: a team of threads has one token. It reads its row once and writes it to up
//! to K places; it also looks after a few packed rows and zeroes those that nobody claims.
//! No operations; bytes: one read of each token, one write of each packed row, and 4 a row
//! and entry. With few tokens what counts is the launch (0.6 us) and one round trip (0.6 us):
//! the token's row and the indices are asked for together, and nothing is read after them.
//!
//! With many, it is the memory: bf16, T = 8192, H = 7168, K = 8 takes 284 us on an H200, 3.7
//! TB/s, whatever the size of the teams, the cache hints, or a copy engine in their place,
//! while the same bytes in the other direction (combine) take 251.
//!
//! [`gather`]: with one expert a token, a team has one packed row instead and reads the
//! token that belongs there: as many bytes, a round trip more, and writes in order of
//! address, which the memory takes 3% faster than scattered ones.

use super::DispatchParams;
use super::copy::Unit;
use super::policy::dispatch::THREADS;
use super::rank::{of_lane, warp_in_team};
use super::slots::NO_ROW;
use super::status;
use crate::simt::Global;
use crate::simt::thread::{block_idx_x, block_idx_y, lane_id, thread_idx_x};
use crate::simt::warp::{FULL_MASK, ballot};

/// A thread's units of a row: every `step`th from `first` on, `AT_ONCE` in flight.
#[derive(Clone, Copy, Debug)]
struct Span {
    row_units: u32,
    first: u32,
    end: u32,
    step: u32,
}

impl Span {
    /// This thread's.
    #[inline(always)]
    fn new(p: &DispatchParams) -> Self {
        let start = block_idx_y() * p.chunk;
        let step = 1 << p.log2_team;
        Self {
            row_units: p.row_units,
            first: start + (thread_idx_x() & (step - 1)),
            end: (start + p.chunk).min(p.row_units),
            step,
        }
    }

    /// Reads the units of a row from `at` on; zeros past the end.
    #[inline(always)]
    #[track_caller]
    unsafe fn read<U: Unit, const AT_ONCE: usize, const ONCE: bool>(
        &self,
        rows: Global<u8>,
        row: u32,
        at: u32,
    ) -> [U::Value; AT_ONCE] {
        let mut values = [U::ZERO; AT_ONCE];
        let row = row as usize * self.row_units as usize;
        unroll!(AT_ONCE, i => {
            let unit = at + i as u32 * self.step;
            if unit < self.end {
                // SAFETY: a unit of a row of the array.
                values[i] = unsafe {
                    if ONCE {
                        U::load_once(rows, row + unit as usize)
                    } else {
                        U::load(rows, row + unit as usize)
                    }
                };
            }
        });
        values
    }

    /// Writes the units of a row from `at` on.
    #[inline(always)]
    #[track_caller]
    unsafe fn write<U: Unit, const AT_ONCE: usize>(
        &self,
        rows: Global<u8>,
        row: u32,
        at: u32,
        values: &[U::Value; AT_ONCE],
    ) {
        let row = row as usize * self.row_units as usize;
        unroll!(AT_ONCE, i => {
            let unit = at + i as u32 * self.step;
            if unit < self.end {
                // SAFETY: a unit of a row that is this team's alone.
                unsafe { U::store(rows, row + unit as usize, values[i]) };
            }
        });
    }

    /// Zeroes a row.
    #[inline(always)]
    #[track_caller]
    unsafe fn zero<U: Unit, const AT_ONCE: usize>(&self, rows: Global<u8>, row: u32) {
        let mut at = self.first;
        while at < self.end {
            // SAFETY: the caller's promise.
            unsafe { self.write::<U, AT_ONCE>(rows, row, at, &[U::ZERO; AT_ONCE]) };
            at += self.step * AT_ONCE as u32;
        }
    }
}

/// What a thread's team does: its token, and the rows it looks after, one of each lane.
#[derive(Clone, Copy, Debug)]
pub(super) struct Task<V, const AT_ONCE: usize> {
    span: Span,
    token: u32,
    /// This lane's entry, if it has one.
    pub entry: u32,
    pub has_entry: bool,
    /// The row that this lane looks after, if it does.
    pub watched: u32,
    pub watches: bool,
    /// The first units of the token.
    values: [V; AT_ONCE],
}

impl<V: Copy, const AT_ONCE: usize> Task<V, AT_ONCE> {
    /// This thread's, in a block of `threads`. Asks for the token's first units.
    ///
    /// # Safety
    /// Arrays as the parameters say.
    #[inline(always)]
    #[track_caller]
    pub unsafe fn start<U: Unit<Value = V>>(p: &DispatchParams, threads: u32) -> Self {
        let token = block_idx_x() * (threads >> p.log2_team) + (thread_idx_x() >> p.log2_team);
        let watched = u64::from(token) * u64::from(p.rows_per_team) + u64::from(lane_id());
        let mut task = Self {
            span: Span::new(p),
            token,
            entry: token.wrapping_mul(p.from.top_k).wrapping_add(lane_id()),
            has_entry: token < p.tokens && lane_id() < p.from.top_k,
            watched: watched as u32,
            watches: lane_id() < p.rows_per_team && watched < u64::from(p.from.row_count),
            values: [U::ZERO; AT_ONCE],
        };
        if token < p.tokens {
            // SAFETY: a token.
            task.values = unsafe {
                task.span
                    .read::<U, AT_ONCE, true>(p.hidden, token, task.span.first)
            };
        }
        task
    }

    /// Copies the token to the rows that the lanes of the warp hold, and zeroes the watched
    /// rows of the lanes that say so.
    ///
    /// # Safety
    /// The whole warp; rows below `row_count`, each claimed by one entry or by none.
    #[inline(always)]
    #[track_caller]
    pub unsafe fn finish<U: Unit<Value = V>>(self, p: &DispatchParams, row: u32, empty: bool) {
        let span = self.span;
        let mut empties = ballot(FULL_MASK, empty);
        while empties != 0 {
            let row = of_lane(self.watched, empties.trailing_zeros());
            empties &= empties - 1;
            // SAFETY: nobody else writes a row that nobody claims.
            unsafe { span.zero::<U, AT_ONCE>(p.packed, row) };
        }
        let kept = ballot(FULL_MASK, row != NO_ROW);
        let mut values = self.values;
        let mut at = span.first;
        // The same for all lanes, of whom the last may have one turn less to do.
        let mut turn = block_idx_y() * p.chunk + warp_in_team(p.log2_team);
        while turn < span.end {
            let mut left = kept;
            while left != 0 {
                let row = of_lane(row, left.trailing_zeros());
                left &= left - 1;
                // SAFETY: the caller's promise.
                unsafe { span.write::<U, AT_ONCE>(p.packed, row, at, &values) };
            }
            at += span.step * AT_ONCE as u32;
            turn += span.step * AT_ONCE as u32;
            if turn < span.end && self.token < p.tokens {
                // SAFETY: a token.
                values = unsafe { span.read::<U, AT_ONCE, true>(p.hidden, self.token, at) };
            }
        }
    }
}

/// Dispatches by a plan, or by claims.
///
/// # Safety
/// Launched as the policy says; arrays as the parameters say.
#[inline(always)]
pub unsafe fn scatter<U: Unit, const AT_ONCE: usize>(p: DispatchParams) {
    let nobody = nobody(&p);
    // SAFETY: entries of a token, rows below `source_count`.
    unsafe {
        // All asked for before anything is looked at: one round trip.
        let task = Task::<U::Value, AT_ONCE>::start::<U>(&p, THREADS);
        let mut row = NO_ROW;
        if task.has_entry {
            row = p.rows.load(task.entry as usize) as u32;
        }
        let mut source = nobody;
        if task.watches && task.watched < p.source_count {
            source = p.sources.load(task.watched as usize);
        }
        if row != NO_ROW && row >= p.from.row_count {
            let position = status::entry(task.token, lane_id());
            super::place::report(p.status, status::ROW, position, row as i32);
            row = NO_ROW;
        }
        if p.claimed != 0 {
            if is_faulty(&p) {
                return;
            }
            if row != NO_ROW && p.sources.load(row as usize) != task.entry + 1 {
                row = NO_ROW;
            }
        }
        task.finish::<U>(&p, row, task.watches && source == nobody);
    }
}

/// Dispatches by a plan or by claims that know of no row behind the packed ones.
///
/// # Safety
/// As [`scatter`], with a team for each packed row.
#[inline(always)]
pub unsafe fn gather<U: Unit, const AT_ONCE: usize>(p: DispatchParams) {
    let span = Span::new(&p);
    let row = block_idx_x() * (THREADS >> p.log2_team) + (thread_idx_x() >> p.log2_team);
    if row >= p.from.row_count {
        return;
    }
    let nobody = nobody(&p);
    // SAFETY: a packed row, which is this team's; the token of an entry.
    unsafe {
        let mut source = nobody;
        if row < p.source_count {
            source = p.sources.load(row as usize);
        }
        if p.claimed != 0 && is_faulty(&p) {
            return;
        }
        if source == nobody {
            span.zero::<U, AT_ONCE>(p.packed, row);
            return;
        }
        let token = (source - p.claimed) / p.from.top_k;
        let mut at = span.first;
        while at < span.end {
            let values = span.read::<U, AT_ONCE, false>(p.hidden, token, at);
            span.write::<U, AT_ONCE>(p.packed, row, at, &values);
            at += span.step * AT_ONCE as u32;
        }
    }
}

/// The source of a row without an entry.
#[inline(always)]
fn nobody(p: &DispatchParams) -> u32 {
    if p.claimed != 0 { 0 } else { u32::MAX }
}

/// Whether the slots that the claims come from are wrong.
///
/// # Safety
/// `status` are the status words.
#[inline(always)]
#[track_caller]
unsafe fn is_faulty(p: &DispatchParams) -> bool {
    let fault = |kind| {
        // SAFETY: nobody writes these words here.
        unsafe { p.status.load(kind) != status::NONE }
    };
    fault(status::OFFSETS) | fault(status::EXPERT_ID) | fault(status::SLOT)
}
