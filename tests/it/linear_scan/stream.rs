//! Inputs longer than memory: chunk after chunk, equal bit for bit to one call.

use super::ORDERS;
use crate::every_type;
use ferroseq::ops::{Layout, LinearScanStream};
use ferroseq_tests::compare::same_outcome;
use ferroseq_tests::{Case, Outcome, Problem, Sample, TestDevice};
use std::ops::Range;

every_type! { chunks_equal_one_call a_wrong_chunk_changes_nothing }

fn chunks_equal_one_call<T: Sample>(device: &TestDevice) -> Result<(), String> {
    for (layout, reverse) in ORDERS {
        for (batch, length, channels) in [(1, 300, 5), (2, 129, 33)] {
            for initial in [false, true] {
                let mut case = Case::plain(batch, length, channels, 5);
                case.scan = case.scan.layout(layout).reverse(reverse);
                case.initial = initial;
                let problem = case.problem::<T>();
                let whole = problem.run(&device.device).map_err(|e| e.to_string())?;
                for cuts in cuts(length, device.cases.large) {
                    let streamed =
                        stream(device, &problem, &cuts).map_err(|error| error.to_string())?;
                    let what = format!("{}, chunks {cuts:?}", problem.describe());
                    same_outcome(&what, &streamed, &whole)?;
                }
            }
        }
    }
    Ok(())
}

/// Chunks of one size, the last one smaller; single steps where launches are cheap; and
/// sizes that change, with empty chunks among them.
fn cuts(length: usize, single_steps: bool) -> Vec<Vec<Range<usize>>> {
    let equal = |size: usize| {
        (0..length)
            .step_by(size)
            .map(|start| start..length.min(start + size))
            .collect()
    };
    let mut cuts: Vec<Vec<_>> = [7, 64, 128, length].map(equal).into();
    if single_steps {
        cuts.push(equal(1));
    }
    cuts.push(vec![
        0..0,
        0..33,
        33..33,
        33..34,
        34..length,
        length..length,
    ]);
    cuts
}

/// Feeds the problem chunk by chunk, the last first if it is a reverse scan. Every other
/// chunk is scanned in place.
fn stream<T: Sample>(
    device: &TestDevice,
    problem: &Problem<T>,
    cuts: &[Range<usize>],
) -> ferroseq::Result<Outcome<T>> {
    let device = &device.device;
    let h0 = problem
        .h0
        .as_ref()
        .map(|h0| device.upload(h0))
        .transpose()?;
    let mut stream = LinearScanStream::new(device, problem.scan, h0.as_ref())?;
    let mut h = vec![T::narrow(f32::NAN); problem.b.len()];
    let mut cuts = cuts.to_vec();
    if problem.scan.reverse {
        cuts.reverse();
    }
    for (nth, rows) in cuts.into_iter().enumerate() {
        let places = places(problem, rows.clone());
        let take = |tensor: &[T]| -> Vec<T> { places.iter().map(|&at| tensor[at]).collect() };
        let (a, b) = (device.upload(&take(&problem.a))?, take(&problem.b));
        let mut out = device.upload(&b)?;
        if nth % 2 == 0 {
            stream.push(rows.len(), &a, None, &mut out)?;
        } else {
            out.write(&vec![T::narrow(f32::NAN); b.len()])?;
            stream.push(rows.len(), &a, Some(&device.upload(&b)?), &mut out)?;
        }
        for (&at, value) in places.iter().zip(out.to_vec()?) {
            h[at] = value;
        }
    }
    let final_state = stream.state().to_vec()?;
    Ok(Outcome { h, final_state })
}

/// Where those time steps of every batch element lie, in the order of a chunk's memory.
fn places<T>(problem: &Problem<T>, rows: Range<usize>) -> Vec<usize> {
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

/// An error leaves the state as it was: the stream can go on.
fn a_wrong_chunk_changes_nothing<T: Sample>(device: &TestDevice) -> Result<(), String> {
    let problem = Case::plain(2, 6, 4, 71).problem::<T>();
    let check = || -> ferroseq::Result<(Vec<f32>, Vec<f32>)> {
        let device = &device.device;
        let mut stream = LinearScanStream::new(device, problem.scan, None)?;
        let (a, b) = (device.upload(&problem.a)?, device.upload(&problem.b)?);
        let mut h = device.alloc(problem.b.len())?;
        stream.push(6, &a, Some(&b), &mut h)?;
        let before = stream.state().to_vec()?;
        let wrong = stream.push(5, &a, Some(&b), &mut h);
        assert!(
            matches!(
                wrong,
                Err(ferroseq::Error::Length {
                    argument: "a",
                    found: 48,
                    expected: 40,
                    ..
                })
            ),
            "{wrong:?}"
        );
        Ok((before, stream.state().to_vec()?))
    };
    let (before, after) = check().map_err(|error| error.to_string())?;
    ferroseq_tests::compare::same_bits("state", &after, &before)
}
