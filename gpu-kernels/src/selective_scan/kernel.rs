//! The selective scan's kernel.
//!
//! A block takes a sequence's channels, 8 to 32 of them, from the first time step to the
//! last, a tile of 16 or 32 time steps after the other. Its threads have one of three parts.
//! Some scan: each holds a few states in registers and leaves its share of `y`. Meanwhile
//! others prepare the next tile (step sizes and inputs as f32 pairs, B and C by lanes), and
//! others finish the one before (the shares added up, skip, gate); or, where many blocks share a
//! multiprocessor, the same threads do both, one after the other. One barrier a tile.
//!
//! Floors, for each time step of a state: one exponential, at 16 a clock and multiprocessor
//! the wall; five instructions (exponent, exponential, input, state, share of `y`), at 128 a
//! clock. For each element 50 instructions more. Bytes: `x`, `delta`, `y` once.

use super::SelectiveScanParams;
use super::arithmetic::exponent_rate;
use super::elements::{Elements, Frame};
use super::lane::Lane;
use super::layout::ELEMENTS;
use super::layout::Layout;
use super::matrices::Matrices;
use super::params::options;
use super::policy::{SharedLayout, steps};
use crate::simt::thread::{block_idx_x, sync_threads_or, thread_idx_x};
use crate::simt::{Global, async_copy};

/// # Safety
/// The buffers cover what `params` describes; launched as [`super::policy::launch`] says.
#[inline(always)]
pub unsafe fn scan<
    A: Layout,
    const S: usize,
    const V: usize,
    const T: u32,
    const AHEAD: bool,
    const APART: bool,
>(
    params: SelectiveScanParams<A::Element>,
) {
    const { assert!(T == steps((S * V) as u32)) };
    let (log2_channels, log2_lanes) = (params.log2_channels, params.log2_lanes);
    let size = size_of::<A::Element>() as u32;
    let layout = SharedLayout::new(S as u32, T, log2_lanes, log2_channels, size);
    let scanning = (1u32 << (log2_lanes + log2_channels)) / V as u32;
    let thread = thread_idx_x();
    let scans = thread < scanning;
    let sequence = block_idx_x() / (params.groups * params.channel_blocks);
    // SAFETY: the launch contract; every access below is inside it, as each step says.
    unsafe {
        let (frame, group, length) = frame::<A>(&params, sequence);
        let (channel, lane) = (thread >> log2_lanes, thread & ((1 << log2_lanes) - 1));
        let first_state = lane * S as u32;
        let here = if scans {
            params.states.saturating_sub(first_state)
        } else {
            0
        };
        let places = ((channel, lane), (log2_channels, log2_lanes));
        let mut lane = Lane::<S, V, T>::new(&layout, places.0, places.1, here);
        // Where a channel's states lie in `[channels, states]`; nowhere, if it does not exist.
        let parameters = |v: usize| {
            let channel = channel + v as u32 * ((1 << log2_channels) / V as u32);
            let row = frame.first_channel + u64::from(channel);
            let at = row * u64::from(params.states) + u64::from(first_state);
            (channel < frame.channels).then_some(at as usize)
        };
        // And from there in `[sequences, channels, states]`.
        let states = u64::from(sequence) * frame.all_channels * u64::from(params.states);
        unroll_few!(V, v => {
            if let Some(at) = parameters(v) {
                unroll_few!(S, s => {
                    if (s as u32) < here {
                        let is_log = params.options & options::LOG != 0;
                        lane.rates[v][s] = exponent_rate(params.a.load(at + s), is_log);
                        if !params.h0.is_null() {
                            lane.states[v][s] = params.h0.load(states as usize + at + s);
                        }
                    }
                });
            }
        });
        // Of the scanning threads these are never used.
        let workers = (1u32 << log2_channels) * T / ELEMENTS as u32;
        let other = thread.wrapping_sub(scanning);
        let prepares = !scans && (!APART || other < workers);
        let finishes = !scans && (!APART || other >= workers);
        let elements = Elements::<A, T>::new(&params, &layout, &frame, other & (workers - 1));
        let mut matrices = Matrices::<A, T>::new(
            &params,
            &layout,
            // Those that finish have more time for it.
            if APART {
                (other ^ workers, 2 * workers)
            } else {
                (other, workers)
            },
            (S as u32).ilog2() + log2_lanes,
            &frame,
            group,
        );

        let tiles = length.div_ceil(u64::from(T)) as u32;
        let left = |tile: u32| {
            let before = u64::from(tile) * u64::from(T);
            length.saturating_sub(before).min(u64::from(T)) as u32
        };
        // Lanes that have states, and whether none has only some of its own.
        let lanes = params.states.div_ceil(S as u32);
        let full = params.states.is_multiple_of(S as u32);
        // What is under way: of the tile that is prepared next `x` and `delta`, and of that
        // which is finished next `x` and `z`, in the same registers if nobody has both.
        let nothing = elements.load(Global::null(), 0, 0);
        let (mut x, mut with) = (nothing, nothing);
        let (mut old_x, mut old_z) = (nothing, nothing);
        if prepares && tiles > 0 {
            x = elements.load(params.x, 0, left(0));
            with = elements.load(params.delta, 0, left(0));
        }
        if !scans && tiles > 0 {
            matrices.copy(left(0));
            async_copy::commit();
        }
        // In turn t, tile t is prepared, t - 1 scanned, t - 2 finished.
        let mut turn = 0;
        let mut more = true;
        while more {
            let buffer = turn & 1;
            if scans && turn > 0 && turn <= tiles {
                if full {
                    lane.scan::<true, AHEAD>(buffer ^ 1);
                } else {
                    lane.scan::<false, false>(buffer ^ 1);
                }
            }
            if finishes {
                if turn > 1 {
                    let tile = turn - 2;
                    let mine = if APART { (x, with) } else { (old_x, old_z) };
                    elements.finish::<S>(&params, mine, tile, left(tile), buffer, lanes);
                }
                if turn > 0 && turn <= tiles {
                    let next = turn - 1;
                    let (x, z) = if APART {
                        (&mut x, &mut with)
                    } else {
                        (&mut old_x, &mut old_z)
                    };
                    if !params.d_skip.is_null() {
                        *x = elements.load(params.x, next, left(next));
                    }
                    if !params.z.is_null() {
                        *z = elements.load(params.z, next, left(next));
                    }
                }
            }
            if prepares && turn < tiles {
                let next = turn + 1;
                elements.prepare(&params, (x, with), left(turn), buffer);
                x = elements.load(params.x, next, left(next));
                with = elements.load(params.delta, next, left(next));
            }
            if !scans && turn < tiles {
                async_copy::wait::<0>();
                matrices.lay_out::<S>(buffer);
                if turn + 1 < tiles {
                    matrices.advance();
                    matrices.copy(left(turn + 1));
                    async_copy::commit();
                }
            }
            turn += 1;
            // A vote, so that the PTX shows that all threads agree.
            more = sync_threads_or(turn < tiles + 2);
        }

        if !params.final_state.is_null() {
            unroll_few!(V, v => {
                if let Some(at) = parameters(v) {
                    unroll_few!(S, s => {
                        if (s as u32) < here {
                            let at = states as usize + at + s;
                            params.final_state.store(at, lane.states[v][s]);
                        }
                    });
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
