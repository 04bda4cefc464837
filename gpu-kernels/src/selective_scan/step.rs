//! The kernel of one time step: decoding.
//!
//! The state is read and written once, and it is nearly all the bytes there are: the memory
//! is the wall. A thread holds one lane's states of a channel in four batch elements, so
//! that 64 bytes a thread are under way, and the decay rates serve four times.
//!
//! Each element takes the scan's arithmetic in the scan's order: a step's
//! state and output are bit for bit those of a scan over the same time steps.

use super::SelectiveScanStepParams;
use super::arithmetic::{add_shares, exponent_rate, share, silu};
use super::layout::Packed;
use super::params::options;
use super::policy::{STEP_BLOCK, STEP_ROWS};
use crate::simt::Global;
use crate::simt::math::{exp2_approx, fma};
use crate::simt::thread::{block_idx_x, lane_id, thread_idx_x};
use crate::simt::warp::{FULL_MASK, shuffle_idx, shuffle_xor};

const ROWS: usize = STEP_ROWS as usize;

/// Reads a lane's values, of which the first `here` exist; `whole` if they are `S`, on a
/// boundary of their size.
#[inline(always)]
#[track_caller]
unsafe fn load<T: Packed, const S: usize>(from: Global<T>, here: u32, whole: bool) -> [f32; S] {
    let mut values = [0.0; S];
    let words = from.cast::<u32>();
    // SAFETY: the caller's promise.
    unsafe {
        if whole {
            match S * size_of::<T>() {
                4 => put(&mut values, 0, T::unpack([words.load(0), 0, 0, 0])),
                8 => {
                    let [low, high] = words.load2(0);
                    put(&mut values, 0, T::unpack([low, high, 0, 0]));
                }
                16 => put(&mut values, 0, T::unpack(words.load4(0))),
                _ => {
                    put(&mut values, 0, T::unpack(words.load4(0)));
                    put(&mut values, S / 2, T::unpack(words.load4(4)));
                }
            }
        } else {
            unroll_few!(S, s => {
                if (s as u32) < here {
                    values[s] = from.load(s).to_f32();
                }
            });
        }
    }
    values
}

/// Puts the first of `from` where `to` goes on from `first`.
#[inline(always)]
fn put<const S: usize>(to: &mut [f32; S], first: usize, from: [f32; 8]) {
    unroll_few!(S, s => {
        if s >= first {
            to[s] = from[s - first];
        }
    });
}

/// The opposite of [`load`], of states.
#[inline(always)]
#[track_caller]
unsafe fn store<const S: usize>(to: Global<f32>, here: u32, whole: bool, values: [f32; S]) {
    // SAFETY: the caller's promise.
    unsafe {
        if whole && S == 2 {
            to.store2(0, [values[0], values[1 % S]]);
        } else if whole {
            unroll_few!(S / 4, i => {
                let mut four = [0.0; 4];
                unroll_few!(4, j => { four[j] = values[(4 * i + j) % S]; });
                to.store4(4 * i, four);
            });
        } else {
            unroll_few!(S, s => {
                if (s as u32) < here {
                    to.store(s, values[s]);
                }
            });
        }
    }
}

/// # Safety
/// The buffers cover what `params` describes; launched as [`super::policy::step_launch`] says.
#[inline(always)]
pub unsafe fn step<T: Packed, const S: usize>(params: SelectiveScanStepParams<T>) {
    let log2_lanes = params.log2_lanes;
    let all_channels = u64::from(params.groups) * params.group_channels;
    let (rows, columns) = (
        block_idx_x() / params.channel_blocks,
        block_idx_x() % params.channel_blocks,
    );
    let thread = u64::from(columns) * u64::from(STEP_BLOCK) + u64::from(thread_idx_x());
    let lane = thread as u32 & ((1 << log2_lanes) - 1);
    let channel = thread >> log2_lanes;
    let first_row = u64::from(rows) * u64::from(STEP_ROWS);
    let exists = channel < all_channels;
    let group = if params.groups == 1 || !exists {
        0
    } else {
        channel / params.group_channels
    };
    let states = u64::from(params.states);
    let first_state = lane * S as u32;
    let here = if exists {
        params.states.saturating_sub(first_state)
    } else {
        0
    };
    let whole = here > 0 && params.states.is_multiple_of(S as u32);
    // SAFETY: the launch contract; every access below is of what exists.
    unsafe {
        let element = |row: usize| {
            let row = first_row + row as u64;
            (exists && row < params.batch).then_some(row)
        };
        let mut state = [[0.0; S]; ROWS];
        let (mut b, mut c) = ([[0.0; S]; ROWS], [[0.0; S]; ROWS]);
        unroll_few!(ROWS, r => {
            if let Some(row) = element(r) {
                let at = (row * all_channels + channel) * states;
                state[r] = load(params.state.add(at as usize + first_state as usize), here, whole);
                let matrix = (row * u64::from(params.groups) + group) * states;
                let matrix = matrix as usize + first_state as usize;
                b[r] = load(params.b.add(matrix), here, whole);
                c[r] = load(params.c.add(matrix), here, whole);
            }
        });
        // The first lanes have a row each: they prepare it for all lanes, and finish it.
        let own = element(lane as usize).filter(|_| lane < STEP_ROWS);
        let own = own.map(|row| (row * all_channels + channel) as usize);
        let (mut x, mut delta, mut z) = (0.0, 0.0, 0.0);
        if let Some(at) = own {
            x = params.x.load(at).to_f32();
            delta = params.delta.load(at).to_f32();
            if !params.z.is_null() {
                z = params.z.load(at).to_f32();
            }
        }
        let is_log = params.options & options::LOG != 0;
        let mut rates = [0.0; S];
        let (mut bias, mut skip) = (0.0, 0.0);
        if exists {
            let a = params
                .a
                .add((channel * states) as usize + first_state as usize);
            rates = load(a, here, whole);
            unroll_few!(S, s => {
                if (s as u32) < here {
                    rates[s] = exponent_rate(rates[s], is_log);
                }
            });
            if !params.delta_bias.is_null() {
                bias = params.delta_bias.load(channel as usize);
            }
            if !params.d_skip.is_null() {
                skip = params.d_skip.load(channel as usize);
            }
        }
        delta += bias;
        if params.options & options::SOFTPLUS != 0 {
            delta = T::softplus(delta);
        }
        let input = delta * x;
        let lanes = params.states.div_ceil(S as u32);
        let first_lane = lane_id() & !((1 << log2_lanes) - 1);
        let mut shares = [0.0; ROWS];
        unroll_few!(ROWS, r => {
            let delta = shuffle_idx::<32, f32>(FULL_MASK, delta, first_lane + r as u32);
            let input = shuffle_idx::<32, f32>(FULL_MASK, input, first_lane + r as u32);
            unroll_few!(S, s => {
                let decay = exp2_approx(delta * rates[s]);
                let next = fma(decay, state[r][s], input * b[r][s]);
                state[r][s] = if (s as u32) < here { next } else { 0.0 };
            });
            let share = share(|s| c[r][s % S], &state[r]);
            if let Some(row) = element(r) {
                let at = (row * all_channels + channel) * states;
                let to = params.state.add(at as usize + first_state as usize);
                store(to, here, whole, state[r]);
            }
            shares[r] = share;
        });
        let y = if S == 4 && log2_lanes == 2 {
            sum_of_four(shares, lane, lanes)
        } else {
            sum::<S>(shares, lane, first_lane, lanes)
        };
        if let Some(at) = own {
            let mut y = y;
            if !params.d_skip.is_null() {
                y = fma(skip, x, y);
            }
            if !params.z.is_null() {
                y *= silu(z);
            }
            params.y.store(at, T::from_f32(y));
        }
    }
}

/// Row `lane`'s sum of the shares of the first `lanes` lanes from `first_lane` on.
#[inline(always)]
#[track_caller]
fn sum<const S: usize>(shares: [f32; ROWS], lane: u32, first_lane: u32, lanes: u32) -> f32 {
    let mut y = 0.0;
    unroll_few!(ROWS, r => {
        let mut sum = -0.0;
        let mut first = 0;
        while first < lanes {
            let four = [0, 1, 2, 3].map(|l| {
                shuffle_idx::<32, f32>(FULL_MASK, shares[r], first_lane + first + l)
            });
            add_shares::<S, false>(&mut sum, four, first, lanes);
            first += 4;
        }
        if lane == r as u32 {
            y = sum;
        }
    });
    y
}

/// The same for 4 lanes of 4 states: each lane passes on what others need of two rows, then of
/// one, and the sums are those of the same pairs.
#[inline(always)]
#[track_caller]
fn sum_of_four(shares: [f32; ROWS], lane: u32, lanes: u32) -> f32 {
    let (odd, upper) = (lane & 1 != 0, lane & 2 != 0);
    let pair = |even_row: usize| {
        let (even, odd_row) = (shares[even_row % ROWS], shares[(even_row + 1) % ROWS]);
        let (keep, pass) = if odd {
            (odd_row, even)
        } else {
            (even, odd_row)
        };
        keep + shuffle_xor::<32, f32>(FULL_MASK, pass, 1)
    };
    let (low, high) = (pair(0), pair(2));
    let (keep, pass) = if upper { (high, low) } else { (low, high) };
    let other = shuffle_xor::<32, f32>(FULL_MASK, pass, 2);
    match (lanes > 2, upper) {
        (true, _) => keep + other,
        (false, true) => other,
        (false, false) => keep,
    }
}
