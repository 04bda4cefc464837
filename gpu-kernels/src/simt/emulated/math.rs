//! Arithmetic. The approximations err as much as the hardware's documentation allows, by
//! an amount that depends on the argument alone: results are the same in every schedule,
//! and a test that needs more accuracy than is promised fails.

use half::{bf16, f16};

pub fn fma(a: f32, b: f32, c: f32) -> f32 {
    a.mul_add(b, c)
}

/// Half an ulp of a normal f32, relative: what rounding the result adds.
const ROUNDING: f64 = 1.0 / (1 << 24) as f64;
/// The documented bound of `ex2.approx` and `lg2.approx`.
const BOUND: f64 = 1.0 / (1 << 22) as f64;

/// A number in -1 ..= 1 that looks random but follows from `bits`.
fn noise(bits: u32) -> f64 {
    let mut word = u64::from(bits).wrapping_add(0x9E37_79B9_7F4A_7C15);
    word = (word ^ (word >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    word ^= word >> 31;
    (word >> 32) as f64 / f64::from(u32::MAX) * 2.0 - 1.0
}

/// Denormals become zeros of their sign.
fn flush(x: f32) -> f32 {
    if x.is_subnormal() {
        0.0f32.copysign(x)
    } else {
        x
    }
}

pub fn exp2_approx(x: f32) -> f32 {
    let x = flush(x);
    if x == 0.0 || !x.is_finite() {
        // 1, 0 and infinity are documented results of the special arguments.
        return x.exp2();
    }
    let error = noise(x.to_bits()) * (BOUND - 2.0 * ROUNDING);
    flush((f64::from(x).exp2() * (1.0 + error)) as f32)
}

pub fn log2_approx(x: f32) -> f32 {
    let x = flush(x);
    if x <= 0.0 || !x.is_finite() {
        return x.abs().log2() + if x < 0.0 { f32::NAN } else { 0.0 };
    }
    let (exact, error) = (
        f64::from(x).log2(),
        noise(x.to_bits()) * (BOUND - 2.0 * ROUNDING),
    );
    // Absolute where the logarithm is below 1, relative elsewhere.
    let near = x > 0.5 && x < 2.0;
    flush((exact + if near { error } else { exact * error }) as f32)
}

pub fn rcp_approx(x: f32) -> f32 {
    let x = flush(x);
    if x == 0.0 || !x.is_finite() {
        return x.recip();
    }
    let exact = f64::from(x).recip();
    let nearest = exact as f32;
    let direction = noise(x.to_bits());
    let other = if direction < -1.0 / 3.0 {
        nearest.next_down()
    } else if direction > 1.0 / 3.0 {
        nearest.next_up()
    } else {
        nearest
    };
    // One ulp of the exact result's binade, the smaller one at a boundary.
    let magnitude = nearest.abs();
    let ulp = f64::from(magnitude) - f64::from(magnitude.next_down());
    let within = (f64::from(other) - exact).abs() <= ulp;
    flush(if within { other } else { nearest })
}

/// What every conversion makes of a NaN.
const NAN: u16 = 0x7FFF;

pub fn f16_to_f32(bits: u16) -> f32 {
    f16::from_bits(bits).to_f32()
}

pub fn f32_to_f16(value: f32) -> u16 {
    if value.is_nan() {
        return NAN;
    }
    f16::from_f32(value).to_bits()
}

pub fn f32_to_bf16(value: f32) -> u16 {
    if value.is_nan() {
        return NAN;
    }
    bf16::from_f32(value).to_bits()
}

pub fn pack_f16(low: f32, high: f32) -> u32 {
    u32::from(f32_to_f16(low)) | u32::from(f32_to_f16(high)) << 16
}

pub fn pack_bf16(low: f32, high: f32) -> u32 {
    u32::from(f32_to_bf16(low)) | u32::from(f32_to_bf16(high)) << 16
}
