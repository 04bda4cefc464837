//! Inputs longer than memory: chunk after chunk, the final state of one the initial state
//! of the next, equal bit for bit to one call.

use super::ORDERS;
use crate::every_type;
use ferroseq::ops::Layout;
use ferroseq_tests::compare::same_outcome;
use ferroseq_tests::{Case, Outcome, Problem, Sample, TestDevice};

every_type! { chunks_equal_one_call }

fn chunks_equal_one_call<T: Sample>(device: &TestDevice) -> Result<(), String> {
    for (layout, reverse) in ORDERS {
        for (batch, length, channels) in [(1, 300, 5), (2, 129, 33)] {
            let mut case = Case::plain(batch, length, channels, 5);
            case.scan = case.scan.layout(layout).reverse(reverse);
            case.initial = true;
            let problem = case.problem::<T>();
            let whole = problem.run(&device.device).map_err(|e| e.to_string())?;
            for chunk in [1, 7, 64, 128, length, length + 1] {
                if chunk == 1 && device.cases.random < 100 {
                    continue; // A launch a step is too slow where launches are emulated.
                }
                let streamed =
                    stream(device, &problem, chunk).map_err(|error| error.to_string())?;
                let what = format!("{}, chunks of {chunk}", problem.describe());
                same_outcome(&what, &streamed, &whole)?;
            }
        }
    }
    Ok(())
}

fn stream<T: Sample>(
    device: &TestDevice,
    problem: &Problem<T>,
    chunk: usize,
) -> ferroseq::Result<Outcome<T>> {
    let length = problem.scan.length;
    let mut starts: Vec<usize> = (0..length).step_by(chunk).collect();
    if problem.scan.reverse {
        starts.reverse();
    }
    let mut state = problem.h0.clone();
    let mut h = vec![T::narrow(f32::NAN); problem.b.len()];
    for start in starts {
        let rows = start..length.min(start + chunk);
        let places = places(problem, rows.clone());
        let mut scan = problem.scan;
        scan.length = rows.len();
        let part = Problem {
            scan,
            offsets: None,
            a: places.iter().map(|&at| problem.a[at]).collect(),
            b: places.iter().map(|&at| problem.b[at]).collect(),
            h0: state,
        };
        let outcome = part.run(&device.device)?;
        for (&at, value) in places.iter().zip(outcome.h) {
            h[at] = value;
        }
        state = Some(outcome.final_state);
    }
    Ok(Outcome {
        h,
        final_state: state.unwrap_or_default(),
    })
}

/// Where those time steps of every batch element lie, in the order of a chunk's memory.
fn places<T>(problem: &Problem<T>, rows: std::ops::Range<usize>) -> Vec<usize> {
    let scan = problem.scan;
    let mut places = Vec::new();
    for batch in 0..scan.batch {
        let first = batch * scan.length * scan.channels;
        match scan.layout {
            Layout::Bld => {
                places.extend(first + rows.start * scan.channels..first + rows.end * scan.channels)
            }
            Layout::Bdl => places.extend((0..scan.channels).flat_map(|channel| {
                let column = first + channel * scan.length;
                column + rows.start..column + rows.end
            })),
        }
    }
    places
}
