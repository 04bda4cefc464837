//! The arithmetic of affine maps `h -> a*h + b`, and when composing them is sound.

use crate::simt::{Word, math};

/// The numbers a scan runs over.
pub trait Ring: Copy + 'static {
    /// A number, in one word.
    type Value: Word;
    /// What is remembered of a composition to judge it.
    type Watch: Copy;
    /// What is remembered at first: enough to see that a composition is ordinary.
    type Glance: Copy;
    /// Gate of a step that changes nothing.
    const ONE: Self::Value;
    /// Input of a step that changes nothing.
    const NOTHING: Self::Value;
    /// Gate of a map that must not be used.
    const UNSOUND: Self::Value;

    /// `a * h + b`, one rounding.
    fn step(a: Self::Value, h: Self::Value, b: Self::Value) -> Self::Value;
    /// `a * b`.
    fn multiply(a: Self::Value, b: Self::Value) -> Self::Value;
    /// Of a composition of nothing.
    const START: Self::Watch;
    /// Of a composition of nothing.
    const GLANCE: Self::Glance;
    /// Remembers one more step.
    fn glance(glance: Self::Glance, gate: Self::Value, input: Self::Value) -> Self::Glance;
    /// Whether the composition of at most `1 << 20` steps is sound for certain, from any
    /// state within `limits`; if not, it has to be watched more closely.
    fn is_ordinary(
        glance: Self::Glance,
        product: Self::Value,
        input: Self::Value,
        limits: Limits,
    ) -> bool;
    /// Remembers one more gate, and the product and input that it led to.
    fn observe(
        watch: Self::Watch,
        gate: Self::Value,
        product: Self::Value,
        input: Self::Value,
    ) -> Self::Watch;
    /// Whether the composition may be used from any state within `limits`.
    fn is_sound(
        watch: Self::Watch,
        product: Self::Value,
        input: Self::Value,
        limits: Limits,
    ) -> bool;
    /// Whether a state lies within `limits`.
    fn within(state: Self::Value, limits: Limits) -> bool;
}

/// How far the numbers of a composition may go before it counts as unsound.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Of the state that a map is applied to.
    pub state: f32,
    /// Of the products of its gates.
    pub product: f32,
    /// Of its inputs, scanned from zero.
    pub input: f32,
}

/// For the map of a segment: from a state within 2^62 no state in the segment exceeds
/// 2^62 * 2^62 + 2^124 = 2^125, which is finite.
pub const SEGMENT: Limits = Limits {
    state: TWO_62,
    product: TWO_62,
    input: TWO_62 * TWO_62,
};

/// For the map of a tile: from a state within 2^31 no segment of it begins beyond
/// 2^31 * 2^30 + 2^61 = 2^62, the limit of a segment.
pub const TILE: Limits = Limits {
    state: TWO_31,
    product: TWO_31 / 2.0,
    input: TWO_31 * TWO_31 / 2.0,
};

const TWO_31: f32 = (1u64 << 31) as f32;
const TWO_62: f32 = (1u64 << 62) as f32;

/// f32. A composed map is a shortcut around the definition, which steps through every
/// element. It is taken only where it cannot be told from the definition but by rounding:
///
/// - no state on the way can be infinite or NaN (the [`Limits`]): a product of gates can
///   overflow that no state would have overflowed, and the other way round;
/// - the product of gates does not underflow with a gate above 1 in it, which would have
///   brought the state back. (With gates up to 1 an underflow loses at most 2^-149 of the
///   state, 2^-118 at the limits.)
#[derive(Clone, Copy, Debug)]
pub struct Real;

/// Extremes of a composition's magnitudes.
#[derive(Clone, Copy, Debug)]
pub struct Extremes {
    gate: f32,
    product: f32,
    least_product: f32,
    input: f32,
}

impl Ring for Real {
    type Value = f32;
    type Watch = Extremes;
    type Glance = (f32, f32);
    const ONE: f32 = 1.0;
    // h + -0 is h for every h; -0 + 0 would be 0.
    const NOTHING: f32 = -0.0;
    const UNSOUND: f32 = f32::NAN;
    const GLANCE: (f32, f32) = (0.0, 0.0);
    const START: Extremes = Extremes {
        gate: 0.0,
        product: 0.0,
        least_product: 1.0,
        input: 0.0,
    };

    #[inline(always)]
    fn step(a: f32, h: f32, b: f32) -> f32 {
        math::fma(a, h, b)
    }
    #[inline(always)]
    fn multiply(a: f32, b: f32) -> f32 {
        a * b
    }
    #[inline(always)]
    fn glance(glance: (f32, f32), gate: f32, input: f32) -> (f32, f32) {
        // max passes over a NaN; it stays in the product or the input to the end.
        (glance.0.max(gate.abs()), glance.1.max(input.abs()))
    }
    #[inline(always)]
    fn is_ordinary(glance: (f32, f32), product: f32, input: f32, limits: Limits) -> bool {
        // With gates up to 1 products only shrink, and inputs only add up.
        let small = glance.0 <= 1.0 && glance.1 <= limits.input / (1 << 20) as f32;
        small & (product.abs() <= 1.0) & (input.abs() <= limits.input)
    }
    #[inline(always)]
    fn observe(watch: Extremes, gate: f32, product: f32, input: f32) -> Extremes {
        Extremes {
            gate: watch.gate.max(gate.abs()),
            product: watch.product.max(product.abs()),
            least_product: watch.least_product.min(product.abs()),
            input: watch.input.max(input.abs()),
        }
    }
    #[inline(always)]
    fn is_sound(watch: Extremes, product: f32, input: f32, limits: Limits) -> bool {
        let finite = watch.product <= limits.product && watch.input <= limits.input;
        let number = product.abs() <= limits.product && input.abs() <= limits.input;
        let lost = watch.least_product < f32::MIN_POSITIVE && watch.gate > 1.0;
        finite & number & !lost
    }
    #[inline(always)]
    fn within(state: f32, limits: Limits) -> bool {
        state.abs() <= limits.state
    }
}

/// Integers modulo 2^32: exactly associative and not commutative as affine maps, so that a
/// test of the layers has no rounding to hide behind.
#[derive(Clone, Copy, Debug)]
pub struct Modular;

impl Ring for Modular {
    type Value = u32;
    type Watch = ();
    type Glance = ();
    const ONE: u32 = 1;
    const NOTHING: u32 = 0;
    const UNSOUND: u32 = 0;
    const START: () = ();
    const GLANCE: () = ();

    #[inline(always)]
    fn step(a: u32, h: u32, b: u32) -> u32 {
        a.wrapping_mul(h).wrapping_add(b)
    }
    #[inline(always)]
    fn multiply(a: u32, b: u32) -> u32 {
        a.wrapping_mul(b)
    }
    #[inline(always)]
    fn glance(_: (), _: u32, _: u32) {}
    #[inline(always)]
    fn is_ordinary(_: (), _: u32, _: u32, _: Limits) -> bool {
        true
    }
    #[inline(always)]
    fn observe(_: (), _: u32, _: u32, _: u32) {}
    #[inline(always)]
    fn is_sound(_: (), _: u32, _: u32, _: Limits) -> bool {
        true
    }
    #[inline(always)]
    fn within(_: u32, _: Limits) -> bool {
        true
    }
}

/// The map of consecutive steps, built one step (or one map) after the other.
#[derive(Clone, Copy, Debug)]
pub struct Composed<R: Ring> {
    gate: R::Value,
    input: R::Value,
    watch: R::Watch,
}

impl<R: Ring> Composed<R> {
    /// The map of no step.
    #[inline(always)]
    pub fn start() -> Self {
        Self {
            gate: R::ONE,
            input: R::NOTHING,
            watch: R::START,
        }
    }

    /// Then one more step.
    #[inline(always)]
    pub fn then(self, gate: R::Value, input: R::Value) -> Self {
        let product = R::multiply(gate, self.gate);
        let input = R::step(gate, self.input, input);
        Self {
            gate: product,
            input,
            watch: R::observe(self.watch, gate, product, input),
        }
    }

    /// Gate and input of the whole, or `None` if it may not be used.
    #[inline(always)]
    pub fn parts(self, limits: Limits) -> Option<(R::Value, R::Value)> {
        R::is_sound(self.watch, self.gate, self.input, limits).then_some((self.gate, self.input))
    }
}

/// [`Composed`] with a cheaper watch, that decides only the ordinary case.
#[derive(Clone, Copy, Debug)]
pub struct Glanced<R: Ring> {
    gate: R::Value,
    input: R::Value,
    glance: R::Glance,
}

impl<R: Ring> Glanced<R> {
    /// The map of no step.
    #[inline(always)]
    pub fn start() -> Self {
        Self {
            gate: R::ONE,
            input: R::NOTHING,
            glance: R::GLANCE,
        }
    }

    /// Then one more step.
    #[inline(always)]
    pub fn then(self, gate: R::Value, input: R::Value) -> Self {
        Self {
            gate: R::multiply(gate, self.gate),
            input: R::step(gate, self.input, input),
            glance: R::glance(self.glance, gate, input),
        }
    }

    /// Gate and input of the whole, or `None` if [`Composed`] has to decide.
    #[inline(always)]
    pub fn parts(self, limits: Limits) -> Option<(R::Value, R::Value)> {
        R::is_ordinary(self.glance, self.gate, self.input, limits)
            .then_some((self.gate, self.input))
    }
}
