//! Long sequences of few channels, which a device may scan in segments at the same time, and many
//! channels, which it scans with other kernels: no bit depends on it.

use crate::every_type;
use ferroseq::ops::Layout;
use ferroseq::{DType, DeviceKind};
use ferroseq_tests::compare::{same_bits, selective_conforms};
use ferroseq_tests::{Sample, SelectiveCase, SelectiveProblem, TestDevice};

every_type! { on crate::selective_scan::SCAN: long_sequences far_behind many_channels }

/// With everything, and states that forget within 64 time steps: no decay slower than
/// e^(-1.5 delta).
fn forgetful<T: Sample>(shape: [usize; 4], layout: Layout) -> SelectiveProblem<T> {
    let mut case = SelectiveCase::full(shape, 31);
    case.log = false;
    case.scan = case.scan.layout(layout);
    let mut problem = case.problem::<T>();
    problem.a.iter_mut().for_each(|a| *a -= 1.5);
    let bias = problem.delta_bias.as_mut();
    bias.into_iter().flatten().for_each(|bias| *bias += 1.0);
    problem
}

/// Whether it is worth the time: others split nothing, or are slow.
fn is_gpu(device: &TestDevice) -> bool {
    device.device.kind() == DeviceKind::Cuda && device.cases.large
}

/// Alone, which leaves a GPU idle unless it splits the sequence, and as the first of a batch
/// that fills it.
fn long_sequences<T: Sample>(device: &TestDevice) -> Result<(), String> {
    if !is_gpu(device) {
        // One is enough where it takes seconds.
        return match T::DTYPE {
            DType::F32 => selective_conforms(device, &forgetful::<T>([1, 7500, 2, 3], Layout::Bld)),
            _ => Ok(()),
        };
    }
    // The last one has many blocks, whose counters no other shape may have written over.
    for shape in [
        [1, 8229, 70, 16],
        [2, 9000, 3, 9],
        [1, 8192, 129, 5],
        [60, 8100, 2, 3],
    ] {
        for layout in [Layout::Bld, Layout::Bdl] {
            let problem = forgetful::<T>(shape, layout);
            selective_conforms(device, &problem)?;
            in_a_batch(device, &problem, 45)?;
        }
    }
    Ok(())
}

/// The same with decays that some channels have forgotten nothing by, and with an infinity that
/// no look at the steps before a segment can find.
fn far_behind<T: Sample>(device: &TestDevice) -> Result<(), String> {
    if !is_gpu(device) {
        return Ok(());
    }
    for (slow, infinite) in [(true, false), (false, true)] {
        let mut problem = forgetful::<T>([1, 8229, 70, 16], Layout::Bld);
        if slow {
            problem.a[66 * 16 + 5] = -1e-3;
        }
        if infinite {
            problem.x[5 * 70 + 67] = T::narrow(f32::INFINITY);
        }
        selective_conforms(device, &problem)?;
        in_a_batch(device, &problem, 45)?;
    }
    Ok(())
}

/// The problem's bits as the first of `batch` copies of it.
fn in_a_batch<T: Sample>(
    device: &TestDevice,
    alone: &SelectiveProblem<T>,
    batch: usize,
) -> Result<(), String> {
    let mut many = alone.clone();
    many.scan.batch = batch * alone.scan.batch;
    let tensors = [&mut many.x, &mut many.delta, &mut many.b, &mut many.c];
    for tensor in tensors.into_iter().chain(many.z.as_mut()) {
        *tensor = tensor.repeat(batch);
    }
    many.h0 = many.h0.map(|h0| h0.repeat(batch));
    let run = |problem: &SelectiveProblem<T>| {
        let outcome = problem.run(&device.device);
        outcome.map_err(|error| format!("{}: {error}", problem.describe()))
    };
    let (alone, many, what) = (run(alone)?, run(&many)?, alone.describe());
    same_bits(&what, &many.y[..alone.y.len()], &alone.y)?;
    let states = &many.final_state[..alone.final_state.len()];
    same_bits(&what, states, &alone.final_state)
}

fn many_channels<T: Sample>(device: &TestDevice) -> Result<(), String> {
    if !is_gpu(device) {
        return Ok(());
    }
    for (shape, groups) in [
        ([3, 37, 5500, 16], 4),
        ([1, 18, 16387, 11], 1),
        ([1, 20, 8195, 20], 1),
        ([1, 20, 8192, 100], 2),
    ] {
        for layout in [Layout::Bld, Layout::Bdl] {
            let mut case = SelectiveCase::full(shape, 32);
            case.scan = case.scan.layout(layout).groups(groups);
            selective_conforms::<T>(device, &case.problem())?;
        }
    }
    Ok(())
}
