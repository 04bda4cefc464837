//! Combine: each token from its rows, weighted. Also the gradient of a dispatch.
//!
//! A team of threads has one token. The lanes of each of its warps fetch the token's rows
//! and weights, one each; then every thread sums its units of the row, k ascending, with
//! `COPIES * COLUMNS` reads under way. A fused multiply-add an element: nothing beside the
//! bytes, each claimed row read once and each token written once (1057 MB for bf16 T = 8192,
//! H = 7168, K = 8: 251 us at 4.2 TB/s).
//!
//! A sum begins with -0, the one number that changes nothing it is added to, so that a
//! single row comes out as it went in.

use super::CombineParams;
use super::packet::{Floats, MOST, Packet};
use super::policy::combine::THREADS;
use super::rank::{of_lane, warp_in_team};
use super::slots::{NO_ROW, check_offsets, fetch_offsets, find};
use super::status;
use crate::simt::Shared;
use crate::simt::math::fma;
use crate::simt::thread::{block_idx_x, block_idx_y, lane_id, sync_threads, thread_idx_x};
use crate::simt::warp::{FULL_MASK, ballot, shuffle_idx};

/// Combines, `COLUMNS` units of a row at once and `COPIES` rows.
///
/// # Safety
/// Launched as the policy says; arrays as the parameters say.
#[inline(always)]
pub unsafe fn combine<P: Packet, const COLUMNS: usize, const COPIES: usize>(
    p: CombineParams<P::Element>,
) {
    let thread = thread_idx_x();
    let token = block_idx_x() * (THREADS >> p.log2_team) + (thread >> p.log2_team);
    let step = 1u32 << p.log2_team;
    let start = block_idx_y() * p.chunk;
    let end = (start + p.chunk).min(p.row_units);
    // SAFETY: a token below `tokens` has `top_k` entries; rows are below `row_count`.
    unsafe {
        let mut weight = 1.0;
        if !p.weights.is_null() && token < p.tokens && lane_id() < p.from.top_k {
            let entry = token as usize * p.from.top_k as usize + lane_id() as usize;
            weight = p.weights.load(entry);
        }
        let row = own_row(&p, token);
        let kept = ballot(FULL_MASK, row != NO_ROW);
        let out = token as usize * p.row_units as usize;
        let mut unit = start + (thread & (step - 1));
        // The same for all lanes, of whom the last may have one turn less to do.
        let mut turn = start + warp_in_team(p.log2_team);
        while turn < end {
            let mut sums = [[-0.0f32; MOST]; COLUMNS];
            let mut left = kept;
            while left != 0 {
                let mut raw = [[P::NOTHING; COPIES]; COLUMNS];
                let mut weights = [0.0; COPIES];
                let mut there = [false; COPIES];
                unroll!(COPIES, copy => {
                    // With none left, any lane will do: nothing is read for it.
                    let lane = left.trailing_zeros() & 31;
                    let row = of_lane(row, lane) as usize * p.row_units as usize;
                    weights[copy] = shuffle_idx::<32, f32>(FULL_MASK, weight, lane);
                    there[copy] = left != 0;
                    left &= left.wrapping_sub(1);
                    unroll!(COLUMNS, column => {
                        let unit = unit + column as u32 * step;
                        if there[copy] && unit < end {
                            raw[column][copy] = P::load(p.packed, row + unit as usize);
                        }
                    });
                });
                unroll!(COPIES, copy => {
                    if there[copy] {
                        unroll!(COLUMNS, column => {
                            add::<P>(&mut sums[column], weights[copy], raw[column][copy]);
                        });
                    }
                });
            }
            if kept == 0 {
                sums = [[0.0; MOST]; COLUMNS];
            }
            unroll!(COLUMNS, column => {
                let unit = unit + column as u32 * step;
                if unit < end && token < p.tokens {
                    P::store(p.out, out + unit as usize, P::narrow(sums[column]));
                }
            });
            unit += step * COLUMNS as u32;
            turn += step * COLUMNS as u32;
        }
    }
}

#[inline(always)]
fn add<P: Packet>(sums: &mut Floats, weight: f32, raw: P::Raw) {
    let values = P::widen(raw);
    unroll!(MOST, i => {
        if i < P::ELEMENTS {
            sums[i] = fma(weight, values[i], sums[i]);
        }
    });
}

/// The row of this lane's entry of the token, checked.
///
/// # Safety
/// All threads of the block; arrays as the parameters say.
#[inline(always)]
#[track_caller]
unsafe fn own_row<T: crate::simt::Element>(p: &CombineParams<T>, token: u32) -> u32 {
    let entry = token.wrapping_mul(p.from.top_k).wrapping_add(lane_id());
    let has_entry = token < p.tokens && lane_id() < p.from.top_k;
    // One of the threads that would tell the same.
    let tells = block_idx_y() == 0 && thread_idx_x() & ((1 << p.log2_team) - 1) < 32;
    let mut row = NO_ROW;
    // SAFETY: an entry of a token, a row below `row_count`.
    unsafe {
        if p.rows.is_null() {
            let offsets = Shared::<i32>::dynamic(0);
            fetch_offsets(&p.from, offsets, THREADS);
            sync_threads();
            let first = block_idx_x() == 0 && block_idx_y() == 0;
            check_offsets(&p.from, offsets, THREADS, p.status, first);
            if has_entry {
                let found = find(&p.from, offsets, entry);
                if tells {
                    found.report(p.status, entry, p.from.top_k);
                }
                row = found.row;
            }
            return row;
        }
        if has_entry {
            row = p.rows.load(entry as usize) as u32;
        }
        if row != NO_ROW && row >= p.from.row_count {
            if tells {
                let position = status::entry(token, lane_id());
                super::place::report(p.status, status::ROW, position, row as i32);
            }
            row = NO_ROW;
        }
        if row != NO_ROW && !p.owners.is_null() && p.owners.load(row as usize) != entry + 1 {
            row = NO_ROW;
        }
    }
    row
}
