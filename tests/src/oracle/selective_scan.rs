//! The selective scan by its definition: in float64 with a bound on the error of any f32
//! evaluation, and step by step in f32 to say where NaN and infinity belong.
//!
//! # The bound
//!
//! With u = 2^-24. E(v) is the bound on the error of a computed v.
//!
//! - An exponential, softplus or sigmoid is off by `FUNCTION` u relatively, and as if its
//!   argument had been rounded `ARGUMENT` times (a bias added, a factor log2(e) rounded
//!   and multiplied); where the result is below the smallest normal number it may be zero.
//!   So `E(delta') = ARGUMENT*u*|s|*sigmoid(s) + FUNCTION*u*delta' + tiny`, s the argument.
//! - `A = -exp(A_log)` is off by `(FUNCTION + ARGUMENT*|A_log|)*u` relatively.
//! - The exponent `p = delta'*A` is off by `E(p) = |A|*E(delta') + |p|*(that + SUM*u)`. A
//!   backend that splits L takes the product of the decays of a chunk as one exponential,
//!   of `A * sum(delta')`; a sum in a tree or in runs is off by at most `SUM` u relatively
//!   (all delta' >= 0), and that share falls on each step.
//! - `a = exp(p)`: `E(a) = a*(e^E(p) - 1) + a*FUNCTION*u*e^E(p) + tiny`.
//! - `v = delta'*x*B`: `E(v) = |x*B|*E(delta') + 2u*|v|`.
//! - `h = a*h' + v`: with M the magnitude `M = a*M' + |v|`, which no partial state exceeds,
//!   `E(h) = a*E(h') + E(a)*(M' + E(h')) + E(v) + 2u*(a*M' + |v|) + tiny`, the roundings of
//!   a step in its chunk and in the whole; [`LEVELS`] more fall on M where stretches are
//!   combined.
//! - `y = sum of C*h + skip*x`: the errors of h times |C|, and `(N + 2)*u` of the sum of
//!   magnitudes, whatever the order.
//! - The gate `g = z*sigmoid(z)`: like the functions, times |z|; `y*g` by the product rule.
//!
//! `tiny` is 2^-126. The float64 evaluation's own error is far below all of this.

use super::Interval;
use super::bound::{LEVELS, UNIT};
use super::linear_scan::Expected;
use crate::sample::Sample;
use crate::selective::{Lane, SelectiveProblem};

/// Relative error of a function, in u: 2^-22 for an approximate exponential, the same again
/// for a reciprocal or logarithm, and roundings between.
const FUNCTION: f64 = 16.0;
/// Roundings of a function's argument.
const ARGUMENT: f64 = 3.0;
/// Roundings of a sum of step sizes.
const SUM: f64 = 64.0;
const TINY: f64 = f32::MIN_POSITIVE as f64;

/// What a run must return.
#[derive(Clone, Debug)]
pub struct SelectiveTruth {
    /// Like `y`.
    pub y: Vec<Expected>,
    /// `y` in float64.
    pub exact: Vec<f64>,
    /// `[sequences, D, N]`.
    pub final_state: Vec<Expected>,
    /// The final states in float64.
    pub exact_state: Vec<f64>,
}

/// A number, its bound, and its f32 evaluation.
#[derive(Clone, Copy, Debug)]
struct Value {
    exact: f64,
    error: f64,
    narrow: f32,
}

impl Value {
    fn of(narrow: f32) -> Self {
        Self {
            exact: narrow.into(),
            error: 0.0,
            narrow,
        }
    }

    fn expected(self) -> Expected {
        let error = if self.error.is_nan() {
            f64::INFINITY
        } else {
            self.error
        };
        Expected {
            sequential: self.narrow,
            interval: Interval::around(self.exact, error),
        }
    }
}

fn sigmoid(v: f64) -> f64 {
    1.0 / (1.0 + (-v).exp())
}

/// Bias and softplus.
fn step_size(delta: f32, bias: f32, softplus: bool) -> Value {
    let s = f64::from(delta) + f64::from(bias);
    if !softplus {
        return Value {
            exact: s,
            error: UNIT * s.abs(),
            narrow: delta + bias,
        };
    }
    let of = |s: f64| match s.is_nan() {
        true => s,
        false => s.max(0.0) + (-s.abs()).exp().ln_1p(),
    };
    Value {
        exact: of(s),
        error: UNIT * (ARGUMENT * s.abs() * sigmoid(s) + FUNCTION * of(s)) + TINY,
        narrow: of((delta + bias).into()) as f32,
    }
}

/// One state of one channel.
#[derive(Clone, Copy, Debug)]
struct State {
    h: Value,
    magnitude: f64,
    /// A, and the relative error of a computed A.
    a: f64,
    a_error: f64,
}

impl State {
    fn new(parameter: f32, log: bool, h0: f32) -> Self {
        let wide = f64::from(parameter);
        let (a, a_error) = match log {
            true => (-wide.exp(), (FUNCTION + ARGUMENT * wide.abs()) * UNIT),
            false => (wide, 0.0),
        };
        Self {
            h: Value::of(h0),
            magnitude: f64::from(h0).abs(),
            a,
            a_error,
        }
    }

    fn step(&mut self, delta: Value, x: f32, b: f32) {
        let p = delta.exact * self.a;
        let p_error = self.a.abs() * delta.error * (1.0 + self.a_error)
            + p.abs() * (self.a_error + SUM * UNIT);
        let decay = p.exp();
        let decay_error = decay * (p_error.exp_m1() + FUNCTION * UNIT * p_error.exp()) + TINY;
        let xb = f64::from(x) * f64::from(b);
        let input = delta.exact * xb;
        let input_error = xb.abs() * delta.error + 2.0 * UNIT * input.abs();
        let magnitude = decay * self.magnitude + input.abs();
        self.h = Value {
            exact: decay * self.h.exact + input,
            error: decay * self.h.error
                + decay_error * (self.magnitude + self.h.error)
                + input_error
                + 2.0 * UNIT * magnitude
                + TINY,
            narrow: {
                // A itself may be beyond f32: a step of size 0 changes nothing all the same.
                let decay = (f64::from(delta.narrow) * self.a).exp() as f32;
                decay.mul_add(self.h.narrow, delta.narrow * x * b)
            },
        };
        self.magnitude = magnitude;
    }

    /// With the roundings of combined stretches, which are not carried on.
    fn value(&self) -> Value {
        Value {
            error: self.h.error + LEVELS * UNIT * self.magnitude,
            ..self.h
        }
    }
}

/// Evaluates the definition.
pub fn selective_scan<T: Sample>(problem: &SelectiveProblem<T>) -> SelectiveTruth {
    let nothing = Value::of(f32::NAN).expected();
    let n = problem.scan.state;
    let mut truth = SelectiveTruth {
        y: vec![nothing; problem.x.len()],
        exact: vec![f64::NAN; problem.x.len()],
        final_state: vec![nothing; problem.states()],
        exact_state: vec![f64::NAN; problem.states()],
    };
    for lane in problem.lanes() {
        let last = scan_lane(problem, &lane, |at, y| {
            truth.y[at] = y.expected();
            truth.exact[at] = y.exact;
        });
        for (i, state) in last.into_iter().enumerate() {
            truth.final_state[lane.index * n + i] = state.expected();
            truth.exact_state[lane.index * n + i] = state.exact;
        }
    }
    truth
}

fn scan_lane<T: Sample>(
    problem: &SelectiveProblem<T>,
    lane: &Lane,
    mut put: impl FnMut(usize, Value),
) -> Vec<Value> {
    let n = problem.scan.state;
    let mut states: Vec<State> = (0..n)
        .map(|i| {
            let h0 = problem.h0.as_ref().map_or(0.0, |h0| h0[lane.index * n + i]);
            State::new(problem.a[lane.channel * n + i], problem.log, h0)
        })
        .collect();
    let of_channel = |parameter: &Option<Vec<f32>>| {
        parameter
            .as_ref()
            .map_or(0.0, |values| values[lane.channel])
    };
    let (bias, skip) = (of_channel(&problem.delta_bias), of_channel(&problem.d_skip));
    for t in 0..lane.steps {
        let at = problem.place(lane, t);
        let x = problem.x[at].widen();
        let delta = step_size(problem.delta[at].widen(), bias, problem.scan.softplus);
        let mut y = Value::of(0.0);
        let mut magnitude = 0.0;
        if problem.d_skip.is_some() {
            y.exact = f64::from(skip) * f64::from(x);
            y.narrow = skip * x;
            magnitude = y.exact.abs();
        }
        for (i, state) in states.iter_mut().enumerate() {
            let matrix = problem.matrix_place(lane, t, i);
            state.step(delta, x, problem.b[matrix].widen());
            let (h, c) = (state.value(), problem.c[matrix].widen());
            let wide = f64::from(c);
            y.exact += wide * h.exact;
            y.error += wide.abs() * h.error;
            y.narrow = c.mul_add(h.narrow, y.narrow);
            magnitude += wide.abs() * (state.magnitude + h.error);
        }
        y.error += (n as f64 + 2.0) * UNIT * magnitude + TINY;
        if let Some(z) = &problem.z {
            y = gated(y, z[at].widen());
        }
        put(at, y);
    }
    states
        .iter()
        .map(|state| Value { ..state.value() })
        .collect()
}

fn gated(y: Value, z: f32) -> Value {
    let wide = f64::from(z);
    let s = sigmoid(wide);
    let gate = wide * s;
    let gate_error =
        wide.abs() * (UNIT * (ARGUMENT * wide.abs() * s * (1.0 - s) + (FUNCTION + 1.0) * s) + TINY);
    Value {
        exact: y.exact * gate,
        error: y.error * gate.abs()
            + gate_error * (y.exact.abs() + y.error)
            + UNIT * (y.exact * gate).abs()
            + TINY,
        narrow: y.narrow * (gate as f32),
    }
}
