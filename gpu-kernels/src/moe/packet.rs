//! What one access of a computation moves: 16 bytes of elements, or one element.

use crate::simt::{Element, Global};
use core::marker::PhantomData;
use half::{bf16, f16};

/// The most elements of a packet.
pub const MOST: usize = 8;

/// A packet's elements as f32; the first `ELEMENTS` count.
pub type Floats = [f32; MOST];

/// A unit of a row of elements.
pub trait Packet: Copy + 'static {
    /// What memory holds.
    type Element: Element;
    /// A packet in registers.
    type Raw: Copy;
    /// Elements of it.
    const ELEMENTS: usize;
    /// Any packet.
    const NOTHING: Self::Raw;

    /// Reads packet `index`.
    ///
    /// # Safety
    /// It lies in the array, which is aligned to it.
    unsafe fn load(array: Global<Self::Element>, index: usize) -> Self::Raw;

    /// Writes packet `index`.
    ///
    /// # Safety
    /// As [`load`](Self::load); no other thread accesses it.
    unsafe fn store(array: Global<Self::Element>, index: usize, raw: Self::Raw);

    /// Exact.
    fn widen(raw: Self::Raw) -> Floats;

    /// Each element rounded once.
    fn narrow(floats: Floats) -> Self::Raw;
}

/// One element.
#[derive(Clone, Copy, Debug)]
pub struct One<T>(PhantomData<T>);

/// 16 bytes of elements.
#[derive(Clone, Copy, Debug)]
pub struct Pack<T>(PhantomData<T>);

impl<T: Element + Default> Packet for One<T>
where
    One<T>: Zero<T>,
{
    type Element = T;
    type Raw = T;
    const ELEMENTS: usize = 1;
    const NOTHING: T = <Self as Zero<T>>::ZERO;

    #[inline(always)]
    #[track_caller]
    unsafe fn load(array: Global<T>, index: usize) -> T {
        // SAFETY: the caller's promise.
        unsafe { array.load(index) }
    }
    #[inline(always)]
    #[track_caller]
    unsafe fn store(array: Global<T>, index: usize, raw: T) {
        // SAFETY: the caller's promise.
        unsafe { array.store(index, raw) };
    }
    #[inline(always)]
    fn widen(raw: T) -> Floats {
        let mut floats = [0.0; MOST];
        floats[0] = raw.to_f32();
        floats
    }
    #[inline(always)]
    fn narrow(floats: Floats) -> T {
        T::from_f32(floats[0])
    }
}

/// A constant that `Element` does not name.
pub trait Zero<T> {
    /// Zero.
    const ZERO: T;
}

impl Zero<f32> for One<f32> {
    const ZERO: f32 = 0.0;
}
impl Zero<f16> for One<f16> {
    const ZERO: f16 = f16::ZERO;
}
impl Zero<bf16> for One<bf16> {
    const ZERO: bf16 = bf16::ZERO;
}

impl Packet for Pack<f32> {
    type Element = f32;
    type Raw = [f32; 4];
    const ELEMENTS: usize = 4;
    const NOTHING: [f32; 4] = [0.0; 4];

    #[inline(always)]
    #[track_caller]
    unsafe fn load(array: Global<f32>, index: usize) -> [f32; 4] {
        // SAFETY: the caller's promise.
        unsafe { array.load4(4 * index) }
    }
    #[inline(always)]
    #[track_caller]
    unsafe fn store(array: Global<f32>, index: usize, raw: [f32; 4]) {
        // SAFETY: the caller's promise.
        unsafe { array.store4(4 * index, raw) };
    }
    #[inline(always)]
    fn widen([a, b, c, d]: [f32; 4]) -> Floats {
        [a, b, c, d, 0.0, 0.0, 0.0, 0.0]
    }
    #[inline(always)]
    fn narrow([a, b, c, d, ..]: Floats) -> [f32; 4] {
        [a, b, c, d]
    }
}

macro_rules! pairs {
    ($($t:ty),*) => { $(
        impl Packet for Pack<$t> {
            type Element = $t;
            type Raw = [u32; 4];
            const ELEMENTS: usize = 8;
            const NOTHING: [u32; 4] = [0; 4];

            #[inline(always)]
            #[track_caller]
            unsafe fn load(array: Global<$t>, index: usize) -> [u32; 4] {
                // SAFETY: the caller's promise.
                unsafe { array.cast::<u32>().load4(4 * index) }
            }
            #[inline(always)]
            #[track_caller]
            unsafe fn store(array: Global<$t>, index: usize, raw: [u32; 4]) {
                // SAFETY: the caller's promise.
                unsafe { array.cast::<u32>().store4(4 * index, raw) };
            }
            #[inline(always)]
            fn widen(raw: [u32; 4]) -> Floats {
                let mut floats = [0.0; MOST];
                unroll!(4, word => {
                    floats[2 * word] = Element::to_f32(<$t>::from_bits(raw[word] as u16));
                    floats[2 * word + 1] = Element::to_f32(<$t>::from_bits((raw[word] >> 16) as u16));
                });
                floats
            }
            #[inline(always)]
            fn narrow(floats: Floats) -> [u32; 4] {
                let mut raw = [0; 4];
                unroll!(4, word => {
                    let low: $t = Element::from_f32(floats[2 * word]);
                    let high: $t = Element::from_f32(floats[2 * word + 1]);
                    raw[word] = u32::from(low.to_bits()) | u32::from(high.to_bits()) << 16;
                });
                raw
            }
        }
    )* };
}
pairs!(f16, bf16);
