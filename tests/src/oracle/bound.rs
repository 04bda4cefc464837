//! The recurrence `h[t] = a[t]*h[t-1] + b[t]` in float64 together with a bound on the error
//! of any f32 evaluation of it, and intervals of values that are right.
//!
//! # The bound
//!
//! Write `h[t]` as the sum of the terms `b[s] * a[s+1] * ... * a[t]` (and `h0` times all
//! gates, the term of s = -1). A backend takes the steps in order, or composes stretches
//! of steps as affine maps, `(A2, B2) after (A1, B1) = (A2*A1, fma(A2, B1, B2))`, in f32,
//! each operation rounding once: by a factor 1 + d with |d| <= u = 2^-24. What roundings
//! does term s meet, whatever the grouping?
//!
//! - It is multiplied by t-s gates. A product of n gates rounds n-1 times in any grouping,
//!   and once more when the term is multiplied by it: t-s roundings at most.
//! - It is rounded as the addend of a fused multiply-add: once at its own step, and once
//!   for each level at which a stretch that holds it is the later of two. [`LEVELS`] is
//!   how many levels a backend may have.
//!
//! So |computed - h[t]| <= sum over s of g(t - s + LEVELS) * |term s|, g(n) = n*u/(1 - n*u)
//! (Higham, Accuracy and Stability of Numerical Algorithms, lemma 3.1). Two more
//! recurrences give that sum:
//!
//! - magnitude `M[t] = |a[t]|*M[t-1] + |b[t]|`, the sum of |term s|,
//! - growth `W[t] = |a[t]|*(W[t-1] + M[t-1])`, the sum of (t - s)*|term s|,
//!
//! and the bound is u/(1 - (t + 1 + LEVELS)*u) * (W[t] + LEVELS*M[t]).
//!
//! Underflow adds an absolute error of at most 2^-150 per operation instead. One made in
//! the product of the gates i..=j is multiplied by the later gates, and by what stood
//! before i, at most the largest magnitude since the last zero gate (`peak`). Each step takes part in at
//! most four operations (its product, its fused multiply-adds in the pass that makes
//! aggregates, in combining them, and in the pass that writes), hence
//! `U[t] = |a[t]|*U[t-1] + 2^-148*(1 + peak)`. Where the magnitude is 0 every operation
//! on the state is exact.
//!
//! The float64 recurrences make errors of 2^-53 where f32 makes 2^-24; the factor
//! 1 + 2^-20 on the bound is far more than they need.

/// Unit roundoff of f32.
pub const UNIT: f64 = 1.0 / (1u64 << 24) as f64;

/// Levels of combination a backend may use: the step itself, steps of a thread, 5 shuffles
/// of a warp, 5 of a block's warps, blocks of a chain, and the carry applied.
pub const LEVELS: f64 = 14.0;

const TINIEST: f64 = f64::from_bits((1023 - 148) << 52);
const ORACLE_SLACK: f64 = 1.0 + 1.0 / (1u64 << 20) as f64;

/// One channel's recurrence as it runs.
#[derive(Clone, Copy, Debug)]
pub struct Running {
    value: f64,
    magnitude: f64,
    growth: f64,
    underflow: f64,
    peak: f64,
    steps: f64,
}

impl Running {
    /// Before the first step.
    pub fn new(h0: f64) -> Self {
        Self {
            value: h0,
            magnitude: h0.abs(),
            growth: 0.0,
            underflow: 0.0,
            peak: h0.abs(),
            steps: 0.0,
        }
    }

    /// One step with gate `a` and input `b`.
    pub fn step(&mut self, a: f64, b: f64) {
        let gate = a.abs();
        self.value = a * self.value + b;
        self.growth = gate * (self.growth + self.magnitude);
        self.magnitude = gate * self.magnitude + b.abs();
        if gate == 0.0 {
            self.peak = 0.0;
        }
        self.peak = self.peak.max(self.magnitude);
        self.underflow = if self.magnitude == 0.0 {
            0.0
        } else {
            gate * self.underflow + TINIEST * (1.0 + self.peak)
        };
        self.steps += 1.0;
    }

    /// The state.
    pub fn value(&self) -> f64 {
        self.value
    }

    /// How far an f32 evaluation of the state may be off. Infinite where float64 cannot say.
    pub fn bound(&self) -> f64 {
        let unit = UNIT / (1.0 - (self.steps + LEVELS) * UNIT);
        let bound =
            ORACLE_SLACK * (unit * (self.growth + LEVELS * self.magnitude) + self.underflow);
        if bound.is_nan() { f64::INFINITY } else { bound }
    }

    /// The values that are right.
    pub fn interval(&self) -> Interval {
        Interval::around(self.value, self.bound())
    }
}

/// The f32 values that are right.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// The smallest.
    pub low: f32,
    /// The largest.
    pub high: f32,
}

impl Interval {
    /// All f32 values within `bound` of `value`.
    pub fn around(value: f64, bound: f64) -> Self {
        let (low, high) = (value - bound, value + bound);
        let mut interval = Self {
            low: low as f32,
            high: high as f32,
        };
        if f64::from(interval.low) < low {
            interval.low = interval.low.next_up();
        }
        if f64::from(interval.high) > high {
            interval.high = interval.high.next_down();
        }
        interval
    }

    /// Whether `value` is the rounding of a right f32 to its own type. Rounding is monotone,
    /// so it must lie between the roundings of the ends: half a unit in the last place of the
    /// narrow type comes on top of the bound, and infinity is right where an end overflows.
    pub fn holds<T: crate::Sample>(&self, value: T) -> bool {
        let (low, high) = (T::narrow(self.low).widen(), T::narrow(self.high).widen());
        (low..=high).contains(&value.widen())
    }
}
