//! The approximations keep to the documented bounds, and use them.

use gpu_kernels::simt::math::{exp2_approx, fma, log2_approx, rcp_approx};

const BOUND: f64 = 1.0 / (1 << 22) as f64;

/// Positive normal numbers spread over all exponents.
fn spread() -> impl Iterator<Item = f32> {
    (0x0080_0000u32..0x7F80_0000)
        .step_by(9973)
        .map(f32::from_bits)
}

#[test]
fn exp2_is_off_by_up_to_its_bound() {
    let mut worst = 0f64;
    for x in (-125_999..127_999).map(|i| i as f32 / 1000.0) {
        let exact = f64::from(x).exp2();
        worst = worst.max((f64::from(exp2_approx(x)) / exact - 1.0).abs());
    }
    assert!(worst <= BOUND && worst > 0.7 * BOUND, "{worst}");
    let special = [
        (0.0, 1.0),
        (-0.0, 1.0),
        (1e-40, 1.0),
        (f32::NEG_INFINITY, 0.0),
        (f32::INFINITY, f32::INFINITY),
        (200.0, f32::INFINITY),
        (-127.5, 0.0),
    ];
    for (x, expected) in special {
        assert_eq!(exp2_approx(x), expected, "exp2({x})");
    }
    assert!(exp2_approx(f32::NAN).is_nan());
}

#[test]
fn log2_is_off_by_up_to_its_bound() {
    let (mut absolute, mut relative) = (0f64, 0f64);
    for x in spread().chain((500..2000).map(|i| i as f32 / 1000.0)) {
        let exact = f64::from(x).log2();
        let error = (f64::from(log2_approx(x)) - exact).abs();
        if x > 0.5 && x < 2.0 {
            absolute = absolute.max(error);
        } else {
            relative = relative.max(error / exact.abs());
        }
    }
    assert!(absolute <= BOUND && absolute > 0.5 * BOUND, "{absolute}");
    assert!(relative <= BOUND && relative > 0.5 * BOUND, "{relative}");
    assert_eq!(log2_approx(0.0), f32::NEG_INFINITY);
    assert_eq!(log2_approx(-1e-40), f32::NEG_INFINITY);
    assert_eq!(log2_approx(f32::INFINITY), f32::INFINITY);
    assert!(log2_approx(-1.0).is_nan() && log2_approx(f32::NEG_INFINITY).is_nan());
}

#[test]
fn reciprocal_is_off_by_up_to_one_ulp() {
    let mut off = 0;
    for x in spread().flat_map(|x| [x, -x]) {
        let (exact, found) = (1.0 / f64::from(x), rcp_approx(x));
        if (exact.abs() as f32) < f32::MIN_POSITIVE.next_up() {
            // Where the result is, or may round to, a denormal it is flushed.
            assert!(found == 0.0 || !found.is_subnormal());
            continue;
        }
        let binade = 2f64.powi(exact.abs().log2().floor() as i32);
        let ulp = binade * f64::from(f32::EPSILON);
        assert!((f64::from(found) - exact).abs() <= ulp, "1/{x} = {found}");
        off += u32::from(found != exact as f32);
    }
    assert!(off > 1000, "{off}");
    assert_eq!(rcp_approx(-0.0), f32::NEG_INFINITY);
    assert_eq!(rcp_approx(1e-40), f32::INFINITY);
    assert_eq!(rcp_approx(f32::INFINITY), 0.0);
    assert_eq!(
        rcp_approx(3e38).to_bits(),
        0,
        "a denormal result is flushed"
    );
}

#[test]
fn fma_rounds_once() {
    let (a, b) = (1.0 + f32::EPSILON, 1.0 - f32::EPSILON);
    assert_eq!(fma(a, b, -1.0), -f32::EPSILON * f32::EPSILON);
}
