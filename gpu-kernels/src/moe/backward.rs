//! Gradients of the combine: each packed row from its token, and each weight from both.
//!
//! A warp has one entry: it reads its token's gradient (the warps of a block share it in the
//! caches) and its packed row, writes the packed row's gradient, and sums the products, 16
//! bytes of a lane after the other, lanes by halves: one fixed order. It also zeroes the
//! rows it looks after that nobody claims. Bytes: `(2 * R + T) * H` elements, two products
//! for each of R * H.

use super::CombineBackwardParams;
use super::packet::{MOST, Packet};
use super::policy::combine::THREADS;
use super::rank::of_lane;
use super::slots::NO_ROW;
use super::status;
use crate::simt::math::fma;
use crate::simt::thread::{block_idx_x, lane_id, thread_idx_x};
use crate::simt::warp::{FULL_MASK, WARP_SIZE, ballot, shuffle_xor};

/// Units that a lane reads at once of each array.
const AT_ONCE: usize = 4;

/// Computes both gradients.
///
/// # Safety
/// Launched as the policy says; arrays as the parameters say.
#[inline(always)]
pub unsafe fn combine<P: Packet>(p: CombineBackwardParams<P::Element>) {
    let team = block_idx_x() * (THREADS / WARP_SIZE) + thread_idx_x() / WARP_SIZE;
    // SAFETY: an entry, rows below `row_count`, each with one entry or none.
    unsafe {
        zero::<P>(&p, team);
        if team >= p.entries {
            return;
        }
        let (entry, token) = (team as usize, team / p.top_k);
        let mut row = p.rows.load(entry) as u32;
        if row != NO_ROW && row >= p.row_count {
            tell(&p, status::ROW, team, row);
            row = NO_ROW;
        }
        if row != NO_ROW && p.claimed != 0 && p.sources.load(row as usize) != team + 1 {
            tell(&p, status::CLAIMED, team, row);
            row = NO_ROW;
        }
        let mut sum = 0.0;
        if row != NO_ROW {
            let mut weight = 1.0;
            if !p.weights.is_null() {
                weight = p.weights.load(entry);
            }
            sum = gradients::<P>(&p, token, row, weight);
        }
        if !p.grad_weights.is_null() {
            unroll!(5, i => {
                sum += shuffle_xor::<32, f32>(FULL_MASK, sum, 16 >> i);
            });
            if lane_id() == 0 {
                p.grad_weights.store(entry, sum);
            }
        }
    }
}

/// Writes the gradient of a row; this lane's part of the weight's.
///
/// # Safety
/// Token and row lie in their arrays; the row is this warp's.
#[inline(always)]
#[track_caller]
unsafe fn gradients<P: Packet>(
    p: &CombineBackwardParams<P::Element>,
    token: u32,
    row: u32,
    weight: f32,
) -> f32 {
    let token = token as usize * p.row_units as usize;
    let row = row as usize * p.row_units as usize;
    let wants = !p.grad_weights.is_null();
    let mut sum = 0.0;
    let mut unit = lane_id();
    while unit < p.row_units {
        let mut grads = [P::NOTHING; AT_ONCE];
        let mut values = [P::NOTHING; AT_ONCE];
        // SAFETY: units of the two rows.
        unsafe {
            unroll!(AT_ONCE, i => {
                let unit = unit + i as u32 * WARP_SIZE;
                if unit < p.row_units {
                    grads[i] = P::load(p.grad_out, token + unit as usize);
                    if wants {
                        values[i] = P::load(p.packed, row + unit as usize);
                    }
                }
            });
            unroll!(AT_ONCE, i => {
                let unit = unit + i as u32 * WARP_SIZE;
                if unit < p.row_units {
                    let (mut grad, value) = (P::widen(grads[i]), P::widen(values[i]));
                    unroll!(MOST, j => {
                        if j < P::ELEMENTS {
                            sum = fma(value[j], grad[j], sum);
                            grad[j] *= weight;
                        }
                    });
                    P::store(p.grad_packed, row + unit as usize, P::narrow(grad));
                }
            });
        }
        unit += WARP_SIZE * AT_ONCE as u32;
    }
    sum
}

/// Zeroes the rows that this warp looks after and nobody claims.
///
/// # Safety
/// The whole warp; arrays as the parameters say.
#[inline(always)]
#[track_caller]
unsafe fn zero<P: Packet>(p: &CombineBackwardParams<P::Element>, team: u32) {
    let watched = u64::from(team) * u64::from(p.rows_per_team) + u64::from(lane_id());
    let nobody = if p.claimed != 0 { 0 } else { u32::MAX };
    let mut empty = lane_id() < p.rows_per_team && watched < u64::from(p.row_count);
    // SAFETY: rows below `source_count`; nobody else writes a row that nobody claims.
    unsafe {
        if empty && watched < u64::from(p.source_count) {
            empty = p.sources.load(watched as usize) == nobody;
        }
        let mut empties = ballot(FULL_MASK, empty);
        while empties != 0 {
            let row = of_lane(watched as u32, empties.trailing_zeros());
            empties &= empties - 1;
            let mut unit = lane_id();
            while unit < p.row_units {
                let at = row as usize * p.row_units as usize + unit as usize;
                P::store(p.grad_packed, at, P::narrow([0.0; MOST]));
                unit += WARP_SIZE;
            }
        }
    }
}

/// Tells of a fault of an entry.
///
/// # Safety
/// The whole warp.
#[inline(always)]
#[track_caller]
unsafe fn tell<T: crate::simt::Element>(
    p: &CombineBackwardParams<T>,
    kind: usize,
    entry: u32,
    row: u32,
) {
    if lane_id() == 0 {
        let position = status::entry(entry / p.top_k, entry % p.top_k);
        // SAFETY: the status words.
        unsafe { super::place::report(p.status, kind, position, row as i32) };
    }
}
