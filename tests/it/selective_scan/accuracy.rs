//! Accuracy against float64 in the norms that users read, and at the extremes of the
//! parameters.

use super::SCAN;
use crate::every_type;
use ferroseq::ops::Layout;
use ferroseq_tests::compare::{errors, selective_conforms};
use ferroseq_tests::inputs::Inputs;
use ferroseq_tests::oracle::selective_scan::selective_scan;
use ferroseq_tests::{Sample, SelectiveCase, SelectiveProblem, TestDevice};

every_type! { on crate::selective_scan::SCAN: norms step_sizes decays long_memory }

/// Standard normal inputs, as the model's layers give them.
fn normal<T: Sample>(shape: [usize; 4], seed: u64) -> SelectiveProblem<T> {
    let mut problem = SelectiveCase::plain(shape, seed).problem::<T>();
    let mut inputs = Inputs::new(seed);
    for tensor in [
        &mut problem.x,
        &mut problem.delta,
        &mut problem.b,
        &mut problem.c,
    ] {
        *tensor = inputs.normal(tensor.len());
    }
    problem.a = inputs.normal(problem.a.len());
    problem.d_skip = Some(vec![1.0; problem.scan.channels]);
    problem
}

/// Relative Frobenius error at most 1e-6 in f32, 5e-3 in bf16 (and 1e-3 in f16, whose unit
/// roundoff is an eighth of bf16's); in f32 no difference above 1e-4. Length, channels and N
/// are those of the first shape; the batch is independent and needs no repetition.
fn norms<T: Sample>(device: &TestDevice) -> Result<(), String> {
    let shape = match device.cases.large {
        true => [1, 2048, 256, 16],
        false => [1, 128, 4, 8],
    };
    let problem = normal::<T>(shape, 1);
    let outcome = problem.run(&device.device).map_err(|e| e.to_string())?;
    let (relative, largest) = errors(&outcome.y, &selective_scan(&problem).exact);
    let (allowed, difference) = match T::DTYPE.name() {
        "f32" => (1e-6, 1e-4),
        "f16" => (1e-3, f64::INFINITY),
        _ => (5e-3, f64::INFINITY),
    };
    let what = format!("relative error {relative:e}, largest difference {largest:e}");
    if relative <= allowed && largest <= difference {
        Ok(())
    } else {
        Err(format!("{}: {}: {what}", device.device, problem.describe()))
    }
}

/// Step sizes where softplus is the identity, where it is an exponential, and tiny ones.
fn step_sizes<T: Sample>(device: &TestDevice) -> Result<(), String> {
    let length = if device.cases.large { 300 } else { 24 };
    for (softplus, low, high) in [
        (true, 15.0, 40.0),
        (true, 19.0, 21.0),
        (true, -14.0, -13.0),
        (true, -60.0, 30.0),
        (true, -110.0, -80.0),
        (false, 0.5e-6, 2e-6),
        (false, 0.0, 30.0),
    ] {
        let mut problem = normal::<T>([1, length, 5, 4], 7);
        problem.scan.softplus = softplus;
        let spread = Inputs::new(8).positive_values::<f32>(problem.x.len());
        for (delta, spread) in problem.delta.iter_mut().zip(spread) {
            *delta = T::narrow(low + (high - low) * spread);
        }
        selective_conforms(device, &problem)
            .map_err(|wrong| format!("delta in [{low}, {high}]: {wrong}"))?;
    }
    Ok(())
}

/// A from -1e-4, a long memory, to -1e3, none: the state's decay is denormal, or zero.
fn decays<T: Sample>(device: &TestDevice) -> Result<(), String> {
    let length = if device.cases.large { 500 } else { 30 };
    for log in [false, true] {
        for layout in [Layout::Bld, Layout::Bdl] {
            let mut problem = normal::<T>([1, length, 3, 8], 9);
            problem.log = log;
            problem.scan.layout = layout;
            for (i, a) in problem.a.iter_mut().enumerate() {
                // 24 magnitudes from 1e-4 to 1e3.
                let magnitude = 10f32.powf(-4.0 + 7.0 * i as f32 / 23.0);
                *a = if log { magnitude.ln() } else { -magnitude };
            }
            selective_conforms(device, &problem)?;
        }
    }
    Ok(())
}

/// As many steps as the device can take, with decays near one: 65536 on a real processor.
fn long_memory<T: Sample>(device: &TestDevice) -> Result<(), String> {
    let steps = if device.cases.large {
        device.cases.accuracy_steps
    } else {
        512
    };
    for (layout, channels) in [(Layout::Bld, 2), (Layout::Bdl, 1)] {
        let mut problem = normal::<T>([1, steps, channels, 2], 10);
        problem.scan.layout = layout;
        problem.log = false;
        for (a, magnitude) in problem.a.iter_mut().zip([1e-4, 1e-3, 1e-2, 1e-5]) {
            *a = -magnitude;
        }
        selective_conforms(device, &problem)?;
    }
    Ok(())
}

/// The bounds tell right from wrong: on ordinary inputs they allow a thousandth of the
/// outputs' size at most, where a state left out or a step missed changes everything.
#[test]
fn the_bound_is_not_vacuous() {
    let truth = selective_scan(&normal::<f32>([1, 500, 8, 16], 1));
    let scale = truth.exact.iter().map(|y| y * y).sum::<f64>() / truth.exact.len() as f64;
    for expected in truth.y.iter().chain(&truth.final_state) {
        let interval = expected.interval;
        let width = f64::from(interval.high) - f64::from(interval.low);
        assert!(width <= 1e-3 * scale.sqrt(), "{expected:?}");
    }
}

/// A state that fades through the denormals costs no more than one that does not.
#[test]
fn denormals_do_not_slow() {
    crate::on_devices(SCAN, |device| {
        if device.device.kind() != ferroseq::DeviceKind::Cpu {
            return Ok(()); // Only a CPU slows for them, and the emulator has no clock.
        }
        let mut fading = normal::<f32>([1, 20_000, 16, 16], 2);
        // From 1 down to 2^-149 and on: every state is denormal for hundreds of steps.
        fading.log = false;
        fading.a.fill(-0.01);
        fading.delta.fill(20.5);
        fading.x.fill(0.0);
        fading.h0 = Some(vec![1.0; fading.states()]);
        let mut steady = fading.clone();
        steady.a.fill(-1e-7);
        let time = |problem: &SelectiveProblem<f32>| -> Result<f64, String> {
            let mut best = f64::INFINITY;
            for _ in 0..5 {
                let start = std::time::Instant::now();
                let outcome = problem.run(&device.device).map_err(|e| e.to_string())?;
                best = best.min(start.elapsed().as_secs_f64());
                if outcome.y.iter().any(|y| y.is_nan()) {
                    return Err("NaN".to_owned());
                }
            }
            Ok(best)
        };
        let (fading, steady) = (time(&fading)?, time(&steady)?);
        if fading > 3.0 * steady {
            return Err(format!("{fading} s with denormals, {steady} s without"));
        }
        Ok(())
    });
}
