//! Comparing a result with a float64 oracle on a random sample of rows.

use super::random::mix;
use super::row::Accuracy;
use crate::dtype::DType;

/// Elements that the oracle computes at least, if there are that many: more than these
/// are sampled.
const ELEMENTS: usize = 1 << 21;
/// Rows that are compared at least, if there are that many.
const ROWS: usize = 8;

/// Which rows (channels, tokens) of `rows` rows with `length` elements each are compared:
/// all when that is little work, else a random sample with the first and the last among
/// them. Ascending.
pub(crate) fn sample(rows: usize, length: usize, seed: u64) -> Vec<usize> {
    let count = (ELEMENTS / length.max(1)).max(ROWS);
    if rows <= count {
        return (0..rows).collect();
    }
    let mut chosen = std::collections::BTreeSet::from([0, rows - 1]);
    let mut draw = seed;
    while chosen.len() < count {
        draw = mix(draw);
        chosen.insert((draw % rows as u64) as usize);
    }
    chosen.into_iter().collect()
}

/// Half the distance between neighbouring values of `dtype` near 1: the largest relative
/// error of a correctly rounded store.
pub(crate) fn unit_roundoff(dtype: DType) -> f64 {
    match dtype {
        DType::F16 => 2f64.powi(-11),
        DType::Bf16 => 2f64.powi(-8),
        _ => 2f64.powi(-24),
    }
}

/// How far a result may be from the oracle.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tolerance {
    /// Of the Frobenius norms, and of each element: what rounding the stored value costs.
    pub store: f64,
    /// Of the row's largest value: what f32 arithmetic costs, whatever is stored.
    pub arithmetic: f64,
    /// Of each element, absolute: half of the type's smallest step.
    pub smallest: f64,
}

impl Tolerance {
    /// For sequences of `dtype`, computed in f32 with a relative error of `arithmetic`.
    pub(crate) fn new(dtype: DType, arithmetic: f64) -> Self {
        Self {
            store: unit_roundoff(dtype),
            arithmetic,
            smallest: match dtype {
                DType::F16 => 2f64.powi(-25),
                _ => 2f64.powi(-134),
            },
        }
    }

    /// None: for copies and integers.
    pub(crate) fn exact() -> Self {
        Self {
            store: 0.0,
            arithmetic: 0.0,
            // Less than any difference of numbers that a tensor holds, but no division by zero.
            smallest: f64::MIN_POSITIVE,
        }
    }
}

/// Adds up a comparison, row by row.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Comparison {
    tolerance: Tolerance,
    difference: f64,
    norm: f64,
    max_abs: f64,
    worst: f64,
    rows: usize,
}

impl Comparison {
    pub(crate) fn new(tolerance: Tolerance) -> Self {
        Self {
            tolerance,
            difference: 0.0,
            norm: 0.0,
            max_abs: 0.0,
            worst: 0.0,
            rows: 0,
        }
    }

    /// Counts a row; its values follow.
    pub(crate) fn row(&mut self) {
        self.rows += 1;
    }

    /// Takes pairs of found and expected values. `scale` is the largest magnitude in the
    /// row that the arithmetic's error is a share of.
    pub(crate) fn values(&mut self, scale: f64, pairs: impl Iterator<Item = (f64, f64)>) {
        for (found, expected) in pairs {
            let difference = (found - expected).abs();
            let allowed = self.tolerance.store * expected.abs()
                + self.tolerance.arithmetic * scale
                + self.tolerance.smallest;
            self.difference += difference * difference;
            self.norm += expected * expected;
            self.max_abs = larger(self.max_abs, difference);
            self.worst = larger(self.worst, difference / allowed);
        }
    }

    /// The result, for a sample out of `of` rows.
    pub(crate) fn accuracy(&self, of: usize) -> Accuracy {
        let relative = if self.difference == 0.0 {
            0.0
        } else {
            (self.difference / self.norm).sqrt()
        };
        Accuracy {
            relative,
            max_abs: self.max_abs,
            worst: self.worst,
            tolerance: self.tolerance.store + self.tolerance.arithmetic,
            sampled: self.rows,
            of,
        }
    }
}

/// The larger of two, or NaN: [`f64::max`] would drop a NaN, and with it the poison.
pub(crate) fn larger(a: f64, b: f64) -> f64 {
    if a.is_nan() || b.is_nan() {
        f64::NAN
    } else {
        a.max(b)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compare(dtype: DType, pairs: &[(f64, f64)]) -> Accuracy {
        let mut comparison = Comparison::new(Tolerance::new(dtype, 1e-6));
        let scale = pairs.iter().fold(0.0, |s: f64, p| s.max(p.1.abs()));
        comparison.row();
        comparison.values(scale, pairs.iter().copied());
        comparison.accuracy(1)
    }

    #[test]
    fn samples_all_of_a_little_and_ends_of_a_lot() {
        assert_eq!(sample(5, 100, 1), [0, 1, 2, 3, 4]);
        assert_eq!(sample(0, 100, 1), [] as [usize; 0]);
        assert_eq!(sample(3, 0, 1), [0, 1, 2]);
        let some = sample(100_000, 4096, 7);
        assert_eq!(some.len(), ELEMENTS / 4096);
        assert!(some.windows(2).all(|pair| pair[0] < pair[1]));
        assert_eq!((some[0], *some.last().unwrap()), (0, 99_999));
        assert_eq!(sample(1000, 1 << 30, 7).len(), ROWS);
        assert_ne!(some, sample(100_000, 4096, 8));
    }

    #[test]
    fn right_results_pass() {
        assert!(compare(DType::F32, &[(1.0, 1.0), (-2.0, -2.0)]).ok());
        assert!(compare(DType::F32, &[(1.0 + 5e-8, 1.0)]).ok());
        assert!(compare(DType::Bf16, &[(1.0 + 3.9e-3, 1.0)]).ok());
        assert!(compare(DType::F32, &[(0.0, 0.0)]).ok());
        assert!(compare(DType::F32, &[]).ok());
    }

    #[test]
    fn wrong_results_fail() {
        assert!(!compare(DType::F32, &[(1.001, 1.0)]).ok());
        assert!(!compare(DType::F32, &[(f64::NAN, 1.0), (1.0, 1.0)]).ok());
        assert!(!compare(DType::F32, &[(1.0, 1.0), (f64::INFINITY, 1.0)]).ok());
        assert!(!compare(DType::F32, &[(1e-3, 0.0), (1.0, 1.0)]).ok());
    }

    #[test]
    fn one_wrong_element_among_many_fails() {
        // Far too little to move the norm; the element's own allowance sees it.
        let mut pairs = vec![(1.0, 1.0); 1_000_000];
        pairs[77_777].0 = 1.02;
        let accuracy = compare(DType::Bf16, &pairs);
        assert!(accuracy.relative < accuracy.tolerance);
        assert!(!accuracy.ok());
    }
}
