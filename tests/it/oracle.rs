//! The tests' own foundations: the oracle knows the definition, its bound tells right from
//! wrong, and its gradients are those of finite differences.

use ferroseq::ops::{Layout, LinearScan};
use ferroseq_tests::compare::{all_right, is_right};
use ferroseq_tests::inputs::Inputs;
use ferroseq_tests::oracle::linear_scan::linear_scan;
use ferroseq_tests::oracle::linear_scan_backward::{BackwardProblem, linear_scan_backward};
use ferroseq_tests::oracle::{Interval, Running};
use ferroseq_tests::{Case, Problem, Sample};
use half::f16;

/// A scan small enough to do by hand: [B, L, D] = [1, 3, 2].
fn by_hand() -> Problem<f32> {
    Problem {
        scan: LinearScan::new(1, 3, 2),
        offsets: None,
        a: vec![0.5, 2.0, 0.5, -1.0, 4.0, 0.0],
        b: vec![1.0, 1.0, 2.0, 3.0, -1.0, 5.0],
        h0: Some(vec![2.0, 3.0]),
    }
}

fn sequential(problem: &Problem<f32>) -> (Vec<f32>, Vec<f32>) {
    let truth = linear_scan(problem);
    let values = |expected: Vec<_>| {
        expected
            .iter()
            .map(|e: &ferroseq_tests::oracle::linear_scan::Expected| e.sequential)
            .collect()
    };
    (values(truth.h), values(truth.final_state))
}

#[test]
fn forward_by_hand() {
    let (h, last) = sequential(&by_hand());
    assert_eq!(h, [2.0, 7.0, 3.0, -4.0, 11.0, 5.0]);
    assert_eq!(last, [11.0, 5.0]);
}

#[test]
fn reverse_by_hand() {
    let mut problem = by_hand();
    problem.scan = problem.scan.reverse(true);
    let (h, last) = sequential(&problem);
    assert_eq!(h, [3.75, -3.0, 5.5, -2.0, 7.0, 5.0]);
    assert_eq!(last, [3.75, -3.0]);
}

#[test]
fn channels_first_by_hand() {
    let mut problem = by_hand();
    problem.scan = LinearScan::new(1, 3, 2).layout(Layout::Bdl);
    let (h, last) = sequential(&problem);
    // Channel 0 is a = [0.5, 2, 0.5], b = [1, 1, 2]; channel 1 is a = [-1, 4, 0], b = [3, -1, 5].
    assert_eq!(h, [2.0, 5.0, 4.5, 0.0, -1.0, 5.0]);
    assert_eq!(last, [4.5, 5.0]);
}

#[test]
fn packed_by_hand() {
    let mut problem = by_hand();
    problem.offsets = Some(vec![0, 1, 1, 3]);
    problem.h0 = Some(vec![2.0, 3.0, 7.0, 8.0, 1.0, -1.0]);
    let (h, last) = sequential(&problem);
    assert_eq!(h, [2.0, 7.0, 2.5, 4.0, 9.0, 5.0]);
    assert_eq!(last, [2.0, 7.0, 7.0, 8.0, 9.0, 5.0]);
}

/// The sequential f32 evaluation is one of those that the bound is about, and so is one
/// that composes halves, the most different grouping there is.
#[test]
fn other_groupings_keep_the_bound() {
    for seed in 0..20 {
        let problem = Case::plain(1, 1000, 1, seed).problem::<f32>();
        let truth = linear_scan(&problem);
        let sequential: Vec<f32> = truth.h.iter().map(|e| e.sequential).collect();
        all_right(&sequential, &truth.h, false).unwrap();
        for (at, expected) in truth.h.iter().enumerate() {
            let (_, state) = halves(&problem.a[..=at], &problem.b[..=at]);
            assert!(
                is_right(state, expected, false),
                "step {at}: {state} is not {expected:?}"
            );
        }
    }
}

/// The affine map of these steps, composed in f32 as a balanced tree.
fn halves(a: &[f32], b: &[f32]) -> (f32, f32) {
    if a.len() == 1 {
        return (a[0], b[0]);
    }
    let middle = a.len() / 2;
    let (a1, b1) = halves(&a[..middle], &b[..middle]);
    let (a2, b2) = halves(&a[middle..], &b[middle..]);
    (a2 * a1, a2.mul_add(b1, b2))
}

type Mistake = fn(&mut Problem<f32>);

/// Mistakes that a kernel could make fall outside the bound.
#[test]
fn mistakes_break_the_bound() {
    let mut inputs = Inputs::new(3);
    let problem = Problem::<f32> {
        a: inputs.gates_above(0.8, 2000),
        ..Case::plain(1, 2000, 1, 3).problem()
    };
    let truth = linear_scan(&problem);
    let mistakes: [(&str, Mistake); 4] = [
        ("one gate off by 1e-4", |p| p.a[1000] *= 1.0001),
        ("one input off by 1e-3", |p| p.b[1000] += 1e-3),
        ("a step left out", |p| (p.a[1000], p.b[1000]) = (1.0, 0.0)),
        ("a carry lost at a tile edge", |p| p.a[1024] = 0.0),
    ];
    for (mistake, make) in mistakes {
        let mut wrong = problem.clone();
        make(&mut wrong);
        let h: Vec<f32> = linear_scan(&wrong).h.iter().map(|e| e.sequential).collect();
        assert!(all_right(&h, &truth.h, false).is_err(), "{mistake}");
        assert!(all_right(&h, &truth.h, true).is_err(), "{mistake}, exactly");
    }
    let mut poisoned: Vec<f32> = truth.h.iter().map(|e| e.sequential).collect();
    poisoned[1999] = f32::NAN;
    assert!(all_right(&poisoned, &truth.h, false).is_err());
    assert!(all_right(&poisoned[..1999], &truth.h, false).is_err());
}

/// Half a unit in the last place of the narrow type, and its overflow, are right.
#[test]
fn intervals_round_to_the_element_type() {
    let near_one = Interval::around(1.0 + 2f64.powi(-11), 1e-6);
    assert!(near_one.holds(f16::narrow(1.0)));
    assert!(near_one.holds(f16::narrow(1.0 + 2f32.powi(-10))));
    assert!(!near_one.holds(f16::narrow(1.0 + 2f32.powi(-9))));
    let at_the_top = Interval::around(65519.999, 0.1);
    assert!(at_the_top.holds(f16::MAX));
    assert!(at_the_top.holds(f16::INFINITY));
    assert!(!at_the_top.holds(f16::NEG_INFINITY));
    assert!(!Interval::around(65500.0, 1.0).holds(f16::INFINITY));
    assert!(!Interval::around(1.0, 0.5).holds(f32::NAN));
}

/// A bound of all zeros is exact.
#[test]
fn zeros_have_no_error() {
    let mut running = Running::new(0.0);
    for _ in 0..100 {
        running.step(1e30, 0.0);
        assert_eq!(
            running.interval(),
            Interval {
                low: 0.0,
                high: 0.0
            }
        );
    }
}

/// The loss `sum grad_h*h + sum grad_final*final` is linear in each single input, so
/// central differences are exact but for float64 rounding, whatever the step.
#[test]
fn gradients_are_finite_differences() {
    let (steps, step) = (9, 0.25);
    let mut inputs = Inputs::new(17);
    let problem = Problem::<f32> {
        scan: LinearScan::new(1, steps, 1),
        offsets: None,
        a: inputs.gates(steps),
        b: inputs.values(steps),
        h0: Some(inputs.values(1)),
    };
    // Exact h: float64 would round, so take values whose scan is exact in f32.
    let quarter =
        |values: &[f32]| -> Vec<f32> { values.iter().map(|x| (x * 4.0).round() / 4.0).collect() };
    let problem = Problem {
        a: problem.a.iter().map(|x| (x * 2.0).round() / 2.0).collect(),
        b: quarter(&problem.b),
        h0: problem.h0.as_deref().map(quarter),
        ..problem
    };
    let backward = BackwardProblem {
        h: linear_scan(&problem)
            .h
            .iter()
            .map(|e| e.sequential)
            .collect(),
        grad_h: inputs.values(steps),
        grad_final_state: Some(inputs.values(1)),
        forward: problem.clone(),
    };
    let loss = |problem: &Problem<f32>| -> f64 {
        let mut h = f64::from(problem.h0.as_deref().unwrap_or_default()[0]);
        let mut loss = 0.0;
        for t in 0..steps {
            h = f64::from(problem.a[t]) * h + f64::from(problem.b[t]);
            loss += f64::from(backward.grad_h[t]) * h;
        }
        loss + f64::from(backward.grad_final_state.as_deref().unwrap_or_default()[0]) * h
    };
    let difference = |change: &dyn Fn(&mut Problem<f32>, f32)| -> f64 {
        let at = |by: f32| {
            let mut moved = problem.clone();
            change(&mut moved, by);
            loss(&moved)
        };
        (at(step) - at(-step)) / (2.0 * f64::from(step))
    };
    let gradients = linear_scan_backward(&backward);
    let check = |what: &str, expected: &Interval, found: f64| {
        let slack = 1e-12 * (1.0 + found.abs());
        let (low, high) = (f64::from(expected.low), f64::from(expected.high));
        assert!(
            (low - slack..=high + slack).contains(&found),
            "{what}: {expected:?}, by differences {found}"
        );
        assert!(high - low <= 1e-4, "{what}: too wide to say anything");
    };
    for t in 0..steps {
        let a = difference(&|problem, by| problem.a[t] += by);
        check(&format!("grad_a[{t}]"), &gradients.grad_a[t].interval, a);
        let b = difference(&|problem, by| problem.b[t] += by);
        check(&format!("grad_b[{t}]"), &gradients.grad_b[t].interval, b);
    }
    let h0 = difference(&|problem, by| problem.h0.as_mut().unwrap()[0] += by);
    check("grad_h0", &gradients.grad_h0[0].interval, h0);
}
