//! The layer: its projections, then its scan.

use super::super::projection::PROJECTION;
use super::{SCAN, affords};
use crate::every_type;
use ferroseq::DeviceKind;
use ferroseq::ops::{
    SelectiveScanLayer, SelectiveScanLayerArgs, SelectiveScanWorkspace, SequenceOffsets,
    StateMatrix,
};
use ferroseq::{Buffer, Device};
use ferroseq_tests::compare::{errors, same_bits, selective_agrees};
use ferroseq_tests::inputs::Inputs;
use ferroseq_tests::oracle::selective_scan::selective_scan;
use ferroseq_tests::problem::offsets_of;
use ferroseq_tests::{Sample, SelectiveCase, SelectiveOutcome, SelectiveProblem, TestDevice};

/// The kinds of devices that have both parts.
pub const LAYER: &[DeviceKind] = match (SCAN.len(), PROJECTION.len()) {
    (1, _) => SCAN,
    _ => PROJECTION,
};

every_type! { on crate::selective_scan::layer::LAYER: is_projections_then_scan accuracy packed }

/// A layer's own inputs beside those of a scan.
struct Layer<T> {
    problem: SelectiveProblem<T>,
    w_delta: Vec<T>,
    w_b: Vec<T>,
    w_c: Vec<T>,
}

fn layer<T: Sample>(case: &SelectiveCase) -> Layer<T> {
    let problem = case.problem::<T>();
    let mut inputs = Inputs::new(case.seed + 1);
    let (d, n) = (case.scan.channels, case.scan.groups * case.scan.state);
    let scale = 1.0 / (d as f32).sqrt();
    let mut weight = |rows: usize| -> Vec<T> {
        let values = inputs.normal::<f32>(rows * d);
        values.into_iter().map(|v| T::narrow(v * scale)).collect()
    };
    Layer {
        w_delta: weight(d),
        w_b: weight(n),
        w_c: weight(n),
        problem,
    }
}

fn workspace<T: Sample>(
    device: &Device,
    op: &SelectiveScanLayer,
) -> ferroseq::Result<SelectiveScanWorkspace<T>> {
    let poisoned = |buffer: Buffer<T>| device.upload(&vec![T::narrow(f32::NAN); buffer.len()]);
    let SelectiveScanWorkspace { delta, b, c } = op.workspace(device)?;
    Ok(SelectiveScanWorkspace {
        delta: poisoned(delta)?,
        b: poisoned(b)?,
        c: poisoned(c)?,
    })
}

impl<T: Sample> Layer<T> {
    /// What the layer returns, and the `delta`, `B` and `C` it left.
    fn run(
        &self,
        device: &Device,
        keep: bool,
    ) -> ferroseq::Result<(SelectiveOutcome<T>, [Vec<T>; 3])> {
        let problem = &self.problem;
        let scan = problem.scan;
        let op = SelectiveScanLayer::new(scan.batch, scan.length, scan.channels, scan.state)
            .groups(scan.groups)
            .softplus(scan.softplus);
        let optional = |values: &Option<Vec<f32>>| {
            let values = values.as_ref();
            values.map(|values| device.upload(values)).transpose()
        };
        let (d_skip, delta_bias) = (optional(&problem.d_skip)?, optional(&problem.delta_bias)?);
        let h0 = optional(&problem.h0)?;
        let z = problem.z.as_ref().map(|z| device.upload(z)).transpose()?;
        let a = device.upload(&problem.a)?;
        let weights = [&self.w_delta, &self.w_b, &self.w_c].map(|weight| device.upload(weight));
        let [w_delta, w_b, w_c] = weights;
        let (w_delta, w_b, w_c) = (w_delta?, w_b?, w_c?);
        let x = device.upload(&problem.x)?;
        let mut y = device.upload(&vec![T::narrow(f32::NAN); problem.x.len()])?;
        let mut last = device.upload(&vec![f32::NAN; problem.states()])?;
        let offsets = problem
            .offsets
            .as_ref()
            .map(|offsets| SequenceOffsets::new(device, offsets))
            .transpose()?;
        let mut space = workspace::<T>(device, &op)?;
        let a = match problem.log {
            true => StateMatrix::Log(&a),
            false => StateMatrix::Plain(&a),
        };
        op.run_with(
            device,
            SelectiveScanLayerArgs {
                delta_bias: delta_bias.as_ref(),
                d_skip: d_skip.as_ref(),
                z: z.as_ref(),
                h0: h0.as_ref(),
                final_state: Some(&mut last),
                offsets: offsets.as_ref(),
                workspace: keep.then_some(&mut space),
                ..SelectiveScanLayerArgs::new(&x, [&w_delta, &w_b, &w_c], a, &mut y)
            },
        )?;
        let outcome = SelectiveOutcome {
            y: y.to_vec()?,
            final_state: last.to_vec()?,
        };
        let left = [space.delta.to_vec()?, space.b.to_vec()?, space.c.to_vec()?];
        Ok((outcome, left))
    }

    /// `delta`, `B` and `C` in float64.
    fn projections(&self) -> [Vec<f64>; 3] {
        let problem = &self.problem;
        let d = problem.scan.channels;
        let product = |weight: &[T]| -> Vec<f64> {
            let rows = problem.x.chunks_exact(d);
            let columns = || weight.chunks_exact(d);
            let dot = |x: &[T], w: &[T]| -> f64 {
                let pairs = x.iter().zip(w);
                pairs
                    .map(|(x, w)| f64::from(x.widen()) * f64::from(w.widen()))
                    .sum()
            };
            rows.flat_map(|x| columns().map(move |w| dot(x, w)))
                .collect()
        };
        let mut delta = product(&self.w_delta);
        for row in delta.chunks_exact_mut(d) {
            for (at, delta) in row.iter_mut().enumerate() {
                if let Some(bias) = &problem.delta_bias {
                    *delta += f64::from(bias[at]);
                }
                if problem.scan.softplus {
                    *delta = delta.max(0.0) + (-delta.abs()).exp().ln_1p();
                }
            }
        }
        [delta, product(&self.w_b), product(&self.w_c)]
    }
}

fn shapes(device: &TestDevice) -> impl Iterator<Item = ([usize; 4], usize)> + '_ {
    [
        ([1, 1, 1, 1], 1),
        ([2, 5, 6, 3], 2),
        ([1, 33, 17, 4], 1),
        ([2, 40, 64, 16], 1),
        ([1, 0, 3, 4], 1),
        ([1, 7, 130, 64], 2),
    ]
    .into_iter()
    .filter(|&(shape, _)| affords(device, shape))
}

/// The projections it leaves are within 5e-6 (f32) of float64 over the whole tensor, and its
/// result is that of a scan of them; without a workspace it is the same, bit for bit.
fn is_projections_then_scan<T: Sample>(device: &TestDevice) -> Result<(), String> {
    for (seed, (shape, groups)) in shapes(device).enumerate() {
        for softplus in [true, false] {
            let mut case = SelectiveCase::full(shape, seed as u64);
            case.scan = case.scan.groups(groups).softplus(softplus);
            if !softplus {
                // A negative step size makes states grow without end.
                case.scan.length = case.scan.length.min(4);
            }
            check(device, &layer::<T>(&case))?;
        }
    }
    Ok(())
}

fn packed<T: Sample>(device: &TestDevice) -> Result<(), String> {
    let mut case = SelectiveCase::packed(&[3, 0, 9, 1], 5, 4, 3);
    case.bias = true;
    let layer = layer::<T>(&case);
    assert_eq!(layer.problem.offsets, Some(offsets_of(&[3, 0, 9, 1])));
    check(device, &layer)
}

fn check<T: Sample>(device: &TestDevice, layer: &Layer<T>) -> Result<(), String> {
    let what = layer.problem.describe();
    let run = |keep| {
        let run = layer.run(&device.device, keep);
        run.map_err(|error| format!("{}: layer {what}: {error}", device.device))
    };
    let (outcome, left) = run(true)?;
    let allowed = match T::DTYPE.name() {
        "f32" => 5e-6,
        "f16" => 1e-3,
        _ => 5e-3,
    };
    for (name, (found, exact)) in ["delta", "B", "C"]
        .iter()
        .zip(left.iter().zip(layer.projections()))
    {
        let (relative, _) = errors(found, &exact);
        if !exact.is_empty() && !(relative <= allowed) {
            return Err(format!(
                "{what}: {name} has a relative error of {relative:e}"
            ));
        }
    }
    let [delta, b, c] = left;
    let scan = SelectiveProblem {
        scan: layer.problem.scan.softplus(false),
        delta,
        b,
        c,
        delta_bias: None,
        ..layer.problem.clone()
    };
    selective_agrees(device, &scan, &outcome)?;
    let (alone, _) = run(false)?;
    same_bits("y without a workspace", &alone.y, &outcome.y)?;
    same_bits(
        "state without a workspace",
        &alone.final_state,
        &outcome.final_state,
    )
}

/// The whole layer against float64, at the first shape where the device is fast.
/// Errors of the projections are carried by the scan: 1e-5 in f32.
fn accuracy<T: Sample>(device: &TestDevice) -> Result<(), String> {
    let shape = match device.cases.large {
        true => [1, 1024, 256, 16],
        false => [1, 16, 24, 4],
    };
    let mut case = SelectiveCase::plain(shape, 3);
    (case.bias, case.skip) = (true, true);
    let layer = layer::<T>(&case);
    let (outcome, _) = layer
        .run(&device.device, true)
        .map_err(|error| error.to_string())?;
    let [delta, b, c] = layer.projections();
    let problem = &layer.problem;
    let (d, n) = (shape[2], shape[3]);
    let mut exact = vec![0.0; outcome.y.len()];
    for channel in 0..d {
        let mut h = vec![0.0; n];
        for t in 0..shape[1] {
            let x = f64::from(problem.x[t * d + channel].widen());
            let delta = delta[t * d + channel];
            let mut y = problem
                .d_skip
                .as_ref()
                .map_or(0.0, |skip| f64::from(skip[channel]))
                * x;
            for (i, h) in h.iter_mut().enumerate() {
                let a = -f64::from(problem.a[channel * n + i]).exp();
                *h = (delta * a).exp() * *h + delta * x * b[t * n + i];
                y += c[t * n + i] * *h;
            }
            exact[t * d + channel] = y;
        }
    }
    let (relative, _) = errors(&outcome.y, &exact);
    let allowed = match T::DTYPE.name() {
        "f32" => 1e-5,
        "f16" => 3e-3,
        _ => 2e-2,
    };
    if relative <= allowed {
        Ok(())
    } else {
        let what = problem.describe();
        Err(format!(
            "{}: layer {what}: relative error {relative:e}",
            device.device
        ))
    }
}

/// The layer's float64 definition above is the oracle's, on exact projections.
#[test]
fn projections_of_a_unit_weight_are_the_input() {
    let case = SelectiveCase::plain([1, 9, 4, 4], 1);
    let mut layer = layer::<f32>(&case);
    layer.problem.scan.softplus = false;
    for weight in [&mut layer.w_delta, &mut layer.w_b, &mut layer.w_c] {
        for (at, weight) in weight.iter_mut().enumerate() {
            *weight = if at / 4 == at % 4 { 1.0 } else { 0.0 };
        }
    }
    let expected = SelectiveProblem {
        delta: layer.problem.x.clone(),
        b: layer.problem.x.clone(),
        c: layer.problem.x.clone(),
        ..layer.problem.clone()
    };
    let truth = selective_scan(&expected);
    assert!(truth.exact.iter().all(|y| y.is_finite()));
    crate::on_devices(LAYER, |device| {
        let (outcome, _) = layer.run(&device.device, true).map_err(|e| e.to_string())?;
        selective_agrees(device, &expected, &outcome)
    });
}
