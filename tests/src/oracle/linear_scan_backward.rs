//! Gradients of the linear scan, by the chain rule, in float64 and in f32.
//!
//! With `g[t]` the gradient of the loss with respect to `h[t]`, through everything later:
//! `g[t] = grad_h[t] + a[t+1]*g[t+1]`, where the last step adds `grad_final_state`. Then
//! `grad_b[t] = g[t]`, `grad_a[t] = g[t]*h[t-1]` with `h[-1] = h0`, `grad_h0 = a[0]*g[0]`.
//! `g` is a linear scan from the last step to the first, so its error bound is that of
//! [`bound`](super::bound). A product adds one rounding (and one underflow) on top:
//! |computed - g*x| <= |x|*E + u*(|g| + E)*|x| + 2^-149, E the bound on g.

use super::bound::UNIT;
use super::linear_scan::Expected;
use super::{Interval, Running};
use crate::problem::Problem;
use crate::sample::Sample;

/// What the backward pass takes beside the forward pass's problem.
#[derive(Clone, Debug)]
pub struct BackwardProblem<T> {
    /// Shape, options, gates, initial state.
    pub forward: Problem<T>,
    /// The states that the forward pass returned.
    pub h: Vec<T>,
    /// Gradient of the loss with respect to `h`.
    pub grad_h: Vec<T>,
    /// Gradient with respect to the final states.
    pub grad_final_state: Option<Vec<f32>>,
}

/// What the backward pass must return.
#[derive(Clone, Debug)]
pub struct Gradients {
    /// Like `a`.
    pub grad_a: Vec<Expected>,
    /// Like `b`.
    pub grad_b: Vec<Expected>,
    /// `[sequences, D]`.
    pub grad_h0: Vec<Expected>,
}

/// Evaluates the definition.
pub fn linear_scan_backward<T: Sample>(problem: &BackwardProblem<T>) -> Gradients {
    let forward = &problem.forward;
    let nothing = Expected {
        sequential: f32::NAN,
        interval: Interval::around(f64::NAN, 0.0),
    };
    let mut gradients = Gradients {
        grad_a: vec![nothing; forward.a.len()],
        grad_b: vec![nothing; forward.a.len()],
        grad_h0: vec![nothing; forward.states()],
    };
    for column in forward.columns() {
        let last = problem
            .grad_final_state
            .as_ref()
            .map_or(0.0, |grad| grad[column.state]);
        let h0 = forward.h0.as_ref().map_or(0.0, |h0| h0[column.state]);
        let places: Vec<usize> = column.indices().collect();
        let mut g = Carry::new(last);
        let mut next_gate = 1.0; // The final state is the last state.
        for (step, &at) in places.iter().enumerate().rev() {
            g.step(next_gate, problem.grad_h[at].widen());
            let before = match step.checked_sub(1) {
                Some(step) => problem.h[places[step]].widen(),
                None => h0,
            };
            gradients.grad_b[at] = g.expected();
            gradients.grad_a[at] = g.times(before);
            next_gate = forward.a[at].widen();
        }
        gradients.grad_h0[column.state] = match places.first() {
            Some(_) => g.times(next_gate),
            None => g.expected(),
        };
    }
    gradients
}

/// `g` as it runs backwards: float64 with bound, and f32 in order.
#[derive(Clone, Copy, Debug)]
struct Carry {
    running: Running,
    sequential: f32,
}

impl Carry {
    fn new(last: f32) -> Self {
        Self {
            running: Running::new(f64::from(last)),
            sequential: last,
        }
    }

    fn step(&mut self, gate: f32, input: f32) {
        self.running.step(f64::from(gate), f64::from(input));
        self.sequential = gate.mul_add(self.sequential, input);
    }

    fn expected(&self) -> Expected {
        Expected {
            sequential: self.sequential,
            interval: self.running.interval(),
        }
    }

    fn times(&self, factor: f32) -> Expected {
        let (x, g, e) = (
            f64::from(factor),
            self.running.value(),
            self.running.bound(),
        );
        let bound = x.abs() * (e + UNIT * (g.abs() + e)) * (1.0 + UNIT)
            + 2.0 * f64::from(f32::from_bits(1));
        Expected {
            sequential: self.sequential * factor,
            interval: Interval::around(g * x, bound),
        }
    }
}
