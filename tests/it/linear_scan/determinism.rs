//! Bit for bit: run to run, whatever else is in the batch, in place, and backwards.

use super::ORDERS;
use crate::every_type;
use ferroseq::ops::Layout;
use ferroseq_tests::compare::{same_bits, same_outcome};
use ferroseq_tests::inputs::Inputs;
use ferroseq_tests::{Case, Outcome, Problem, Sample, TestDevice};

every_type! { run_to_run independent_of_the_batch in_place_equals_out_of_place reverse_is_flipped }

fn cases(device: &TestDevice) -> impl Iterator<Item = Case> {
    let long = device.cases.longest;
    ORDERS.into_iter().flat_map(move |(layout, reverse)| {
        [(1, long, 3), (3, 200, 34)].map(|(batch, length, channels)| {
            let mut case = Case::plain(batch, length, channels, 19);
            case.scan = case.scan.layout(layout).reverse(reverse);
            case.initial = true;
            case
        })
    })
}

fn run<T: Sample>(device: &TestDevice, problem: &Problem<T>) -> Result<Outcome<T>, String> {
    problem
        .run(&device.device)
        .map_err(|error| format!("{}: {error}", problem.describe()))
}

fn run_to_run<T: Sample>(device: &TestDevice) -> Result<(), String> {
    for case in cases(device) {
        let problem = case.problem::<T>();
        let first = run(device, &problem)?;
        for again in 1..5 {
            let what = format!("{}, run {again}", problem.describe());
            same_outcome(&what, &run(device, &problem)?, &first)?;
        }
    }
    Ok(())
}

/// One element alone, and at every place in a batch of seven full of garbage.
fn independent_of_the_batch<T: Sample>(device: &TestDevice) -> Result<(), String> {
    for case in cases(device).map(|mut case| {
        case.scan.batch = 1;
        case
    }) {
        let alone = case.problem::<T>();
        let expected = run(device, &alone)?;
        for place in [0, 3, 6] {
            let crowd = in_a_crowd(&alone, place, 7);
            let outcome = run(device, &crowd)?;
            let what = format!("{} at {place} of 7", alone.describe());
            same_bits(&what, element(&outcome.h, place, 7), &expected.h)?;
            let states = element(&outcome.final_state, place, 7);
            same_bits(&what, states, &expected.final_state)?;
        }
    }
    Ok(())
}

fn in_a_crowd<T: Sample>(alone: &Problem<T>, place: usize, batch: usize) -> Problem<T> {
    let mut garbage = Inputs::new(23);
    let mut scan = alone.scan;
    scan.batch = batch;
    let mut crowd = Problem {
        scan,
        offsets: None,
        a: garbage.garbage(batch * alone.a.len()),
        b: garbage.garbage(batch * alone.b.len()),
        h0: Some(garbage.garbage(batch * scan.channels)),
    };
    element_mut(&mut crowd.a, place, batch).copy_from_slice(&alone.a);
    element_mut(&mut crowd.b, place, batch).copy_from_slice(&alone.b);
    if let (Some(h0), Some(own)) = (&mut crowd.h0, &alone.h0) {
        element_mut(h0, place, batch).copy_from_slice(own);
    }
    crowd
}

fn element<T>(tensor: &[T], place: usize, batch: usize) -> &[T] {
    let size = tensor.len() / batch;
    &tensor[place * size..(place + 1) * size]
}

fn element_mut<T>(tensor: &mut [T], place: usize, batch: usize) -> &mut [T] {
    let size = tensor.len() / batch;
    &mut tensor[place * size..(place + 1) * size]
}

fn in_place_equals_out_of_place<T: Sample>(device: &TestDevice) -> Result<(), String> {
    for case in cases(device) {
        let problem = case.problem::<T>();
        let in_place = problem
            .run_in_place(&device.device)
            .map_err(|error| error.to_string())?;
        same_outcome(&problem.describe(), &in_place, &run(device, &problem)?)?;
    }
    Ok(())
}

/// A reverse scan is the forward scan of the flipped inputs, flipped.
fn reverse_is_flipped<T: Sample>(device: &TestDevice) -> Result<(), String> {
    for case in cases(device).filter(|case| case.scan.reverse) {
        let problem = case.problem::<T>();
        let flipped = Problem {
            scan: problem.scan.reverse(false),
            a: flip(&problem, &problem.a),
            b: flip(&problem, &problem.b),
            ..problem.clone()
        };
        let forward = run(device, &flipped)?;
        let expected = Outcome {
            h: flip(&problem, &forward.h),
            final_state: forward.final_state,
        };
        same_outcome(&problem.describe(), &run(device, &problem)?, &expected)?;
    }
    Ok(())
}

/// Time turned round.
fn flip<T: Sample>(problem: &Problem<T>, tensor: &[T]) -> Vec<T> {
    let scan = problem.scan;
    match scan.layout {
        Layout::Bdl => tensor
            .chunks_exact(scan.length)
            .flat_map(|column| column.iter().rev().copied())
            .collect(),
        Layout::Bld => tensor
            .chunks_exact(scan.length * scan.channels)
            .flat_map(|element| element.chunks_exact(scan.channels).rev().flatten().copied())
            .collect(),
    }
}
