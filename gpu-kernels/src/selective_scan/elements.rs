//! The threads that prepare and finish: from `x` and `delta` to the tile that is scanned,
//! and from the shares of `y` to `y`. Each has a few elements, the same in every tile.

use super::SelectiveScanParams;
use super::arithmetic::silu;
use super::layout::{ELEMENTS, Layout, Packed, Place, quad_position};
use super::params::options;
use super::policy::SharedLayout;
use crate::simt::math::fma;
use crate::simt::thread::opaque;
use crate::simt::{Element, Global, Shared};
use core::mem::MaybeUninit;

/// A thread's elements as memory holds them: of pairs two in one of the first four words.
pub(super) type Raw = [u32; ELEMENTS];

/// An element of them.
#[inline(always)]
pub(super) fn value<A: Layout>(raw: &Raw, element: usize) -> f32 {
    let word = if A::PAIRS {
        raw[element % 4] >> (16 * (element / 4))
    } else {
        raw[element]
    };
    A::Element::from_word(word).to_f32()
}

/// Where the block's channels and time steps lie in the tensors.
#[derive(Clone, Copy)]
pub(super) struct Frame {
    /// First channel, and how many.
    pub(super) first_channel: u64,
    pub(super) channels: u32,
    /// Of all groups.
    pub(super) all_channels: u64,
    /// Batch element, and the sequence's first time step in it.
    pub(super) batch: u64,
    pub(super) start: u64,
}

/// A thread's elements of tiles of `T` time steps. `LEAN`: few registers are kept for it,
/// and what is cheap is computed anew in every tile.
pub(super) struct Elements<A: Layout, const T: u32, const LEAN: bool> {
    pub(super) place: Place,
    channels: u32,
    /// Tiles that are whole, and that have all time steps, and the time steps of the next.
    whole_tiles: u32,
    full_tiles: u32,
    rest: u32,
    /// Index of element 0 in the first tile.
    pub(super) first: u64,
    /// From one element to the next, and from the fourth to the fifth.
    stride: u64,
    half_stride: u64,
    /// From a tile to the next.
    pub(super) tile_stride: u64,
    pub(super) bias: [f32; ELEMENTS],
    skip: [f32; ELEMENTS],
    pub(super) pairs: Shared<f32>,
    sums: Shared<f32>,
    /// Where the first lane's share of element 0 lies.
    first_share: u32,
    /// Words from one buffer to the other.
    pair_words: u32,
    sum_words: u32,
    layout: core::marker::PhantomData<A>,
}

impl<A: Layout, const T: u32, const LEAN: bool> Elements<A, T, LEAN> {
    /// For preparing thread `thread`, and sequences of `length` time steps.
    ///
    /// # Safety
    /// The launch contract.
    #[inline(always)]
    #[track_caller]
    pub(super) unsafe fn new(
        params: &SelectiveScanParams<A::Element>,
        layout: &SharedLayout,
        (frame, length): (&Frame, u64),
        (thread, log2_channels, log2_lanes): (u32, u32, u32),
    ) -> Self {
        let place = A::place(thread, T, log2_channels);
        let channel = frame.first_channel + u64::from(place.channel);
        let step = frame.start + u64::from(place.step);
        let (first, stride, half_stride, tile_stride) = if A::ROWS {
            let row = frame.batch * params.length + step;
            let stride = frame.all_channels;
            let half = if A::PAIRS {
                1
            } else {
                u64::from(T / 2) * stride
            };
            (row * stride + channel, stride, half, u64::from(T) * stride)
        } else {
            let row = frame.batch * frame.all_channels + channel;
            let stride = u64::from(place.channel_stride) * params.length;
            (row * params.length + step, stride, 4 * stride, u64::from(T))
        };
        let one = |values: Global<f32>, element: usize| {
            let channel = A::channel(&place, element);
            if values.is_null() || channel >= frame.channels {
                return 0.0;
            }
            // SAFETY: the channel exists.
            unsafe { values.load((frame.first_channel + u64::from(channel)) as usize) }
        };
        let parameter = |values: Global<f32>| {
            let mut all = [one(values, 0); ELEMENTS];
            if !A::ROWS {
                unroll_few!(ELEMENTS, i => { all[i] = one(values, i); });
            } else if A::PAIRS {
                // Two channels, two registers.
                let next = one(values, 4);
                unroll_few!(4, i => { all[4 + i] = next; });
            }
            all
        };
        let here = A::channel(&place, ELEMENTS - 1) < frame.channels;
        let aligned = !A::PAIRS || (frame.first_channel | frame.all_channels).is_multiple_of(2);
        let full_tiles = (length / u64::from(T)) as u32;
        Self {
            place,
            channels: frame.channels,
            whole_tiles: if here && aligned { full_tiles } else { 0 },
            full_tiles,
            rest: length as u32 % T,
            first,
            stride,
            half_stride,
            tile_stride,
            bias: parameter(params.delta_bias),
            skip: parameter(params.d_skip),
            pairs: Shared::dynamic(layout.pairs),
            sums: Shared::dynamic(layout.sums),
            first_share: A::first_share(&place, log2_lanes),
            pair_words: layout.pair_bytes / 4,
            sum_words: layout.sum_bytes / 4,
            layout: core::marker::PhantomData,
        }
    }

    /// Whether a tile has each element.
    #[inline(always)]
    fn present(&self, tile: u32) -> [bool; ELEMENTS] {
        let left = self.left(tile);
        let mut place = self.place;
        if LEAN {
            // Opaque: else what is compared would be kept in registers, for tiles that are rare.
            place.channel = opaque(place.channel.into()) as u32;
            place.step = opaque(place.step.into()) as u32;
        }
        let mut present = [false; ELEMENTS];
        unroll_few!(ELEMENTS, i => {
            present[i] = A::channel(&place, i) < self.channels && A::step(&place, i) < left;
        });
        present
    }

    /// Whether a tile has all of the thread's elements, pairs on their boundaries.
    #[inline(always)]
    fn whole(&self, tile: u32) -> bool {
        tile < self.whole_tiles
    }

    /// Time steps of a tile: none behind the last.
    #[inline(always)]
    pub(super) fn left(&self, tile: u32) -> u32 {
        let last = if tile == self.full_tiles {
            self.rest
        } else {
            0
        };
        if tile < self.full_tiles { T } else { last }
    }

    /// A view of each element of the tile whose element 0 has this index.
    #[inline(always)]
    fn views(&self, tensor: Global<A::Element>, index: u64) -> [Global<A::Element>; ELEMENTS] {
        let first = tensor.add(index as usize);
        let mut views = [first; ELEMENTS];
        unroll_few!(ELEMENTS, i => {
            if i >= 4 && A::PAIRS {
                views[i] = views[i - 4].add(1);
            } else if i == 4 {
                views[i] = first.add(self.half_stride as usize);
            } else if i > 0 {
                views[i] = views[i - 1].add(self.stride as usize);
            }
        });
        views
    }

    /// Reads the elements of a tile whose element 0 has this index; zeros outside.
    ///
    /// # Safety
    /// The tile lies in the tensor.
    #[inline(always)]
    #[track_caller]
    pub(super) unsafe fn load(&self, tensor: Global<A::Element>, index: u64, tile: u32) -> Raw {
        let mut raw = [0; ELEMENTS];
        // SAFETY: the elements lie in the tensor.
        unsafe {
            if self.whole(tile) {
                let views = self.views(tensor, index);
                unroll_few!(ELEMENTS, i => {
                    if !A::PAIRS {
                        raw[i] = views[i].load(0).to_word();
                    } else if i < 4 {
                        raw[i] = views[i].cast::<u32>().load(0);
                    }
                });
            } else {
                let present = self.present(tile);
                let views = self.views(tensor, index);
                unroll_few!(ELEMENTS, i => {
                    if present[i] {
                        let word = views[i].load(0).to_word();
                        if A::PAIRS {
                            raw[i % 4] |= word << (16 * (i / 4));
                        } else {
                            raw[i] = word;
                        }
                    }
                });
            }
        }
        raw
    }

    /// Writes the pairs of a tile to buffer `buffer`.
    ///
    /// # Safety
    /// Nobody reads the buffer meanwhile.
    #[inline(always)]
    #[track_caller]
    pub(super) unsafe fn prepare(
        &self,
        params: &SelectiveScanParams<A::Element>,
        (x, delta): (&[f32; ELEMENTS], &Raw),
        tile: u32,
        buffer: u32,
    ) {
        let mut deltas = [0.0; ELEMENTS];
        unroll_few!(ELEMENTS, i => {
            deltas[i] = value::<A>(delta, i) + self.bias[i];
        });
        if params.options & options::SOFTPLUS != 0 {
            unroll_few!(ELEMENTS, i => { deltas[i] = A::Element::softplus(deltas[i]); });
        }
        let mut pairs = [[0.0; 2]; ELEMENTS];
        unroll_few!(ELEMENTS, i => {
            let delta = deltas[i];
            pairs[i] = [delta, delta * x[i]];
        });
        if !self.whole(tile) {
            // A step outside the tile changes nothing, not even a negative zero.
            let present = self.present(tile);
            unroll_few!(ELEMENTS, i => {
                if !present[i] {
                    pairs[i] = [0.0, -0.0];
                }
            });
        }
        let target = self.pairs.add(buffer * self.pair_words);
        // SAFETY: the caller's promise.
        unsafe { A::put_pairs(target, &self.place, pairs) };
    }

    /// The elements as f32.
    #[inline(always)]
    pub(super) fn values(&self, raw: &Raw) -> [f32; ELEMENTS] {
        let mut values = [0.0; ELEMENTS];
        unroll_few!(ELEMENTS, i => { values[i] = value::<A>(raw, i); });
        values
    }

    /// Keeps the inputs of a tile at `inputs` for the thread `thread`.
    ///
    /// # Safety
    /// Room for all threads' elements.
    #[inline(always)]
    #[track_caller]
    pub(super) unsafe fn keep(&self, inputs: u32, thread: u32, x: &[f32; ELEMENTS]) {
        unroll_few!(ELEMENTS / 4, i => {
            let four = [0, 1, 2, 3].map(|j| x[4 * i + j]);
            // SAFETY: this thread's own.
            unsafe { Shared::dynamic(inputs).store4(quad_position(thread, i as u32, ELEMENTS as u32), four) };
        });
    }

    /// What [`Self::keep`] kept.
    ///
    /// # Safety
    /// It did.
    #[inline(always)]
    #[track_caller]
    pub(super) unsafe fn kept(&self, inputs: u32, thread: u32) -> [f32; ELEMENTS] {
        let mut x = [0.0; ELEMENTS];
        unroll_few!(ELEMENTS / 4, i => {
            // SAFETY: this thread's own.
            let four = unsafe { Shared::dynamic(inputs).load4(quad_position(thread, i as u32, ELEMENTS as u32)) };
            x[4 * i..4 * i + 4].copy_from_slice(&four);
        });
        x
    }

    /// The sums over states of the tile in buffer `buffer`.
    ///
    /// # Safety
    /// The tile has been scanned, behind a barrier.
    #[inline(always)]
    #[track_caller]
    pub(super) unsafe fn sums<const S: usize>(
        &self,
        log2_lanes: u32,
        (buffer, lanes): (u32, u32),
    ) -> [f32; ELEMENTS] {
        let source = self.sums.add(buffer * self.sum_words);
        let first = if LEAN {
            // Opaque: else the places that are made of it would be kept in registers.
            opaque(self.first_share.into()) as u32
        } else {
            self.first_share
        };
        // SAFETY: the caller's promise.
        unsafe { A::sums::<S>(source, first, &self.place, log2_lanes, lanes) }
    }

    /// Writes a tile whose element 0 has this index, from the sums `y`.
    ///
    /// # Safety
    /// `x` and `z` are its elements, `z` only where there is one.
    #[inline(always)]
    #[track_caller]
    pub(super) unsafe fn finish(
        &self,
        params: &SelectiveScanParams<A::Element>,
        mut y: [f32; ELEMENTS],
        (x, z): (&[f32; ELEMENTS], MaybeUninit<Raw>),
        (index, tile): (u64, u32),
    ) {
        if !params.d_skip.is_null() {
            unroll_few!(ELEMENTS, i => {
                let i = i % ELEMENTS;
                y[i] = fma(self.skip[i], x[i], y[i]);
            });
        }
        if !params.z.is_null() {
            // SAFETY: the caller's promise.
            let z = unsafe { z.assume_init() };
            unroll_few!(ELEMENTS, i => { y[i] *= silu(value::<A>(&z, i)); });
        }
        // SAFETY: the elements lie in the tensor.
        unsafe {
            if self.whole(tile) {
                let views = self.views(params.y, index);
                unroll_few!(ELEMENTS, i => {
                    if !A::PAIRS {
                        views[i].store(0, A::Element::from_f32(y[i]));
                    } else if i < 4 {
                        // One conversion, and not on the special-function unit.
                        let pair = A::Element::pair(y[i], y[(i + 4) % ELEMENTS]);
                        views[i].cast::<u32>().store(0, pair);
                    }
                });
            } else {
                let present = self.present(tile);
                let views = self.views(params.y, index);
                unroll_few!(ELEMENTS, i => {
                    if present[i] {
                        views[i].store(0, A::Element::from_f32(y[i]));
                    }
                });
            }
        }
    }
}
