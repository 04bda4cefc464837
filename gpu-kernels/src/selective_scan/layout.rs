//! Which elements of a tile a thread prepares and finishes, so that a warp's accesses to
//! global and to shared memory are contiguous in both layouts.

use super::arithmetic::{add_shares, softplus, softplus_of_16_bits};
use super::policy::{self, pair_stride};
use crate::simt::math::{pack_bf16, pack_f16};
use crate::simt::{Element, Shared};
use core::marker::PhantomData;
use half::{bf16, f16};

/// Elements of one thread.
pub(super) const ELEMENTS: usize = policy::ELEMENTS as usize;

/// An element type that arrives 16 bytes at once.
pub trait Packed: Element {
    /// Elements of a chunk of 16 bytes.
    const CHUNK: usize;
    /// A chunk's elements; of f32 the first four.
    fn unpack(words: [u32; 4]) -> [f32; 8];
    /// An element as a word, in its lower half if it has 16 bits.
    fn to_word(self) -> u32;
    /// The other way.
    fn from_word(word: u32) -> Self;
    /// Two of 16 bits, rounded, in one word.
    fn pair(low: f32, high: f32) -> u32;
    /// `ln(1 + e^v)`, as exact as step sizes of this type are worth.
    fn softplus(v: f32) -> f32;
}

impl Packed for f32 {
    const CHUNK: usize = 4;
    #[inline(always)]
    fn unpack(words: [u32; 4]) -> [f32; 8] {
        let mut values = [0.0; 8];
        unroll_few!(4, i => { values[i] = f32::from_bits(words[i]); });
        values
    }
    #[inline(always)]
    fn to_word(self) -> u32 {
        self.to_bits()
    }
    #[inline(always)]
    fn from_word(word: u32) -> Self {
        f32::from_bits(word)
    }
    #[inline(always)]
    fn pair(_: f32, _: f32) -> u32 {
        0
    }
    #[inline(always)]
    fn softplus(v: f32) -> f32 {
        softplus(v)
    }
}

macro_rules! packed {
    ($($t:ty, $pack:path;)*) => { $(
        impl Packed for $t {
            const CHUNK: usize = 8;
            #[inline(always)]
            fn unpack(words: [u32; 4]) -> [f32; 8] {
                let mut values = [0.0; 8];
                unroll_few!(4, i => {
                    values[2 * i] = Element::to_f32(<$t>::from_word(words[i]));
                    values[2 * i + 1] = Element::to_f32(<$t>::from_word(words[i] >> 16));
                });
                values
            }
            #[inline(always)]
            fn to_word(self) -> u32 {
                u32::from(self.to_bits())
            }
            #[inline(always)]
            fn from_word(word: u32) -> Self {
                <$t>::from_bits(word as u16)
            }
            #[inline(always)]
            fn pair(low: f32, high: f32) -> u32 {
                $pack(low, high)
            }
            #[inline(always)]
            fn softplus(v: f32) -> f32 {
                softplus_of_16_bits(v)
            }
        }
    )* };
}
packed! { f16, pack_f16; bf16, pack_bf16; }

/// A thread's place among the elements.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// Channel of element 0.
    pub channel: u32,
    /// Time step of element 0.
    pub step: u32,
    /// Channels from one element to the next; of rows from the fourth to the fifth.
    pub channel_stride: u32,
    /// Of rows: time steps from the first element to the fifth.
    pub half: u32,
    /// Time steps of the tile.
    pub steps: u32,
}

/// How sequences lie in memory.
pub trait Layout: Copy + 'static {
    /// What memory holds.
    type Element: Packed;
    /// Whether channels are contiguous; otherwise time steps are.
    const ROWS: bool;
    /// Whether elements i and i + 4 are neighbours in memory, of 16 bits each.
    const PAIRS: bool;

    /// The place of one of the threads that prepare, or that finish.
    fn place(thread: u32, steps: u32, log2_channels: u32) -> Place;

    /// Channel of an element.
    fn channel(place: &Place, element: usize) -> u32;

    /// Time step of an element.
    fn step(place: &Place, element: usize) -> u32;

    /// Writes step sizes and inputs of the elements.
    ///
    /// # Safety
    /// They are this thread's; nobody reads them unordered.
    unsafe fn put_pairs(pairs: Shared<f32>, place: &Place, values: [[f32; 2]; ELEMENTS]);

    /// Where the first lane's share of element 0 lies.
    fn first_share(place: &Place, log2_lanes: u32) -> u32;

    /// The sums of the elements over the first `lanes` lanes of `S` states, `first` being where
    /// the first lane's share of element 0 lies.
    ///
    /// # Safety
    /// They are this thread's, complete, behind a barrier.
    unsafe fn sums<const S: usize>(
        sums: Shared<f32>,
        first: u32,
        place: &Place,
        log2_lanes: u32,
        lanes: u32,
    ) -> [f32; ELEMENTS];
}

/// Where the four time steps `4 * quad ..` of the share of row `row` (a channel's lane) of
/// `y` lie. Quads of consecutive rows use different banks, and those of one lane of
/// consecutive channels as far as there are quads enough.
#[inline(always)]
pub(super) fn quad_position(row: u32, quad: u32, steps: u32) -> u32 {
    first_quad(row, steps) ^ (quad << 2)
}

/// Where a row's first quad lies. Another's place, and that of a row that differs in bits that
/// exchange quads only, differ from it in a few bits, whatever the row.
#[inline(always)]
pub(super) fn first_quad(row: u32, steps: u32) -> u32 {
    row * steps + (turn(row, steps) << 2)
}

/// By what a row's quads are exchanged. Linear: of a row that differs in the lowest two bits
/// from a multiple of four, the turn differs by the turn of those bits.
#[inline(always)]
fn turn(row: u32, steps: u32) -> u32 {
    match steps {
        32 => (row ^ row >> 3 ^ row >> 6) & 7,
        16 => (row >> 1 ^ row >> 3 ^ row >> 5) & 3,
        _ => row >> 2 & 1,
    }
}

/// `[.., L, D]`: a warp's threads are channels, or pairs of channels of 16-bit elements, each
/// with four time steps at once.
#[derive(Clone, Copy, Debug)]
pub struct Rows<T>(PhantomData<T>);

/// `[.., D, L]`: a warp's threads are time steps of one channel.
#[derive(Clone, Copy, Debug)]
pub struct Columns<T>(PhantomData<T>);

impl<T: Packed> Layout for Rows<T> {
    type Element = T;
    const ROWS: bool = true;
    const PAIRS: bool = T::CHUNK == 8;

    #[inline(always)]
    fn place(thread: u32, steps: u32, log2_channels: u32) -> Place {
        let pairs = Self::PAIRS as u32;
        let log2_columns = log2_channels - pairs;
        Place {
            channel: (thread & ((1 << log2_columns) - 1)) << pairs,
            step: 4 * (thread >> log2_columns),
            channel_stride: pairs,
            // The second four are those of the next channel, or lie half a tile behind.
            half: if Self::PAIRS {
                0
            } else {
                steps / (policy::ELEMENTS / 4)
            },
            steps,
        }
    }

    #[inline(always)]
    fn channel(place: &Place, element: usize) -> u32 {
        place.channel + (element / 4) as u32 * place.channel_stride
    }

    #[inline(always)]
    fn step(place: &Place, element: usize) -> u32 {
        place.step + (element / 4) as u32 * place.half + (element % 4) as u32
    }

    #[inline(always)]
    #[track_caller]
    unsafe fn put_pairs(pairs: Shared<f32>, place: &Place, values: [[f32; 2]; ELEMENTS]) {
        unroll_few!(ELEMENTS / 4, i => {
            let row = Self::channel(place, 4 * i) * pair_stride(place.steps);
            let at = row + 2 * Self::step(place, 4 * i);
            let four = |j: usize| values[4 * i + j];
            let [a, b, c, d] = [four(0), four(1), four(2), four(3)];
            // SAFETY: the caller's promise; strides and steps are multiples of four.
            unsafe {
                pairs.store4(at, [a[0], a[1], b[0], b[1]]);
                pairs.store4(at + 4, [c[0], c[1], d[0], d[1]]);
            }
        });
    }

    #[inline(always)]
    fn first_share(place: &Place, log2_lanes: u32) -> u32 {
        quad_position(place.channel << log2_lanes, place.step / 4, place.steps)
    }

    #[inline(always)]
    #[track_caller]
    unsafe fn sums<const S: usize>(
        sums: Shared<f32>,
        first: u32,
        place: &Place,
        log2_lanes: u32,
        lanes: u32,
    ) -> [f32; ELEMENTS] {
        let load = |lane: u32| {
            let mut shares = [[[0.0; 4]; 4]; 2];
            unroll_few!(ELEMENTS / 4, i => {
                // The second four: the next row of an even channel, or a quad further on.
                let (row, quad) = if Self::PAIRS {
                    (lane + ((i as u32) << log2_lanes), 0)
                } else {
                    (lane, i as u32 * place.half / 4)
                };
                unroll_few!(4, l => {
                    let at = further(first ^ (quad << 2), row + l as u32, place.steps, 1);
                    // SAFETY: the caller's promise; quads are aligned.
                    shares[i % 2][l % 4] = unsafe { sums.load4(at) };
                });
            });
            shares
        };
        // The zero that changes no other.
        let mut all = [-0.0; ELEMENTS];
        if lanes == 4 {
            // The most frequent, so without a loop.
            let shares = load(0);
            unroll_few!(ELEMENTS, i => {
                let of = [0, 1, 2, 3].map(|l| shares[i / 4][l][i % 4]);
                add_shares::<S, true>(&mut all[i], of, 0, 4);
            });
            return all;
        }
        let mut lane = 0;
        while lane < lanes {
            let shares = load(lane);
            let of = |i: usize| [0, 1, 2, 3].map(|l| shares[i / 4][l][i % 4]);
            if lane + 4 <= lanes {
                unroll_few!(ELEMENTS, i => {
                    add_shares::<S, true>(&mut all[i], of(i), lane, lanes);
                });
            } else {
                unroll_few!(ELEMENTS, i => {
                    add_shares::<S, false>(&mut all[i], of(i), lane, lanes);
                });
            }
            lane += 4;
        }
        all
    }
}

/// `rows` further on than `position`, which is of a row that has none of their bits: turns are
/// linear, so there are few such distances. In units of `1 / unit` words.
#[inline(always)]
pub(super) fn further(position: u32, rows: u32, steps: u32, unit: u32) -> u32 {
    (position ^ (unit * (turn(rows, steps) << 2))) + unit * rows * steps
}

impl<T: Packed> Layout for Columns<T> {
    type Element = T;
    const ROWS: bool = false;
    const PAIRS: bool = false;

    #[inline(always)]
    fn place(thread: u32, steps: u32, log2_channels: u32) -> Place {
        Place {
            channel: thread / steps,
            step: thread % steps,
            channel_stride: (1 << log2_channels) / policy::ELEMENTS,
            half: 0,
            steps,
        }
    }

    #[inline(always)]
    fn channel(place: &Place, element: usize) -> u32 {
        place.channel + element as u32 * place.channel_stride
    }

    #[inline(always)]
    fn step(place: &Place, _: usize) -> u32 {
        place.step
    }

    #[inline(always)]
    #[track_caller]
    unsafe fn put_pairs(pairs: Shared<f32>, place: &Place, values: [[f32; 2]; ELEMENTS]) {
        unroll_few!(ELEMENTS, i => {
            let at = Self::channel(place, i) * pair_stride(place.steps) + 2 * place.step;
            // SAFETY: the caller's promise.
            unsafe { pairs.store2(at, values[i]) };
        });
    }

    #[inline(always)]
    fn first_share(place: &Place, log2_lanes: u32) -> u32 {
        let row = place.channel << log2_lanes;
        quad_position(row, place.step / 4, place.steps) + place.step % 4
    }

    #[inline(always)]
    #[track_caller]
    unsafe fn sums<const S: usize>(
        sums: Shared<f32>,
        first: u32,
        place: &Place,
        log2_lanes: u32,
        lanes: u32,
    ) -> [f32; ELEMENTS] {
        let load = |element: usize, lane: u32| {
            let row = ((element as u32 * place.channel_stride) << log2_lanes) + lane;
            let mut shares = [0.0; 4];
            unroll_few!(4, l => {
                let at = further(first, row + l as u32, place.steps, 1);
                // SAFETY: the caller's promise.
                shares[l % 4] = unsafe { sums.load(at) };
            });
            shares
        };
        let mut all = [-0.0; ELEMENTS];
        if lanes == 4 {
            unroll_few!(ELEMENTS, i => { add_shares::<S, true>(&mut all[i], load(i, 0), 0, 4); });
            return all;
        }
        let mut lane = 0;
        while lane < lanes {
            unroll_few!(ELEMENTS, i => {
                if lane + 4 <= lanes {
                    add_shares::<S, true>(&mut all[i], load(i, lane), lane, lanes);
                } else {
                    add_shares::<S, false>(&mut all[i], load(i, lane), lane, lanes);
                }
            });
            lane += 4;
        }
        all
    }
}
