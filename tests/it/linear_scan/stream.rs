//! Inputs longer than memory: chunk after chunk, equal bit for bit to one call.

use super::ORDERS;
use crate::every_type;
use ferroseq::ops::{Layout, LinearScan, LinearScanStream};
use ferroseq_tests::compare::same_outcome;
use ferroseq_tests::{Case, Outcome, Problem, Sample, TestDevice};
use std::ops::Range;

every_type! {
    chunks_equal_one_call a_wrong_chunk_changes_nothing nothing_follows_a_broken_tile
}

fn chunks_equal_one_call<T: Sample>(device: &TestDevice) -> Result<(), String> {
    for (layout, reverse) in ORDERS {
        for (batch, length, channels) in [(1, 300, 5), (2, 129, 33)] {
            let granularity = granularity::<T>(device, channels, layout);
            // Where only whole tiles are taken, long enough for a few of them.
            let length = if granularity > 1 {
                2 * granularity + length
            } else {
                length
            };
            for initial in [false, true] {
                let mut case = Case::plain(batch, length, channels, 5);
                case.scan = case.scan.layout(layout).reverse(reverse);
                case.initial = initial;
                let problem = case.problem::<T>();
                let whole = problem.run(&device.device).map_err(|e| e.to_string())?;
                for cuts in cuts(length, granularity) {
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

fn granularity<T: Sample>(device: &TestDevice, channels: usize, layout: Layout) -> usize {
    let scan = LinearScan::new(1, 0, channels).layout(layout);
    LinearScanStream::granularity::<T>(&device.device, scan)
}

/// Chunks of one size, the last one smaller; and sizes that change, with empty chunks among
/// them. All of whole tiles, but the one that comes last.
fn cuts(length: usize, granularity: usize) -> Vec<Vec<Range<usize>>> {
    let equal = |size: usize| {
        (0..length)
            .step_by(size)
            .map(|start| start..length.min(start + size))
            .collect()
    };
    if granularity > 1 {
        let [one, two] = [granularity, 2 * granularity];
        let changing = vec![0..0, 0..one, one..one, one..length, length..length];
        return vec![equal(one), equal(two), equal(length), changing];
    }
    let mut cuts: Vec<Vec<_>> = [1, 7, 64, 128, length].map(equal).into();
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

/// Behind a chunk that was not of whole tiles there is an error, and the state stays.
fn nothing_follows_a_broken_tile<T: Sample>(device: &TestDevice) -> Result<(), String> {
    let granularity = granularity::<T>(device, 4, Layout::Bld);
    if granularity == 1 {
        return Ok(());
    }
    let problem = Case::plain(1, 6, 4, 72).problem::<T>();
    let check = || -> ferroseq::Result<(Vec<f32>, Vec<f32>)> {
        let device = &device.device;
        let mut stream = LinearScanStream::new(device, problem.scan, None)?;
        let (a, b) = (device.upload(&problem.a)?, device.upload(&problem.b)?);
        let mut h = device.alloc(problem.b.len())?;
        stream.push(6, &a, Some(&b), &mut h)?;
        let before = stream.state().to_vec()?;
        let wrong = stream.push(6, &a, Some(&b), &mut h);
        assert!(
            matches!(&wrong, Err(ferroseq::Error::Argument { argument: "length", expected, .. })
                if expected.contains(&granularity.to_string())),
            "{wrong:?}"
        );
        Ok((before, stream.state().to_vec()?))
    };
    let (before, after) = check().map_err(|error| error.to_string())?;
    ferroseq_tests::compare::same_bits("state", &after, &before)
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
        // The broken tile is the one that comes last.
        let length = problem.scan.length;
        cuts = cuts
            .iter()
            .map(|cut| length - cut.end..length - cut.start)
            .collect();
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
    // A whole tile, so that more may follow.
    let length = 6 * granularity::<T>(device, 4, Layout::Bld);
    let problem = Case::plain(2, length, 4, 71).problem::<T>();
    let check = || -> ferroseq::Result<(Vec<f32>, Vec<f32>)> {
        let device = &device.device;
        let mut stream = LinearScanStream::new(device, problem.scan, None)?;
        let (a, b) = (device.upload(&problem.a)?, device.upload(&problem.b)?);
        let mut h = device.alloc(problem.b.len())?;
        stream.push(length, &a, Some(&b), &mut h)?;
        let before = stream.state().to_vec()?;
        let wrong = stream.push(length - 1, &a, Some(&b), &mut h);
        assert!(
            matches!(
                wrong,
                Err(ferroseq::Error::Length {
                    argument: "a",
                    found,
                    expected,
                    ..
                }) if (found, expected) == (8 * length, 8 * (length - 1))
            ),
            "{wrong:?}"
        );
        Ok((before, stream.state().to_vec()?))
    };
    let (before, after) = check().map_err(|error| error.to_string())?;
    ferroseq_tests::compare::same_bits("state", &after, &before)
}
