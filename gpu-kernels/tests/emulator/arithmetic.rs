//! Conversions, against definitions of the formats.

use gpu_kernels::simt::Element;
use half::{bf16, f16};

/// The value of an f16, from its bits.
fn value_of_f16(bits: u16) -> f64 {
    let sign = if bits >> 15 != 0 { -1.0 } else { 1.0 };
    let (exponent, fraction) = (i32::from(bits >> 10 & 31), f64::from(bits & 1023));
    match exponent {
        0 => sign * fraction * 2f64.powi(-24),
        31 if fraction == 0.0 => sign * f64::INFINITY,
        31 => f64::NAN,
        _ => sign * (1.0 + fraction / 1024.0) * 2f64.powi(exponent - 15),
    }
}

#[test]
fn every_f16_and_bf16_converts_exactly_and_back() {
    for bits in 0..=u16::MAX {
        let (half, wide) = (f16::from_bits(bits), value_of_f16(bits));
        let converted = half.to_f32();
        if wide.is_nan() {
            assert!(converted.is_nan());
            assert!(<f16 as Element>::from_f32(converted).is_nan());
        } else {
            assert_eq!(f64::from(Element::to_f32(half)).to_bits(), wide.to_bits());
            assert_eq!(<f16 as Element>::from_f32(converted).to_bits(), bits);
        }
        let brain = bf16::from_bits(bits);
        let converted = Element::to_f32(brain);
        assert_eq!(converted.to_bits(), u32::from(bits) << 16);
        if converted.is_nan() {
            assert!(<bf16 as Element>::from_f32(converted).is_nan());
        } else {
            assert_eq!(<bf16 as Element>::from_f32(converted).to_bits(), bits);
        }
    }
}

/// Between two neighbours a value goes to the nearer one, half way to the even one.
#[test]
fn rounding_is_to_nearest_even() {
    for bits in 0..0x7BFFu16 {
        let (low, high) = (value_of_f16(bits), value_of_f16(bits + 1));
        let middle = ((low + high) / 2.0) as f32;
        let even = bits + bits % 2;
        for (value, expected) in [
            (middle, even),
            (middle.next_down(), bits),
            (middle.next_up(), bits + 1),
        ] {
            assert_eq!(<f16 as Element>::from_f32(value).to_bits(), expected);
            assert_eq!(
                <f16 as Element>::from_f32(-value).to_bits(),
                expected | 0x8000
            );
        }
    }
    for bits in 0..0x7F7Fu16 {
        let middle = f32::from_bits(u32::from(bits) << 16 | 0x8000);
        let even = bits + bits % 2;
        for (value, expected) in [
            (middle, even),
            (middle.next_down(), bits),
            (middle.next_up(), bits + 1),
        ] {
            assert_eq!(<bf16 as Element>::from_f32(value).to_bits(), expected);
            assert_eq!(
                <bf16 as Element>::from_f32(-value).to_bits(),
                expected | 0x8000
            );
        }
    }
    // 65520 is half way between the largest f16 and what would be the next one.
    assert_eq!(<f16 as Element>::from_f32(65520.0), f16::INFINITY);
    assert_eq!(<f16 as Element>::from_f32(65520f32.next_down()), f16::MAX);
    assert_eq!(<bf16 as Element>::from_f32(f32::MAX), bf16::INFINITY);
}
