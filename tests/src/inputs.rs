//! Seeded random inputs.

use crate::sample::Sample;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

/// A source of inputs; the same seed gives the same inputs.
#[derive(Debug)]
pub struct Inputs(SmallRng);

impl Inputs {
    /// Starts at `seed`.
    pub fn new(seed: u64) -> Self {
        Self(SmallRng::seed_from_u64(seed))
    }

    /// Gates as layers produce them, and some they do not: mostly in [0.5, 1), some in
    /// [-1, 1), some in [1, 1.25), some exactly 0, 1 or -1. Long products shrink.
    pub fn gates<T: Sample>(&mut self, len: usize) -> Vec<T> {
        self.fill(len, |rng| match rng.random_range(0..20) {
            0 => [0.0, 1.0, -1.0][rng.random_range(0..3)],
            1 | 2 => rng.random_range(1.0..1.25),
            3..=6 => rng.random_range(-1.0..1.0),
            _ => rng.random_range(0.5..1.0),
        })
    }

    /// Gates in [low, 1].
    pub fn gates_above<T: Sample>(&mut self, low: f32, len: usize) -> Vec<T> {
        self.fill(len, |rng| rng.random_range(low..=1.0))
    }

    /// Values in [-2, 2), some exactly 0.
    pub fn values<T: Sample>(&mut self, len: usize) -> Vec<T> {
        self.fill(len, |rng| match rng.random_range(0..20) {
            0 => 0.0,
            _ => rng.random_range(-2.0..2.0),
        })
    }

    /// Values in [0, 1).
    pub fn positive_values<T: Sample>(&mut self, len: usize) -> Vec<T> {
        self.fill(len, |rng| rng.random_range(0.0..1.0))
    }

    /// Standard normal values (Box and Muller).
    pub fn normal<T: Sample>(&mut self, len: usize) -> Vec<T> {
        self.fill(len, |rng| {
            let radius = (-2.0 * (1.0 - rng.random::<f64>()).ln()).sqrt();
            (radius * (std::f64::consts::TAU * rng.random::<f64>()).cos()) as f32
        })
    }

    /// Anything: every bit pattern of f32, NaN and infinity among them.
    pub fn garbage<T: Sample>(&mut self, len: usize) -> Vec<T> {
        self.fill(len, |rng| match rng.random_range(0..4) {
            0 => f32::NAN,
            1 => f32::INFINITY,
            _ => f32::from_bits(rng.random()),
        })
    }

    fn fill<T: Sample>(
        &mut self,
        len: usize,
        mut value: impl FnMut(&mut SmallRng) -> f32,
    ) -> Vec<T> {
        (0..len).map(|_| T::narrow(value(&mut self.0))).collect()
    }
}
