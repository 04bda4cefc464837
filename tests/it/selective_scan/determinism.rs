//! Bit for bit: run to run, and whatever else is in the batch.

use super::affords;
use crate::every_type;
use ferroseq::ops::Layout;
use ferroseq_tests::compare::{same_bits, same_selective};
use ferroseq_tests::inputs::Inputs;
use ferroseq_tests::{Sample, SelectiveCase, SelectiveOutcome, SelectiveProblem, TestDevice};

every_type! { on crate::selective_scan::SCAN: run_to_run independent_of_the_batch }

fn cases(device: &TestDevice) -> impl Iterator<Item = SelectiveCase> + '_ {
    [
        [1, 40, 4, 4],
        [1, 61, 34, 16],
        [1, 2100, 3, 8],
        [1, 9, 5, 100],
    ]
    .into_iter()
    .filter(|&shape| affords(device, shape))
    .flat_map(|shape| {
        [Layout::Bld, Layout::Bdl].map(|layout| {
            let mut case = SelectiveCase::full(shape, 19);
            case.scan = case.scan.layout(layout);
            case
        })
    })
}

fn run<T: Sample>(
    device: &TestDevice,
    problem: &SelectiveProblem<T>,
) -> Result<SelectiveOutcome<T>, String> {
    problem
        .run(&device.device)
        .map_err(|error| format!("{}: {error}", problem.describe()))
}

fn run_to_run<T: Sample>(device: &TestDevice) -> Result<(), String> {
    for case in cases(device) {
        let problem = case.problem::<T>();
        let first = run(device, &problem)?;
        for again in 1..4 {
            let what = format!("{}, run {again}", problem.describe());
            same_selective(&what, &run(device, &problem)?, &first)?;
        }
    }
    Ok(())
}

/// One element alone, and at every place in a batch of five full of garbage.
fn independent_of_the_batch<T: Sample>(device: &TestDevice) -> Result<(), String> {
    const BATCH: usize = 5;
    for case in cases(device) {
        let alone = case.problem::<T>();
        let expected = run(device, &alone)?;
        for place in [0, 2, 4] {
            let crowd = in_a_crowd(&alone, place, BATCH);
            let outcome = run(device, &crowd)?;
            let what = format!("{} at {place} of {BATCH}", alone.describe());
            let (y, states) = (alone.x.len(), expected.final_state.len());
            same_bits(&what, &outcome.y[place * y..(place + 1) * y], &expected.y)?;
            let states = &outcome.final_state[place * states..(place + 1) * states];
            same_bits(&what, states, &expected.final_state)?;
        }
    }
    Ok(())
}

fn in_a_crowd<T: Sample>(
    alone: &SelectiveProblem<T>,
    place: usize,
    batch: usize,
) -> SelectiveProblem<T> {
    let mut garbage = Inputs::new(23);
    let mut crowd = alone.clone();
    crowd.scan.batch = batch;
    let tensors = [&mut crowd.x, &mut crowd.delta, &mut crowd.b, &mut crowd.c];
    for tensor in tensors.into_iter().chain(crowd.z.as_mut()) {
        *tensor = surrounded(&mut garbage, tensor, place, batch);
    }
    crowd.h0 = crowd
        .h0
        .map(|h0| surrounded(&mut garbage, &h0, place, batch));
    crowd
}

fn surrounded<T: Sample>(garbage: &mut Inputs, own: &[T], place: usize, batch: usize) -> Vec<T> {
    let mut all = garbage.garbage(batch * own.len());
    all[place * own.len()..(place + 1) * own.len()].copy_from_slice(own);
    all
}
