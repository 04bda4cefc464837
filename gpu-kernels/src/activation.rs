//! Activation functions, accurate to f32, on the special-function unit where it can.

use crate::simt::math::{exp2_approx, fma};
use core::f32::consts::{LN_2, LOG2_E};
use core::hint::select_unpredictable;

/// `ln(1 + e) / e = 1 + e (LN_1P[0] + e (LN_1P[1] + ..))` for e in 0 ..= 1: minimax, relative
/// error 4e-8.
const LN_1P: [f32; 8] = [
    -0.499_996_48,
    0.333_213_24,
    -0.248_571_63,
    0.191_536_55,
    -0.137_538,
    0.079_204_49,
    -0.030_065_766,
    0.005_364_817,
];

/// `ln(1 + exp(v))`; `v` itself above 20, where the logarithm's rest is below half an ulp.
/// Relative error at most 1e-6; zero where the result is below 2^-126.
#[inline(always)]
pub fn softplus(v: f32) -> f32 {
    // No branches: several of a thread run side by side.
    select_unpredictable(v.abs() > 104.0, v.max(0.0), softplus_near(v))
}

/// [`softplus`] of numbers up to 2^127 in magnitude; NaN for infinities.
#[inline(always)]
pub fn softplus_near(v: f32) -> f32 {
    // max(v, 0) + ln(1 + e), e = exp(-|v|) in 0 ..= 1.
    let magnitude = -v.abs();
    let exponent = magnitude * LOG2_E;
    let power = exp2_approx(exponent);
    // What rounding the exponent lost: matters where it is large.
    let lost = fma(-exponent, LN_2, magnitude);
    let e = fma(power, lost, power);
    let mut series = LN_1P[7];
    unroll!(7, i => { series = fma(series, e, LN_1P[6 - i]); });
    v.max(0.0) + fma(e * e, series, e)
}

#[cfg(test)]
mod tests {
    use super::softplus;

    #[test]
    fn softplus_is_accurate_everywhere() {
        let mut worst = 0f64;
        for i in -87_000..25_000 {
            let v = i as f32 / 1000.0;
            let exact = f64::from(v).exp().ln_1p();
            worst = worst.max((f64::from(softplus(v)) / exact - 1.0).abs());
        }
        assert!(worst < 1e-6, "{worst}");
        for v in [1e-6f32, -1e-6, 1e-38, 0.0, -0.0] {
            let exact = f64::from(v).exp().ln_1p();
            assert!((f64::from(softplus(v)) / exact - 1.0).abs() < 1e-6, "{v}");
        }
    }

    #[test]
    fn softplus_is_the_identity_above_20_and_never_overflows() {
        for v in [20.000_002, 20.5, 88.0, 89.0, 1e30, f32::MAX, f32::INFINITY] {
            assert_eq!(softplus(v), v);
        }
        for v in [-104.5, -200.0, f32::MIN, f32::NEG_INFINITY] {
            assert_eq!(softplus(v), 0.0);
        }
        assert!((0.0..=1e-37).contains(&softplus(-90.0)));
        assert!(softplus(f32::NAN).is_nan());
    }
}
