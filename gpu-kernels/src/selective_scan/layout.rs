//! Which elements of a tile a thread prepares and finishes, so that a warp's accesses to
//! global and to shared memory are contiguous in both layouts.

use super::policy::{PAIR_STRIDE, STEPS};
use crate::simt::{Element, Shared};
use core::marker::PhantomData;
use half::{bf16, f16};

/// The most elements of one thread.
pub(super) const ELEMENTS: usize = 8;

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
    /// Channels from one element to the next.
    pub channel_stride: u32,
}

/// How sequences lie in memory.
pub trait Layout: Copy + 'static {
    /// What memory holds.
    type Element: Packed;
    /// Whether channels are contiguous; otherwise time steps are.
    const ROWS: bool;

    /// The place of one of the threads that prepare and finish, with `elements` elements each.
    fn place(thread: u32, log2_channels: u32, elements: u32) -> Place;

    /// Channel of an element.
    fn channel(place: &Place, element: usize) -> u32;

    /// Time step of one of `elements` elements.
    fn step(place: &Place, element: usize, elements: usize) -> u32;

    /// Writes step sizes and inputs of the `N` elements.
    ///
    /// # Safety
    /// They are this thread's; nobody reads them unordered.
    unsafe fn put_pairs<const N: usize>(
        pairs: Shared<f32>,
        place: &Place,
        values: [[f32; 2]; ELEMENTS],
    );

    /// The sums of the `N` elements over the first `lanes` lanes, one after the other.
    ///
    /// # Safety
    /// They are this thread's, complete, behind a barrier.
    unsafe fn sums<const N: usize>(
        sums: Shared<f32>,
        place: &Place,
        log2_lanes: u32,
        lanes: u32,
    ) -> [f32; ELEMENTS];
}

/// Where the four time steps `4 * quad ..` of a thread's share of `y` lie. Quads of
/// different threads of a warp, and of one lane of different channels, use different banks.
#[inline(always)]
pub(super) fn quad_position(thread: u32, quad: u32) -> u32 {
    thread * STEPS + ((quad ^ turn(thread)) << 2)
}

#[inline(always)]
fn turn(thread: u32) -> u32 {
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
    fn place(thread: u32, log2_channels: u32, _: u32) -> Place {
        Place {
            channel: thread & ((1 << log2_channels) - 1),
            step: 4 * (thread >> log2_channels),
            channel_stride: 0,
        }
    }

    #[inline(always)]
    fn channel(place: &Place, _: usize) -> u32 {
        place.channel
    }

    #[inline(always)]
    fn step(place: &Place, element: usize, elements: usize) -> u32 {
        // With eight, the second four lie half a tile behind the first.
        let four = (element / 4) as u32 * (STEPS / (elements as u32 / 4));
        place.step + four + (element % 4) as u32
    }

    #[inline(always)]
    #[track_caller]
    unsafe fn put_pairs<const N: usize>(
        pairs: Shared<f32>,
        place: &Place,
        values: [[f32; 2]; ELEMENTS],
    ) {
        unroll!(N / 4, i => {
            let at = place.channel * PAIR_STRIDE + 2 * Self::step(place, 4 * i, N);
            let four = |j: usize| values[(4 * i + j) % ELEMENTS];
            let [a, b, c, d] = [four(0), four(1), four(2), four(3)];
            // SAFETY: the caller's promise; strides and steps are multiples of four.
            unsafe {
                pairs.store4(at, [a[0], a[1], b[0], b[1]]);
                pairs.store4(at + 4, [c[0], c[1], d[0], d[1]]);
            }
        });
    }

    #[inline(always)]
    #[track_caller]
    unsafe fn sums<const N: usize>(
        sums: Shared<f32>,
        place: &Place,
        log2_lanes: u32,
        lanes: u32,
    ) -> [f32; ELEMENTS] {
        // The zero that changes no other.
        let mut all = [-0.0; ELEMENTS];
        let first = place.channel << log2_lanes;
        let mut lane = 0;
        while lane < lanes {
            // Lanes are a multiple of four, and so is the first: `turn` is linear in the rest.
            let (row, turn) = ((first + lane) * STEPS, turn(first + lane));
            let mut shares = [[[0.0; 4]; 4]; 32];
            unroll!(N / 4, i => {
                let quad = Self::step(place, 4 * i, N) / 4 ^ turn;
                unroll!(4, l => {
                    let at = row + l as u32 * STEPS + ((quad ^ l as u32) << 2);
                    // SAFETY: the caller's promise; quads are aligned.
                    shares[i][l % 4] = unsafe { sums.load4(at) };
                });
            });
            unroll!(4, l => {
                if lane + (l as u32) < lanes {
                    unroll!(N, i => { all[i % ELEMENTS] += shares[i / 4][l % 4][i % 4]; });
                }
            });
            lane += 4;
        }
        all
    }
}

impl<T: Packed> Layout for Columns<T> {
    type Element = T;
    const ROWS: bool = false;

    #[inline(always)]
    fn place(thread: u32, log2_channels: u32, elements: u32) -> Place {
        Place {
            channel: thread / STEPS,
            step: thread % STEPS,
            channel_stride: (1 << log2_channels) / elements,
        }
    }

    #[inline(always)]
    fn channel(place: &Place, element: usize) -> u32 {
        place.channel + element as u32 * place.channel_stride
    }

    #[inline(always)]
    fn step(place: &Place, _: usize, _: usize) -> u32 {
        place.step
    }

    #[inline(always)]
    #[track_caller]
    unsafe fn put_pairs<const N: usize>(
        pairs: Shared<f32>,
        place: &Place,
        values: [[f32; 2]; ELEMENTS],
    ) {
        unroll!(N, i => {
            let at = Self::channel(place, i) * PAIR_STRIDE + 2 * place.step;
            // SAFETY: the caller's promise.
            unsafe { pairs.store2(at, values[i % ELEMENTS]) };
        });
    }

    #[inline(always)]
    #[track_caller]
    unsafe fn sums<const N: usize>(
        sums: Shared<f32>,
        place: &Place,
        log2_lanes: u32,
        lanes: u32,
    ) -> [f32; ELEMENTS] {
        let mut all = [-0.0; ELEMENTS];
        let (quad, step) = (place.step / 4, place.step % 4);
        let mut lane = 0;
        while lane < lanes {
            unroll!(N, i => {
                let thread = (Self::channel(place, i) << log2_lanes) + lane;
                // SAFETY: the caller's promise.
                all[i % ELEMENTS] += unsafe { sums.load(quad_position(thread, quad) + step) };
            });
            lane += 1;
        }
        all
    }
}
