//! The selective scan layer: projections and scan, from x to y.

use super::projection::Inputs;
use super::selective_scan::{sizes, softplus};
use super::{Operation, Prepared, Work, Workload};
use crate::bench::oracle::{Comparison, Tolerance, larger, sample, unit_roundoff};
use crate::bench::presets;
use crate::bench::random::Random;
use crate::bench::row::{Accuracy, Operations, Stream};
use crate::buffer::Buffer;
use crate::device::Device;
use crate::dtype::{DType, Element};
use crate::error::Result;
use crate::ops::{
    Layout, SelectiveScanLayer, SelectiveScanLayerArgs, SelectiveScanWorkspace, StateMatrix,
};
use half::{bf16, f16};

pub(super) const OPERATION: Operation = Operation {
    name: "layer",
    about: "the whole selective scan layer: projections, then the scan",
    sizes: "B,L,D,N",
    presets: |kind| {
        let presets = presets::projection(kind).into_iter();
        presets.map(|(shape, dtype)| work(shape, dtype)).collect()
    },
    custom: |shape, dtype, _: Layout| Ok(work(sizes(shape, dtype)?, dtype)),
};

/// What f32 arithmetic may cost: the projections' 5e-6, of each of delta, B and C, with
/// the scan's own on top.
const ARITHMETIC: f64 = 2e-5;
/// Roundings to the element type between the parts: of delta, where an exponent makes it
/// larger, of B and of C.
const ROUNDINGS: f64 = 8.0;

fn work([batch, length, channels, state]: [usize; 4], dtype: DType) -> Work {
    Box::new(LayerWork {
        op: SelectiveScanLayer::new(batch, length, channels, state),
        dtype,
    })
}

struct LayerWork {
    op: SelectiveScanLayer,
    dtype: DType,
}

impl Workload for LayerWork {
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
        None
    }

    /// x and y, the weights, the parameters: what lies between the parts need not move.
    fn bytes(&self) -> u64 {
        let (d, n) = (self.op.channels as u64, self.op.state as u64);
        let rows = self.op.batch as u64 * self.op.length as u64;
        (rows * 2 * d + d * (d + 2 * n)) * self.dtype.size() as u64 + 4 * d * (n + 2)
    }

    /// The scan's; the products are for the matrix units, which have no ceiling here.
    fn operations(&self) -> Operations {
        super::selective_scan::operations(&self.op.scan(), true)
    }

    fn stream(&self) -> Stream {
        Stream::Copy
    }

    fn prepare(&self, device: &Device, seed: u64) -> Result<Box<dyn Prepared>> {
        Ok(match self.dtype {
            DType::F16 => Box::new(Layer::<f16>::new(self.op, device, seed)?),
            DType::Bf16 => Box::new(Layer::<bf16>::new(self.op, device, seed)?),
            _ => Box::new(Layer::<f32>::new(self.op, device, seed)?),
        })
    }
}

struct Layer<T: Element> {
    op: SelectiveScanLayer,
    device: Device,
    inputs: Inputs,
    a_log: Random,
    d_skip: Random,
    x: Buffer<T>,
    weights: [Buffer<T>; 3],
    bias: Buffer<f32>,
    a: Buffer<f32>,
    skip: Buffer<f32>,
    y: Buffer<T>,
    workspace: SelectiveScanWorkspace<T>,
    sampled: Vec<usize>,
}

impl<T: Element> Layer<T> {
    fn new(op: SelectiveScanLayer, device: &Device, seed: u64) -> Result<Self> {
        let (d, n) = (op.channels, op.state);
        let inputs = Inputs::new(seed, d);
        let a_log = Random::normal(seed ^ (u64::MAX - 4));
        let d_skip = Random::uniform(seed ^ 5, 0.5, 1.5);
        let elements = op.scan().elements()?;
        let weight = |part: usize, outputs| device.upload(&inputs.weight::<T>(part, outputs));
        Ok(Self {
            op,
            device: device.clone(),
            x: device.upload(&inputs.x.vec::<T>(elements))?,
            weights: [weight(0, d)?, weight(1, n)?, weight(2, n)?],
            bias: device.upload(&inputs.bias.vec::<f32>(d))?,
            a: device.upload(&a_log.vec::<f32>(d * n))?,
            skip: device.upload(&d_skip.vec::<f32>(d))?,
            y: device.alloc(elements)?,
            workspace: op.workspace(device)?,
            inputs,
            a_log,
            d_skip,
            sampled: sample(op.batch * d, op.length * (d + n), seed),
        })
    }

    /// B and C of one batch element, `[L, N]` each.
    fn matrices(&self, element: usize) -> [Vec<f64>; 2] {
        let (length, n) = (self.op.length, self.op.state);
        let (mut b, mut c) = (
            Vec::with_capacity(length * n),
            Vec::with_capacity(length * n),
        );
        for t in 0..length {
            let x = self.inputs.row::<T>(element * length + t);
            b.extend((0..n).map(|i| self.inputs.product::<T>(1, &x, i).0));
            c.extend((0..n).map(|i| self.inputs.product::<T>(2, &x, i).0));
        }
        [b, c]
    }
}

impl<T: Element> Prepared for Layer<T> {
    fn launch(&mut self) -> Result<()> {
        let [w_delta, w_b, w_c] = &self.weights;
        let a = StateMatrix::Log(&self.a);
        self.op.run_with(
            &self.device,
            SelectiveScanLayerArgs {
                delta_bias: Some(&self.bias),
                d_skip: Some(&self.skip),
                workspace: Some(&mut self.workspace),
                ..SelectiveScanLayerArgs::new(&self.x, [w_delta, w_b, w_c], a, &mut self.y)
            },
        )
    }

    fn poison(&mut self) -> Result<()> {
        self.y.write(&vec![T::from_f32(f32::NAN); self.y.len()])
    }

    fn check(&mut self) -> Result<Accuracy> {
        let y = self.y.to_vec()?;
        let (length, d, n) = (self.op.length, self.op.channels, self.op.state);
        let between = match T::DTYPE {
            DType::F32 => 0.0,
            narrow => ROUNDINGS * unit_roundoff(narrow),
        };
        let tolerance = Tolerance::new(T::DTYPE, ARITHMETIC + between);
        let mut comparison = Comparison::new(tolerance);
        // Rows of one batch element follow one another.
        let mut element = usize::MAX;
        let [mut b, mut c] = [Vec::new(), Vec::new()];
        for &row in &self.sampled {
            let channel = row % d;
            if row / d != element {
                element = row / d;
                [b, c] = self.matrices(element);
            }
            let a: Vec<f64> = (0..n)
                .map(|i| -f64::from(self.a_log.at::<f32>(channel * n + i)).exp())
                .collect();
            let skip = f64::from(self.d_skip.at::<f32>(channel));
            let bias = f64::from(self.inputs.bias.at::<f32>(channel));
            let (mut h, mut scale) = (vec![0.0f64; n], 0.0f64);
            let expected: Vec<f64> = (0..length)
                .map(|t| {
                    let all = self.inputs.row::<T>(element * length + t);
                    let x = all[channel];
                    let delta = softplus(self.inputs.product::<T>(0, &all, channel).0 + bias);
                    let (mut sum, mut magnitude) = (skip * x, (skip * x).abs());
                    for (i, (h, a)) in h.iter_mut().zip(&a).enumerate() {
                        *h = (delta * a).exp() * *h + delta * x * b[t * n + i];
                        sum += c[t * n + i] * *h;
                        magnitude += (c[t * n + i] * *h).abs();
                    }
                    scale = larger(scale, magnitude);
                    sum
                })
                .collect();
            let pairs = expected.into_iter().enumerate().map(|(t, expected)| {
                let found = y[(element * length + t) * d + channel].to_f32();
                (f64::from(found), expected)
            });
            comparison.row();
            comparison.values(scale, pairs);
        }
        Ok(comparison.accuracy(self.op.batch * d))
    }

    fn plant_fault(&mut self) -> Result<()> {
        if let (Some(&row), true) = (self.sampled.first(), self.op.length > 0) {
            let (length, d) = (self.op.length, self.op.channels);
            let at = (row / d * length + length / 2) * d + row % d;
            let mut x = self.x.to_vec()?;
            x[at] = T::from_f32(x[at].to_f32() + 1.0);
            self.x.write(&x)?;
        }
        Ok(())
    }
}
