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

/// A lane's values as memory holds them: nothing waits for them before they are unpacked.
type Raw = [u32; 8];

/// Reads a lane's values, of which the first `here` exist; `whole` if they are `S`, on a
/// boundary of their size.
#[inline(always)]
#[track_caller]
unsafe fn load<T: Packed, const S: usize>(from: Global<T>, here: u32, whole: bool) -> Raw {
    let mut raw = [0; 8];
    let words = from.cast::<u32>();
    // SAFETY: the caller's promise.
    unsafe {
        if whole {
            match S * size_of::<T>() {
                4 => raw[0] = words.load(0),
                8 => [raw[0], raw[1]] = words.load2(0),
                16 => [raw[0], raw[1], raw[2], raw[3]] = words.load4(0),
                _ => {
                    [raw[0], raw[1], raw[2], raw[3]] = words.load4(0);
                    [raw[4], raw[5], raw[6], raw[7]] = words.load4(4);
                }
            }
        } else {
            let in_word = 4 / size_of::<T>();
            unroll_few!(S, s => {
                if (s as u32) < here {
                    raw[s / in_word] |= from.load(s).to_word() << (16 * (s % in_word));
                }
            });
        }
    }
    raw
}

#[inline(always)]
fn unpack<T: Packed, const S: usize>(raw: &Raw) -> [f32; S] {
    let mut values = [0.0; S];
    let first = T::unpack([raw[0], raw[1], raw[2], raw[3]]);
    let second = T::unpack([raw[4], raw[5], raw[6], raw[7]]);
    unroll_few!(S, s => {
        values[s] = if s < T::CHUNK { first[s] } else { second[s - T::CHUNK.min(s)] };
    });
    values
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
        let (mut b, mut c) = ([[0; 8]; ROWS], [[0; 8]; ROWS]);
        unroll_few!(ROWS, r => {
            if let Some(row) = element(r) {
                let at = (row * all_channels + channel) * states;
                let from = params.state.add(at as usize + first_state as usize);
                state[r] = unpack::<f32, S>(&load::<f32, S>(from, here, whole));
                let matrix = (row * u64::from(params.groups) + group) * states;
                let matrix = matrix as usize + first_state as usize;
                b[r] = load::<T, S>(params.b.add(matrix), here, whole);
                c[r] = load::<T, S>(params.c.add(matrix), here, whole);
            }
        });
        // The first lanes have a row each: they prepare it for all lanes, and finish it.
        let own = element(lane as usize).filter(|_| lane < STEP_ROWS);
        let own = own.map(|row| (row * all_channels + channel) as usize);
        let (mut x, mut delta, mut z) = (0, 0, 0);
        if let Some(at) = own {
            x = params.x.load(at).to_word();
            delta = params.delta.load(at).to_word();
            if !params.z.is_null() {
                z = params.z.load(at).to_word();
            }
        }
        let mut rates = [0.0; S];
        let (mut bias, mut skip) = (0.0, 0.0);
        if exists {
            let a = params
                .a
                .add((channel * states) as usize + first_state as usize);
            rates = unpack::<f32, S>(&load::<f32, S>(a, here, whole));
            if !params.delta_bias.is_null() {
                bias = params.delta_bias.load(channel as usize);
            }
            if !params.d_skip.is_null() {
                skip = params.d_skip.load(channel as usize);
            }
        }
        // All loads are under way; the rates of states that do not exist do not matter.
        let is_log = params.options & options::LOG != 0;
        unroll_few!(S, s => { rates[s] = exponent_rate(rates[s], is_log); });
        let [x, delta, z] = [x, delta, z].map(|word| T::from_word(word).to_f32());
        let mut delta = delta + bias;
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
            let (b, c): ([f32; S], [f32; S]) = (unpack::<T, S>(&b[r]), unpack::<T, S>(&c[r]));
            unroll_few!(S, s => {
                let decay = exp2_approx(delta * rates[s]);
                let next = fma(decay, state[r][s], input * b[s]);
                state[r][s] = if (s as u32) < here { next } else { 0.0 };
            });
            let share = share(|s| c[s % S], &state[r]);
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
