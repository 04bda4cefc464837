//! The linear scan: gates near 1, normal inputs, the recurrence itself as the oracle.

use super::{Operation, Prepared, Work, Workload, argument};
use crate::bench::oracle::{Comparison, Tolerance, larger, sample};
use crate::bench::presets;
use crate::bench::random::Random;
use crate::bench::row::{Accuracy, Operations, Stream};
use crate::buffer::Buffer;
use crate::device::Device;
use crate::dtype::{DType, Element};
use crate::error::Result;
use crate::ops::{Layout, LinearScan};
use half::{bf16, f16};

pub(super) const OPERATION: Operation = Operation {
    name: "linear-scan",
    about: "h[t] = a[t] * h[t-1] + b[t]",
    sizes: "B,L,D",
    presets: |kind| {
        presets::linear_scan(kind)
            .into_iter()
            .map(|preset| work(preset.shape, preset.dtype, preset.layout))
            .collect()
    },
    custom: |shape, dtype, layout| Ok(work(sizes(shape, dtype)?, dtype, layout)),
};

/// The three sizes of a scan over an element type that a scan takes.
pub(super) fn sizes(shape: &[usize], dtype: DType) -> Result<[usize; 3]> {
    let &[batch, length, channels] = shape else {
        let found = format!("{} sizes", shape.len());
        return Err(argument("shape", found, "three: B,L,D"));
    };
    if !matches!(dtype, DType::F32 | DType::F16 | DType::Bf16) {
        return Err(argument("dtype", dtype.name(), "f32, f16 or bf16"));
    }
    LinearScan::new(batch, length, channels).elements()?;
    Ok([batch, length, channels])
}

/// Gates are uniform in this range: memory of five to some dozens of steps.
pub(super) const GATES: (f32, f32) = (0.8, 1.0);

/// What f32 arithmetic may cost, as a share of the channel's largest state. One rounding
/// of 2^-24 a step decays with the gates: the sum of their products is 10 for a constant
/// gate of 0.9 and stays below 64 for random ones, so this is 2^-18.
pub(super) const ARITHMETIC: f64 = 3.8e-6;

fn work([batch, length, channels]: [usize; 3], dtype: DType, layout: Layout) -> Work {
    Box::new(LinearScanWork {
        op: LinearScan::new(batch, length, channels).layout(layout),
        dtype,
    })
}

struct LinearScanWork {
    op: LinearScan,
    dtype: DType,
}

impl LinearScanWork {
    fn elements(&self) -> u64 {
        self.op.batch as u64 * self.op.length as u64 * self.op.channels as u64
    }
}

impl Workload for LinearScanWork {
    fn op(&self) -> &'static str {
        OPERATION.name
    }

    fn shape(&self) -> Vec<usize> {
        vec![self.op.batch, self.op.length, self.op.channels]
    }

    fn dtype(&self) -> DType {
        self.dtype
    }

    fn layout(&self) -> Option<Layout> {
        Some(self.op.layout)
    }

    fn bytes(&self) -> u64 {
        3 * self.elements() * self.dtype.size() as u64
    }

    fn operations(&self) -> Operations {
        Operations {
            fma: self.elements(),
            exp2: 0,
        }
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

struct Scan<T: Element> {
    op: LinearScan,
    device: Device,
    gates: Random,
    inputs: Random,
    a: Buffer<T>,
    b: Buffer<T>,
    h: Buffer<T>,
    sampled: Vec<usize>,
}

impl<T: Element> Scan<T> {
    fn new(op: LinearScan, device: &Device, seed: u64) -> Result<Self> {
        let elements = op.elements()?;
        let gates = Random::uniform(seed, GATES.0, GATES.1);
        let inputs = Random::normal(seed ^ u64::MAX);
        Ok(Self {
            op,
            device: device.clone(),
            gates,
            inputs,
            a: device.upload(&gates.vec::<T>(elements))?,
            b: device.upload(&inputs.vec::<T>(elements))?,
            h: device.alloc(elements)?,
            sampled: sample(op.batch * op.channels, op.length, seed),
        })
    }
}

/// Where channel `channel` (of all batch elements) begins, and the step from one time to
/// the next.
pub(super) fn channel(op: &LinearScan, channel: usize) -> (usize, usize) {
    let (length, channels) = (op.length, op.channels);
    match op.layout {
        Layout::Bld => (
            channel / channels * length * channels + channel % channels,
            channels,
        ),
        Layout::Bdl => (channel * length, 1),
    }
}

impl<T: Element> Prepared for Scan<T> {
    fn launch(&mut self) -> Result<()> {
        self.op.run(&self.device, &self.a, &self.b, &mut self.h)
    }

    fn poison(&mut self) -> Result<()> {
        self.h.write(&vec![T::from_f32(f32::NAN); self.h.len()])
    }

    fn check(&mut self) -> Result<Accuracy> {
        let h = self.h.to_vec()?;
        let mut comparison = Comparison::new(Tolerance::new(T::DTYPE, ARITHMETIC));
        let mut expected = vec![0.0; self.op.length];
        for &row in &self.sampled {
            let (first, step) = channel(&self.op, row);
            let (mut state, mut scale) = (0.0f64, 0.0f64);
            for (t, expected) in expected.iter_mut().enumerate() {
                let at = first + t * step;
                let a: T = self.gates.at(at);
                let b: T = self.inputs.at(at);
                state = f64::from(a.to_f32()) * state + f64::from(b.to_f32());
                scale = larger(scale, state.abs());
                *expected = state;
            }
            let pairs = expected.iter().enumerate().map(|(t, &expected)| {
                let found = h[first + t * step].to_f32();
                (f64::from(found), expected)
            });
            comparison.row();
            comparison.values(scale, pairs);
        }
        Ok(comparison.accuracy(self.op.batch * self.op.channels))
    }

    fn plant_fault(&mut self) -> Result<()> {
        if let (Some(&row), true) = (self.sampled.first(), self.op.length > 0) {
            let (first, step) = channel(&self.op, row);
            let at = first + self.op.length / 2 * step;
            let mut b = self.b.to_vec()?;
            b[at] = T::from_f32(b[at].to_f32() + 1.0);
            self.b.write(&b)?;
        }
        Ok(())
    }
}
