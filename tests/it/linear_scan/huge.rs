//! More elements than a 32-bit index counts. Needs about 13 GB of host memory and 9 GB on
//! the device, so it runs only when asked for, with `FERROSEQ_HUGE=1`.

use crate::on_every_device;
use ferroseq::ops::{Layout, LinearScan};
use ferroseq_tests::compare::is_right;
use ferroseq_tests::devices::skipped;
use ferroseq_tests::inputs::Inputs;
use ferroseq_tests::oracle::linear_scan::scan_column;
use ferroseq_tests::{Problem, Sample, TestDevice};
use half::bf16;

/// L and D: L*D is a little more than 2^31.
const LENGTH: usize = 210_001;
const CHANNELS: usize = 10_240;

#[test]
fn more_than_2_to_the_31_elements() {
    if std::env::var("FERROSEQ_HUGE").as_deref() != Ok("1") {
        return skipped("more than 2^31 elements (13 GB of memory; FERROSEQ_HUGE=1 runs it)");
    }
    for layout in [Layout::Bld, Layout::Bdl] {
        let scan = LinearScan::new(1, LENGTH, CHANNELS).layout(layout);
        let mut inputs = Inputs::new(67);
        // A prime period: no two channels see the same inputs.
        let problem = Problem::<bf16> {
            scan,
            offsets: None,
            a: repeat(&inputs.gates(1_000_003)),
            b: repeat(&inputs.values(1_000_003)),
            h0: None,
        };
        on_every_device(|device| {
            if device.cases.large {
                some_columns(device, &problem)?;
            }
            Ok(())
        });
    }
}

fn repeat(period: &[bf16]) -> Vec<bf16> {
    let mut all = Vec::with_capacity(LENGTH * CHANNELS);
    while all.len() < LENGTH * CHANNELS {
        let rest = LENGTH * CHANNELS - all.len();
        all.extend_from_slice(&period[..period.len().min(rest)]);
    }
    all
}

/// Compares the first and last channels and some between.
fn some_columns<T: Sample>(device: &TestDevice, problem: &Problem<T>) -> Result<(), String> {
    let outcome = problem
        .run_in_place(&device.device)
        .map_err(|error| error.to_string())?;
    let exact = device.is_sequential();
    for column in problem
        .columns()
        .step_by(1137)
        .chain(problem.columns().last())
    {
        let mut wrong = None;
        let last = scan_column(problem, &column, |at, expected| {
            if wrong.is_none() && !is_right(outcome.h[at], &expected, exact) {
                wrong = Some(format!(
                    "h[{at}] is {:?}, expected {expected:?}",
                    outcome.h[at]
                ));
            }
        });
        if !is_right(outcome.final_state[column.state], &last, exact) {
            wrong.get_or_insert(format!("final_state[{}]", column.state));
        }
        if let Some(wrong) = wrong {
            return Err(format!(
                "{}: {}: {wrong}",
                device.device,
                problem.describe()
            ));
        }
    }
    Ok(())
}
