//! Cases computed by another hand: numpy in float64 (`tests/golden/selective_scan.py`), and
//! closed forms. They hold the oracle to the published definition; the devices are then
//! compared with the oracle.

use super::{SCAN, affords};
use ferroseq::ops::SelectiveScan;
use ferroseq_tests::compare::selective_conforms;
use ferroseq_tests::oracle::selective_scan::selective_scan;
use ferroseq_tests::{Sample, SelectiveCase, SelectiveProblem};
use half::bf16;
use serde_json::Value;

const GOLDEN: &str = include_str!("../../golden/selective_scan.json");

/// The input tensors of the script: 8 bits each, exact in every element type.
fn tensor(case: usize, k: usize, count: usize, map: impl Fn(f64) -> f64) -> Vec<f32> {
    (0..count as u64)
        .map(|i| {
            let mut h = (i * 2_654_435_761 + (case * 7919 + k * 104_729) as u64) % (1 << 32);
            h ^= h >> 15;
            h = h * 2_246_822_519 % (1 << 32);
            map((h >> 24) as f64 / 128.0 - 1.0) as f32
        })
        .collect()
}

fn problem<T: Sample>(number: usize, case: &Value) -> SelectiveProblem<T> {
    let on = |name: &str| case[name].as_bool().expect("a boolean");
    let size = |value: &Value| value.as_u64().expect("a size") as usize;
    let sizes: Vec<usize> = case["shape"]
        .as_array()
        .expect("a shape")
        .iter()
        .map(size)
        .collect();
    let [batch, length, channels, state] = sizes[..] else {
        panic!("four sizes");
    };
    let groups = size(&case["groups"]);
    let scan = SelectiveScan::new(batch, length, channels, state)
        .groups(groups)
        .softplus(on("softplus"));
    let offsets: Option<Vec<i64>> = case["packed"].as_array().map(|offsets| {
        let offsets = offsets
            .iter()
            .map(|offset| offset.as_i64().expect("an offset"));
        offsets.collect()
    });
    let narrow = |values: Vec<f32>| values.into_iter().map(T::narrow).collect::<Vec<T>>();
    let (elements, matrix) = (batch * length * channels, batch * length * groups * state);
    let (log, softplus) = (on("log"), on("softplus"));
    let mut problem = SelectiveProblem {
        scan,
        offsets,
        x: narrow(tensor(number, 0, elements, |v| v)),
        delta: narrow(tensor(number, 1, elements, |v| {
            2.0 * v + if softplus { 0.0 } else { 2.0 }
        })),
        a: tensor(
            number,
            2,
            channels * state,
            |v| if log { v } else { v - 1.0 },
        ),
        log,
        b: narrow(tensor(number, 3, matrix, |v| v)),
        c: narrow(tensor(number, 4, matrix, |v| v)),
        d_skip: on("skip").then(|| tensor(number, 5, channels, |v| v)),
        delta_bias: on("bias").then(|| tensor(number, 6, channels, |v| v)),
        z: on("gate").then(|| narrow(tensor(number, 7, elements, |v| 4.0 * v))),
        h0: None,
    };
    if on("initial") {
        problem.h0 = Some(tensor(number, 8, problem.states(), |v| v));
    }
    problem
}

fn cases() -> Vec<Value> {
    serde_json::from_str(GOLDEN).expect("the script writes JSON")
}

/// In float64 both sides round at 2^-53; over thousands of steps and a scale of about 1
/// they agree to 1e-10 unless one of them means something else.
#[test]
fn the_oracle_is_the_published_definition() {
    let close = |found: f64, golden: &Value| {
        let golden = golden.as_f64().expect("a number");
        (found - golden).abs() <= 1e-10 * (1.0 + golden.abs())
    };
    for (number, case) in cases().iter().enumerate() {
        let truth = selective_scan(&problem::<f32>(number, case));
        let every = case["every"].as_u64().expect("a stride") as usize;
        let golden = case["y"].as_array().expect("outputs");
        assert_eq!(golden.len(), truth.exact.len().div_ceil(every));
        for (at, (y, golden)) in truth.exact.iter().step_by(every).zip(golden).enumerate() {
            assert!(
                close(*y, golden),
                "case {number}, y {at}: {y}, not {golden}"
            );
        }
        let golden = case["final_state"].as_array().expect("states");
        assert_eq!(golden.len(), truth.exact_state.len());
        for (at, (h, golden)) in truth.exact_state.iter().zip(golden).enumerate() {
            assert!(
                close(*h, golden),
                "case {number}, h {at}: {h}, not {golden}"
            );
        }
    }
}

#[test]
fn devices_give_the_golden_results() {
    crate::on_devices(SCAN, |device| {
        for (number, case) in cases().iter().enumerate() {
            let problem = problem::<f32>(number, case);
            let scan = problem.scan;
            if affords(device, [scan.batch, scan.length, scan.channels, scan.state]) {
                let wrong = |wrong: String| format!("golden case {number}: {wrong}");
                selective_conforms(device, &problem).map_err(wrong)?;
                selective_conforms(device, &self::problem::<bf16>(number, case)).map_err(wrong)?;
            }
        }
        Ok(())
    });
}

/// `h[t] = e^-1 * h[t-1] + 1` is a geometric sum: `h[t] = (1 - e^-(t+1)) / (1 - e^-1)`.
#[test]
fn one_state_under_constant_input() {
    let mut problem = SelectiveCase::plain([1, 40, 1, 1], 0).problem::<f32>();
    problem.scan.softplus = false;
    for tensor in [
        &mut problem.x,
        &mut problem.delta,
        &mut problem.b,
        &mut problem.c,
    ] {
        tensor.fill(1.0);
    }
    problem.a = vec![0.0]; // A = -exp(0) = -1.
    let closed = |t: i32| (1.0 - (-f64::from(t) - 1.0).exp()) / (1.0 - (-1f64).exp());
    for (t, y) in selective_scan(&problem).exact.iter().enumerate() {
        assert!((y - closed(t as i32)).abs() < 1e-14);
    }
    crate::on_devices(SCAN, |device| selective_conforms(device, &problem));
}

/// Nothing comes in, and the state fades: `y[t] = C * e^(A * (t+1) * ln 2) * h0`, since
/// softplus of 0 is ln 2; with A = -1 each step halves it.
#[test]
fn half_life() {
    let mut problem = SelectiveCase::plain([1, 30, 1, 1], 0).problem::<f32>();
    problem.x.fill(0.0);
    problem.delta.fill(0.0);
    problem.c.fill(4.0);
    problem.a = vec![0.0];
    problem.h0 = Some(vec![8.0]);
    for (t, y) in selective_scan(&problem).exact.iter().enumerate() {
        let closed = 32.0 * 0.5f64.powi(t as i32 + 1);
        assert!((y - closed).abs() < 1e-13 * closed);
    }
    crate::on_devices(SCAN, |device| selective_conforms(device, &problem));
}
