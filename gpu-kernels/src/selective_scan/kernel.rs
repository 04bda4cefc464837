//! The selective scan's kernel.
//!
//! A block takes a sequence's channels, 8 to 32 of them, from the first time step to the
//! last, a tile of 16 or 32 time steps after the other. Its threads have one of three parts.
//! Some scan: each holds a few states in registers and leaves its share of `y`. Meanwhile
//! others prepare the next tile (step sizes and inputs as f32 pairs, B and C by lanes), and
//! others finish the one before (the shares added up, skip, gate). One barrier a tile.
//!
//! Floors, for each time step of a state: one exponential, at 16 a clock and multiprocessor
//! the wall; five instructions (exponent, exponential, input, state, share of `y`), at 128 a
//! clock. For each element 50 instructions more. Bytes: `x`, `delta`, `y` once.

use super::SelectiveScanParams;
use super::elements::{Elements, Frame};
use super::lane::Lane;
use super::layout::{ELEMENTS, Layout};
use super::matrices::{Matrices, direct};
use super::policy::SharedLayout;
use super::split;
use super::states::States;
use crate::simt::async_copy;
use crate::simt::thread::{block_idx_x, sync_threads_or, thread_idx_x};
use core::mem::MaybeUninit;

/// # Safety
/// The buffers cover what `params` describes; launched as [`super::policy::launch`] says.
#[inline(always)]
pub unsafe fn scan<A: Layout, const S: usize, const V: usize, const T: u32, const AHEAD: bool>(
    params: SelectiveScanParams<A::Element>,
) {
    let (log2_channels, log2_lanes) = (params.log2_channels, params.log2_lanes);
    let size = size_of::<A::Element>() as u32;
    let layout = SharedLayout::new(S as u32, T, log2_lanes, log2_channels, size);
    let scanning = (1u32 << (log2_lanes + log2_channels)) / V as u32;
    let thread = thread_idx_x();
    let scans = thread < scanning;
    let sequence = sequence(&params);
    // SAFETY: the launch contract; every access below is inside it, as each step says.
    unsafe {
        let (frame, group, length) = frame::<A>(&params, sequence);
        if split::is_done(&params, &frame, group, sequence) {
            return;
        }
        let (channel, lane) = (thread >> log2_lanes, thread & ((1 << log2_lanes) - 1));
        let states = States::<V> {
            channel,
            channel_stride: (1 << log2_channels) / V as u32,
            first_state: lane * S as u32,
            sequence,
        };
        let here = if scans {
            params.states.saturating_sub(states.first_state)
        } else {
            0
        };
        let places = ((channel, lane), (log2_channels, log2_lanes));
        let mut lane = Lane::<S, V, T>::new(&layout, places.0, places.1, here);
        states.read(&params, &frame, &mut lane);
        // Of the scanning threads these are never used.
        let workers = (1u32 << log2_channels) * T / ELEMENTS as u32;
        let other = thread.wrapping_sub(scanning);
        let prepares = !scans && other < workers;
        let finishes = !scans && other >= workers;
        let elements = Elements::<A, T, false>::new(
            &params,
            &layout,
            (&frame, length),
            (other & (workers - 1), log2_channels, log2_lanes),
        );
        let mut matrices = Matrices::<A, T>::new(
            &params,
            &layout,
            // Those that finish have more time for it.
            (other ^ workers, 2 * workers),
            (S as u32).ilog2() + log2_lanes,
            &frame,
            group,
        );

        let tiles = length.div_ceil(u64::from(T)) as u32;
        // Lanes that have states, and whether none has only some of its own.
        let lanes = params.states.div_ceil(S as u32);
        let full = params.states.is_multiple_of(S as u32);
        // What is under way: of the tile that is prepared next `x` and `delta`, or of that
        // which is finished next `x` and `z`; and where in the tensors.
        let (mut x, mut with) = ([0; ELEMENTS], [0; ELEMENTS]);
        let mut index = elements.first;
        if prepares && tiles > 0 {
            x = elements.load(params.x, index, 0);
            with = elements.load(params.delta, index, 0);
        }
        if !scans && tiles > 0 && !direct::<A, S>() {
            matrices.copy::<S>(elements.left(0), 0);
            async_copy::commit();
        }
        // In turn t, tile t is prepared, t - 1 scanned, t - 2 finished.
        let mut turn = 0;
        let mut more = tiles > 0;
        while more {
            let buffer = turn & 1;
            if scans && turn > 0 && turn <= tiles {
                if full {
                    lane.scan::<true, AHEAD>(buffer ^ 1);
                } else {
                    lane.scan::<false, false>(buffer ^ 1);
                }
            }
            if !scans && turn < tiles && direct::<A, S>() {
                matrices.copy::<S>(elements.left(turn), buffer);
                async_copy::commit();
            }
            if finishes {
                if turn > 1 {
                    let sums = elements.sums::<S>(log2_lanes, (buffer, lanes));
                    let mine = (&elements.values(&x), MaybeUninit::new(with));
                    let place = (index, turn - 2);
                    elements.finish(&params, sums, mine, place);
                    index += elements.tile_stride;
                }
                if turn > 0 && turn <= tiles {
                    let tile = turn - 1;
                    if !params.d_skip.is_null() {
                        x = elements.load(params.x, index, tile);
                    }
                    if !params.z.is_null() {
                        with = elements.load(params.z, index, tile);
                    }
                }
            }
            if prepares && turn < tiles {
                elements.prepare(&params, (&elements.values(&x), &with), turn, buffer);
                index += elements.tile_stride;
                x = elements.load(params.x, index, turn + 1);
                with = elements.load(params.delta, index, turn + 1);
            }
            if !scans && turn < tiles {
                async_copy::wait::<0>();
                matrices.advance();
                if !direct::<A, S>() {
                    matrices.lay_out::<S>(buffer);
                    if turn + 1 < tiles {
                        matrices.copy::<S>(elements.left(turn + 1), 0);
                        async_copy::commit();
                    }
                }
            }
            turn += 1;
            // A vote, so that the PTX shows that all threads agree.
            more = sync_threads_or(turn < tiles + 2);
        }

        if scans {
            states.write(&params, &frame, &lane);
        }
    }
}

/// The block's sequence: if sequences are split, blocks of the same segment follow each other.
#[inline(always)]
pub(super) fn sequence<T>(params: &SelectiveScanParams<T>) -> u32 {
    block_idx_x() / (params.groups * params.channel_blocks) % params.sequences
}

/// The block's place, its group, and the length of its sequence.
#[inline(always)]
#[track_caller]
pub(super) unsafe fn frame<A: Layout>(
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
