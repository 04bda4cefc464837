//! Gradients: `grad_a`, `grad_b`, `grad_h0` by the chain rule.

use super::ORDERS;
use crate::every_type;
use ferroseq::Device;
use ferroseq::ops::{LinearScanBackward, LinearScanBackwardArgs, SequenceOffsets};
use ferroseq_tests::compare::{all_right, same_bits};
use ferroseq_tests::inputs::Inputs;
use ferroseq_tests::oracle::linear_scan::linear_scan;
use ferroseq_tests::oracle::linear_scan_backward::{BackwardProblem, linear_scan_backward};
use ferroseq_tests::{Case, Problem, Sample, TestDevice};

every_type! { every_combination shapes packed in_place run_to_run independent_of_the_batch special_values }

/// What a run returned.
struct Gradients<T> {
    a: Vec<T>,
    b: Vec<T>,
    h0: Vec<f32>,
}

/// A problem with the states that a right forward pass stores.
fn problem<T: Sample>(case: &Case, final_state: bool) -> BackwardProblem<T> {
    with_gradients(case.problem::<T>(), final_state, case.seed + 1)
}

fn with_gradients<T: Sample>(
    forward: Problem<T>,
    final_state: bool,
    seed: u64,
) -> BackwardProblem<T> {
    let mut inputs = Inputs::new(seed);
    BackwardProblem {
        h: linear_scan(&forward)
            .h
            .iter()
            .map(|expected| T::narrow(expected.sequential))
            .collect(),
        grad_h: inputs.values(forward.b.len()),
        grad_final_state: final_state.then(|| inputs.values(forward.states())),
        forward,
    }
}

/// Runs it with every output full of NaN before.
fn run<T: Sample>(
    device: &Device,
    problem: &BackwardProblem<T>,
    in_place: bool,
) -> ferroseq::Result<Gradients<T>> {
    let forward = &problem.forward;
    let optional = |state: &Option<Vec<f32>>| {
        let upload = |state: &Vec<f32>| device.upload(state);
        state.as_ref().map(upload).transpose()
    };
    let offsets = forward
        .offsets
        .as_ref()
        .map(|offsets| SequenceOffsets::new(device, offsets))
        .transpose()?;
    let poison = vec![T::narrow(f32::NAN); forward.a.len()];
    let (a, h) = (device.upload(&forward.a)?, device.upload(&problem.h)?);
    let grad_h = device.upload(&problem.grad_h)?;
    let (h0, last) = (optional(&forward.h0)?, optional(&problem.grad_final_state)?);
    let mut grad_a = device.upload(&poison)?;
    let mut grad_b = device.upload(if in_place { &problem.grad_h } else { &poison })?;
    let mut grad_h0 = device.upload(&vec![f32::NAN; forward.states()])?;
    LinearScanBackward::new(forward.scan).run_with(
        device,
        LinearScanBackwardArgs {
            a: &a,
            h: &h,
            grad_h: (!in_place).then_some(&grad_h),
            grad_a: &mut grad_a,
            grad_b: &mut grad_b,
            h0: h0.as_ref(),
            grad_final_state: last.as_ref(),
            grad_h0: Some(&mut grad_h0),
            offsets: offsets.as_ref(),
        },
    )?;
    Ok(Gradients {
        a: grad_a.to_vec()?,
        b: grad_b.to_vec()?,
        h0: grad_h0.to_vec()?,
    })
}

fn conforms<T: Sample>(
    device: &TestDevice,
    problem: &BackwardProblem<T>,
    in_place: bool,
) -> Result<(), String> {
    let found = run(&device.device, problem, in_place)
        .map_err(|error| format!("{}: {error}", problem.forward.describe()))?;
    let expected = linear_scan_backward(problem);
    let exact = device.is_sequential();
    let what = |name| {
        let forward = &problem.forward;
        move |wrong| format!("{}: {}: {name}{wrong}", device.device, forward.describe())
    };
    all_right(&found.b, &expected.grad_b, exact).map_err(what("grad_b"))?;
    all_right(&found.a, &expected.grad_a, exact).map_err(what("grad_a"))?;
    all_right(&found.h0, &expected.grad_h0, exact).map_err(what("grad_h0"))
}

fn every_combination<T: Sample>(device: &TestDevice) -> Result<(), String> {
    for (layout, reverse) in ORDERS {
        for (initial, last) in [(false, false), (true, false), (false, true), (true, true)] {
            for (batch, length, channels) in [(2, 37, 5), (1, 130, 34), (3, 1, 9), (2, 0, 3)] {
                let mut case = Case::plain(batch, length, channels, 73);
                case.scan = case.scan.layout(layout).reverse(reverse);
                case.initial = initial;
                conforms::<T>(device, &problem(&case, last), false)?;
            }
        }
    }
    Ok(())
}

fn shapes<T: Sample>(device: &TestDevice) -> Result<(), String> {
    let lengths = [0, 1, 2, 31, 32, 33, 127, 255, 256, 257, 1023, 1025, 2048];
    for length in lengths.into_iter().filter(|&l| l <= device.cases.longest) {
        for (batch, channels) in [(1, 1), (2, 3), (1, 130), (0, 4), (2, 0)] {
            for (layout, reverse) in ORDERS {
                let mut case = Case::plain(batch, length, channels, length as u64);
                case.scan = case.scan.layout(layout).reverse(reverse);
                case.initial = true;
                conforms::<T>(device, &problem(&case, true), false)?;
            }
        }
    }
    Ok(())
}

fn packed<T: Sample>(device: &TestDevice) -> Result<(), String> {
    for lengths in [
        &[][..],
        &[0],
        &[3, 7, 5],
        &[0, 64, 0, 1, 33, 0],
        &[257, 1, 130],
    ] {
        for (layout, reverse) in ORDERS {
            for optional in [false, true] {
                let mut case = Case::packed(lengths, 6, 79);
                case.scan = case.scan.layout(layout).reverse(reverse);
                case.initial = optional;
                conforms::<T>(device, &problem(&case, optional), false)?;
            }
        }
    }
    Ok(())
}

/// `grad_h` absent: `grad_b` holds it.
fn in_place<T: Sample>(device: &TestDevice) -> Result<(), String> {
    for (layout, reverse) in ORDERS {
        let mut case = Case::plain(2, 200, 34, 83);
        case.scan = case.scan.layout(layout).reverse(reverse);
        case.initial = true;
        conforms::<T>(device, &problem(&case, true), true)?;
    }
    Ok(())
}

fn same<T: Sample>(what: &str, one: &Gradients<T>, two: &Gradients<T>) -> Result<(), String> {
    same_bits(&format!("{what}: grad_a"), &one.a, &two.a)?;
    same_bits(&format!("{what}: grad_b"), &one.b, &two.b)?;
    same_bits(&format!("{what}: grad_h0"), &one.h0, &two.h0)
}

fn run_to_run<T: Sample>(device: &TestDevice) -> Result<(), String> {
    let mut case = Case::plain(2, device.cases.longest, 5, 89);
    case.initial = true;
    let problem = problem::<T>(&case, true);
    let first = run(&device.device, &problem, false).map_err(|e| e.to_string())?;
    for _ in 1..5 {
        let again = run(&device.device, &problem, false).map_err(|e| e.to_string())?;
        same("again", &again, &first)?;
    }
    Ok(())
}

/// The second element of a batch, among garbage, is what it is alone.
fn independent_of_the_batch<T: Sample>(device: &TestDevice) -> Result<(), String> {
    let mut case = Case::plain(1, 200, 5, 97);
    case.initial = true;
    let alone = problem::<T>(&case, true);
    let mut garbage = Inputs::new(101);
    fn crowd<T: Copy>(own: &[T], mut others: Vec<T>) -> Vec<T> {
        others[own.len()..2 * own.len()].copy_from_slice(own);
        others
    }
    let mut tensor = |own: &[T]| crowd(own, garbage.garbage(3 * own.len()));
    let mut states = Inputs::new(103);
    let mut state = |own: &Option<Vec<f32>>| {
        let own = own.as_ref();
        own.map(|own| crowd(own, states.garbage(3 * own.len())))
    };
    let mut scan = alone.forward.scan;
    scan.batch = 3;
    let crowd = BackwardProblem {
        forward: Problem {
            scan,
            offsets: None,
            a: tensor(&alone.forward.a),
            b: tensor(&alone.forward.b),
            h0: state(&alone.forward.h0),
        },
        h: tensor(&alone.h),
        grad_h: tensor(&alone.grad_h),
        grad_final_state: state(&alone.grad_final_state),
    };
    let alone = run(&device.device, &alone, false).map_err(|e| e.to_string())?;
    let found = run(&device.device, &crowd, false).map_err(|e| e.to_string())?;
    let middle = Gradients {
        a: found.a[alone.a.len()..2 * alone.a.len()].to_vec(),
        b: found.b[alone.b.len()..2 * alone.b.len()].to_vec(),
        h0: found.h0[alone.h0.len()..2 * alone.h0.len()].to_vec(),
    };
    same("in a batch of 3", &middle, &alone)
}

/// NaN, infinities and zeros in every input, where the definition puts them.
fn special_values<T: Sample>(device: &TestDevice) -> Result<(), String> {
    let special = [
        f32::NAN,
        f32::INFINITY,
        f32::NEG_INFINITY,
        0.0,
        -1.0,
        T::HUGE,
        T::TINY,
    ];
    for (nth, value) in special.into_iter().enumerate() {
        for (layout, reverse) in ORDERS {
            let mut case = Case::plain(1, 150, 8, 107 + nth as u64);
            case.scan = case.scan.layout(layout).reverse(reverse);
            case.initial = true;
            let mut problem = problem::<T>(&case, true);
            for at in [301, 600] {
                problem.forward.a[at] = T::narrow(value);
                problem.grad_h[at + 17] = T::narrow(value);
                problem.h[at + 34] = T::narrow(value);
            }
            let states = [&mut problem.forward.h0, &mut problem.grad_final_state];
            for state in states.into_iter().flatten() {
                state[nth] = value;
            }
            conforms(device, &problem, false)?;
        }
    }
    Ok(())
}
