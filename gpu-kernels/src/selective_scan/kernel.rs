//! The selective scan's kernel.
//!
//! A block takes a sequence's channels, 8 to 32 of them, from the first time step to the
//! last, a tile of 32 time steps after the other. All threads prepare a tile: step sizes and
//! inputs as f32 pairs, B and C by lanes. Then each thread scans its few states of one
//! channel in registers and leaves its share of `y`, and at last all threads add up the
//! shares, skip and gate, and write. The next tile is under way meanwhile.
//!
//! Floors, for each time step of a state: one exponential, at 16 a clock and multiprocessor
//! the wall; five instructions (exponent, exponential, input, state, share of `y`), at 128 a
//! clock. For each element 50 instructions more. Bytes: `x`, `delta`, `y` once.
//!
//! A time step is a multiply-add for each state behind the one before it. All else (loads,
//! exponents, exponentials, inputs) is independent from step to step: eight steps are one
//! block of straight code, so that a warp has work while it waits.

use super::SelectiveScanParams;
use super::arithmetic::{exponent_rate, silu, step_size};
use super::layout::{ELEMENTS, FOURS, Layout, Place, quad_position};
use super::matrices::{Matrices, zero};
use super::params::options;
use super::policy::{PAIR_STRIDE, STEPS, SharedLayout, matrix_stride};
use crate::simt::math::{exp2_approx, fma};
use crate::simt::thread::{block_dim_x, block_idx_x, sync_threads, thread_idx_x};
use crate::simt::{Element, Global, Shared, async_copy};

type Raw<A> = [<A as Layout>::Element; ELEMENTS];

/// A block's elements: `x`, `delta`, `z` and `y` alike.
struct Elements<A: Layout> {
    place: Place,
    /// Channels of the block.
    channels: u32,
    /// Index of this thread's element 0 in the tile's tensors.
    index: u64,
    /// From one four to the next, and from one element of a four to the next.
    strides: (u64, u64),
    /// From a tile to the next.
    tile_stride: u64,
    layout: core::marker::PhantomData<A>,
}

impl<A: Layout> Elements<A> {
    /// Index of an element.
    #[inline(always)]
    fn index(&self, element: usize) -> usize {
        let (four, one) = self.strides;
        let index = self.index + (element / 4) as u64 * four + (element % 4) as u64 * one;
        index as usize
    }

    /// Whether a tile of `left` time steps has this element.
    #[inline(always)]
    fn contains(&self, element: usize, left: u32) -> bool {
        (element as u32) < self.place.count
            && self.place.channel(element) < self.channels
            && self.place.step(element) < left
    }

    /// Whether a tile of `left` time steps has all this thread's elements, whole fours.
    #[inline(always)]
    fn whole(&self, left: u32) -> bool {
        let count = self.place.count;
        count % 4 == 0
            && left >= STEPS
            && (count == 0 || self.place.channel(count as usize - 1) < self.channels)
    }

    /// Reads this thread's elements of a tile; zeros outside.
    #[inline(always)]
    #[track_caller]
    unsafe fn load(&self, source: Global<A::Element>, left: u32) -> Raw<A> {
        let mut raw = [zero(); ELEMENTS];
        // SAFETY: the elements lie in the tensor.
        unsafe {
            if self.whole(left) {
                unroll!(FOURS, four => {
                    if (4 * four as u32) < self.place.count {
                        unroll!(4, i => {
                            raw[4 * four + i] = source.load(self.index(4 * four + i));
                        });
                    }
                });
            } else {
                unroll!(ELEMENTS, i => {
                    if self.contains(i, left) {
                        raw[i] = source.load(self.index(i));
                    }
                });
            }
        }
        raw
    }

    /// Writes four of this thread's elements of a tile.
    #[inline(always)]
    #[track_caller]
    unsafe fn store(&self, target: Global<A::Element>, left: u32, four: usize, values: [f32; 4]) {
        let whole = self.whole(left);
        // SAFETY: the elements lie in the tensor.
        unsafe {
            unroll!(4, i => {
                let element = 4 * four + i;
                if whole || self.contains(element, left) {
                    let value = A::Element::from_f32(values[i]);
                    target.store(self.index(element), value);
                }
            });
        }
    }
}

/// The states of one lane, and where it reads and writes.
struct Lane<const S: usize> {
    /// `A * log2(e)`.
    rates: [f32; S],
    states: [f32; S],
    pairs: Shared<f32>,
    b: Shared<f32>,
    c: Shared<f32>,
    sums: Shared<f32>,
    thread: u32,
    /// States that exist.
    here: u32,
}

impl<const S: usize> Lane<S> {
    /// Scans a tile, `U` time steps at once. `FULL`: no lane has both states that exist and
    /// states that do not, whose product with an infinite input would be NaN.
    ///
    /// # Safety
    /// The tile is prepared, behind a barrier.
    #[inline(always)]
    #[track_caller]
    unsafe fn scan<const U: usize, const FULL: bool>(&mut self) {
        let mut step = 0;
        while step < STEPS {
            // SAFETY: the steps lie in the tile.
            unsafe { self.scan_steps::<U, FULL>(step) };
            step += U as u32;
        }
    }

    #[inline(always)]
    #[track_caller]
    unsafe fn scan_steps<const U: usize, const FULL: bool>(&mut self, step: u32) {
        const { assert!(U.is_multiple_of(4) && U <= 8 && U * S <= 64 && S.is_multiple_of(2)) };
        // As long as a loop can be, though no more than `U * S / 4` of them are used.
        let mut pairs = [[0.0; 4]; 32];
        let (mut b, mut c) = ([[0.0; 4]; 32], [[0.0; 4]; 32]);
        let mut shares = [[0.0; 4]; 32];
        // SAFETY: the caller's promise; steps are multiples of four.
        unsafe {
            unroll!(U / 2, i => { pairs[i] = self.pairs.load4(2 * step + 4 * i as u32); });
            unroll!(U * S / 4, i => {
                let at = step * S as u32 + 4 * i as u32;
                (b[i], c[i]) = (self.b.load4(at), self.c.load4(at));
            });
        }
        unroll!(U, u => {
            let [delta, input] = [pairs[u / 2][u % 2 * 2], pairs[u / 2][u % 2 * 2 + 1]];
            let mut share = 0.0;
            unroll!(S, s => {
                let (four, one) = ((u * S + s) / 4, (u * S + s) % 4);
                let decay = exp2_approx(delta * self.rates[s]);
                let state = fma(decay, self.states[s], input * b[four][one]);
                self.states[s] = if FULL || (s as u32) < self.here { state } else { 0.0 };
                share = if s == 0 {
                    c[four][one] * self.states[s]
                } else {
                    fma(c[four][one], self.states[s], share)
                };
            });
            shares[u / 4][u % 4] = share;
        });
        unroll!(U / 4, i => {
            let quad = step / 4 + i as u32;
            // SAFETY: this thread's own.
            unsafe { self.sums.store4(quad_position(self.thread, quad), shares[i]) };
        });
    }
}

/// # Safety
/// The buffers cover what `params` describes; launched as [`super::policy::launch`] says.
#[inline(always)]
pub unsafe fn scan<A: Layout, const S: usize, const U: usize>(
    params: SelectiveScanParams<A::Element>,
) {
    let (thread, threads) = (thread_idx_x(), block_dim_x());
    let log2_lanes = params.log2_lanes;
    let layout = SharedLayout::new(
        S as u32,
        log2_lanes,
        threads,
        size_of::<A::Element>() as u32,
    );
    // Whose block this is.
    let all_blocks = params.groups * params.channel_blocks;
    let (sequence, block) = (block_idx_x() / all_blocks, block_idx_x() % all_blocks);
    let (group, block) = (block / params.channel_blocks, block % params.channel_blocks);
    let block_channels = threads >> log2_lanes;
    let skipped = u64::from(block) * u64::from(block_channels);
    let channels = (params.group_channels - skipped).min(u64::from(block_channels)) as u32;
    let first_channel = u64::from(group) * params.group_channels + skipped;
    let all_channels = u64::from(params.groups) * params.group_channels;
    // SAFETY: the launch contract; every access below is inside it, as each step says.
    unsafe {
        // Packed sequences are one batch element.
        let (batch, start, length) = if params.offsets.is_null() {
            (u64::from(sequence), 0, params.length)
        } else {
            let start = params.offsets.load(sequence as usize);
            let end = params.offsets.load(sequence as usize + 1);
            (0, start as u64, (end - start) as u64)
        };

        let place = A::place(thread, threads, log2_lanes);
        let channel = first_channel + u64::from(place.channel);
        let step = u64::from(place.step);
        let (index, channel_stride, step_stride) = if A::ROWS {
            let row = batch * params.length + start + step;
            (row * all_channels + channel, 1, all_channels)
        } else {
            let row = batch * all_channels + channel;
            (row * params.length + start + step, params.length, 1)
        };
        let stride = |channels: u32, steps: u32| {
            u64::from(channels) * channel_stride + u64::from(steps) * step_stride
        };
        let mut elements = Elements::<A> {
            place,
            channels,
            index,
            strides: (
                stride(place.channel_strides.0, place.step_strides.0),
                stride(place.channel_strides.1, place.step_strides.1),
            ),
            tile_stride: stride(0, STEPS),
            layout: core::marker::PhantomData,
        };
        let parameter = |values: Global<f32>| {
            let mut all = [0.0; ELEMENTS];
            if !values.is_null() {
                if A::ROWS {
                    if place.channel < channels {
                        all = [values.load(channel as usize); ELEMENTS];
                    }
                } else {
                    unroll!(ELEMENTS, i => {
                        if elements.contains(i, STEPS) {
                            let channel = first_channel + u64::from(place.channel(i));
                            all[i] = values.load(channel as usize);
                        }
                    });
                }
            }
            all
        };
        let (bias, skip) = (parameter(params.delta_bias), parameter(params.d_skip));

        let lane = thread & ((1 << log2_lanes) - 1);
        let lane_channel = thread >> log2_lanes;
        let pairs = Shared::<f32>::dynamic(layout.pairs);
        let sums = Shared::<f32>::dynamic(layout.sums);
        let matrix = lane * matrix_stride(S as u32);
        let mut worker = Lane::<S> {
            rates: [0.0; S],
            states: [0.0; S],
            pairs: pairs.add(lane_channel * PAIR_STRIDE),
            b: Shared::dynamic(layout.b).add(matrix),
            c: Shared::dynamic(layout.c).add(matrix),
            sums,
            thread,
            here: 0,
        };
        // Of the states that fill up the last lanes, all stays zero.
        let states_here = if lane_channel < channels {
            params.states.saturating_sub(lane * S as u32)
        } else {
            0
        };
        worker.here = states_here;
        let full = params.states.is_multiple_of(S as u32);
        let parameters = (first_channel + u64::from(lane_channel)) * u64::from(params.states)
            + u64::from(lane * S as u32);
        let states = u64::from(sequence) * all_channels * u64::from(params.states) + parameters;
        unroll!(S, s => {
            if (s as u32) < states_here {
                let is_log = params.options & options::LOG != 0;
                worker.rates[s] = exponent_rate(params.a.load(parameters as usize + s), is_log);
                if !params.h0.is_null() {
                    worker.states[s] = params.h0.load(states as usize + s);
                }
            }
        });

        let mut matrices = Matrices::<A>::new(
            &params,
            &layout,
            (thread, threads),
            (S as u32).ilog2() + log2_lanes,
            batch,
            start,
            group,
        );
        // Lanes that have states.
        let lanes = params.states.div_ceil(S as u32);
        let softplus = params.options & options::SOFTPLUS != 0;
        let mut remaining = length;
        let tile_steps = |remaining: u64| remaining.min(u64::from(STEPS)) as u32;
        let mut x = elements.load(params.x, tile_steps(remaining));
        let mut delta = elements.load(params.delta, tile_steps(remaining));
        if remaining > 0 {
            matrices.copy(tile_steps(remaining));
        }
        async_copy::commit();
        while remaining > 0 {
            let left = tile_steps(remaining);
            // Prepare this tile.
            let mut skipped = [0.0; ELEMENTS];
            unroll!(FOURS, four => {
                if (4 * four as u32) < place.count {
                    let mut values = [[0.0; 2]; 4];
                    unroll!(4, i => {
                        let element = 4 * four + i;
                        let x = x[element].to_f32();
                        let delta = step_size(delta[element].to_f32(), bias[element], softplus);
                        skipped[element] = x;
                        // A step outside the tile changes nothing.
                        values[i] = if elements.contains(element, left) {
                            [delta, delta * x]
                        } else {
                            [0.0; 2]
                        };
                    });
                    A::put_pairs(pairs, &place, four, values);
                }
            });
            async_copy::wait::<0>();
            matrices.lay_out::<S>();
            sync_threads();

            // The next one, and this one's gates, come while this one is scanned.
            let mut gates = [zero(); ELEMENTS];
            if !params.z.is_null() {
                gates = elements.load(params.z, left);
            }
            let here = elements.index;
            remaining -= u64::from(left);
            let next_left = tile_steps(remaining);
            elements.index += elements.tile_stride;
            matrices.advance();
            x = elements.load(params.x, next_left);
            delta = elements.load(params.delta, next_left);
            if next_left > 0 {
                matrices.copy(next_left);
            }
            async_copy::commit();
            if full {
                worker.scan::<U, true>();
            } else {
                worker.scan::<4, false>();
            }
            sync_threads();

            // Finish this tile.
            let next = elements.index;
            elements.index = here;
            unroll!(FOURS, four => {
                if (4 * four as u32) < place.count {
                    let mut y = A::sums(sums, &place, four, log2_lanes, lanes);
                    unroll!(4, i => {
                        let element = 4 * four + i;
                        if !params.d_skip.is_null() {
                            y[i] = fma(skip[element], skipped[element], y[i]);
                        }
                        if !params.z.is_null() {
                            y[i] *= silu(gates[element].to_f32());
                        }
                    });
                    elements.store(params.y, left, four, y);
                }
            });
            elements.index = next;
        }

        if !params.final_state.is_null() {
            unroll!(S, s => {
                if (s as u32) < states_here {
                    params.final_state.store(states as usize + s, worker.states[s]);
                }
            });
        }
    }
}
