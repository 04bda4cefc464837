//! The kernel of one time step: decoding.
//!
//! The state is read and written once, and it is nearly all the bytes there are: the memory
//! is the wall. A thread holds one lane's states of a channel in four batch elements, so
//! that 64 bytes a thread are under way, and the decay rates serve four times.
//!
//! Each element takes the scan's arithmetic in the scan's order, lane after lane: a step's
//! state and output are bit for bit those of a scan over the same time steps.

use super::SelectiveScanStepParams;
use super::arithmetic::{exponent_rate, silu, step_size};
use super::params::options;
use super::policy::{STEP_BLOCK, STEP_ROWS};
use crate::simt::math::{exp2_approx, fma};
use crate::simt::thread::{block_idx_x, lane_id, thread_idx_x};
use crate::simt::warp::{FULL_MASK, shuffle_idx};
use crate::simt::{Element, Global};

/// Indices are taken modulo this, because a loop's code has indices past its end.
const ROWS: usize = STEP_ROWS as usize;

/// Reads a lane's states, of which the first `here` exist; `whole` if they are `S`, on a
/// boundary of their size.
#[inline(always)]
#[track_caller]
unsafe fn load<const S: usize>(from: Global<f32>, here: u32, whole: bool) -> [f32; S] {
    let mut values = [0.0; S];
    // SAFETY: the caller's promise.
    unsafe {
        if whole && S == 2 {
            [values[0], values[1 % S]] = from.load2(0);
        } else if whole {
            unroll!(S / 4, i => {
                let four = from.load4(4 * i);
                unroll!(4, j => { values[(4 * i + j) % S] = four[j]; });
            });
        } else {
            unroll!(S, s => {
                if (s as u32) < here {
                    values[s] = from.load(s);
                }
            });
        }
    }
    values
}

/// The opposite of [`load`].
#[inline(always)]
#[track_caller]
unsafe fn store<const S: usize>(to: Global<f32>, here: u32, whole: bool, values: [f32; S]) {
    // SAFETY: the caller's promise.
    unsafe {
        if whole && S == 2 {
            to.store2(0, [values[0], values[1 % S]]);
        } else if whole {
            unroll!(S / 4, i => {
                let mut four = [0.0; 4];
                unroll!(4, j => { four[j] = values[(4 * i + j) % S]; });
                to.store4(4 * i, four);
            });
        } else {
            unroll!(S, s => {
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
pub unsafe fn step<T: Element, const S: usize>(params: SelectiveScanStepParams<T>) {
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
        let mut state = [[0.0; S]; ROWS];
        let (mut x, mut delta) = ([0.0; ROWS], [0.0; ROWS]);
        let (mut b, mut c) = ([[0.0; S]; ROWS], [[0.0; S]; ROWS]);
        let element = |row: usize| {
            let row = first_row + row as u64;
            (exists && row < params.batch).then_some(row)
        };
        unroll!(STEP_ROWS as usize, r => {
            if let Some(row) = element(r) {
                let at = row * all_channels + channel;
                let from = params.state.add((at * states) as usize + first_state as usize);
                state[r % ROWS] = load(from, here, whole);
                x[r % ROWS] = params.x.load(at as usize).to_f32();
                delta[r % ROWS] = params.delta.load(at as usize).to_f32();
                let matrix = (row * u64::from(params.groups) + group) * states;
                let matrix = matrix as usize + first_state as usize;
                unroll!(S, s => {
                    if (s as u32) < here {
                        b[r % ROWS][s] = params.b.load(matrix + s).to_f32();
                        c[r % ROWS][s] = params.c.load(matrix + s).to_f32();
                    }
                });
            }
        });
        let is_log = params.options & options::LOG != 0;
        let softplus = params.options & options::SOFTPLUS != 0;
        let mut rates = [0.0; S];
        let (mut bias, mut skip) = (0.0, 0.0);
        if exists {
            let a = params
                .a
                .add((channel * states) as usize + first_state as usize);
            rates = load(a, here, whole);
            unroll!(S, s => {
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
        let lanes = params.states.div_ceil(S as u32);
        let first_lane = lane_id() & !((1 << log2_lanes) - 1);
        unroll!(STEP_ROWS as usize, row => {
            let r = row % ROWS;
            let delta = step_size(delta[r], bias, softplus);
            let input = delta * x[r];
            let mut share = 0.0;
            unroll!(S, s => {
                let decay = exp2_approx(delta * rates[s]);
                let next = fma(decay, state[r][s], input * b[r][s]);
                state[r][s] = if (s as u32) < here { next } else { 0.0 };
                share = if s == 0 {
                    c[r][s] * state[r][s]
                } else {
                    fma(c[r][s], state[r][s], share)
                };
            });
            let mut y = shuffle_idx::<32, f32>(FULL_MASK, share, first_lane);
            let mut other = 1;
            while other < lanes {
                y += shuffle_idx::<32, f32>(FULL_MASK, share, first_lane + other);
                other += 1;
            }
            if let Some(row) = element(row) {
                let at = row * all_channels + channel;
                let to = params.state.add((at * states) as usize + first_state as usize);
                store(to, here, whole, state[r]);
                if lane == 0 {
                    if !params.d_skip.is_null() {
                        y = fma(skip, x[r], y);
                    }
                    if !params.z.is_null() {
                        y *= silu(params.z.load(at as usize).to_f32());
                    }
                    params.y.store(at as usize, T::from_f32(y));
                }
            }
        });
    }
}
