//! NaN, infinity and zero appear where the definition puts them, on every device, and do
//! not leave their channel or their sequence.

use crate::every_type;
use ferroseq::ops::Layout;
use ferroseq_tests::compare::selective_conforms;
use ferroseq_tests::{Sample, SelectiveCase, SelectiveProblem, TestDevice};

every_type! { on crate::selective_scan::SCAN: one_at_every_place parameters initial_states growth sprinkled empty_steps }

const NAN: f32 = f32::NAN;
const INF: f32 = f32::INFINITY;

fn length(device: &TestDevice) -> usize {
    if device.cases.large { 300 } else { 36 }
}

fn base<T: Sample>(device: &TestDevice, layout: Layout, seed: u64) -> SelectiveProblem<T> {
    let mut case = SelectiveCase::full([1, length(device), 4, 3], seed);
    case.scan = case.scan.layout(layout);
    // Plain decays of [0.5, 1): none below the smallest normal number, where 0 and a tiny
    // number are both right but differ against infinity.
    case.log = false;
    let mut problem = case.problem();
    problem.a.iter_mut().for_each(|a| *a *= 0.05);
    problem
}

/// One special value in one tensor at one step of one channel; the other channels are ordinary.
fn one_at_every_place<T: Sample>(device: &TestDevice) -> Result<(), String> {
    let length = length(device);
    let places = [
        0,
        1,
        7,
        15,
        16,
        31,
        32,
        35,
        63,
        64,
        127,
        128,
        255,
        length - 1,
    ];
    for (nth, place) in places.into_iter().filter(|&p| p < length).enumerate() {
        let layout = [Layout::Bld, Layout::Bdl][nth % 2];
        for tensor in 0..5 {
            // One channel gets NaN, one infinity, one minus infinity, one none.
            let mut problem = base::<T>(device, layout, 31 + tensor as u64);
            let lanes: Vec<_> = problem.lanes().collect();
            for (lane, special) in lanes.iter().zip([NAN, INF, -INF]) {
                let at = problem.place(lane, place);
                let matrix = problem.matrix_place(lane, place, lane.channel % 3);
                let z = problem.z.as_mut();
                let target = match tensor {
                    0 => &mut problem.x[at],
                    1 => &mut problem.delta[at],
                    2 => &mut z.expect("full case")[at],
                    3 => &mut problem.b[matrix],
                    _ => &mut problem.c[matrix],
                };
                *target = T::narrow(special);
            }
            selective_conforms(device, &problem)
                .map_err(|wrong| format!("tensor {tensor} at {place}: {wrong}"))?;
        }
    }
    Ok(())
}

/// Special parameters: A of 0 (no decay), -inf (nothing kept), NaN; skip and bias.
fn parameters<T: Sample>(device: &TestDevice) -> Result<(), String> {
    for log in [false, true] {
        let mut problem = base::<T>(device, Layout::Bld, 41);
        problem.log = log;
        let special = if log {
            [-INF, NAN, -80.0]
        } else {
            [0.0, NAN, -0.0]
        };
        for (a, special) in problem.a.iter_mut().step_by(4).zip(special) {
            *a = special;
        }
        selective_conforms(device, &problem)?;
    }
    let mut problem = base::<T>(device, Layout::Bdl, 42);
    problem.d_skip = Some(vec![NAN, INF, 0.0, 1e30]);
    problem.delta_bias = Some(vec![0.0, NAN, -INF, 100.0]);
    selective_conforms(device, &problem)
}

/// A step of size 0 changes nothing, however large A is: `exp(A_log)` may be beyond f32.
fn empty_steps<T: Sample>(device: &TestDevice) -> Result<(), String> {
    let mut problem = base::<T>(device, Layout::Bld, 44);
    problem.log = true;
    problem.scan.softplus = false;
    problem.delta_bias = None;
    problem.a.iter_mut().step_by(2).for_each(|a| *a = 100.0);
    let zero = T::narrow(0.0);
    let deltas = problem.delta.iter_mut();
    deltas.skip(1).step_by(3).for_each(|delta| *delta = zero);
    selective_conforms(device, &problem)
}

/// Initial states that are special: an infinite one stays, whatever the decays multiply to.
fn initial_states<T: Sample>(device: &TestDevice) -> Result<(), String> {
    for layout in [Layout::Bld, Layout::Bdl] {
        let mut problem = base::<T>(device, layout, 43);
        let special = [NAN, INF, -INF, 0.0, -0.0, 1e-45, -1e-40, 1e30, -1e30];
        if let Some(h0) = &mut problem.h0 {
            for (h0, special) in h0.iter_mut().zip(special) {
                *h0 = special;
            }
        }
        selective_conforms(device, &problem)?;
        problem.scan.length = 0;
        for tensor in [
            &mut problem.x,
            &mut problem.delta,
            &mut problem.b,
            &mut problem.c,
        ] {
            tensor.clear();
        }
        problem.z = Some(Vec::new());
        selective_conforms(device, &problem)?;
    }
    Ok(())
}

/// Positive A: decays above one, whose product overflows over a state that is zero, and
/// over one that is not.
fn growth<T: Sample>(device: &TestDevice) -> Result<(), String> {
    let mut problem = base::<T>(device, Layout::Bld, 44);
    problem.scan.softplus = false;
    problem.delta_bias = None;
    problem.delta.fill(T::narrow(1.0));
    problem.a.fill(4.0);
    problem.x.fill(T::narrow(0.0));
    problem.h0 = Some(vec![0.0; problem.states()]);
    selective_conforms(device, &problem)?;
    // One input makes one channel grow; steps at which the bound leaves open whether it is
    // infinite yet are kept out by a jump past them.
    let lanes: Vec<_> = problem.lanes().collect();
    let at = problem.place(&lanes[1], 2);
    problem.x[at] = T::narrow(1.0);
    problem.a[3..6].fill(60.0);
    selective_conforms(device, &problem)
}

/// Special values anywhere, in numbers.
fn sprinkled<T: Sample>(device: &TestDevice) -> Result<(), String> {
    let special = [0.0, NAN, INF, -INF, T::TINY, T::DENORMAL, -0.0];
    for seed in 0..u64::from(device.cases.random / 2) {
        let layout = [Layout::Bld, Layout::Bdl][seed as usize % 2];
        let mut problem = base::<T>(device, layout, seed);
        let rare = 5 + (seed as usize * 37) % 200;
        let mut next = seed as usize;
        let tensors = [&mut problem.x, &mut problem.b, &mut problem.c];
        for tensor in tensors.into_iter().chain(problem.z.as_mut()) {
            for (at, value) in tensor.iter_mut().enumerate() {
                if (at + next).is_multiple_of(rare) {
                    *value = T::narrow(special[next % special.len()]);
                    next += 3;
                }
            }
        }
        selective_conforms(device, &problem).map_err(|wrong| format!("seed {seed}: {wrong}"))?;
    }
    Ok(())
}
