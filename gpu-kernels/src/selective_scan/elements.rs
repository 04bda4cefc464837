//! The threads that prepare and finish: from `x` and `delta` to the tile that is scanned,
//! and from the shares of `y` to `y`. Each has a few elements, the same in every tile.

use super::SelectiveScanParams;
use super::arithmetic::{silu, softplus};
use super::layout::{ELEMENTS, Layout, Packed, Place, quad_position};
use super::params::options;
use super::policy::SharedLayout;
use crate::simt::math::fma;
use crate::simt::thread::opaque;
use crate::simt::{Element, Global, Shared};

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

/// A thread's elements of tiles of `T` time steps.
pub(super) struct Elements<A: Layout, const T: u32> {
    pub(super) place: Place,
    channels: u32,
    /// Whether all the elements' channels exist, and pairs lie on their boundaries.
    all_here: bool,
    /// Index of element 0 in the first tile.
    first: u64,
    /// From one element to the next, and from the fourth to the fifth.
    stride: u64,
    half_stride: u64,
    /// From a tile to the next.
    pub(super) tile_stride: u64,
    pub(super) bias: [f32; ELEMENTS],
    skip: [f32; ELEMENTS],
    pub(super) pairs: Shared<f32>,
    sums: Shared<f32>,
    /// Words from one buffer to the other.
    pair_words: u32,
    sum_words: u32,
    layout: core::marker::PhantomData<A>,
}

impl<A: Layout, const T: u32> Elements<A, T> {
    /// For preparing thread `thread`.
    ///
    /// # Safety
    /// The launch contract.
    #[inline(always)]
    #[track_caller]
    pub(super) unsafe fn new(
        params: &SelectiveScanParams<A::Element>,
        layout: &SharedLayout,
        frame: &Frame,
        thread: u32,
    ) -> Self {
        let place = A::place(thread, T, params.log2_channels);
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
        let parameter = |values: Global<f32>| {
            let mut all = [0.0; ELEMENTS];
            if !values.is_null() {
                unroll_few!(ELEMENTS, i => {
                    let channel = A::channel(&place, i);
                    if channel < frame.channels {
                        let channel = frame.first_channel + u64::from(channel);
                        // SAFETY: the channel exists.
                        all[i] = unsafe { values.load(channel as usize) };
                    }
                });
            }
            all
        };
        Self {
            place,
            channels: frame.channels,
            all_here: A::channel(&place, ELEMENTS - 1) < frame.channels
                && (!A::PAIRS || (frame.first_channel | frame.all_channels).is_multiple_of(2)),
            first,
            stride,
            half_stride,
            tile_stride,
            bias: parameter(params.delta_bias),
            skip: parameter(params.d_skip),
            pairs: Shared::dynamic(layout.pairs),
            sums: Shared::dynamic(layout.sums),
            pair_words: layout.pair_bytes / 4,
            sum_words: layout.sum_bytes / 4,
            layout: core::marker::PhantomData,
        }
    }

    /// Whether a tile of `left` time steps has this element.
    #[inline(always)]
    fn contains(&self, element: usize, left: u32) -> bool {
        A::channel(&self.place, element) < self.channels && A::step(&self.place, element) < left
    }

    /// Whether a tile of `left` time steps has all of them.
    #[inline(always)]
    fn whole(&self, left: u32) -> bool {
        left >= T && self.all_here
    }

    /// A view of each element of the tile that is `offset` elements behind the first.
    #[inline(always)]
    fn views(&self, tensor: Global<A::Element>, offset: u64) -> [Global<A::Element>; ELEMENTS] {
        let first = tensor.add(opaque(self.first + offset) as usize);
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

    /// Reads the elements of the tile that is `offset` elements behind the first and has `left`
    /// time steps; zeros outside.
    ///
    /// # Safety
    /// The tile lies in the tensor.
    #[inline(always)]
    #[track_caller]
    pub(super) unsafe fn load(&self, tensor: Global<A::Element>, offset: u64, left: u32) -> Raw {
        let mut raw = [0; ELEMENTS];
        let views = self.views(tensor, offset);
        // SAFETY: the elements lie in the tensor.
        unsafe {
            if self.whole(left) {
                unroll_few!(ELEMENTS, i => {
                    if !A::PAIRS {
                        raw[i] = views[i].load(0).to_word();
                    } else if i < 4 {
                        raw[i] = views[i].cast::<u32>().load(0);
                    }
                });
            } else {
                unroll_few!(ELEMENTS, i => {
                    if self.contains(i, left) {
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

    /// Writes the pairs of a tile of `left` time steps to buffer `buffer`.
    ///
    /// # Safety
    /// Nobody reads the buffer meanwhile.
    #[inline(always)]
    #[track_caller]
    pub(super) unsafe fn prepare(
        &self,
        params: &SelectiveScanParams<A::Element>,
        (x, delta): (&[f32; ELEMENTS], &Raw),
        left: u32,
        buffer: u32,
    ) {
        let mut deltas = [0.0; ELEMENTS];
        unroll_few!(ELEMENTS, i => {
            deltas[i] = value::<A>(delta, i) + self.bias[i];
        });
        if params.options & options::SOFTPLUS != 0 {
            unroll_few!(ELEMENTS, i => { deltas[i] = softplus(deltas[i]); });
        }
        let mut pairs = [[0.0; 2]; ELEMENTS];
        unroll_few!(ELEMENTS, i => {
            let delta = deltas[i];
            pairs[i] = [delta, delta * x[i]];
        });
        if !self.whole(left) {
            // A step outside the tile changes nothing.
            unroll_few!(ELEMENTS, i => {
                if !self.contains(i, left) {
                    pairs[i] = [0.0; 2];
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
        params: &SelectiveScanParams<A::Element>,
        buffer: u32,
        lanes: u32,
    ) -> [f32; ELEMENTS] {
        let source = self.sums.add(buffer * self.sum_words);
        // SAFETY: the caller's promise.
        unsafe { A::sums::<S>(source, &self.place, params.log2_lanes, lanes) }
    }

    /// Writes the tile that is `offset` elements behind the first and has `left` time steps, from
    /// the sums `y`.
    ///
    /// # Safety
    /// `x` and `z` are its elements.
    #[inline(always)]
    #[track_caller]
    pub(super) unsafe fn finish(
        &self,
        params: &SelectiveScanParams<A::Element>,
        mut y: [f32; ELEMENTS],
        (x, z): (&[f32; ELEMENTS], &Raw),
        offset: u64,
        left: u32,
    ) {
        if !params.d_skip.is_null() {
            unroll_few!(ELEMENTS, i => {
                let i = i % ELEMENTS;
                y[i] = fma(self.skip[i], x[i], y[i]);
            });
        }
        if !params.z.is_null() {
            unroll_few!(ELEMENTS, i => { y[i] *= silu(value::<A>(z, i)); });
        }
        let views = self.views(params.y, offset);
        let whole = self.whole(left);
        // SAFETY: the elements lie in the tensor.
        unsafe {
            if whole {
                unroll_few!(ELEMENTS, i => {
                    let word = A::Element::from_f32(y[i]).to_word();
                    if !A::PAIRS {
                        views[i].store(0, A::Element::from_word(word));
                    } else if i < 4 {
                        let next = A::Element::from_f32(y[(i + 4) % ELEMENTS]).to_word();
                        views[i].cast::<u32>().store(0, word | next << 16);
                    }
                });
            } else {
                unroll_few!(ELEMENTS, i => {
                    if self.contains(i, left) {
                        views[i].store(0, A::Element::from_f32(y[i]));
                    }
                });
            }
        }
    }
}
