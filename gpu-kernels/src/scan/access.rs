//! How a thread reads and writes its segment of a tile, eight time steps at once.
//!
//! [`Rows`]: the tile's rows are time steps; a lane is one 32-bit word of a row, one f32
//! channel or two 16-bit ones. [`Columns`]: the rows are channels; a lane is one channel,
//! whose time steps are read by whole chunks.

use super::ring::{Modular, Real, Ring};
use super::tile::Order;
use crate::simt::{Element, Plain, Shared};
use core::marker::PhantomData;
use half::{bf16, f16};

/// Time steps of one access.
pub const OCTET: usize = 8;

/// The numbers of eight time steps of `V` channels.
pub type Octet<R, const V: usize> = [[<R as Ring>::Value; V]; OCTET];

/// What a layout is computed with.
pub type Number<A, const V: usize> = <<A as Access<V>>::Ring as Ring>::Value;

/// Where a thread's segment stands in the tile's shared memory.
#[derive(Clone, Copy, Debug)]
pub struct View {
    /// Element of the segment's first time step.
    pub first: u32,
    /// Elements from one time step to the next (`Rows`).
    pub stride: u32,
    /// Whether the time steps stand backwards in the tile (`Columns`).
    pub backwards: bool,
}

/// A layout of element type and lanes.
pub trait Access<const V: usize>: Copy + 'static {
    /// What memory holds.
    type Element: Plain;
    /// What is computed with.
    type Ring: Ring;
    /// Whether the tile's rows are time steps.
    const ROWS: bool;

    /// As memory holds it.
    fn from_value(value: <Self::Ring as Ring>::Value) -> Self::Element;

    /// As it is computed with.
    fn to_value(element: Self::Element) -> <Self::Ring as Ring>::Value;

    /// Reads time steps `octet * 8 ..` of the segment.
    ///
    /// # Safety
    /// They lie in the tile, which is complete.
    unsafe fn read(tile: Shared<Self::Element>, view: &View, octet: u32) -> Octet<Self::Ring, V>;

    /// Writes time steps `octet * 8 ..` of the segment, each number rounded once.
    ///
    /// # Safety
    /// As [`read`](Self::read); the segment is this thread's alone.
    unsafe fn write(
        tile: Shared<Self::Element>,
        view: &View,
        octet: u32,
        values: Octet<Self::Ring, V>,
    );

    /// Reads one time step of the segment.
    ///
    /// # Safety
    /// As [`read`](Self::read).
    #[inline(always)]
    #[track_caller]
    unsafe fn read_one(
        tile: Shared<Self::Element>,
        view: &View,
        step: u32,
    ) -> [<Self::Ring as Ring>::Value; V] {
        let mut values = [Self::Ring::NOTHING; V];
        unroll!(V, v => {
            // SAFETY: the caller's promise.
            let element = unsafe { tile.load(Self::element(view, step) + v as u32) };
            values[v] = Self::to_value(element);
        });
        values
    }

    /// Writes one time step of the segment.
    ///
    /// # Safety
    /// As [`write`](Self::write).
    #[inline(always)]
    #[track_caller]
    unsafe fn write_one(
        tile: Shared<Self::Element>,
        view: &View,
        step: u32,
        values: [<Self::Ring as Ring>::Value; V],
    ) {
        // SAFETY: the caller's promise.
        unsafe {
            unroll!(V, v => {
                let at = Self::element(view, step) + v as u32;
                tile.store(at, Self::from_value(values[v]));
            });
        }
    }

    /// Element of time step `step` in the tile.
    fn element(view: &View, step: u32) -> u32;
}

/// Rows are time steps.
#[derive(Clone, Copy, Debug)]
pub struct Rows<T>(PhantomData<T>);

/// Rows are channels.
#[derive(Clone, Copy, Debug)]
pub struct Columns<T>(PhantomData<T>);

macro_rules! rows_of_words {
    ($t:ty, $ring:ty) => {
        impl Access<1> for Rows<$t> {
            type Element = $t;
            type Ring = $ring;
            const ROWS: bool = true;

            #[inline(always)]
            fn from_value(value: $t) -> $t {
                value
            }
            #[inline(always)]
            fn to_value(element: $t) -> $t {
                element
            }
            #[inline(always)]
            fn element(view: &View, step: u32) -> u32 {
                view.first + step * view.stride
            }
            #[inline(always)]
            #[track_caller]
            unsafe fn read(tile: Shared<$t>, view: &View, octet: u32) -> Octet<$ring, 1> {
                let first = Self::element(view, octet * OCTET as u32);
                let mut values = [[<$ring>::NOTHING; 1]; OCTET];
                unroll!(OCTET, i => {
                    // SAFETY: the caller's promise.
                    values[i] = [unsafe { tile.load(first + i as u32 * view.stride) }];
                });
                values
            }
            #[inline(always)]
            #[track_caller]
            unsafe fn write(tile: Shared<$t>, view: &View, octet: u32, values: Octet<$ring, 1>) {
                let first = Self::element(view, octet * OCTET as u32);
                unroll!(OCTET, i => {
                    // SAFETY: the caller's promise.
                    unsafe { tile.store(first + i as u32 * view.stride, values[i][0]) };
                });
            }
        }
    };
}
rows_of_words!(f32, Real);
rows_of_words!(u32, Modular);

macro_rules! rows_of_halves {
    ($t:ty) => {
        impl Access<2> for Rows<$t> {
            type Element = $t;
            type Ring = Real;
            const ROWS: bool = true;

            #[inline(always)]
            fn from_value(value: f32) -> $t {
                <$t as Element>::from_f32(value)
            }
            #[inline(always)]
            fn to_value(element: $t) -> f32 {
                element.to_f32()
            }
            #[inline(always)]
            fn element(view: &View, step: u32) -> u32 {
                view.first + step * view.stride
            }
            #[inline(always)]
            #[track_caller]
            unsafe fn read(tile: Shared<$t>, view: &View, octet: u32) -> Octet<Real, 2> {
                let first = Self::element(view, octet * OCTET as u32);
                let mut values = [[0.0; 2]; OCTET];
                unroll!(OCTET, i => {
                    // SAFETY: the caller's promise; a lane begins on a word.
                    let word = unsafe {
                        tile.add(first + i as u32 * view.stride).cast::<u32>().load(0)
                    };
                    values[i] = halves::<$t>(word);
                });
                values
            }
            #[inline(always)]
            #[track_caller]
            unsafe fn write(tile: Shared<$t>, view: &View, octet: u32, values: Octet<Real, 2>) {
                let first = Self::element(view, octet * OCTET as u32);
                unroll!(OCTET, i => {
                    let word = word::<$t>(values[i]);
                    // SAFETY: the caller's promise; a lane begins on a word.
                    unsafe {
                        tile.add(first + i as u32 * view.stride).cast::<u32>().store(0, word);
                    }
                });
            }
        }
    };
}
rows_of_halves!(f16);
rows_of_halves!(bf16);

/// The element of time step `step` in a swizzled tile of `T`.
#[inline(always)]
fn swizzled<T>(view: &View, step: u32) -> u32 {
    let per_chunk = 16 / size_of::<T>() as u32;
    let element = if view.backwards {
        view.first - step
    } else {
        view.first + step
    };
    Order::Swizzled.position(element / per_chunk) / size_of::<T>() as u32 + element % per_chunk
}

/// The chunk with the time steps `step ..` of a segment (backwards: with those down from it).
#[inline(always)]
fn chunk<T: Plain>(tile: Shared<T>, view: &View, step: u32) -> Shared<u32> {
    let per_chunk = 16 / size_of::<T>() as u32;
    let element = if view.backwards {
        view.first - step
    } else {
        view.first + step
    };
    tile.add(Order::Swizzled.position(element / per_chunk) / size_of::<T>() as u32)
        .cast()
}

macro_rules! columns_of_words {
    ($t:ty, $ring:ty) => {
        impl Access<1> for Columns<$t> {
            type Element = $t;
            type Ring = $ring;
            const ROWS: bool = false;

            #[inline(always)]
            fn from_value(value: $t) -> $t {
                value
            }
            #[inline(always)]
            fn to_value(element: $t) -> $t {
                element
            }
            #[inline(always)]
            fn element(view: &View, step: u32) -> u32 {
                swizzled::<$t>(view, step)
            }
            #[inline(always)]
            #[track_caller]
            unsafe fn read(tile: Shared<$t>, view: &View, octet: u32) -> Octet<$ring, 1> {
                let mut values = [[<$ring>::NOTHING; 1]; OCTET];
                let step = octet * OCTET as u32;
                // SAFETY: the caller's promise; a chunk is aligned.
                let (low, high) = unsafe {
                    (
                        chunk(tile, view, step).load4(0).map(crate::simt::Word::from_bits),
                        chunk(tile, view, step + 4).load4(0).map(crate::simt::Word::from_bits),
                    )
                };
                unroll!(4, i => {
                    let at = if view.backwards { [low[3 - i], high[3 - i]] } else { [low[i], high[i]] };
                    values[i] = [at[0]];
                    values[4 + i] = [at[1]];
                });
                values
            }
            #[inline(always)]
            #[track_caller]
            unsafe fn write(tile: Shared<$t>, view: &View, octet: u32, values: Octet<$ring, 1>) {
                let step = octet * OCTET as u32;
                let mut bits = [0; OCTET];
                unroll!(OCTET, i => { bits[i] = crate::simt::Word::to_bits(values[i][0]); });
                let (mut low, mut high) = ([0; 4], [0; 4]);
                unroll!(4, i => {
                    // A choice of values: one of places in an array keeps it in memory.
                    let pair = if view.backwards {
                        [bits[3 - i], bits[7 - i]]
                    } else {
                        [bits[i], bits[4 + i]]
                    };
                    low[i] = pair[0];
                    high[i] = pair[1];
                });
                // SAFETY: the caller's promise; a chunk is aligned.
                unsafe {
                    chunk(tile, view, step).store4(0, low);
                    chunk(tile, view, step + 4).store4(0, high);
                }
            }
        }
    };
}
columns_of_words!(f32, Real);
columns_of_words!(u32, Modular);

macro_rules! columns_of_halves {
    ($t:ty) => {
        impl Access<1> for Columns<$t> {
            type Element = $t;
            type Ring = Real;
            const ROWS: bool = false;

            #[inline(always)]
            fn from_value(value: f32) -> $t {
                <$t as Element>::from_f32(value)
            }
            #[inline(always)]
            fn to_value(element: $t) -> f32 {
                element.to_f32()
            }
            #[inline(always)]
            fn element(view: &View, step: u32) -> u32 {
                swizzled::<$t>(view, step)
            }
            #[inline(always)]
            #[track_caller]
            unsafe fn read(tile: Shared<$t>, view: &View, octet: u32) -> Octet<Real, 1> {
                // SAFETY: the caller's promise; a chunk is aligned.
                let words = unsafe { chunk(tile, view, octet * OCTET as u32).load4(0) };
                let mut values = [[0.0; 1]; OCTET];
                unroll!(4, i => {
                    let [first, second] = halves::<$t>(words[i]);
                    if view.backwards {
                        values[7 - 2 * i] = [first];
                        values[6 - 2 * i] = [second];
                    } else {
                        values[2 * i] = [first];
                        values[2 * i + 1] = [second];
                    }
                });
                values
            }
            #[inline(always)]
            #[track_caller]
            unsafe fn write(tile: Shared<$t>, view: &View, octet: u32, values: Octet<Real, 1>) {
                let mut words = [0; 4];
                unroll!(4, i => {
                    words[i] = word::<$t>(if view.backwards {
                        [values[7 - 2 * i][0], values[6 - 2 * i][0]]
                    } else {
                        [values[2 * i][0], values[2 * i + 1][0]]
                    });
                });
                // SAFETY: the caller's promise; a chunk is aligned.
                unsafe { chunk(tile, view, octet * OCTET as u32).store4(0, words) }
            }
        }
    };
}
columns_of_halves!(f16);
columns_of_halves!(bf16);

/// The two 16-bit elements of a word.
#[inline(always)]
fn halves<T: Half>(word: u32) -> [f32; 2] {
    [
        T::of_bits(word as u16).to_f32(),
        T::of_bits((word >> 16) as u16).to_f32(),
    ]
}

/// Two numbers as 16-bit elements in a word, each rounded once.
#[inline(always)]
fn word<T: Half>(values: [f32; 2]) -> u32 {
    let [low, high] = values.map(|value| T::from_f32(value).bits());
    u32::from(low) | u32::from(high) << 16
}

/// A 16-bit element type.
trait Half: Element {
    fn of_bits(bits: u16) -> Self;
    fn bits(self) -> u16;
}

impl Half for f16 {
    #[inline(always)]
    fn of_bits(bits: u16) -> Self {
        f16::from_bits(bits)
    }
    #[inline(always)]
    fn bits(self) -> u16 {
        self.to_bits()
    }
}

impl Half for bf16 {
    #[inline(always)]
    fn of_bits(bits: u16) -> Self {
        bf16::from_bits(bits)
    }
    #[inline(always)]
    fn bits(self) -> u16 {
        self.to_bits()
    }
}
