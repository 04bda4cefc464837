//! The projections of a selective scan layer: delta (with bias and softplus), B and C, the
//! weights over one x together.

use super::selective_scan::{sizes, softplus};
use super::{Operation, Prepared, Work, Workload};
use crate::bench::oracle::{Comparison, Tolerance, larger, sample};
use crate::bench::presets;
use crate::bench::random::Random;
use crate::bench::row::{Accuracy, Operations, Stream};
use crate::buffer::Buffer;
use crate::device::Device;
use crate::dtype::{DType, Element};
use crate::error::Result;
use crate::ops::{Activation, Layout, Projection, ProjectionPart};
use half::{bf16, f16};

pub(super) const OPERATION: Operation = Operation {
    name: "projection",
    about: "delta, B and C of a selective scan layer from x",
    sizes: "B,L,D,N",
    presets: |kind| {
        let presets = presets::projection(kind).into_iter();
        presets.map(|(shape, dtype)| work(shape, dtype)).collect()
    },
    custom: |shape, dtype, _: Layout| Ok(work(sizes(shape, dtype)?, dtype)),
};

/// What a product in f32 may cost, as a share of the row's largest sum of magnitudes.
const ARITHMETIC: f64 = 5e-6;

fn work(shape: [usize; 4], dtype: DType) -> Work {
    Box::new(ProjectionWork { shape, dtype })
}

struct ProjectionWork {
    shape: [usize; 4],
    dtype: DType,
}

/// x and the outputs, the weights, the bias.
pub(super) fn bytes([batch, length, d, n]: [usize; 4], dtype: DType) -> u64 {
    let (rows, d, n) = (batch as u64 * length as u64, d as u64, n as u64);
    let sequences = rows * (2 * d + 2 * n) + d * (d + 2 * n);
    sequences * dtype.size() as u64 + 4 * d
}

impl Workload for ProjectionWork {
    fn op(&self) -> &'static str {
        OPERATION.name
    }

    fn shape(&self) -> Vec<usize> {
        self.shape.to_vec()
    }

    fn dtype(&self) -> DType {
        self.dtype
    }

    fn layout(&self) -> Option<Layout> {
        None
    }

    fn bytes(&self) -> u64 {
        bytes(self.shape, self.dtype)
    }

    /// The products are for the matrix units, whose rate is not among the ceilings: their
    /// number stands for no floor here.
    fn operations(&self) -> Operations {
        let [batch, length, d, _] = self.shape.map(|size| size as u64);
        Operations {
            fma: 0,
            exp2: 2 * batch * length * d,
        }
    }

    fn stream(&self) -> Stream {
        Stream::Copy
    }

    fn prepare(&self, device: &Device, seed: u64) -> Result<Box<dyn Prepared>> {
        Ok(match self.dtype {
            DType::F16 => Box::new(Product::<f16>::new(self.shape, device, seed)?),
            DType::Bf16 => Box::new(Product::<bf16>::new(self.shape, device, seed)?),
            _ => Box::new(Product::<f32>::new(self.shape, device, seed)?),
        })
    }
}

/// The sources of x, the three weights and the bias of delta, shared with the layer.
#[derive(Clone, Copy)]
pub(super) struct Inputs {
    pub x: Random,
    weights: [Random; 3],
    pub bias: Random,
    /// D.
    inputs: usize,
}

impl Inputs {
    /// Weights have variance 1/D, so that outputs have variance 1.
    pub(super) fn new(seed: u64, inputs: usize) -> Self {
        let side = (3.0 / inputs as f32).sqrt();
        let weight = |n: u64| Random::uniform(seed ^ (u64::MAX - n), -side, side);
        Self {
            x: Random::normal(seed ^ u64::MAX),
            weights: [weight(1), weight(2), weight(3)],
            bias: Random::uniform(seed, -0.2, 0.2),
            inputs,
        }
    }

    /// The weight of part `part`.
    pub(super) fn weight<T: Element>(&self, part: usize, outputs: usize) -> Vec<T> {
        self.weights[part].vec(outputs * self.inputs)
    }

    /// An output before bias and activation, and its sum of magnitudes, in float64.
    pub(super) fn product<T: Element>(&self, part: usize, x: &[f64], output: usize) -> (f64, f64) {
        let weight = self.weights[part];
        let mut sums = (0.0, 0.0);
        for (i, x) in x.iter().enumerate() {
            let product = x * f64::from(weight.at::<T>(output * self.inputs + i).to_f32());
            sums.0 += product;
            sums.1 += product.abs();
        }
        sums
    }

    /// Row `row` of x in float64.
    pub(super) fn row<T: Element>(&self, row: usize) -> Vec<f64> {
        let first = row * self.inputs;
        let value = |at| f64::from(self.x.at::<T>(at).to_f32());
        (first..first + self.inputs).map(value).collect()
    }
}

struct Product<T: Element> {
    op: Projection,
    device: Device,
    inputs: Inputs,
    outputs: [usize; 3],
    x: Buffer<T>,
    weights: [Buffer<T>; 3],
    bias: Buffer<f32>,
    out: [Buffer<T>; 3],
    sampled: Vec<usize>,
}

impl<T: Element> Product<T> {
    fn new([batch, length, d, n]: [usize; 4], device: &Device, seed: u64) -> Result<Self> {
        let inputs = Inputs::new(seed, d);
        let (rows, outputs) = (batch * length, [d, n, n]);
        let weight = |part: usize| device.upload(&inputs.weight::<T>(part, outputs[part]));
        let out = |part: usize| device.alloc::<T>(rows * outputs[part]);
        Ok(Self {
            op: Projection::new(rows, d),
            device: device.clone(),
            inputs,
            outputs,
            x: device.upload(&inputs.x.vec::<T>(rows * d))?,
            weights: [weight(0)?, weight(1)?, weight(2)?],
            bias: device.upload(&inputs.bias.vec::<f32>(d))?,
            out: [out(0)?, out(1)?, out(2)?],
            sampled: sample(rows, d * (d + 2 * n), seed),
        })
    }
}

impl<T: Element> Prepared for Product<T> {
    fn launch(&mut self) -> Result<()> {
        let [first, second, third] = &mut self.out;
        let part = |part: usize, out| ProjectionPart {
            outputs: self.outputs[part],
            weight: &self.weights[part],
            bias: (part == 0).then_some(&self.bias),
            activation: match part {
                0 => Activation::Softplus,
                _ => Activation::Identity,
            },
            out,
        };
        let mut parts = [part(0, first), part(1, second), part(2, third)];
        self.op.run(&self.device, &self.x, &mut parts)
    }

    fn poison(&mut self) -> Result<()> {
        for out in &mut self.out {
            out.write(&vec![T::from_f32(f32::NAN); out.len()])?;
        }
        Ok(())
    }

    fn check(&mut self) -> Result<Accuracy> {
        let mut comparison = Comparison::new(Tolerance::new(T::DTYPE, ARITHMETIC));
        let out = [
            self.out[0].to_vec()?,
            self.out[1].to_vec()?,
            self.out[2].to_vec()?,
        ];
        for &row in &self.sampled {
            let x = self.inputs.row::<T>(row);
            comparison.row();
            for (part, out) in out.iter().enumerate() {
                let outputs = self.outputs[part];
                let mut scale = 0.0;
                let expected: Vec<f64> = (0..outputs)
                    .map(|output| {
                        let (sum, magnitude) = self.inputs.product::<T>(part, &x, output);
                        scale = larger(scale, magnitude);
                        match part {
                            0 => softplus(sum + f64::from(self.inputs.bias.at::<f32>(output))),
                            _ => sum,
                        }
                    })
                    .collect();
                let found = out[row * outputs..(row + 1) * outputs].iter();
                let found = found.map(|value| f64::from(value.to_f32()));
                comparison.values(scale, found.zip(expected));
            }
        }
        Ok(comparison.accuracy(self.op.rows))
    }

    fn plant_fault(&mut self) -> Result<()> {
        if let Some(&row) = self.sampled.first() {
            let mut x = self.x.to_vec()?;
            let at = row * self.op.inputs;
            x[at] = T::from_f32(x[at].to_f32() + 1.0);
            self.x.write(&x)?;
        }
        Ok(())
    }
}
