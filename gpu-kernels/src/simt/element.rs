//! The types memory holds, and the conversions between sequence elements and f32.

use super::arch;
use half::{bf16, f16};

mod sealed {
    pub trait Sealed {}
}

/// A type that a [`Global`](super::Global) or [`Shared`](super::Shared) view can hold:
/// plain bits of 1, 2, 4 or 8 bytes.
pub trait Plain: Copy + bytemuck::Pod + sealed::Sealed + 'static {}

macro_rules! plain {
    ($($t:ty),*) => { $(impl sealed::Sealed for $t {} impl Plain for $t {})* };
}
plain!(u8, u16, u32, u64, i32, i64, f32, f16, bf16);

/// A 32-bit word: what shuffles move and what 16-byte accesses hold four of.
pub trait Word: Plain {
    /// The bits.
    fn to_bits(self) -> u32;
    /// The value with these bits.
    fn from_bits(bits: u32) -> Self;
}

impl Word for u32 {
    #[inline(always)]
    fn to_bits(self) -> u32 {
        self
    }
    #[inline(always)]
    fn from_bits(bits: u32) -> Self {
        bits
    }
}

impl Word for i32 {
    #[inline(always)]
    fn to_bits(self) -> u32 {
        self as u32
    }
    #[inline(always)]
    fn from_bits(bits: u32) -> Self {
        bits as i32
    }
}

impl Word for f32 {
    #[inline(always)]
    fn to_bits(self) -> u32 {
        f32::to_bits(self)
    }
    #[inline(always)]
    fn from_bits(bits: u32) -> Self {
        f32::from_bits(bits)
    }
}

/// An element of a sequence: stored as f32, f16 or bf16, computed with as f32.
pub trait Element: Plain {
    /// Exact.
    fn to_f32(self) -> f32;
    /// Rounded to nearest, ties to even; overflow becomes infinity.
    fn from_f32(value: f32) -> Self;
}

impl Element for f32 {
    #[inline(always)]
    fn to_f32(self) -> f32 {
        self
    }
    #[inline(always)]
    fn from_f32(value: f32) -> Self {
        value
    }
}

impl Element for f16 {
    #[inline(always)]
    fn to_f32(self) -> f32 {
        arch::math::f16_to_f32(self.to_bits())
    }
    #[inline(always)]
    fn from_f32(value: f32) -> Self {
        f16::from_bits(arch::math::f32_to_f16(value))
    }
}

impl Element for bf16 {
    #[inline(always)]
    fn to_f32(self) -> f32 {
        f32::from_bits((self.to_bits() as u32) << 16)
    }
    #[inline(always)]
    fn from_f32(value: f32) -> Self {
        bf16::from_bits(arch::math::f32_to_bf16(value))
    }
}
