//! Random inputs that can be asked for element by element.
//!
//! The value at an index depends on seed and index alone, so threads fill an array in
//! parallel and the oracle asks again for the few elements it needs, instead of keeping
//! a copy of gigabytes.

use crate::dtype::Element;
use rayon::prelude::*;

/// One stream of random numbers; streams with different seeds are independent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Random {
    seed: u64,
    law: Law,
}

#[derive(Clone, Copy, Debug)]
enum Law {
    Uniform { low: f32, high: f32 },
    Normal,
}

/// Elements that one task fills: enough to be worth handing out.
const CHUNK: usize = 1 << 14;

impl Random {
    /// Evenly from `[low, high)`; rounding to the element type may reach `high`.
    pub(crate) fn uniform(seed: u64, low: f32, high: f32) -> Self {
        Self {
            seed,
            law: Law::Uniform { low, high },
        }
    }

    /// Normal, mean 0, variance 1.
    pub(crate) fn normal(seed: u64) -> Self {
        Self {
            seed,
            law: Law::Normal,
        }
    }

    /// Element `index`, rounded to the element type.
    pub(crate) fn at<T: Element>(&self, index: usize) -> T {
        let bits = mix(self.seed ^ mix(index as u64));
        // 24 bits are what an f32 below 1 holds.
        let unit = |bits: u32| (bits >> 8) as f32 * (1.0 / (1 << 24) as f32);
        let (high_half, low_half) = ((bits >> 32) as u32, bits as u32);
        T::from_f32(match self.law {
            Law::Uniform { low, high } => low + (high - low) * unit(high_half),
            // Box and Muller; 1 - u is never 0.
            Law::Normal => {
                let radius = (-2.0 * (1.0 - unit(high_half)).ln()).sqrt();
                radius * (std::f32::consts::TAU * unit(low_half)).cos()
            }
        })
    }

    /// The first `len` elements.
    pub(crate) fn vec<T: Element>(&self, len: usize) -> Vec<T> {
        let mut values = vec![T::default(); len];
        values
            .par_chunks_mut(CHUNK)
            .enumerate()
            .for_each(|(chunk, values)| {
                for (i, value) in values.iter_mut().enumerate() {
                    *value = self.at(chunk * CHUNK + i);
                }
            });
        values
    }
}

/// The finaliser of SplitMix64 (Steele, Lea, Flood 2014): every bit of the result depends
/// on every bit of `x`.
pub(crate) fn mix(x: u64) -> u64 {
    let x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use half::bf16;

    fn moments(values: &[f32]) -> (f64, f64) {
        let n = values.len() as f64;
        let mean = values.iter().map(|&x| f64::from(x)).sum::<f64>() / n;
        let variance = values
            .iter()
            .map(|&x| (f64::from(x) - mean).powi(2))
            .sum::<f64>()
            / n;
        (mean, variance)
    }

    #[test]
    fn laws() {
        let n = 200_000;
        let uniform: Vec<f32> = Random::uniform(1, 0.8, 1.0).vec(n);
        assert!(uniform.iter().all(|x| (0.8..1.0).contains(x)));
        let (mean, variance) = moments(&uniform);
        assert!((mean - 0.9).abs() < 1e-3 && (variance - 0.04 / 12.0).abs() < 1e-4);
        let normal: Vec<f32> = Random::normal(2).vec(n);
        let (mean, variance) = moments(&normal);
        assert!(mean.abs() < 0.02 && (variance - 1.0).abs() < 0.02);
        assert!(normal.iter().all(|x| x.is_finite()));
    }

    #[test]
    fn element_by_element_is_the_vector() {
        let random = Random::normal(3);
        let vec: Vec<bf16> = random.vec(3 * CHUNK + 5);
        for i in [0, 1, CHUNK, 3 * CHUNK + 4] {
            assert_eq!(random.at::<bf16>(i), vec[i]);
        }
        assert_ne!(
            Random::normal(3).vec::<f32>(8),
            Random::normal(4).vec::<f32>(8)
        );
    }
}
