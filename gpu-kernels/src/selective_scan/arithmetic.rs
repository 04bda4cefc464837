//! The arithmetic of one element, the same in the scan and in the step: softplus, the
//! decay's exponent, the gate.
//!
//! Decays are `2^(delta * A*log2(e))` on the special-function unit, relative error at most
//! 2^-22 and half an ulp of the exponent, which counts only where the decay is small.

use crate::simt::math::{exp2_approx, fma, rcp_approx};

/// log2(e), in two parts, and ln(2).
const LOG2_E: f32 = core::f32::consts::LOG2_E;
const LOG2_E_REST: f32 = 1.925_963e-8;
const LN_2: f32 = core::f32::consts::LN_2;

/// ln(1 + e) / e for e from 0 to 1: minimax polynomial, relative error 4e-8 before rounding.
const LN_1P: [f32; 9] = [
    1.0,
    -0.499_996_48,
    0.333_213_24,
    -0.248_571_63,
    0.191_536_55,
    -0.137_538,
    0.079_204_49,
    -0.030_065_766,
    0.005_364_817,
];

/// The same of lower degree, relative error 2e-7.
const SHORT_LN_1P: [f32; 8] = [
    0.999_999_8,
    -0.499_974_04,
    0.332_754_8,
    -0.244_954_56,
    0.177_452_2,
    -0.107_681_42,
    0.044_089_418,
    -0.008_539_148,
];

/// e^v for v from -128 to 88: `ex2.approx` with the rounding of its argument made good, so
/// that the relative error stays below 2^-21.
#[inline(always)]
fn exp(v: f32) -> f32 {
    let exponent = v * LOG2_E;
    let rest = fma(v, LOG2_E_REST, fma(v, LOG2_E, -exponent));
    let power = exp2_approx(exponent);
    fma(power, rest * LN_2, power)
}

/// ln(1 + e^v), as max(v, 0) + ln(1 + e^-|v|): nothing overflows, small results keep their
/// relative accuracy, and above 20 it is v, because the rest is below half an ulp.
#[inline(always)]
pub(super) fn softplus(v: f32) -> f32 {
    let magnitude = -v.abs();
    // A comparison, not `max`: NaN stays, and reaches the result through e.
    let magnitude = if magnitude < -128.0 {
        -128.0
    } else {
        magnitude
    };
    let exponent = magnitude * LOG2_E;
    let power = exp2_approx(exponent);
    // What rounding the exponent lost: matters where it is large.
    let lost = fma(-exponent, LN_2, magnitude);
    let e = fma(power, lost, power);
    let mut ln = LN_1P[8];
    unroll!(8, i => { ln = fma(ln, e, LN_1P[7 - i]); });
    fma(ln, e, v.max(0.0))
}

/// The same where v comes from 16 bits, which make the result as inexact as v is: relative
/// error 6e-7, and that of rounding v twice.
#[inline(always)]
pub(super) fn softplus_of_16_bits(v: f32) -> f32 {
    // NaN reaches the result through e; of infinities e is 0.
    let e = exp2_approx(v.abs() * -LOG2_E);
    let mut ln = SHORT_LN_1P[7];
    unroll!(7, i => { ln = fma(ln, e, SHORT_LN_1P[6 - i]); });
    fma(ln, e, v.max(0.0))
}

/// `A * log2(e)` from `A_log` or A. Finite unless A is NaN, so that a step of size 0
/// changes nothing.
#[inline(always)]
pub(super) fn exponent_rate(a: f32, is_log: bool) -> f32 {
    if is_log && !a.is_nan() {
        -exp(a.clamp(-128.0, 88.0)) * LOG2_E
    } else {
        (a * LOG2_E).clamp(-f32::MAX, f32::MAX)
    }
}

/// States whose products with C are added up as a tree, before those of the next as many:
/// the order of every sum over states, however lanes and threads share them.
pub(super) const TREE: usize = 8;

/// The sum of the first `count` numbers, 1, 2 or 4, as a tree.
#[inline(always)]
pub(super) fn tree([a, b, c, d]: [f32; 4], count: usize) -> f32 {
    match count {
        1 => a,
        2 => a + b,
        _ => (a + b) + (c + d),
    }
}

/// A lane's share of `y` from its `S` states: the leaves of the tree are pairs of states.
#[inline(always)]
pub(super) fn share<const S: usize>(c: impl Fn(usize) -> f32, states: &[f32; S]) -> f32 {
    let mut pairs = [0.0; 4];
    unroll_few!(4, i => {
        if 2 * i < S {
            let (even, odd) = (states[2 * i % S], states[(2 * i + 1) % S]);
            pairs[i % 4] = fma(c(2 * i + 1), odd, c(2 * i) * even);
        }
    });
    tree(pairs, S / 2)
}

/// Adds the shares of lanes `lane ..` of the first `lanes` to `sum`. `ALL`: all four exist.
#[inline(always)]
pub(super) fn add_shares<const S: usize, const ALL: bool>(
    sum: &mut f32,
    shares: [f32; 4],
    lane: u32,
    lanes: u32,
) {
    let group = TREE / S;
    unroll_few!(4, first => {
        if first.is_multiple_of(group) && (ALL || lane + (first as u32) < lanes) {
            let mut members = [0.0; 4];
            unroll_few!(4, i => {
                let l = first + i;
                if i < group && (ALL || lane + (l as u32) < lanes) {
                    members[i % 4] = shares[l % 4];
                }
            });
            *sum += tree(members, group);
        }
    });
}

/// z / (1 + e^-z).
#[inline(always)]
pub(super) fn silu(z: f32) -> f32 {
    z * rcp_approx(1.0 + exp((-z).clamp(-128.0, 88.0)))
}

#[cfg(test)]
mod tests {
    use super::{softplus, softplus_of_16_bits};

    const UNIT: f64 = 1.0 / (1 << 24) as f64;

    /// Errors as multiples of `UNIT * softplus(v)`, less those of rounding v `roundings` times.
    fn worst(softplus: fn(f32) -> f32, roundings: f64) -> f64 {
        let mut worst = 0f64;
        for i in -87_000..60_000 {
            let v = i as f32 / 1000.0;
            let wide = f64::from(v);
            let exact = wide.max(0.0) + (-wide.abs()).exp().ln_1p();
            let inherited = roundings * wide.abs() / (1.0 + (-wide).exp());
            let error = (f64::from(softplus(v)) - exact).abs() / UNIT;
            worst = worst.max((error - inherited) / exact);
        }
        worst
    }

    #[test]
    fn softplus_is_accurate_everywhere() {
        assert!(worst(softplus, 0.0) < 8.0, "{}", worst(softplus, 0.0));
        let short = worst(softplus_of_16_bits, 2.0);
        assert!(short < 10.0, "{short}");
    }

    #[test]
    fn softplus_at_the_ends() {
        for softplus in [softplus, softplus_of_16_bits] {
            for v in [20.000_002, 20.5, 89.0, 1e30, f32::MAX, f32::INFINITY] {
                assert_eq!(softplus(v), v);
            }
            for v in [-200.0, f32::MIN, f32::NEG_INFINITY] {
                assert_eq!(softplus(v), 0.0);
            }
            for v in [1e-38, 0.0, -0.0, -1e-38] {
                assert!((softplus(v) - core::f32::consts::LN_2).abs() < 6e-7);
            }
            assert!((0.0..=1e-37).contains(&softplus(-90.0)));
            assert!(softplus(f32::NAN).is_nan() && softplus(-f32::NAN).is_nan());
        }
    }
}
