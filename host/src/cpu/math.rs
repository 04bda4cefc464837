//! Exponential, softplus and SiLU of f32, without branches or calls, so that loops over them
//! vectorise. Inlined into functions that `multiversion` compiles for FMA.
//!
//! Polynomials are minimax (Remez), their errors below 2^-28; with the roundings of their
//! evaluation each function is within the units in the last place that its test states.

use std::f32::consts::LOG2_E;

/// `log2(e)` minus [`LOG2_E`].
const LOG2_E_LOW: f32 = 1.925_963e-8;
/// 2^23 * 1.5: adding it leaves the nearest integer in the low bits.
const TO_INTEGER: f32 = 12_582_912.0;

/// `2^v` to 1 ulp. Below 2^-126 zero, so never a denormal.
#[inline(always)]
pub(super) fn exp2(v: f32) -> f32 {
    exp2_of_sum(v, 0.0)
}

/// `e^v` to 2 ulp, whatever the size of v. Below 2^-126 zero.
#[inline(always)]
pub(super) fn exp(v: f32) -> f32 {
    let high = v * LOG2_E;
    // Of an infinite v the low part is NaN, which must not reach the sum.
    let low = v.mul_add(LOG2_E, -high) + v * LOG2_E_LOW;
    exp2_of_sum(high, if v.abs() < 1e4 { low } else { 0.0 })
}

/// `2^(high + low)` for a `low` far below 1.
#[inline(always)]
fn exp2_of_sum(high: f32, low: f32) -> f32 {
    let shifted = high + TO_INTEGER;
    let fraction = (high - (shifted - TO_INTEGER)) + low;
    let mut power = 1.534_581_2e-4_f32;
    for coefficient in [
        0.001_339_993_1,
        0.009_618_489,
        0.055_503_286,
        0.240_226_46,
        0.693_147_2,
        1.0,
    ] {
        power = power.mul_add(fraction, coefficient);
    }
    // The integer goes to the exponent: 2^128 times a power below 1 is in range still.
    let scaled = f32::from_bits(power.to_bits().wrapping_add(shifted.to_bits() << 23));
    // Written so that NaN comes out as NaN.
    let scaled = if high < 128.0 {
        scaled
    } else {
        high + f32::INFINITY
    };
    if high < -126.0 { 0.0 } else { scaled }
}

/// `ln(1 + e^v)` to 4 ulp; above 20 that is v.
#[inline(always)]
pub(super) fn softplus(v: f32) -> f32 {
    // ln(1 + u) = 2 atanh(u / (2 + u)), its argument in [0, 1/3].
    let u = exp(-v.abs());
    let s = u / (2.0 + u);
    let square = s * s;
    let mut series = 0.122_124_545_f32;
    for coefficient in [0.106_949_806, 0.143_105_21, 0.199_993_39, 0.333_333_4, 1.0] {
        series = series.mul_add(square, coefficient);
    }
    let positive = if v < 0.0 { 0.0 } else { v };
    (2.0 * s).mul_add(series, positive)
}

/// `v / (1 + e^-v)` to 5 ulp, or 2^-126 times |v| where that is more.
#[inline(always)]
pub(super) fn silu(v: f32) -> f32 {
    let u = exp(-v.abs());
    let numerator = if v < 0.0 { v * u } else { v };
    numerator / (1.0 + u)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every sign and exponent, and values between.
    fn values() -> impl Iterator<Item = f32> {
        let all = (0..=u16::MAX).flat_map(|high| {
            [0u32, 0x1234, 0x9abc, 0xffff].map(|low| f32::from_bits(u32::from(high) << 16 | low))
        });
        let dense = (0..400_000).map(|i| i as f32 * 1.000_1e-3 - 200.0);
        all.chain(dense)
    }

    fn check(
        name: &str,
        ulps: f64,
        ours: fn(f32) -> f32,
        exact: fn(f64) -> f64,
        slack: fn(f64) -> f64,
    ) {
        let mut worst = (0.0, 0.0);
        for v in values() {
            let (found, expected) = (ours(v), exact(v.into()));
            if expected.is_nan() {
                assert!(found.is_nan(), "{name}({v:e}) is {found:e}, not NaN");
                continue;
            }
            if f64::from(expected as f32) == f64::from(found) {
                continue;
            }
            let unit = 2f64.powi(expected.abs().log2().floor() as i32 - 23);
            let error = (f64::from(found) - expected).abs();
            let off = (error - slack(v.into())).max(0.0) / unit;
            assert!(
                off <= ulps,
                "{name}({v:e}) is {found:e}, not {expected:e}: {off} ulp"
            );
            if off > worst.0 {
                worst = (off, f64::from(v));
            }
        }
        println!("{name}: {:.2} ulp at {:e}", worst.0, worst.1);
    }

    const SMALLEST: f64 = f32::MIN_POSITIVE as f64;

    #[test]
    fn functions_are_accurate_everywhere() {
        check("exp2", 1.0, exp2, f64::exp2, |_| SMALLEST);
        check("exp", 2.0, exp, f64::exp, |_| SMALLEST);
        let exact_softplus = |v: f64| match v.is_nan() {
            true => v,
            false => v.max(0.0) + (-v.abs()).exp().ln_1p(),
        };
        check("softplus", 4.0, softplus, exact_softplus, |_| SMALLEST);
        let exact_silu = |v: f64| v / (1.0 + (-v).exp());
        check("silu", 5.0, silu, exact_silu, |v| SMALLEST * v.abs());
    }

    #[test]
    fn special_values() {
        assert_eq!(exp2(f32::INFINITY), f32::INFINITY);
        assert_eq!(exp2(f32::NEG_INFINITY), 0.0);
        assert_eq!(exp2(128.0), f32::INFINITY);
        assert!(exp2(127.999_99).is_finite());
        assert!(exp2(f32::from_bits(0x7fff_ffff)).is_nan());
        assert!(softplus(f32::NAN).is_nan());
        assert_eq!(softplus(f32::INFINITY), f32::INFINITY);
        assert_eq!(softplus(f32::NEG_INFINITY), 0.0);
        assert_eq!(softplus(20.0), 20.0);
        assert!(silu(f32::NEG_INFINITY).is_nan());
        assert_eq!(silu(-1000.0), 0.0);
    }
}
