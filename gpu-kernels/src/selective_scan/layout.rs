//! Which elements of a tile a thread prepares and finishes, so that a warp's accesses to
//! global and to shared memory are contiguous in both layouts.

use super::policy::{PAIR_STRIDE, STEPS};
use crate::simt::{Element, Shared};
use core::marker::PhantomData;
use half::{bf16, f16};

/// The most elements of one thread, in fours.
pub(super) const FOURS: usize = 2;
pub(super) const ELEMENTS: usize = 4 * FOURS;

/// An element type that arrives 16 bytes at once.
pub trait Packed: Element {
    /// Elements of a chunk of 16 bytes.
    const CHUNK: usize;
    /// A chunk's elements; of f32 the first four.
    fn unpack(words: [u32; 4]) -> [f32; 8];
}

impl Packed for f32 {
    const CHUNK: usize = 4;
    #[inline(always)]
    fn unpack(words: [u32; 4]) -> [f32; 8] {
        let mut values = [0.0; 8];
        unroll!(4, i => { values[i] = f32::from_bits(words[i]); });
        values
    }
}

macro_rules! packed {
    ($($t:ty),*) => { $(
        impl Packed for $t {
            const CHUNK: usize = 8;
            #[inline(always)]
            fn unpack(words: [u32; 4]) -> [f32; 8] {
                let mut values = [0.0; 8];
                unroll!(4, i => {
                    values[2 * i] = Element::to_f32(<$t>::from_bits(words[i] as u16));
                    values[2 * i + 1] = Element::to_f32(<$t>::from_bits((words[i] >> 16) as u16));
                });
                values
            }
        }
    )* };
}
packed!(f16, bf16);

/// A thread's place among the elements.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// Channel of element 0.
    pub channel: u32,
    /// Time step of element 0.
    pub step: u32,
    /// Channels from one four to the next, and from one element of a four to the next.
    pub channel_strides: (u32, u32),
    /// The same of time steps.
    pub step_strides: (u32, u32),
    /// Elements, from 0 to [`ELEMENTS`].
    pub count: u32,
}

impl Place {
    /// Channel of an element.
    #[inline(always)]
    pub fn channel(&self, element: usize) -> u32 {
        let (four, one) = self.channel_strides;
        self.channel + (element / 4) as u32 * four + (element % 4) as u32 * one
    }

    /// Time step of an element.
    #[inline(always)]
    pub fn step(&self, element: usize) -> u32 {
        let (four, one) = self.step_strides;
        self.step + (element / 4) as u32 * four + (element % 4) as u32 * one
    }
}

/// How sequences lie in memory.
pub trait Layout: Copy + 'static {
    /// What memory holds.
    type Element: Packed;
    /// Whether channels are contiguous; otherwise time steps are.
    const ROWS: bool;

    /// This thread's place.
    fn place(thread: u32, threads: u32, log2_lanes: u32) -> Place;

    /// Writes step sizes and inputs of elements `4 * four ..`.
    ///
    /// # Safety
    /// They are this thread's; nobody reads them unordered.
    unsafe fn put_pairs(pairs: Shared<f32>, place: &Place, four: usize, values: [[f32; 2]; 4]);

    /// The sums of elements `4 * four ..` over the first `lanes` lanes, one after the other.
    ///
    /// # Safety
    /// They are this thread's, complete, behind a barrier.
    unsafe fn sums(
        sums: Shared<f32>,
        place: &Place,
        four: usize,
        log2_lanes: u32,
        lanes: u32,
    ) -> [f32; 4];
}

/// Where the four time steps `4 * quad ..` of a thread's share of `y` lie. Quads of
/// different threads of a warp, and of one lane of different channels, use different banks.
#[inline(always)]
pub(super) fn quad_position(thread: u32, quad: u32) -> u32 {
    thread * STEPS + ((quad ^ turn(thread)) << 2)
}

#[inline(always)]
pub(super) fn turn(thread: u32) -> u32 {
    (thread ^ thread >> 3 ^ thread >> 6) & 7
}

/// `[.., L, D]`: a warp's threads are channels, each with four time steps at once.
#[derive(Clone, Copy, Debug)]
pub struct Rows<T>(PhantomData<T>);

/// `[.., D, L]`: a warp's threads are time steps of one channel.
#[derive(Clone, Copy, Debug)]
pub struct Columns<T>(PhantomData<T>);

impl<T: Packed> Layout for Rows<T> {
    type Element = T;
    const ROWS: bool = true;

    #[inline(always)]
    fn place(thread: u32, threads: u32, log2_lanes: u32) -> Place {
        let log2_channels = threads.ilog2() - log2_lanes;
        let quad = thread >> log2_channels;
        let quads = STEPS / 4;
        Place {
            channel: thread & ((1 << log2_channels) - 1),
            step: 4 * quad,
            channel_strides: (0, 0),
            step_strides: (4 << log2_lanes, 1),
            count: if quad < quads {
                4 * (quads >> log2_lanes).max(1)
            } else {
                0
            },
        }
    }

    #[inline(always)]
    unsafe fn put_pairs(pairs: Shared<f32>, place: &Place, four: usize, values: [[f32; 2]; 4]) {
        let [a, b, c, d] = values;
        let at = place.channel * PAIR_STRIDE + 2 * place.step(4 * four);
        // SAFETY: the caller's promise; strides and steps are multiples of four.
        unsafe {
            pairs.store4(at, [a[0], a[1], b[0], b[1]]);
            pairs.store4(at + 4, [c[0], c[1], d[0], d[1]]);
        }
    }

    #[inline(always)]
    unsafe fn sums(
        sums: Shared<f32>,
        place: &Place,
        four: usize,
        log2_lanes: u32,
        lanes: u32,
    ) -> [f32; 4] {
        let quad = place.step(4 * four) / 4;
        let first = place.channel << log2_lanes;
        // SAFETY: the caller's promise; quads are aligned.
        unsafe {
            let mut sum = sums.load4(quad_position(first, quad));
            let mut lane = 1;
            while lane < lanes {
                let share = sums.load4(quad_position(first + lane, quad));
                unroll!(4, i => { sum[i] += share[i]; });
                lane += 1;
            }
            sum
        }
    }
}

impl<T: Packed> Layout for Columns<T> {
    type Element = T;
    const ROWS: bool = false;

    #[inline(always)]
    fn place(thread: u32, threads: u32, log2_lanes: u32) -> Place {
        let warps = threads / STEPS;
        Place {
            channel: thread / STEPS,
            step: thread % STEPS,
            channel_strides: (4 * warps, warps),
            step_strides: (0, 0),
            count: STEPS >> log2_lanes,
        }
    }

    #[inline(always)]
    unsafe fn put_pairs(pairs: Shared<f32>, place: &Place, four: usize, values: [[f32; 2]; 4]) {
        unroll!(4, i => {
            let element = 4 * four + i;
            if (element as u32) < place.count {
                let at = place.channel(element) * PAIR_STRIDE + 2 * place.step;
                // SAFETY: the caller's promise.
                unsafe { pairs.store2(at, values[i]) };
            }
        });
    }

    #[inline(always)]
    unsafe fn sums(
        sums: Shared<f32>,
        place: &Place,
        four: usize,
        log2_lanes: u32,
        lanes: u32,
    ) -> [f32; 4] {
        let mut sum = [0.0; 4];
        unroll!(4, i => {
            let element = 4 * four + i;
            if (element as u32) < place.count {
                let first = place.channel(element) << log2_lanes;
                let (quad, step) = (place.step / 4, place.step % 4);
                // SAFETY: the caller's promise.
                unsafe {
                    sum[i] = sums.load(quad_position(first, quad) + step);
                    let mut lane = 1;
                    while lane < lanes {
                        sum[i] += sums.load(quad_position(first + lane, quad) + step);
                        lane += 1;
                    }
                }
            }
        });
        sum
    }
}
