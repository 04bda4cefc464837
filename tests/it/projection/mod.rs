//! The projection's conformance suite: products of every size against float64.

use crate::every_type;
use ferroseq::DeviceKind;
use ferroseq::ops::{Activation, Projection, ProjectionPart};
use ferroseq_tests::compare::same_bits;
use ferroseq_tests::inputs::Inputs;
use ferroseq_tests::oracle::Interval;
use ferroseq_tests::oracle::bound::UNIT;
use ferroseq_tests::{Sample, TestDevice};

mod errors;

/// The kinds of devices that have the projection.
pub const PROJECTION: &[DeviceKind] = &[DeviceKind::Cpu];

every_type! { on crate::projection::PROJECTION: shapes activations frobenius independent_of_the_rows special_values }

/// One `x` and the weights over it.
struct Problem<T> {
    rows: usize,
    inputs: usize,
    x: Vec<T>,
    parts: Vec<Part<T>>,
}

struct Part<T> {
    outputs: usize,
    weight: Vec<T>,
    bias: Option<Vec<f32>>,
    activation: Activation,
}

impl<T: Sample> Problem<T> {
    fn new(rows: usize, inputs: usize, outputs: &[usize], seed: u64) -> Self {
        let mut draw = Inputs::new(seed);
        let part = |(nth, &outputs): (usize, &usize)| Part {
            outputs,
            weight: draw.values(outputs * inputs),
            bias: (nth % 2 == 0).then(|| draw.values(outputs)),
            activation: match nth % 3 {
                0 => Activation::Softplus,
                _ => Activation::Identity,
            },
        };
        let parts = outputs.iter().enumerate().map(part).collect();
        let x = draw.values(rows * inputs);
        Self {
            rows,
            inputs,
            x,
            parts,
        }
    }

    fn run(&self, device: &TestDevice) -> Result<Vec<Vec<T>>, String> {
        let run = || {
            let device = &device.device;
            let x = device.upload(&self.x)?;
            let mut buffers = Vec::new();
            for part in &self.parts {
                let bias = part.bias.as_ref().map(|bias| device.upload(bias));
                let poison = vec![T::narrow(f32::NAN); self.rows * part.outputs];
                buffers.push((
                    device.upload(&part.weight)?,
                    bias.transpose()?,
                    device.upload(&poison)?,
                ));
            }
            let mut parts: Vec<_> = self
                .parts
                .iter()
                .zip(&mut buffers)
                .map(|(part, (weight, bias, out))| ProjectionPart {
                    outputs: part.outputs,
                    weight,
                    bias: bias.as_ref(),
                    activation: part.activation,
                    out,
                })
                .collect();
            Projection::new(self.rows, self.inputs).run(device, &x, &mut parts)?;
            drop(parts);
            buffers.iter().map(|(_, _, out)| out.to_vec()).collect()
        };
        let result: ferroseq::Result<Vec<Vec<T>>> = run();
        result.map_err(|error| format!("{}: {}: {error}", device.device, self.describe()))
    }

    fn describe(&self) -> String {
        let outputs: Vec<usize> = self.parts.iter().map(|part| part.outputs).collect();
        format!(
            "{} x [{}, {}] by {outputs:?}",
            T::DTYPE,
            self.rows,
            self.inputs
        )
    }

    /// Every element against float64. A sum of K products in f32, in any order, with its
    /// bias is off by at most (K + 2)u times the sum of magnitudes; products of split
    /// operands lose what is below 2^-20 of a product (three bf16 or two TF32 pieces keep
    /// 2^-21 and more); softplus adds what `oracle::selective_scan` allows a function.
    fn check(&self, device: &TestDevice) -> Result<(), String> {
        for (part, found) in self.parts.iter().zip(self.run(device)?) {
            for (at, found) in found.into_iter().enumerate() {
                let (row, output) = (at / part.outputs, at % part.outputs);
                let x = &self.x[row * self.inputs..][..self.inputs];
                let weight = &part.weight[output * self.inputs..][..self.inputs];
                let bias = part
                    .bias
                    .as_ref()
                    .map_or(0.0, |bias| f64::from(bias[output]));
                let products = x.iter().zip(weight);
                let products = products.map(|(x, w)| f64::from(x.widen()) * f64::from(w.widen()));
                let (sum, magnitude) = products.fold((bias, bias.abs()), |(sum, magnitude), p| {
                    (sum + p, magnitude + p.abs())
                });
                let split = 2f64.powi(-20);
                let mut error = magnitude * ((self.inputs as f64 + 2.0) * UNIT + split);
                let mut exact = sum;
                if part.activation == Activation::Softplus {
                    exact = sum.max(0.0) + (-sum.abs()).exp().ln_1p();
                    error += 19.0 * UNIT * (exact + sum.abs()) + f64::from(f32::MIN_POSITIVE);
                }
                if !Interval::around(exact, error).holds(found) {
                    return Err(format!(
                        "{}: {}: [{row}, {output}] is {found:?}, not {exact} (+- {error:e})",
                        device.device,
                        self.describe()
                    ));
                }
            }
        }
        Ok(())
    }
}

/// Multiply-adds that a case may take on this device.
fn affords(device: &TestDevice, rows: usize, inputs: usize, outputs: &[usize]) -> bool {
    let work = rows * inputs * outputs.iter().sum::<usize>();
    work <= if device.cases.large { 1 << 24 } else { 1 << 15 }
}

fn shapes<T: Sample>(device: &TestDevice) -> Result<(), String> {
    let sizes: [(usize, usize, &[usize]); 24] = [
        (0, 3, &[2]),
        (3, 0, &[2, 1]),
        (3, 2, &[0, 4]),
        (3, 2, &[]),
        (1, 1, &[1]),
        (1, 7, &[5, 3]),
        (5, 8, &[4, 4, 4]),
        (7, 16, &[8, 3, 1]),
        (16, 16, &[16, 16, 16]),
        (17, 15, &[17]),
        (31, 33, &[15, 1]),
        (33, 31, &[9]),
        (2, 64, &[64, 16, 16]),
        (64, 8, &[33, 7]),
        (65, 65, &[5, 2]),
        (63, 24, &[20]),
        (128, 32, &[129]),
        (127, 128, &[64, 16, 16]),
        (129, 40, &[127, 31]),
        (256, 256, &[160]),
        (300, 100, &[200, 16, 16]),
        (1, 1000, &[1000, 16, 16]),
        (513, 72, &[256, 1, 255]),
        (130, 1030, &[60]),
    ];
    for (seed, (rows, inputs, outputs)) in sizes.into_iter().enumerate() {
        if affords(device, rows, inputs, outputs) {
            Problem::<T>::new(rows, inputs, outputs, seed as u64).check(device)?;
        }
    }
    Ok(())
}

/// Softplus over its whole range, with and without bias.
fn activations<T: Sample>(device: &TestDevice) -> Result<(), String> {
    let values = [
        -120.0, -87.0, -40.0, -5.0, -0.5, 0.0, 0.5, 5.0, 19.5, 20.5, 60.0, 1000.0,
    ];
    let mut problem = Problem::<T>::new(values.len(), 1, &[3, 3, 3, 3], 1);
    problem.x = values.map(T::narrow).to_vec();
    for part in &mut problem.parts {
        part.weight = [1.0, -1.0, 0.5].map(T::narrow).to_vec();
    }
    problem.check(device)
}

/// The relative error of a whole result: 5e-6 in f32; a rounding's in narrow types.
fn frobenius<T: Sample>(device: &TestDevice) -> Result<(), String> {
    let (rows, inputs, outputs) = match device.cases.large {
        true => (512, 256, 288),
        false => (32, 64, 16),
    };
    let mut problem = Problem::<T>::new(rows, inputs, &[outputs], 2);
    let mut draw = Inputs::new(3);
    problem.x = draw.normal(rows * inputs);
    problem.parts[0].weight = draw.normal(inputs * outputs);
    (problem.parts[0].bias, problem.parts[0].activation) = (None, Activation::Identity);
    let found = problem.run(device)?.remove(0);
    let weight = &problem.parts[0].weight;
    let exact: Vec<f64> = (0..rows * outputs)
        .map(|at| {
            let x = &problem.x[at / outputs * inputs..][..inputs];
            let w = &weight[at % outputs * inputs..][..inputs];
            let pairs = x.iter().zip(w);
            pairs
                .map(|(x, w)| f64::from(x.widen()) * f64::from(w.widen()))
                .sum()
        })
        .collect();
    let (relative, _) = ferroseq_tests::compare::errors(&found, &exact);
    let allowed = match T::DTYPE.name() {
        "f32" => 5e-6,
        "f16" => 1e-3,
        _ => 5e-3,
    };
    if relative <= allowed {
        return Ok(());
    }
    let what = problem.describe();
    Err(format!(
        "{}: {what}: relative error {relative:e}",
        device.device
    ))
}

/// A row is the same alone, and anywhere among rows of garbage; and from run to run.
fn independent_of_the_rows<T: Sample>(device: &TestDevice) -> Result<(), String> {
    for (inputs, outputs) in [(37, &[19usize, 4][..]), (64, &[32, 16, 16]), (520, &[33])] {
        let others = if affords(device, 200, inputs, outputs) {
            200
        } else {
            5
        };
        let alone = Problem::<T>::new(1, inputs, outputs, 5);
        let expected = alone.run(device)?;
        for place in [0, others / 2, others - 1] {
            let mut crowd = Problem::<T>::new(others, inputs, outputs, 5);
            for (part, own) in crowd.parts.iter_mut().zip(&alone.parts) {
                part.weight.clone_from(&own.weight);
                part.bias.clone_from(&own.bias);
            }
            crowd.x = Inputs::new(6).garbage(others * inputs);
            crowd.x[place * inputs..][..inputs].copy_from_slice(&alone.x);
            for (out, (expected, &outputs)) in
                crowd.run(device)?.iter().zip(expected.iter().zip(outputs))
            {
                let what = format!("{}, row {place}", crowd.describe());
                same_bits(&what, &out[place * outputs..][..outputs], expected)?;
            }
        }
        same_bits("again", &alone.run(device)?.concat(), &expected.concat())?;
    }
    Ok(())
}

/// NaN and infinity reach the outputs they belong to, and no others.
fn special_values<T: Sample>(device: &TestDevice) -> Result<(), String> {
    let (rows, inputs, outputs) = (6, 20, 9);
    let mut problem = Problem::<T>::new(rows, inputs, &[outputs], 7);
    problem.parts[0].activation = Activation::Identity;
    problem
        .x
        .iter_mut()
        .for_each(|x| *x = T::narrow(x.widen().abs() + 0.5));
    let weight = &mut problem.parts[0].weight;
    weight
        .iter_mut()
        .for_each(|w| *w = T::narrow(w.widen().abs() + 0.5));
    problem.x[inputs + 3] = T::narrow(f32::NAN);
    problem.x[3 * inputs + 19] = T::narrow(f32::INFINITY);
    problem.x[4 * inputs] = T::narrow(f32::NEG_INFINITY);
    weight[5 * inputs + 7] = T::narrow(f32::NAN);
    let found = problem.run(device)?.remove(0);
    for (at, value) in found.iter().enumerate() {
        let (row, output) = (at / outputs, at % outputs);
        let value = value.widen();
        let right = match (row, output) {
            (1, _) | (_, 5) => value.is_nan(),
            (3, _) => value == f32::INFINITY,
            (4, _) => value == f32::NEG_INFINITY,
            _ => value.is_finite(),
        };
        if !right {
            return Err(format!("{}: [{row}, {output}] is {value}", device.device));
        }
    }
    Ok(())
}
