//! Long memory: gates near 1, where rounding errors add up.

use crate::every_type;
use ferroseq::ops::{Layout, LinearScan};
use ferroseq_tests::compare::conforms;
use ferroseq_tests::inputs::Inputs;
use ferroseq_tests::oracle::linear_scan::linear_scan;
use ferroseq_tests::{Case, Problem, Sample, TestDevice};

every_type! { gates_near_one gates_of_one }

/// Gates in [0.999, 1] over as many steps as the device can take, summands of one sign
/// (the state grows to about 1000) and of both.
fn gates_near_one<T: Sample>(device: &TestDevice) -> Result<(), String> {
    for layout in [Layout::Bld, Layout::Bdl] {
        for positive in [true, false] {
            conforms(
                device,
                &problem::<T>(device.cases.accuracy_steps, layout, positive),
            )?;
        }
    }
    Ok(())
}

fn problem<T: Sample>(steps: usize, layout: Layout, positive: bool) -> Problem<T> {
    let mut inputs = Inputs::new(29);
    let channels = 3;
    Problem {
        scan: LinearScan::new(1, steps, channels).layout(layout),
        offsets: None,
        a: inputs.gates_above(0.999, steps * channels),
        b: if positive {
            inputs.positive_values(steps * channels)
        } else {
            inputs.values(steps * channels)
        },
        h0: None,
    }
}

/// Gates of exactly 1: a running sum.
fn gates_of_one<T: Sample>(device: &TestDevice) -> Result<(), String> {
    let mut problem = Case::plain(1, device.cases.longest, 9, 31).problem::<T>();
    problem.a.fill(T::narrow(1.0));
    conforms(device, &problem)
}

/// The bound allows a relative error of 1e-3 at most on the positive problem, where
/// 65536 roundings in one direction could make 4e-3: it can tell right from wrong.
#[test]
fn the_bound_is_not_vacuous() {
    let truth = linear_scan(&problem::<f32>(65536, Layout::Bld, true));
    for expected in truth.h.iter().chain(&truth.final_state) {
        let interval = expected.interval;
        let width = f64::from(interval.high) - f64::from(interval.low);
        assert!(width <= 1e-3 * f64::from(interval.high), "{expected:?}");
    }
}
