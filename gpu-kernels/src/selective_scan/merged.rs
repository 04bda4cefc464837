//! The selective scan's kernel for many channels: every thread has all parts.
//!
//! A thread holds 4 states of each of two channels, and prepares and finishes its share of the
//! elements of a tile of 16 time steps. Its block is 128 threads, 64 channels: several blocks on
//! a multiprocessor, each at another part of its turn, keep the special-function unit, the
//! multiply-adds and shared memory busy at once. Two barriers a tile.
//!
//! Costs, for each time step of a state: one exponential (the wall, 16 a clock and
//! multiprocessor); five instructions; 8 bytes between shared memory and registers (128 a clock)
//! where one channel a thread takes 12.

use super::SelectiveScanParams;
use super::elements::Elements;
use super::kernel::{frame, sequence};
use super::lane::Lane;
use super::layout::{ELEMENTS, Layout};
use super::matrices::{Matrices, direct};
use super::policy::{Cut, Kernel, SharedLayout};
use super::split::{self, Segment};
use super::states::States;
use crate::simt::thread::{opaque, sync_threads, sync_threads_or, thread_idx_x};
use crate::simt::{Shared, async_copy};
use core::mem::MaybeUninit;

/// # Safety
/// The buffers cover what `params` describes; launched as [`super::policy::launch`] says.
#[inline(always)]
pub unsafe fn merged<A: Layout, const S: usize, const V: usize, const T: u32>(
    params: SelectiveScanParams<A::Element>,
) {
    // So that a tile has `ELEMENTS` for each thread of 4 lanes.
    const { assert!(T == Kernel::Merged.steps() && T * V as u32 == 4 * ELEMENTS as u32) };
    const { assert!(Cut::MERGED.lane_states == S as u32 && Cut::MERGED.thread_channels == V as u32) };
    // Not the parameters: so all places in shared memory are constants.
    let (log2_channels, log2_lanes) =
        const { (Cut::MERGED.log2_channels(), Cut::MERGED.log2_lanes) };
    let size = size_of::<A::Element>() as u32;
    let layout = SharedLayout::new(S as u32, T, log2_lanes, log2_channels, size);
    let layout = layout.merged(T, log2_channels);
    let threads = (1u32 << (log2_lanes + log2_channels)) / V as u32;
    let thread = thread_idx_x();
    let sequence = sequence(&params);
    // SAFETY: the launch contract; every access below is inside it, as each part says.
    unsafe {
        let (mut frame, group, length) = frame::<A>(&params, sequence);
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
        let here = params.states.saturating_sub(states.first_state);
        let places = ((channel, lane), (log2_channels, log2_lanes));
        let mut lane = Lane::<S, V, T>::new(&layout, places.0, places.1, here);
        let segment = Segment::new(&params, T, length);
        // The elements begin with the tiles that the warm-up may take.
        let most = segment.most(params.segment_tiles);
        // Later segments begin from zeros.
        let h0 = segment.initial(params.h0);
        let read = SelectiveScanParams { h0, ..params };
        states.read(&read, &frame, &mut lane);

        frame.start += segment.first - u64::from(most) * u64::from(T);
        let elements = Elements::<A, T, true>::new(
            &params,
            &layout,
            (&frame, u64::from(most) * u64::from(T) + segment.length),
            (thread, log2_channels, log2_lanes),
        );
        let mut begin = Some(0);
        if most > 0 {
            begin = split::warm_up(&params, &elements, (&states, &lane), frame.channels, most);
        }
        let mut gave_up = begin.is_none();
        if gave_up {
            segment.give_up(&params);
        }
        let begin = begin.unwrap_or(most);
        frame.start += u64::from(begin) * u64::from(T);
        let log2_states = (S as u32).ilog2() + log2_lanes;
        let ours = (thread, threads);
        let mut matrices =
            Matrices::<A, T>::new(&params, &layout, ours, log2_states, &frame, group);

        let tiles = most + segment.length.div_ceil(u64::from(T)) as u32;
        let lanes = params.states.div_ceil(S as u32);
        let full = params.states.is_multiple_of(S as u32);
        // Index of the thread's first element.
        let mut index = elements.first + u64::from(begin) * elements.tile_stride;
        let leaves = if segment.index > 0 { most } else { u32::MAX };
        let mut tile = begin;
        let mut stop = gave_up || tile == tiles;
        let (mut x, mut delta) = ([0; ELEMENTS], [0; ELEMENTS]);
        if !stop {
            x = elements.load(params.x, index, tile);
            delta = elements.load(params.delta, index, tile);
            matrices.copy::<S>(elements.left(tile), tile & 1);
            async_copy::commit();
        }
        while !stop {
            let next = tile + 1;
            if tile == leaves {
                segment.leave(&params, &lane, false);
            }
            let in_vain = segment.is_in_vain(&params);
            async_copy::wait::<0>();
            let buffer = tile & 1;
            matrices.forget();
            if !direct::<A, S>() {
                matrices.lay_out::<S>(buffer);
            }
            let values = elements.values(&x);
            elements.prepare(&params, (&values, &delta), tile, 0);
            elements.keep(layout.inputs, thread, &values);
            if next < tiles {
                matrices.advance();
                matrices.copy::<S>(elements.left(next), buffer ^ 1);
                async_copy::commit();
            }
            sync_threads();
            if full {
                lane.scan_close::<true>(buffer);
            } else {
                lane.scan_close::<false>(buffer);
            }
            // A vote, so that the PTX shows that all threads agree.
            stop = sync_threads_or(next == tiles || in_vain);
            let mut z = MaybeUninit::uninit();
            if !params.z.is_null() {
                z.write(elements.load(params.z, index, tile));
            }
            let sums = elements.sums::<S>(log2_lanes, (0, lanes));
            // Opaque: else every element's address would be kept in registers.
            let next_index = opaque(index + elements.tile_stride);
            // Not while the tile is scanned: that needs the registers. Other blocks have work.
            x = elements.load(params.x, next_index, next);
            delta = elements.load(params.delta, next_index, next);
            let kept = elements.kept(layout.inputs, thread);
            if tile >= most {
                elements.finish(&params, sums, (&kept, z), (index, tile));
            }
            (tile, index) = (next, next_index);
        }
        if params.segments > 1 {
            // If it stopped early.
            async_copy::wait::<0>();
            gave_up |= tile < tiles;
            let scans = (&states, &mut lane);
            let free = Shared::dynamic(layout.sums);
            segment.close(&params, &frame, scans, gave_up, free);
        } else {
            states.write(&params, &frame, &lane);
        }
    }
}
