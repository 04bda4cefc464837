//! Activation functions, accurate to f32, on the special-function unit where it can.

use core::hint::select_unpredictable;

use crate::simt::math::{exp2_approx, fma, rcp_approx};

/// log2(e), to f32, and what is missing.
const LOG2_E: f32 = core::f32::consts::LOG2_E;
const LOG2_E_LOW: f32 = (core::f64::consts::LOG2_E - LOG2_E as f64) as f32;

/// `atanh(s) / s = 1 + z (ATANH[0] + z (ATANH[1] + ..))` with `z = s^2` up to 1/9: minimax,
/// relative error 5e-9.
const ATANH: [f32; 4] = [0.333_332_1, 0.200_107_63, 0.140_009_03, 0.140_059_93];

/// `ln(1 + exp(v))`; `v` itself above 20, where the two are one f32 but for 0.02 ulp.
/// Relative error at most 1e-6; zero where the result is below 2^-126.
#[inline(always)]
pub fn softplus(v: f32) -> f32 {
    // max(v, 0) + ln(1 + e), e = exp(-|v|) in 0 ..= 1: the logarithm keeps its relative
    // accuracy for small e as ln(1 + e) = 2 atanh(e / (2 + e)).
    let magnitude = -v.abs();
    let exponent = magnitude * LOG2_E;
    // What rounding the exponent lost: matters where it is large.
    let lost = fma(magnitude, LOG2_E_LOW, fma(magnitude, LOG2_E, -exponent));
    let power = exp2_approx(exponent);
    let e = fma(power, lost * core::f32::consts::LN_2, power);
    let s = e * rcp_approx(2.0 + e);
    let z = s * s;
    let series = fma(fma(fma(ATANH[3], z, ATANH[2]), z, ATANH[1]), z, ATANH[0]);
    let twice = s + s;
    let log = fma(twice * z, series, twice);
    // No branches: several softplus of a thread run side by side. Above 20 the logarithm
    // vanishes beside `v`; infinities have none.
    select_unpredictable(magnitude < -104.0, v.max(0.0), v.max(0.0) + log)
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
