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
use super::kernel::frame;
use super::lane::Lane;
use super::layout::{ELEMENTS, Layout};
use super::matrices::{Matrices, direct};
use super::policy::{Cut, Kernel, SharedLayout};
use super::states::States;
use crate::simt::async_copy;
use crate::simt::thread::{block_idx_x, opaque, sync_threads, sync_threads_or, thread_idx_x};
use core::mem::MaybeUninit;

/// The only cut that has this kernel.
const CUT: Cut = Cut {
    kernel: Kernel::Merged,
    lane_states: 4,
    thread_channels: 2,
    log2_lanes: 2,
};

/// # Safety
/// The buffers cover what `params` describes; launched as [`super::policy::launch`] says.
#[inline(always)]
pub unsafe fn merged<A: Layout, const S: usize, const V: usize, const T: u32>(
    params: SelectiveScanParams<A::Element>,
) {
    // So that a tile has `ELEMENTS` for each thread of 4 lanes.
    const { assert!(T == Kernel::Merged.steps() && T * V as u32 == 4 * ELEMENTS as u32) };
    const { assert!(CUT.lane_states == S as u32 && CUT.thread_channels == V as u32) };
    // Not the parameters: so all places in shared memory are constants.
    let (log2_channels, log2_lanes) = const { (CUT.log2_channels(), CUT.log2_lanes) };
    let size = size_of::<A::Element>() as u32;
    let layout = SharedLayout::new(S as u32, T, log2_lanes, log2_channels, size);
    let layout = layout.merged(T, log2_channels);
    let threads = (1u32 << (log2_lanes + log2_channels)) / V as u32;
    let thread = thread_idx_x();
    let sequence = block_idx_x() / (params.groups * params.channel_blocks);
    // SAFETY: the launch contract; every access below is inside it, as each part says.
    unsafe {
        let (frame, group, length) = frame::<A>(&params, sequence);
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
        states.read(&params, &frame, &mut lane);
        let elements = Elements::<A, T, true>::new(
            &params,
            &layout,
            (&frame, length),
            (thread, log2_channels, log2_lanes),
        );
        let log2_states = (S as u32).ilog2() + log2_lanes;
        let ours = (thread, threads);
        let mut matrices =
            Matrices::<A, T>::new(&params, &layout, ours, log2_states, &frame, group);

        let tiles = length.div_ceil(u64::from(T)) as u32;
        let lanes = params.states.div_ceil(S as u32);
        let full = params.states.is_multiple_of(S as u32);
        // Index of the thread's first element.
        let mut index = elements.first;
        let (mut x, mut delta) = ([0; ELEMENTS], [0; ELEMENTS]);
        if tiles > 0 {
            x = elements.load(params.x, index, 0);
            delta = elements.load(params.delta, index, 0);
            matrices.copy::<S>(elements.left(0), 0);
            async_copy::commit();
        }
        let mut tile = 0;
        let mut more = tiles > 0;
        while more {
            let next = tile + 1;
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
            more = sync_threads_or(next < tiles);
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
            elements.finish(&params, sums, (&kept, z), (index, tile));
            (tile, index) = (next, next_index);
        }
        states.write(&params, &frame, &lane);
    }
}
