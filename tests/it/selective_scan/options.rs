//! Each option alone, all together, and without optional outputs.

use crate::every_type;
use ferroseq::ops::{Layout, SelectiveScanArgs, StateMatrix};
use ferroseq_tests::compare::{same_bits, selective_conforms};
use ferroseq_tests::{Sample, SelectiveCase, TestDevice};

every_type! { on crate::selective_scan::SCAN: every_combination absent_is_neutral without_optional_outputs }

fn every_combination<T: Sample>(device: &TestDevice) -> Result<(), String> {
    // On the emulator, every seventh of the 128: each option is on and off with each other.
    let step = if device.cases.large { 1 } else { 7 };
    for bits in (0..128u64).step_by(step) {
        let on = |bit: u32| bits >> bit & 1 == 1;
        let mut case = SelectiveCase::plain([2, 19, 6, 4], bits);
        let layout = if on(0) { Layout::Bdl } else { Layout::Bld };
        case.scan = case.scan.layout(layout).softplus(on(1));
        case = SelectiveCase {
            log: on(2),
            skip: on(3),
            bias: on(4),
            gate: on(5),
            initial: on(6),
            ..case
        };
        selective_conforms::<T>(device, &case.problem())?;
    }
    Ok(())
}

/// Zeros given are zeros left out: bias, skip and initial state.
fn absent_is_neutral<T: Sample>(device: &TestDevice) -> Result<(), String> {
    let problem = SelectiveCase::plain([2, 37, 5, 8], 3).problem::<T>();
    let mut given = problem.clone();
    given.h0 = Some(vec![0.0; problem.states()]);
    given.delta_bias = Some(vec![0.0; 5]);
    given.d_skip = Some(vec![0.0; 5]);
    let run = |problem: &ferroseq_tests::SelectiveProblem<T>| {
        problem
            .run(&device.device)
            .map_err(|error| error.to_string())
    };
    let (left, right) = (run(&problem)?, run(&given)?);
    same_bits("y", &left.y, &right.y)?;
    same_bits("final_state", &left.final_state, &right.final_state)
}

/// No final state asked for, none touched; inputs stay as they were.
fn without_optional_outputs<T: Sample>(device: &TestDevice) -> Result<(), String> {
    let problem = SelectiveCase::plain([2, 37, 5, 8], 4).problem::<T>();
    let full = problem.run(&device.device).map_err(|e| e.to_string())?;
    let plain = || -> ferroseq::Result<[Vec<T>; 5]> {
        let device = &device.device;
        let (x, delta) = (device.upload(&problem.x)?, device.upload(&problem.delta)?);
        let (b, c) = (device.upload(&problem.b)?, device.upload(&problem.c)?);
        let a = device.upload(&problem.a)?;
        let mut y = device.upload(&vec![T::narrow(f32::NAN); problem.x.len()])?;
        let args = SelectiveScanArgs::new(&x, &delta, StateMatrix::Log(&a), &b, &c, &mut y);
        problem.scan.run_with(device, args)?;
        Ok([
            y.to_vec()?,
            x.to_vec()?,
            delta.to_vec()?,
            b.to_vec()?,
            c.to_vec()?,
        ])
    };
    let [y, x, delta, b, c] = plain().map_err(|error| error.to_string())?;
    same_bits("y", &y, &full.y)?;
    same_bits("x after the run", &x, &problem.x)?;
    same_bits("delta after the run", &delta, &problem.delta)?;
    same_bits("B after the run", &b, &problem.b)?;
    same_bits("C after the run", &c, &problem.c)
}
