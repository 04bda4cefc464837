//! Zero, denormal, huge, infinite and NaN gates, inputs and states: NaN and infinity
//! appear exactly where the sequential definition puts them, on every device.
//!
//! The traps are the products of gates that a backend forms when it splits L: they can
//! overflow or underflow where the state, zero or infinite or tiny, does not.

use crate::every_type;
use ferroseq::ops::{Layout, LinearScan};
use ferroseq_tests::compare::conforms;
use ferroseq_tests::inputs::Inputs;
use ferroseq_tests::{Case, Problem, Sample, TestDevice};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

every_type! { scripts_at_every_place initial_states sprinkled denormal_results }

const NAN: f32 = f32::NAN;
const INF: f32 = f32::INFINITY;

/// Steps (gate, input) that one channel takes between ordinary ones.
fn scripts<T: Sample>() -> Vec<Vec<(f32, f32)>> {
    let (huge, tiny, denormal) = (T::HUGE, T::TINY, T::DENORMAL);
    let then = |first: (f32, f32), gate: f32, after: (f32, f32)| {
        let mut steps = vec![first];
        steps.extend([(gate, 0.0); 10]);
        steps.push(after);
        steps
    };
    vec![
        // A NaN, whatever stands beside it.
        vec![(NAN, 1.0)],
        vec![(0.0, 0.0), (NAN, 0.0)],
        vec![(0.5, NAN)],
        vec![(0.0, NAN), (0.0, 1.0)],
        // Infinite gates: over a state that is not zero, and over one that is (NaN).
        vec![(0.0, 1.0), (INF, 0.0)],
        vec![(0.0, 1.0), (-INF, 0.0)],
        vec![(0.0, 0.0), (INF, 0.0)],
        vec![(0.0, 0.0), (-INF, 1.0)],
        // Infinite inputs: kept, met by a zero gate (NaN), met by their opposite (NaN).
        vec![(0.5, INF)],
        vec![(0.5, -INF)],
        vec![(0.5, INF), (0.0, 1.0)],
        vec![(1.0, INF), (1.0, -INF)],
        vec![(0.5, INF), (-1.0, 0.0), (-0.5, 1.0), (-1.0, 2.0)],
        // The product of the gates overflows: over a zero state, over a nonzero one, and
        // before a gate of 0, which multiplies a finite state.
        then((0.0, 0.0), huge, (0.5, 1.0)),
        then((0.0, 0.0), -huge, (0.5, INF)),
        then((0.0, 1.0), huge, (0.5, 1.0)),
        then((0.0, 0.0), huge, (0.0, 1.0)),
        // It underflows: under an infinite state, a NaN, a finite one, before an infinite gate.
        then((0.5, INF), tiny, (0.5, 1.0)),
        then((0.5, -INF), -tiny, (0.5, 1.0)),
        then((0.5, NAN), tiny, (0.5, 1.0)),
        then((0.0, 1.0), tiny, (0.5, 1.0)),
        then((0.0, 1.0), tiny, (INF, 1.0)),
        // It overflows over a state so small that the result is finite, and the reverse.
        vec![
            (0.0, tiny),
            (huge, 0.0),
            (huge, 0.0),
            (tiny, 0.0),
            (0.5, 1.0),
        ],
        vec![
            (0.0, huge),
            (tiny, 0.0),
            (tiny, 0.0),
            (huge, 0.0),
            (0.5, 1.0),
        ],
        // Denormals.
        vec![(0.0, 1.0), (denormal, 0.0), (1.0, 0.0)],
        vec![(0.0, huge), (denormal, 0.0), (0.5, 0.0)],
        vec![(0.0, denormal), (0.5, 0.0), (1.0, 0.0), (-1.0, 0.0)],
        // Zeros of both signs, gates of 1 and -1.
        vec![(0.0, -0.0), (1.0, -0.0), (-1.0, 0.0)],
        vec![
            (0.0, 3.0),
            (1.0, 0.0),
            (-1.0, 0.0),
            (-1.0, 1.0),
            (1.0, -4.0),
        ],
    ]
}

fn scripts_at_every_place<T: Sample>(device: &TestDevice) -> Result<(), String> {
    let scripts = scripts::<T>();
    let length = device.cases.longest;
    let places = [
        0, 1, 3, 15, 28, 31, 32, 60, 127, 255, 511, 1000, 1023, 1024, 2047,
    ];
    for (nth, place) in places.into_iter().filter(|p| p + 20 < length).enumerate() {
        let layout = [Layout::Bld, Layout::Bdl][nth % 2];
        let scan = LinearScan::new(1, length, scripts.len()).layout(layout);
        let mut problem = ordinary::<T>(scan, 37);
        for (script, column) in scripts.iter().zip(problem.columns().collect::<Vec<_>>()) {
            for (at, &(a, b)) in column.indices().skip(place).zip(script) {
                (problem.a[at], problem.b[at]) = (T::narrow(a), T::narrow(b));
            }
        }
        conforms(device, &problem).map_err(|wrong| format!("scripts at {place}: {wrong}"))?;
    }
    Ok(())
}

/// Gates of [0.5, 1): their product underflows over a long scan.
fn ordinary<T: Sample>(scan: LinearScan, seed: u64) -> Problem<T> {
    let elements = scan.batch * scan.length * scan.channels;
    let mut inputs = Inputs::new(seed);
    Problem {
        scan,
        offsets: None,
        a: inputs.gates_above(0.5, elements),
        b: inputs.values(elements),
        h0: None,
    }
}

/// Initial states that are special, under ordinary gates, gates of 0, and infinite gates.
fn initial_states<T: Sample>(device: &TestDevice) -> Result<(), String> {
    let states = [NAN, INF, -INF, 0.0, -0.0, 1e-45, -1e-40, f32::MAX, f32::MIN];
    for first_gate in [0.75, 0.0, -1.0, T::TINY, INF, NAN] {
        for reverse in [false, true] {
            let scan = LinearScan::new(1, device.cases.longest, states.len()).reverse(reverse);
            let mut problem = ordinary::<T>(scan, 41);
            problem.h0 = Some(states.to_vec());
            for column in problem.columns().collect::<Vec<_>>() {
                for at in column.indices().take(1) {
                    problem.a[at] = T::narrow(first_gate);
                }
            }
            conforms(device, &problem)
                .map_err(|wrong| format!("first gate {first_gate}: {wrong}"))?;
        }
    }
    // Of empty sequences, the final state is the initial one.
    let mut problem = ordinary::<T>(LinearScan::new(1, 0, states.len()), 41);
    problem.h0 = Some(states.to_vec());
    conforms(device, &problem)
}

/// Special values anywhere, in numbers.
fn sprinkled<T: Sample>(device: &TestDevice) -> Result<(), String> {
    let special = [0.0, NAN, INF, -INF, T::HUGE, T::TINY, T::DENORMAL, -1.0];
    for seed in 0..u64::from(device.cases.random / 2) {
        let mut rng = SmallRng::seed_from_u64(seed);
        let length = rng.random_range(1..device.cases.longest.min(600));
        let mut case = Case::plain(1, length, rng.random_range(1..40), seed);
        case.scan = case.scan.reverse(rng.random());
        case.initial = rng.random();
        let mut problem = case.problem::<T>();
        let rare = rng.random_range(5..400);
        let draw = |rng: &mut SmallRng, value: &mut T| {
            if rng.random_range(0..rare) == 0 {
                *value = T::narrow(special[rng.random_range(0..special.len())]);
            }
        };
        problem.a.iter_mut().for_each(|a| draw(&mut rng, a));
        problem.b.iter_mut().for_each(|b| draw(&mut rng, b));
        conforms(device, &problem).map_err(|wrong| format!("seed {seed}: {wrong}"))?;
    }
    Ok(())
}

/// A state that decays through the denormals to zero is not flushed early.
fn denormal_results<T: Sample>(device: &TestDevice) -> Result<(), String> {
    let mut problem = ordinary::<T>(LinearScan::new(1, 40, 5), 43);
    problem.a.fill(T::narrow(0.5));
    problem.b.fill(T::narrow(0.0));
    problem.h0 = Some(vec![2f32.powi(-120), -2f32.powi(-130), 3e-44, 1e-6, -7e-8]);
    conforms(device, &problem)
}
