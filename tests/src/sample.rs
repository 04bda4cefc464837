//! Element types as the tests see them: conversions taken from `half`, not from the code
//! under test, and extreme values that each type can hold.

use half::{bf16, f16};

/// An element type of sequences.
pub trait Sample: ferroseq::Element + PartialEq {
    /// Finite gates so large that ten of them multiply past f32's range.
    const HUGE: f32;
    /// Gates so small that ten of them multiply to zero in f32.
    const TINY: f32;
    /// The smallest positive value of the type: a denormal.
    const DENORMAL: f32;

    /// The exact value.
    fn widen(self) -> f32;
    /// Rounded to nearest even; overflow becomes infinity.
    fn narrow(value: f32) -> Self;
}

impl Sample for f32 {
    const HUGE: f32 = 1e30;
    const TINY: f32 = 1e-30;
    const DENORMAL: f32 = 1e-45;

    fn widen(self) -> f32 {
        self
    }
    fn narrow(value: f32) -> Self {
        value
    }
}

impl Sample for f16 {
    const HUGE: f32 = 32768.0;
    const TINY: f32 = 6e-8;
    const DENORMAL: f32 = 6e-8;

    fn widen(self) -> f32 {
        self.to_f32()
    }
    fn narrow(value: f32) -> Self {
        Self::from_f32(value)
    }
}

impl Sample for bf16 {
    const HUGE: f32 = 1e30;
    const TINY: f32 = 1e-30;
    const DENORMAL: f32 = 9.2e-41;

    fn widen(self) -> f32 {
        self.to_f32()
    }
    fn narrow(value: f32) -> Self {
        Self::from_f32(value)
    }
}

/// The bits that a bit-for-bit comparison looks at: those of the f32 that holds the value
/// exactly, with every NaN the same, since no definition fixes a NaN's payload.
pub fn comparable_bits<T: Sample>(value: T) -> u32 {
    let value = value.widen();
    if value.is_nan() {
        f32::NAN.to_bits()
    } else {
        value.to_bits()
    }
}
