//! The step: decoding L tokens one by one is the scan over L, at every prefix.

use super::affords;
use crate::every_type;
use ferroseq_tests::compare::{same_selective, selective_agrees};
use ferroseq_tests::{Sample, SelectiveCase, TestDevice};

every_type! { on crate::selective_scan::SCAN: steps_are_the_scan long_decoding }

fn steps_are_the_scan<T: Sample>(device: &TestDevice) -> Result<(), String> {
    let shapes = [
        ([1, 1, 1, 1], 1),
        ([3, 4, 6, 4], 2),
        ([2, 3, 34, 16], 1),
        ([2, 5, 5, 17], 1),
        ([1, 4, 3, 128], 1),
        ([33, 3, 130, 16], 1),
        ([2, 2, 3, 256], 3),
        ([0, 2, 3, 4], 1),
    ];
    for (seed, (shape, groups)) in shapes.into_iter().enumerate() {
        if !affords(device, shape) {
            continue;
        }
        for bits in 0..4u64 {
            let mut case = match bits & 1 {
                0 => SelectiveCase::full(shape, seed as u64),
                _ => SelectiveCase::plain(shape, seed as u64),
            };
            case.log = bits >> 1 == 0;
            case.scan = case.scan.groups(groups).softplus(case.log);
            agrees::<T>(device, &case)?;
        }
    }
    Ok(())
}

fn long_decoding<T: Sample>(device: &TestDevice) -> Result<(), String> {
    let length = if device.cases.large { 400 } else { 20 };
    agrees::<T>(device, &SelectiveCase::full([2, length, 3, 4], 5))
}

/// The outputs and the state of every step are within the bounds of the scan's; since each
/// output is, every prefix is. And they are the scan's own bits.
fn agrees<T: Sample>(device: &TestDevice, case: &SelectiveCase) -> Result<(), String> {
    let problem = case.problem::<T>();
    let steps = problem
        .run_steps(&device.device)
        .map_err(|error| format!("{}: {error}", problem.describe()))?;
    selective_agrees(device, &problem, &steps)?;
    let whole = problem.run(&device.device).map_err(|e| e.to_string())?;
    same_selective(&problem.describe(), &steps, &whole)
}
