//! Packed sequences (`cu_seqlens`): each is a scan of its own.

use super::ORDERS;
use crate::every_type;
use ferroseq::DeviceKind;
use ferroseq::ops::{Layout, LinearScan, LinearScanStream};
use ferroseq_tests::compare::{conforms, same_bits};
use ferroseq_tests::{Case, Problem, Sample, TestDevice};

every_type! { conform equal_separate_calls whole_tiles }

/// Empty sequences at the start, between and at the end; one step; one sequence; none.
const PACKINGS: [&[usize]; 9] = [
    &[],
    &[0],
    &[1],
    &[0, 0, 5, 0],
    &[3, 7, 5],
    &[1, 1, 1, 1, 1, 1, 1],
    &[63, 64, 65, 0, 1],
    &[257, 1, 300],
    &[40, 0, 0, 17, 128],
];

/// Every packing with every option; every third of these where each takes long.
fn cases(device: &TestDevice) -> impl Iterator<Item = Case> {
    let all = PACKINGS.into_iter().flat_map(|lengths| {
        ORDERS.into_iter().flat_map(move |(layout, reverse)| {
            [(3, false), (33, true)].map(|(channels, initial)| {
                let mut case = Case::packed(lengths, channels, 11);
                case.scan = case.scan.layout(layout).reverse(reverse);
                case.initial = initial;
                case
            })
        })
    });
    all.step_by(if device.cases.large { 1 } else { 3 })
}

fn conform<T: Sample>(device: &TestDevice) -> Result<(), String> {
    cases(device).try_for_each(|case| conforms::<T>(device, &case.problem()))
}

fn equal_separate_calls<T: Sample>(device: &TestDevice) -> Result<(), String> {
    for case in cases(device) {
        let problem = case.problem::<T>();
        let packed = problem.run(&device.device).map_err(|e| e.to_string())?;
        for (sequence, one) in separate(&problem).iter().enumerate() {
            let alone = one.run(&device.device).map_err(|e| e.to_string())?;
            let rows = rows_of(&problem, sequence);
            let what = format!("{}, sequence {sequence}", problem.describe());
            same_bits(&what, &take_rows(&problem, &packed.h, rows), &alone.h)?;
            let states = sequence * problem.scan.channels..(sequence + 1) * problem.scan.channels;
            same_bits(&what, &packed.final_state[states], &alone.final_state)?;
        }
    }
    Ok(())
}

/// Sequences that end where a tile does, beginning at a tile's edge and off it.
fn whole_tiles<T: Sample>(device: &TestDevice) -> Result<(), String> {
    for (layout, reverse) in ORDERS {
        for channels in [1, 33] {
            let scan = LinearScan::new(1, 0, channels).layout(layout);
            let tile = match device.device.kind() {
                DeviceKind::Cpu => 256,
                _ => LinearScanStream::granularity::<T>(&device.device, scan),
            };
            if channels * tile > 33 * 256 && !device.cases.large {
                continue;
            }
            for lengths in [&[tile][..], &[tile, tile], &[tile, 3, 2 * tile, 0, tile]] {
                let mut case = Case::packed(lengths, channels, 12);
                case.scan = case.scan.layout(layout).reverse(reverse);
                case.initial = true;
                conforms::<T>(device, &case.problem())?;
            }
        }
    }
    Ok(())
}

/// Each sequence as a problem of its own, not packed.
fn separate<T: Sample>(problem: &Problem<T>) -> Vec<Problem<T>> {
    let channels = problem.scan.channels;
    (0..problem.sequences())
        .map(|sequence| {
            let rows = rows_of(problem, sequence);
            let mut scan = problem.scan;
            scan.length = rows.len();
            Problem {
                scan,
                offsets: None,
                a: take_rows(problem, &problem.a, rows.clone()),
                b: take_rows(problem, &problem.b, rows),
                h0: problem
                    .h0
                    .as_ref()
                    .map(|h0| h0[sequence * channels..(sequence + 1) * channels].to_vec()),
            }
        })
        .collect()
}

fn rows_of<T>(problem: &Problem<T>, sequence: usize) -> std::ops::Range<usize> {
    let offsets = problem.offsets.as_deref().unwrap_or_default();
    offsets[sequence] as usize..offsets[sequence + 1] as usize
}

/// Those rows of a `[1, L, D]` or `[1, D, L]` tensor, in the same layout.
fn take_rows<T: Copy>(problem: &Problem<T>, from: &[T], rows: std::ops::Range<usize>) -> Vec<T> {
    let scan = problem.scan;
    match scan.layout {
        Layout::Bld => from[rows.start * scan.channels..rows.end * scan.channels].to_vec(),
        Layout::Bdl => (0..scan.channels)
            .flat_map(|channel| {
                let first = channel * scan.length;
                from[first + rows.start..first + rows.end].to_vec()
            })
            .collect(),
    }
}
