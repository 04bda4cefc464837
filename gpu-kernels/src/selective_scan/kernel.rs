//! The selective scan's kernel.
//!
//! A block takes a sequence's channels, 8 to 32 of them, from the first time step to the
//! last, a tile of 32 time steps after the other. Its threads have one of two parts. Some
//! scan: each holds a few states of one channel in registers and leaves its share of `y`.
//! The others prepare the next tile meanwhile (step sizes and inputs as f32 pairs, B and C by
//! lanes) and finish the one before (the shares added up, skip, gate). One barrier a tile.
//!
//! Floors, for each time step of a state: one exponential, at 16 a clock and multiprocessor
//! the wall; five instructions (exponent, exponential, input, state, share of `y`), at 128 a
//! clock. For each element 50 instructions more. Bytes: `x`, `delta`, `y` once.

use super::SelectiveScanParams;
use super::arithmetic::exponent_rate;
use super::elements::{Elements, Frame};
use super::lane::Lane;
use super::layout::Layout;
use super::matrices::Matrices;
use super::params::options;
use super::policy::{STEPS, SharedLayout};
use crate::simt::thread::{block_dim_x, block_idx_x, sync_threads, thread_idx_x};
use crate::simt::{Global, async_copy};

/// Where a block's channels lie in arrays over `[.., channels, states]`.
struct States {
    /// Of this lane's first state in `[channels, states]`.
    parameter: usize,
    /// And in `[sequences, channels, states]`.
    state: usize,
    /// States of this lane that exist.
    here: u32,
}

/// # Safety
/// The buffers cover what `params` describes; launched as [`super::policy::launch`] says.
#[inline(always)]
pub unsafe fn scan<A: Layout, const S: usize, const N: usize, const U: usize>(
    params: SelectiveScanParams<A::Element>,
) {
    let log2_lanes = params.log2_lanes;
    let layout = SharedLayout::new(
        S as u32,
        log2_lanes,
        params.log2_channels,
        size_of::<A::Element>() as u32,
    );
    let scanning = 1u32 << (log2_lanes + params.log2_channels);
    let thread = thread_idx_x();
    let scans = thread < scanning;
    let sequence = block_idx_x() / (params.groups * params.channel_blocks);
    // SAFETY: the launch contract; every access below is inside it, as each step says.
    unsafe {
        let (frame, group, length) = frame::<A>(&params, sequence);
        let states = states::<S, _>(&params, &frame, sequence, thread);
        let mut lane =
            Lane::<S>::new(&layout, thread, log2_lanes, if scans { states.here } else { 0 });
        unroll!(S, s => {
            if (s as u32) < lane.here {
                let is_log = params.options & options::LOG != 0;
                lane.rates[s] = exponent_rate(params.a.load(states.parameter + s), is_log);
                if !params.h0.is_null() {
                    lane.states[s] = params.h0.load(states.state + s);
                }
            }
        });
        // Of the scanning threads these are never used.
        let other = thread.wrapping_sub(scanning);
        let elements = Elements::<A, N>::new(&params, &layout, &frame, other & 127);
        let mut matrices = Matrices::<A>::new(
            &params,
            &layout,
            (other, block_dim_x() - scanning),
            (S as u32).ilog2() + log2_lanes,
            &frame,
            group,
        );

        let tiles = length.div_ceil(u64::from(STEPS));
        let left = |tile: u64| {
            let before = tile * u64::from(STEPS);
            length.saturating_sub(before).min(u64::from(STEPS)) as u32
        };
        // Lanes that have states, and whether none has only some of its own.
        let lanes = params.states.div_ceil(S as u32);
        let full = params.states.is_multiple_of(S as u32);
        let nothing = elements.load(Global::null(), 0, 0);
        // The newest is under way, then those of the tiles before.
        let (mut x, mut delta, mut z) = ([nothing; 3], nothing, nothing);
        if !scans && tiles > 0 {
            x[0] = elements.load(params.x, 0, left(0));
            delta = elements.load(params.delta, 0, left(0));
            matrices.copy(left(0));
            async_copy::commit();
        }
        // In turn t, tile t is prepared, t - 1 scanned, t - 2 finished.
        let mut turn = 0;
        while turn < tiles + 2 {
            let buffer = turn as u32 & 1;
            if scans {
                if turn > 0 && turn <= tiles {
                    if full {
                        lane.scan::<U, true>(buffer ^ 1);
                    } else {
                        lane.scan::<4, false>(buffer ^ 1);
                    }
                }
            } else {
                if turn > 1 {
                    let tile = turn - 2;
                    elements.finish(&params, (x[2], z), tile, left(tile), buffer, lanes);
                }
                if !params.z.is_null() && turn > 0 && turn <= tiles {
                    z = elements.load(params.z, turn - 1, left(turn - 1));
                }
                (x[2], x[1]) = (x[1], x[0]);
                if turn < tiles {
                    elements.prepare(&params, (x[0], delta), left(turn), buffer);
                    let next = turn + 1;
                    x[0] = elements.load(params.x, next, left(next));
                    delta = elements.load(params.delta, next, left(next));
                    async_copy::wait::<0>();
                    matrices.lay_out::<S>(buffer);
                    if next < tiles {
                        matrices.advance();
                        matrices.copy(left(next));
                        async_copy::commit();
                    }
                }
            }
            sync_threads();
            turn += 1;
        }

        if !params.final_state.is_null() {
            unroll!(S, s => {
                if (s as u32) < lane.here {
                    params.final_state.store(states.state + s, lane.states[s]);
                }
            });
        }
    }
}

/// The block's place, its group, and the length of its sequence.
#[inline(always)]
#[track_caller]
unsafe fn frame<A: Layout>(
    params: &SelectiveScanParams<A::Element>,
    sequence: u32,
) -> (Frame, u32, u64) {
    let block = block_idx_x() % (params.groups * params.channel_blocks);
    let (group, block) = (block / params.channel_blocks, block % params.channel_blocks);
    let before = u64::from(block) << params.log2_channels;
    let (batch, start, length) = if params.offsets.is_null() {
        (u64::from(sequence), 0, params.length)
    } else {
        // Packed sequences are one batch element.
        // SAFETY: indices up to `sequences`.
        let [start, end] =
            [0, 1].map(|i| unsafe { params.offsets.load(sequence as usize + i) } as u64);
        (0, start, end - start)
    };
    let frame = Frame {
        first_channel: u64::from(group) * params.group_channels + before,
        channels: (params.group_channels - before).min(1 << params.log2_channels) as u32,
        all_channels: u64::from(params.groups) * params.group_channels,
        batch,
        start,
    };
    (frame, group, length)
}

/// Where a scanning thread's states lie.
#[inline(always)]
fn states<const S: usize, T>(
    params: &SelectiveScanParams<T>,
    frame: &Frame,
    sequence: u32,
    thread: u32,
) -> States {
    let (channel, lane) = (
        thread >> params.log2_lanes,
        thread & ((1 << params.log2_lanes) - 1),
    );
    let states = u64::from(params.states);
    let first = lane * S as u32;
    let parameter = (frame.first_channel + u64::from(channel)) * states + u64::from(first);
    let state = u64::from(sequence) * frame.all_channels * states + parameter;
    States {
        parameter: parameter as usize,
        state: state as usize,
        here: if channel < frame.channels {
            params.states.saturating_sub(first)
        } else {
            0
        },
    }
}
