//! The linear scan by its definition: in float64 with error bounds, and step by step in
//! f32 to say exactly where NaN and infinity belong.

use super::{Interval, Running};
use crate::problem::{Column, Problem};
use crate::sample::Sample;

/// What one value of the result must be.
#[derive(Clone, Copy, Debug)]
pub struct Expected {
    /// The definition evaluated in f32, in order, one fused multiply-add a step, not yet
    /// rounded to the element type. It alone says which values are NaN or infinite.
    pub sequential: f32,
    /// The f32 values within the error bound of the float64 value.
    pub interval: Interval,
}

/// What a run must return: `h` in the order of memory, and the final states.
#[derive(Clone, Debug)]
pub struct Truth {
    /// Like `h`.
    pub h: Vec<Expected>,
    /// `[sequences, D]`.
    pub final_state: Vec<Expected>,
}

/// Evaluates the definition.
pub fn linear_scan<T: Sample>(problem: &Problem<T>) -> Truth {
    let nothing = Expected {
        sequential: f32::NAN,
        interval: Interval::around(f64::NAN, 0.0),
    };
    let mut truth = Truth {
        h: vec![nothing; problem.b.len()],
        final_state: vec![nothing; problem.states()],
    };
    for column in problem.columns() {
        let last = scan_column(problem, &column, |at, expected| truth.h[at] = expected);
        truth.final_state[column.state] = last;
    }
    truth
}

/// Evaluates one channel of one sequence: `put` gets each index with what belongs there; the
/// final state is returned.
pub fn scan_column<T: Sample>(
    problem: &Problem<T>,
    column: &Column,
    mut put: impl FnMut(usize, Expected),
) -> Expected {
    let h0 = problem.h0.as_ref().map_or(0.0, |h0| h0[column.state]);
    let mut running = Running::new(f64::from(h0));
    let mut expected = Expected {
        sequential: h0,
        interval: Interval { low: h0, high: h0 },
    };
    for at in column.indices() {
        let (a, b) = (problem.a[at].widen(), problem.b[at].widen());
        running.step(f64::from(a), f64::from(b));
        expected = Expected {
            sequential: a.mul_add(expected.sequential, b),
            interval: running.interval(),
        };
        put(at, expected);
    }
    expected
}
