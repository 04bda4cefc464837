//! Packed sequences (`cu_seqlens`): each is a scan of its own.

use super::affords;
use crate::every_type;
use ferroseq::ops::Layout;
use ferroseq_tests::compare::{same_bits, selective_conforms};
use ferroseq_tests::{Sample, SelectiveCase, SelectiveProblem, TestDevice};
use std::ops::Range;

every_type! { on crate::selective_scan::SCAN: conform equal_separate_calls }

/// Empty sequences at the start, between and at the end; one step; one sequence; none.
const PACKINGS: [&[usize]; 8] = [
    &[],
    &[0],
    &[1],
    &[0, 0, 5, 0],
    &[3, 7, 5],
    &[1, 1, 1, 1, 1, 1, 1],
    &[31, 32, 33, 0, 1],
    &[257, 1, 300, 0, 128],
];

fn cases(device: &TestDevice) -> impl Iterator<Item = SelectiveCase> + '_ {
    PACKINGS.into_iter().flat_map(move |lengths| {
        [
            (Layout::Bld, 3, 4),
            (Layout::Bdl, 6, 3),
            (Layout::Bld, 34, 16),
        ]
        .into_iter()
        .filter(move |&(_, channels, state)| {
            affords(device, [1, lengths.iter().sum(), channels, state])
        })
        .map(move |(layout, channels, state)| {
            let mut case = SelectiveCase::packed(lengths, channels, state, 11);
            case.scan = case.scan.layout(layout);
            case.gate = channels == 6;
            case.skip = channels == 34;
            case
        })
    })
}

fn conform<T: Sample>(device: &TestDevice) -> Result<(), String> {
    cases(device).try_for_each(|case| selective_conforms::<T>(device, &case.problem()))
}

fn equal_separate_calls<T: Sample>(device: &TestDevice) -> Result<(), String> {
    for case in cases(device) {
        let problem = case.problem::<T>();
        let packed = problem.run(&device.device).map_err(|e| e.to_string())?;
        let per_sequence = problem.scan.channels * problem.scan.state;
        let offsets = problem.offsets.clone().unwrap_or_default();
        for (sequence, pair) in offsets.windows(2).enumerate() {
            let rows = pair[0] as usize..pair[1] as usize;
            let one = separate(&problem, sequence, rows.clone());
            let alone = one.run(&device.device).map_err(|e| e.to_string())?;
            let what = format!("{}, sequence {sequence}", problem.describe());
            same_bits(&what, &take(&problem, &packed.y, rows), &alone.y)?;
            let states = sequence * per_sequence..(sequence + 1) * per_sequence;
            same_bits(&what, &packed.final_state[states], &alone.final_state)?;
        }
    }
    Ok(())
}

/// One sequence as a problem of its own, not packed.
fn separate<T: Sample>(
    problem: &SelectiveProblem<T>,
    sequence: usize,
    rows: Range<usize>,
) -> SelectiveProblem<T> {
    let per_sequence = problem.scan.channels * problem.scan.state;
    let mut one = problem.clone();
    one.scan.length = rows.len();
    one.offsets = None;
    for tensor in [&mut one.x, &mut one.delta, &mut one.b, &mut one.c] {
        *tensor = take(problem, tensor, rows.clone());
    }
    one.z = one.z.map(|z| take(problem, &z, rows));
    one.h0 = one
        .h0
        .map(|h0| h0[sequence * per_sequence..(sequence + 1) * per_sequence].to_vec());
    one
}

/// Those time steps of a `[1, L, ..]` or `[1, .., L]` tensor, in the same layout.
fn take<T: Copy>(problem: &SelectiveProblem<T>, from: &[T], rows: Range<usize>) -> Vec<T> {
    let length = problem.scan.length;
    if length == 0 {
        return Vec::new();
    }
    match problem.scan.layout {
        Layout::Bld => {
            let width = from.len() / length;
            from[rows.start * width..rows.end * width].to_vec()
        }
        Layout::Bdl => from
            .chunks_exact(length)
            .flat_map(|column| column[rows.clone()].to_vec())
            .collect(),
    }
}
