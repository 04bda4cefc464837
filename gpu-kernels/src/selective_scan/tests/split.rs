//! Sequences in segments: whether every bit is that of one scan from end to end.

use super::segments::Scan;
use super::*;

/// Decays fast enough for short warm-ups.
fn forgetful(sequences: usize, length: usize, channels: usize, states: usize) -> Problem {
    full(Problem {
        log: false,
        least_rate: 4.0,
        ..Problem::new(sequences, length, channels, states)
    })
}

/// What a run left: results, and of each column whether its segments fit together.
type Found = ((Vec<f32>, Vec<f32>), Vec<bool>);

/// Runs `M`, the kernel of segments, then `K`, that of the cut, which does the rest; twice, with
/// the same scratch memory.
fn run_split<T, M, K>(p: &Problem, inputs: &Inputs, columns: bool, seed: u64) -> Found
where
    T: Element,
    M: Entry<Params = SelectiveScanParams<T>>,
    K: Entry<Params = SelectiveScanParams<T>>,
{
    let machine = machine(seed);
    let (launch, params) = prepared::<T>(p, inputs, columns, &machine);
    let scan = Scan {
        sequences: p.sequences as u64,
        length: p.length as u64,
        groups: p.groups as u64,
        group_channels: p.group_channels as u64,
        states: p.states as u64,
        size: size_of::<T>() as u32,
    };
    let split = scan.split(3).expect("several segments");
    let bytes = 8 * split.counter_words as usize;
    let counters = Global::from_address(machine.alloc_zeroed(bytes, false).unwrap());
    let between = Global::from_address(machine.alloc(4 * split.state_words as usize).unwrap());
    let whole = SelectiveScanParams {
        counters,
        between,
        ..params
    };
    let segments = split.params(whole);
    let count = split.launch.shape.grid[0] / split.segments;
    let mut found = None;
    for call in [7, 9] {
        let (segments, whole) = (
            SelectiveScanParams { call, ..segments },
            SelectiveScanParams { call, ..whole },
        );
        if let Err(fault) = machine.launch::<M>(split.launch.shape, segments) {
            panic!("{fault}");
        }
        let words: Vec<u64> = download(&machine, counters, 2 + 2 * count as usize);
        let done: Vec<bool> = words[2..]
            .chunks(2)
            .map(|column| column[1] == call)
            .collect();
        assert!(words[2..].chunks(2).all(|column| column[0] == 0));
        if let Err(fault) = machine.launch::<K>(launch.shape, whole) {
            panic!("{fault}");
        }
        let now = (results(p, columns, &machine, &params), done);
        if let Some((before, _)) = found {
            // Which columns were given up depends on who saw it first.
            let before: (Vec<f32>, Vec<f32>) = before;
            assert_same(&(now.0.clone(), vec![]), &(before, vec![]));
        }
        found = Some(now);
    }
    found.unwrap()
}

/// Bit for bit, but for the bits of NaN.
#[track_caller]
fn assert_same(found: &Found, expected: &Found) {
    let bits = |values: &[f32]| -> Vec<u32> {
        let bits = |value: &f32| if value.is_nan() { 1 } else { value.to_bits() };
        values.iter().map(bits).collect()
    };
    assert_eq!(bits(&found.0.0), bits(&expected.0.0), "y");
    assert_eq!(bits(&found.0.1), bits(&expected.0.1), "states");
    assert_eq!(found.1, expected.1, "columns whose segments fit");
}

/// Against a scan from end to end; how many columns were done in segments.
#[track_caller]
fn check_split<T, M, K>(p: &Problem, inputs: &Inputs, columns: bool, seed: u64) -> (usize, usize)
where
    T: Element,
    M: Entry<Params = SelectiveScanParams<T>>,
    K: Entry<Params = SelectiveScanParams<T>>,
{
    let found = run_split::<T, M, K>(p, inputs, columns, seed);
    let machine = machine(seed);
    let (launch, params) = prepared::<T>(p, inputs, columns, &machine);
    machine.launch::<K>(launch.shape, params).unwrap();
    let whole = results(p, columns, &machine, &params);
    assert_same(&found, &(whole, found.1.clone()));
    (found.1.iter().filter(|done| **done).count(), found.1.len())
}

#[test]
fn segments_fit_together() {
    for (seed, length) in [256, 385, 421].into_iter().enumerate() {
        let p = forgetful(2, length, 70, 16);
        let inputs = Inputs::new::<f32>(&p);
        let done = check_split::<f32, SelectiveScanF32RowsMerged, SelectiveScanF32RowsNarrow>(
            &p,
            &inputs,
            false,
            seed as u64,
        );
        assert_eq!(done, (4, 4));
    }
    let p = Problem {
        groups: 2,
        group_channels: 9,
        ..forgetful(1, 300, 0, 11)
    };
    let inputs = Inputs::new::<bf16>(&p);
    let done = check_split::<bf16, SelectiveScanBf16ColumnsMerged, SelectiveScanBf16ColumnsNarrow>(
        &p, &inputs, true, 0,
    );
    assert_eq!(done, (2, 2));
}

#[test]
fn slow_states_are_scanned_from_end_to_end() {
    // All too slow; and one state of one channel, in the second column of two.
    let slow = full(Problem::new(1, 260, 70, 16));
    let inputs = Inputs::new::<f32>(&slow);
    let done = check_split::<f32, SelectiveScanF32ColumnsMerged, SelectiveScanF32ColumnsNarrow>(
        &slow, &inputs, true, 0,
    );
    assert_eq!(done, (0, 2));
    for rate in [-1e-3, 0.0, 1e-3, f32::NAN] {
        let p = forgetful(1, 260, 70, 16);
        let mut inputs = Inputs::new::<f32>(&p);
        inputs.a[69 * 16 + 3] = rate;
        let done = check_split::<f32, SelectiveScanF32RowsMerged, SelectiveScanF32RowsNarrow>(
            &p, &inputs, false, 1,
        );
        assert!(done.0 < 2);
    }
}

/// What no warm-up sees: an input that the states never forget.
#[test]
fn infinities_far_behind_are_found() {
    for value in [f32::INFINITY, f32::NAN] {
        let p = forgetful(1, 400, 70, 16);
        let mut inputs = Inputs::new::<f32>(&p);
        inputs.x[3 * 70 + 65] = value;
        let done = check_split::<f32, SelectiveScanF32RowsMerged, SelectiveScanF32RowsNarrow>(
            &p, &inputs, false, 0,
        );
        assert_eq!(done, (1, 2));
    }
}

#[test]
fn schedules_of_segments_change_nothing() {
    let p = forgetful(1, 300, 3, 9);
    let inputs = Inputs::new::<f32>(&p);
    for seed in 0..8 {
        let done = check_split::<f32, SelectiveScanF32RowsMerged, SelectiveScanF32RowsNarrow>(
            &p, &inputs, false, seed,
        );
        assert_eq!(done, (1, 1));
    }
}

/// Another thread's launches may come between the two of a call: its word counts for nothing.
#[test]
fn verdicts_of_another_call_are_ignored() {
    let slow = full(Problem::new(1, 260, 3, 16));
    let fast = forgetful(1, 260, 3, 16);
    let (slow_inputs, fast_inputs) = (Inputs::new::<f32>(&slow), Inputs::new::<f32>(&fast));
    let machine = machine(0);
    let (launch, params) = prepared::<f32>(&slow, &slow_inputs, false, &machine);
    let (_, others) = prepared::<f32>(&fast, &fast_inputs, false, &machine);
    let counters = Global::from_address(machine.alloc_zeroed(32, false).unwrap());
    let split = Scan {
        sequences: 1,
        length: 260,
        groups: 1,
        group_channels: 3,
        states: 16,
        size: 4,
    };
    let split = split.split(2).expect("two segments");
    let between = Global::from_address(machine.alloc(4 * split.state_words as usize).unwrap());
    let segments = |params: SelectiveScanParams<f32>, call: u64| SelectiveScanParams {
        counters,
        between,
        call,
        ..split.params(params)
    };
    let shape = split.launch.shape;
    for (params, call) in [(params, 1), (others, 2)] {
        let params = segments(params, call);
        machine
            .launch::<SelectiveScanF32RowsMerged>(shape, params)
            .unwrap();
        let words: Vec<u64> = download(&machine, counters, 4);
        assert_eq!(words[2..], [0, if call == 2 { 2 } else { 0 }]);
    }
    let whole = SelectiveScanParams {
        counters,
        call: 1,
        ..params
    };
    machine
        .launch::<SelectiveScanF32RowsNarrow>(launch.shape, whole)
        .unwrap();
    let found = results(&slow, false, &machine, &params);
    let expected = run::<f32, SelectiveScanF32RowsNarrow>(&slow, false, 0);
    assert_same(&(found, vec![]), &(expected, vec![]));
}

/// A whole scan has padding where the segments have none: a negative zero must survive it.
#[test]
fn padding_keeps_negative_zeros() {
    let p = Problem {
        softplus: false,
        ..forgetful(1, 208, 3, 16)
    };
    let p = Problem { full: false, ..p };
    let mut inputs = Inputs::new::<f32>(&p);
    inputs.delta.fill(2.0);
    inputs.b.fill(-1.0);
    for (at, x) in inputs.x.iter_mut().enumerate() {
        *x = if at < 168 * 3 { 1.0 } else { 0.0 };
    }
    let done = check_split::<f32, SelectiveScanF32RowsMerged, SelectiveScanF32RowsNarrow>(
        &p, &inputs, false, 0,
    );
    assert_eq!(done, (1, 1));
}
