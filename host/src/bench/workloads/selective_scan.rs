//! The selective scan: normal inputs as a model's layers give them, softplus, the skip
//! connection; the recurrence itself as the oracle.

use super::{Operation, Prepared, Work, Workload, argument};
use crate::bench::oracle::{Comparison, Tolerance, larger, sample};
use crate::bench::presets;
use crate::bench::random::Random;
use crate::bench::row::{Accuracy, Operations, Stream};
use crate::buffer::Buffer;
use crate::device::Device;
use crate::dtype::{DType, Element};
use crate::error::Result;
use crate::ops::{Layout, SelectiveScan, SelectiveScanArgs, StateMatrix};
use half::{bf16, f16};

pub(super) const OPERATION: Operation = Operation {
    name: "selective-scan",
    about: "the core of the Mamba S6 layer",
    sizes: "B,L,D,N",
    presets: |kind| {
        let presets = presets::selective_scan(kind).into_iter();
        presets
            .map(|(shape, dtype, layout)| work(shape, dtype, layout))
            .collect()
    },
    custom: |shape, dtype, layout| Ok(work(sizes(shape, dtype)?, dtype, layout)),
};

/// The four sizes of a scan over an element type that a scan takes.
pub(super) fn sizes(shape: &[usize], dtype: DType) -> Result<[usize; 4]> {
    let &[batch, length, channels, state] = shape else {
        let found = format!("{} sizes", shape.len());
        return Err(argument("shape", found, "four: B,L,D,N"));
    };
    element(dtype)?;
    SelectiveScan::new(batch, length, channels, state).check_sizes(None)?;
    Ok([batch, length, channels, state])
}

/// Checks the element type of sequences.
pub(super) fn element(dtype: DType) -> Result<()> {
    if matches!(dtype, DType::F32 | DType::F16 | DType::Bf16) {
        return Ok(());
    }
    Err(argument("dtype", dtype.name(), "f32, f16 or bf16"))
}

/// What f32 arithmetic may cost, as a share of the channel's largest sum of |C * h|: 64
/// units of roundoff. A decay is off by a few, and states forget within some dozen steps.
pub(super) const ARITHMETIC: f64 = 3.8e-6;

/// `ln(1 + e^v)`.
pub(super) fn softplus(v: f64) -> f64 {
    v.max(0.0) + (-v.abs()).exp().ln_1p()
}

fn work([batch, length, channels, state]: [usize; 4], dtype: DType, layout: Layout) -> Work {
    Box::new(SelectiveScanWork {
        op: SelectiveScan::new(batch, length, channels, state).layout(layout),
        dtype,
    })
}

struct SelectiveScanWork {
    op: SelectiveScan,
    dtype: DType,
}

/// Exponentials and multiply-adds of a scan: per state a decay, an input and two
/// multiply-adds; per channel, softplus (an exponential and a logarithm), an input, the skip.
pub(super) fn operations(op: &SelectiveScan, softplus: bool) -> Operations {
    let channels = op.batch as u64 * op.length as u64 * op.channels as u64;
    let states = channels * op.state as u64;
    Operations {
        fma: 4 * states + 2 * channels,
        exp2: states + if softplus { 2 * channels } else { 0 },
    }
}

impl Workload for SelectiveScanWork {
    fn op(&self) -> &'static str {
        OPERATION.name
    }

    fn shape(&self) -> Vec<usize> {
        let op = &self.op;
        vec![op.batch, op.length, op.channels, op.state]
    }

    fn dtype(&self) -> DType {
        self.dtype
    }

    fn layout(&self) -> Option<Layout> {
        Some(self.op.layout)
    }

    /// x, delta and y; B and C; A_log and D_skip.
    fn bytes(&self) -> u64 {
        let (d, n) = (self.op.channels as u64, self.op.state as u64);
        let rows = self.op.batch as u64 * self.op.length as u64;
        rows * (3 * d + 2 * n) * self.dtype.size() as u64 + d * (n + 1) * 4
    }

    fn operations(&self) -> Operations {
        operations(&self.op, true)
    }

    fn stream(&self) -> Stream {
        Stream::Triad
    }

    fn prepare(&self, device: &Device, seed: u64) -> Result<Box<dyn Prepared>> {
        Ok(match self.dtype {
            DType::F16 => Box::new(Scan::<f16>::new(self.op, device, seed)?),
            DType::Bf16 => Box::new(Scan::<bf16>::new(self.op, device, seed)?),
            _ => Box::new(Scan::<f32>::new(self.op, device, seed)?),
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

struct Scan<T: Element> {
    op: SelectiveScan,
    device: Device,
    inputs: Inputs,
    x: Buffer<T>,
    delta: Buffer<T>,
    b: Buffer<T>,
    c: Buffer<T>,
    a_log: Buffer<f32>,
    d_skip: Buffer<f32>,
    y: Buffer<T>,
    sampled: Vec<usize>,
}

impl<T: Element> Scan<T> {
    fn new(op: SelectiveScan, device: &Device, seed: u64) -> Result<Self> {
        let (elements, matrix) = (op.elements()?, op.matrix_elements()?);
        let normal = |n: u64| Random::normal(seed ^ (u64::MAX - n));
        let inputs = Inputs {
            x: normal(0),
            delta: normal(1),
            b: normal(2),
            c: normal(3),
            a_log: normal(4),
            d_skip: Random::uniform(seed, 0.5, 1.5),
        };
        let upload = |random: &Random, len| device.upload(&random.vec::<T>(len));
        let parameter = |random: &Random, len| device.upload(&random.vec::<f32>(len));
        Ok(Self {
            op,
            device: device.clone(),
            x: upload(&inputs.x, elements)?,
            delta: upload(&inputs.delta, elements)?,
            b: upload(&inputs.b, matrix)?,
            c: upload(&inputs.c, matrix)?,
            a_log: parameter(&inputs.a_log, op.parameter_elements()?)?,
            d_skip: parameter(&inputs.d_skip, op.channels)?,
            inputs,
            y: device.alloc(elements)?,
            sampled: sample(op.batch * op.channels, op.length * op.state, seed),
        })
    }

    /// Where step `t` of channel `row` (of all batch elements) lies in x, delta and y.
    fn place(&self, row: usize, t: usize) -> usize {
        let (length, channels) = (self.op.length, self.op.channels);
        match self.op.layout {
            Layout::Bld => (row / channels * length + t) * channels + row % channels,
            Layout::Bdl => row * length + t,
        }
    }

    /// Where state `n` of step `t` lies in B and C.
    fn matrix_place(&self, row: usize, t: usize, n: usize) -> usize {
        let (element, length, states) = (row / self.op.channels, self.op.length, self.op.state);
        match self.op.layout {
            Layout::Bld => (element * length + t) * states + n,
            Layout::Bdl => (element * states + n) * length + t,
        }
    }
}

impl<T: Element> Prepared for Scan<T> {
    fn launch(&mut self) -> Result<()> {
        let a = StateMatrix::Log(&self.a_log);
        self.op.run_with(
            &self.device,
            SelectiveScanArgs {
                d_skip: Some(&self.d_skip),
                ..SelectiveScanArgs::new(&self.x, &self.delta, a, &self.b, &self.c, &mut self.y)
            },
        )
    }

    fn poison(&mut self) -> Result<()> {
        self.y.write(&vec![T::from_f32(f32::NAN); self.y.len()])
    }

    fn check(&mut self) -> Result<Accuracy> {
        let y = self.y.to_vec()?;
        let value = |random: &Random, at: usize| f64::from(random.at::<T>(at).to_f32());
        let mut comparison = Comparison::new(Tolerance::new(T::DTYPE, ARITHMETIC));
        let mut expected = vec![0.0; self.op.length];
        let n = self.op.state;
        for &row in &self.sampled {
            let channel = row % self.op.channels;
            let a: Vec<f64> = (0..n)
                .map(|i| -f64::from(self.inputs.a_log.at::<f32>(channel * n + i)).exp())
                .collect();
            let skip = f64::from(self.inputs.d_skip.at::<f32>(channel));
            let (mut h, mut scale) = (vec![0.0f64; n], 0.0f64);
            for (t, expected) in expected.iter_mut().enumerate() {
                let at = self.place(row, t);
                let x = value(&self.inputs.x, at);
                let delta = softplus(value(&self.inputs.delta, at));
                let (mut sum, mut magnitude) = (skip * x, (skip * x).abs());
                for (i, (h, a)) in h.iter_mut().zip(&a).enumerate() {
                    let at = self.matrix_place(row, t, i);
                    *h = (delta * a).exp() * *h + delta * x * value(&self.inputs.b, at);
                    let product = value(&self.inputs.c, at) * *h;
                    sum += product;
                    magnitude += product.abs();
                }
                scale = larger(scale, magnitude);
                *expected = sum;
            }
            let pairs = expected.iter().enumerate().map(|(t, &expected)| {
                let found = y[self.place(row, t)].to_f32();
                (f64::from(found), expected)
            });
            comparison.row();
            comparison.values(scale, pairs);
        }
        Ok(comparison.accuracy(self.op.batch * self.op.channels))
    }

    fn plant_fault(&mut self) -> Result<()> {
        if let (Some(&row), true) = (self.sampled.first(), self.op.length > 0) {
            let at = self.place(row, self.op.length / 2);
            let mut x = self.x.to_vec()?;
            x[at] = T::from_f32(x[at].to_f32() + 1.0);
            self.x.write(&x)?;
        }
        Ok(())
    }
}
