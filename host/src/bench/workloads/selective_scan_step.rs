//! The step: a token for each sequence of a batch, over and over from the state it left.
//!
//! With the same token again and again the state goes to a fixed point,
//! `h = v / (1 - a)` with `v = delta * x * B`, from wherever it starts. Decays here are
//! below `e^-8`, so that a start half a percent off is below the tolerance after one step,
//! however many follow (a graph does not say how many it played): the fixed point is the
//! oracle, and a state that is not written stays half a percent off.

use super::selective_scan::{ARITHMETIC, element, softplus};
use super::{Operation, Prepared, Work, Workload, argument};
use crate::bench::oracle::{Comparison, Tolerance, larger, sample};
use crate::bench::presets;
use crate::bench::random::Random;
use crate::bench::row::{Accuracy, Operations, Stream};
use crate::buffer::Buffer;
use crate::device::Device;
use crate::dtype::{DType, Element};
use crate::error::Result;
use crate::ops::{Layout, SelectiveScan, SelectiveScanStep, SelectiveScanStepArgs, StateMatrix};
use half::{bf16, f16};

pub(super) const OPERATION: Operation = Operation {
    name: "step",
    about: "one token of the selective scan, the state updated in place",
    sizes: "B,D,N",
    presets: |kind| {
        let presets = presets::selective_scan_step(kind).into_iter();
        presets.map(|(shape, dtype)| work(shape, dtype)).collect()
    },
    custom: |shape, dtype, _: Layout| Ok(work(sizes(shape, dtype)?, dtype)),
};

/// A start is off its fixed point by this share.
const OFF: f64 = 0.005;

fn sizes(shape: &[usize], dtype: DType) -> Result<[usize; 3]> {
    let &[batch, channels, state] = shape else {
        let found = format!("{} sizes", shape.len());
        return Err(argument("shape", found, "three: B,D,N"));
    };
    element(dtype)?;
    SelectiveScan::new(batch, 1, channels, state).check_sizes(None)?;
    Ok([batch, channels, state])
}

fn work([batch, channels, state]: [usize; 3], dtype: DType) -> Work {
    Box::new(StepWork {
        op: SelectiveScanStep::new(batch, channels, state),
        dtype,
    })
}

struct StepWork {
    op: SelectiveScanStep,
    dtype: DType,
}

impl Workload for StepWork {
    fn op(&self) -> &'static str {
        OPERATION.name
    }

    fn shape(&self) -> Vec<usize> {
        vec![self.op.batch, self.op.channels, self.op.state]
    }

    fn dtype(&self) -> DType {
        self.dtype
    }

    fn layout(&self) -> Option<Layout> {
        None
    }

    /// The state read and written; x, delta, y, B and C; A_log and D_skip.
    fn bytes(&self) -> u64 {
        let SelectiveScanStep {
            batch,
            channels,
            state,
            ..
        } = self.op;
        let (b, d, n) = (batch as u64, channels as u64, state as u64);
        8 * b * d * n + b * (3 * d + 2 * n) * self.dtype.size() as u64 + 4 * d * (n + 1)
    }

    fn operations(&self) -> Operations {
        let SelectiveScanStep {
            batch,
            channels,
            state,
            ..
        } = self.op;
        super::selective_scan::operations(&SelectiveScan::new(batch, 1, channels, state), true)
    }

    fn stream(&self) -> Stream {
        Stream::Copy
    }

    fn prepare(&self, device: &Device, seed: u64) -> Result<Box<dyn Prepared>> {
        Ok(match self.dtype {
            DType::F16 => Box::new(Step::<f16>::new(self.op, device, seed)?),
            DType::Bf16 => Box::new(Step::<bf16>::new(self.op, device, seed)?),
            _ => Box::new(Step::<f32>::new(self.op, device, seed)?),
        })
    }
}

/// The sources of the inputs.
struct Inputs {
    x: Random,
    delta: Random,
    b: Random,
    c: Random,
    a_log: Random,
    d_skip: Random,
}

impl Inputs {
    /// Delta' from 1 to 1.5, A from -8 to -9.
    fn new(seed: u64) -> Self {
        let normal = |n: u64| Random::normal(seed ^ (u64::MAX - n));
        Self {
            x: normal(0),
            delta: Random::uniform(seed ^ 1, 0.55, 1.24),
            b: normal(2),
            c: normal(3),
            a_log: Random::uniform(seed ^ 2, 8f32.ln(), 9f32.ln()),
            d_skip: Random::uniform(seed, 0.5, 1.5),
        }
    }

    /// The fixed points of channel `row` (of all batch elements).
    fn fixed<T: Element>(&self, op: &SelectiveScanStep, row: usize) -> impl Iterator<Item = f64> {
        let n = op.state;
        let (element, channel) = (row / op.channels, row % op.channels);
        let x = wide::<T>(&self.x, row);
        let delta = softplus(wide::<T>(&self.delta, row));
        (0..n).map(move |i| {
            let a = -f64::from(self.a_log.at::<f32>(channel * n + i)).exp();
            let v = delta * x * wide::<T>(&self.b, element * n + i);
            v / -(delta * a).exp_m1()
        })
    }
}

fn wide<T: Element>(random: &Random, at: usize) -> f64 {
    f64::from(random.at::<T>(at).to_f32())
}

struct Step<T: Element> {
    op: SelectiveScanStep,
    device: Device,
    inputs: Inputs,
    x: Buffer<T>,
    delta: Buffer<T>,
    b: Buffer<T>,
    c: Buffer<T>,
    a_log: Buffer<f32>,
    d_skip: Buffer<f32>,
    start: Vec<f32>,
    state: Buffer<f32>,
    y: Buffer<T>,
    sampled: Vec<usize>,
}

impl<T: Element> Step<T> {
    fn new(op: SelectiveScanStep, device: &Device, seed: u64) -> Result<Self> {
        let inputs = Inputs::new(seed);
        let (rows, matrix) = (op.batch * op.channels, op.batch * op.state);
        let upload = |random: &Random, len| device.upload(&random.vec::<T>(len));
        let parameter = |random: &Random, len| device.upload(&random.vec::<f32>(len));
        let start: Vec<f32> = (0..rows)
            .flat_map(|row| inputs.fixed::<T>(&op, row))
            .map(|h| (h * (1.0 + OFF)) as f32)
            .collect();
        Ok(Self {
            op,
            device: device.clone(),
            x: upload(&inputs.x, rows)?,
            delta: upload(&inputs.delta, rows)?,
            b: upload(&inputs.b, matrix)?,
            c: upload(&inputs.c, matrix)?,
            a_log: parameter(&inputs.a_log, op.channels * op.state)?,
            d_skip: parameter(&inputs.d_skip, op.channels)?,
            inputs,
            state: device.upload(&start)?,
            start,
            y: device.alloc(rows)?,
            sampled: sample(rows, op.state, seed),
        })
    }
}

impl<T: Element> Prepared for Step<T> {
    fn launch(&mut self) -> Result<()> {
        self.op.run_with(
            &self.device,
            SelectiveScanStepArgs {
                state: &mut self.state,
                x: &self.x,
                delta: &self.delta,
                a: StateMatrix::Log(&self.a_log),
                b: &self.b,
                c: &self.c,
                y: &mut self.y,
                d_skip: Some(&self.d_skip),
                delta_bias: None,
                z: None,
            },
        )
    }

    fn poison(&mut self) -> Result<()> {
        self.state.write(&self.start)?;
        self.y.write(&vec![T::from_f32(f32::NAN); self.y.len()])
    }

    fn check(&mut self) -> Result<Accuracy> {
        let (y, state) = (self.y.to_vec()?, self.state.to_vec()?);
        let n = self.op.state;
        let mut comparison = Comparison::new(Tolerance::new(T::DTYPE, ARITHMETIC));
        for &row in &self.sampled {
            let (element, channel) = (row / self.op.channels, row % self.op.channels);
            let fixed: Vec<f64> = self.inputs.fixed::<T>(&self.op, row).collect();
            let skip = f64::from(self.inputs.d_skip.at::<f32>(channel));
            let skip = skip * wide::<T>(&self.inputs.x, row);
            let (mut sum, mut magnitude, mut largest) = (skip, skip.abs(), 0.0);
            for (i, h) in fixed.iter().enumerate() {
                let product = wide::<T>(&self.inputs.c, element * n + i) * h;
                sum += product;
                magnitude += product.abs();
                largest = larger(largest, h.abs());
            }
            comparison.row();
            let found = f64::from(y[row].to_f32());
            comparison.values(magnitude, std::iter::once((found, sum)));
            let found = state[row * n..(row + 1) * n].iter();
            let pairs = found.map(|&h| f64::from(h)).zip(fixed.iter().copied());
            comparison.values(largest, pairs);
        }
        Ok(comparison.accuracy(self.op.batch * self.op.channels))
    }

    fn plant_fault(&mut self) -> Result<()> {
        if let Some(&row) = self.sampled.first() {
            let mut x = self.x.to_vec()?;
            x[row] = T::from_f32(x[row].to_f32() + 1.0);
            self.x.write(&x)?;
        }
        Ok(())
    }
}
