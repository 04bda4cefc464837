//! Statistics of repeated measurements: median and percentiles.

use serde::Serialize;

/// What repeated measurements of one time say, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Timing {
    /// Half of the samples are below.
    pub median_us: f64,
    /// A tenth of the samples are below.
    pub p10_us: f64,
    /// Nine tenths of the samples are below.
    pub p90_us: f64,
    /// Number of samples.
    pub samples: usize,
}

impl Timing {
    /// The statistics of `samples` in microseconds, in any order. `None` when there are
    /// none or when one of them is not a finite number: such a set has no median.
    pub fn of(samples: &[f64]) -> Option<Self> {
        if samples.iter().any(|sample| !sample.is_finite()) {
            return None;
        }
        let mut sorted = samples.to_vec();
        sorted.sort_by(f64::total_cmp);
        Some(Self {
            median_us: percentile(&sorted, 0.5)?,
            p10_us: percentile(&sorted, 0.1)?,
            p90_us: percentile(&sorted, 0.9)?,
            samples: sorted.len(),
        })
    }

    /// The distance from p10 to p90 as a share of the median; 0 for a median of 0.
    pub fn spread(&self) -> f64 {
        if self.median_us == 0.0 {
            return 0.0;
        }
        (self.p90_us - self.p10_us) / self.median_us
    }
}

/// The value below which a share `p` (0 to 1) of ascending `sorted` lies, linear between
/// neighbours (Hyndman and Fan, definition 7: `(n - 1) * p` from the smallest). `None`
/// when there are no values.
pub fn percentile(sorted: &[f64], p: f64) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    let at = p.clamp(0.0, 1.0) * last as f64;
    let below = at.floor() as usize;
    let above = (below + 1).min(last);
    let share = at - below as f64;
    // Clamped, because the weighted sum of two equal values may miss them by a rounding.
    let (low, high) = (sorted[below], sorted[above]);
    Some((low * (1.0 - share) + high * share).clamp(low, high))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn samples() -> impl Strategy<Value = Vec<f64>> {
        prop::collection::vec(0.0..1e9f64, 1..200)
    }

    #[test]
    fn known_values() {
        let timing = Timing::of(&[5.0, 1.0, 4.0, 2.0, 3.0]).unwrap();
        assert_eq!((timing.median_us, timing.samples), (3.0, 5));
        assert!((timing.p10_us - 1.4).abs() < 1e-12);
        assert!((timing.p90_us - 4.6).abs() < 1e-12);
        assert!((timing.spread() - 3.2 / 3.0).abs() < 1e-12);
        assert_eq!(Timing::of(&[1.0, 2.0]).unwrap().median_us, 1.5);
    }

    #[test]
    fn nothing_and_nonsense_have_no_statistics() {
        assert_eq!(Timing::of(&[]), None);
        assert_eq!(Timing::of(&[1.0, f64::NAN]), None);
        assert_eq!(Timing::of(&[1.0, f64::INFINITY]), None);
        assert_eq!(percentile(&[], 0.5), None);
    }

    proptest! {
        #[test]
        fn half_lie_on_each_side_of_the_median(samples in samples()) {
            let timing = Timing::of(&samples).unwrap();
            let n = samples.len();
            let below = samples.iter().filter(|&&x| x < timing.median_us).count();
            let above = samples.iter().filter(|&&x| x > timing.median_us).count();
            prop_assert!(below <= n / 2 && above <= n / 2);
        }

        #[test]
        fn a_share_p_lies_below_the_percentile(samples in samples(), p in 0.0..=1.0f64) {
            let mut sorted = samples;
            sorted.sort_by(f64::total_cmp);
            let value = percentile(&sorted, p).unwrap();
            let (last, at) = (sorted.len() - 1, p * (sorted.len() - 1) as f64);
            // At most floor(at) + 1 lie strictly below, and at least ceil(at) at or below.
            prop_assert!(sorted.iter().filter(|&&x| x < value).count() <= at.floor() as usize + 1);
            prop_assert!(sorted.iter().filter(|&&x| x <= value).count() > at.floor() as usize);
            prop_assert!(sorted[0] <= value && value <= sorted[last]);
        }

        #[test]
        fn ordered_and_independent_of_the_order(samples in samples(), by in 0usize..200) {
            let timing = Timing::of(&samples).unwrap();
            prop_assert!(timing.p10_us <= timing.median_us && timing.median_us <= timing.p90_us);
            let mut turned = samples.clone();
            turned.rotate_left(by % samples.len());
            prop_assert_eq!(Timing::of(&turned).unwrap(), timing);
        }

        #[test]
        fn percentiles_grow(samples in samples(), p in 0.0..=1.0f64, q in 0.0..=1.0f64) {
            let mut sorted = samples;
            sorted.sort_by(f64::total_cmp);
            let (p, q) = (p.min(q), p.max(q));
            prop_assert!(percentile(&sorted, p) <= percentile(&sorted, q));
        }

        #[test]
        fn scales(samples in samples(), shift in 0u32..8) {
            // A power of two: exact in floating point.
            let factor = f64::from(1 << shift);
            let scaled: Vec<f64> = samples.iter().map(|x| x * factor).collect();
            let (one, other) = (Timing::of(&samples).unwrap(), Timing::of(&scaled).unwrap());
            prop_assert_eq!(one.median_us * factor, other.median_us);
            prop_assert_eq!(one.p90_us * factor, other.p90_us);
        }
    }
}
