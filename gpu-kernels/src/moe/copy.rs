//! What one access of a copy moves: 16, 4, 2 or 1 bytes.

use crate::simt::Global;

/// A unit of a row.
pub trait Unit: Copy + 'static {
    /// A unit in registers.
    type Value: Copy;
    /// All bytes zero.
    const ZERO: Self::Value;

    /// Reads unit `index`.
    ///
    /// # Safety
    /// It lies in the array, which is aligned to it.
    unsafe fn load(array: Global<u8>, index: usize) -> Self::Value;

    /// [`load`](Self::load) of a unit that nobody on this multiprocessor reads again.
    ///
    /// # Safety
    /// As [`load`](Self::load).
    unsafe fn load_once(array: Global<u8>, index: usize) -> Self::Value;

    /// Writes unit `index`.
    ///
    /// # Safety
    /// As [`load`](Self::load); no other thread accesses it.
    unsafe fn store(array: Global<u8>, index: usize, value: Self::Value);
}

/// 16 bytes.
#[derive(Clone, Copy, Debug)]
pub struct Vector;
/// 4 bytes.
#[derive(Clone, Copy, Debug)]
pub struct Word;
/// 2 bytes.
#[derive(Clone, Copy, Debug)]
pub struct Half;
/// 1 byte.
#[derive(Clone, Copy, Debug)]
pub struct Byte;

impl Unit for Vector {
    type Value = [u32; 4];
    const ZERO: [u32; 4] = [0; 4];

    #[inline(always)]
    #[track_caller]
    unsafe fn load(array: Global<u8>, index: usize) -> [u32; 4] {
        // SAFETY: the caller's promise.
        unsafe { array.cast::<u32>().load4(4 * index) }
    }
    #[inline(always)]
    #[track_caller]
    unsafe fn load_once(array: Global<u8>, index: usize) -> [u32; 4] {
        // SAFETY: the caller's promise.
        unsafe { array.cast::<u32>().load4_once(4 * index) }
    }
    #[inline(always)]
    #[track_caller]
    unsafe fn store(array: Global<u8>, index: usize, value: [u32; 4]) {
        // SAFETY: the caller's promise.
        unsafe { array.cast::<u32>().store4(4 * index, value) };
    }
}

macro_rules! plain {
    ($($unit:ident = $t:ty;)*) => { $(
        impl Unit for $unit {
            type Value = $t;
            const ZERO: $t = 0;

            #[inline(always)]
            #[track_caller]
            unsafe fn load(array: Global<u8>, index: usize) -> $t {
                // SAFETY: the caller's promise.
                unsafe { array.cast::<$t>().load(index) }
            }
            #[inline(always)]
            #[track_caller]
            unsafe fn load_once(array: Global<u8>, index: usize) -> $t {
                // SAFETY: the caller's promise.
                unsafe { array.cast::<$t>().load_once(index) }
            }
            #[inline(always)]
            #[track_caller]
            unsafe fn store(array: Global<u8>, index: usize, value: $t) {
                // SAFETY: the caller's promise.
                unsafe { array.cast::<$t>().store(index, value) };
            }
        }
    )* };
}
plain! {
    Word = u32;
    Half = u16;
    Byte = u8;
}
