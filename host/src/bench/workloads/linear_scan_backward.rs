//! The linear scan's gradients, with their definition as the oracle.

use super::linear_scan::{ARITHMETIC, GATES, channel, sizes};
use super::{Operation, Prepared, Work, Workload};
use crate::bench::oracle::{Comparison, Tolerance, larger, sample};
use crate::bench::presets;
use crate::bench::random::Random;
use crate::bench::row::{Accuracy, Operations, Stream};
use crate::buffer::Buffer;
use crate::device::Device;
use crate::dtype::{DType, Element};
use crate::error::Result;
use crate::ops::{Layout, LinearScan, LinearScanBackward, LinearScanBackwardArgs};
use half::{bf16, f16};

pub(super) const OPERATION: Operation = Operation {
    name: "linear-scan-backward",
    about: "gradients of the linear scan by a and b",
    sizes: "B,L,D",
    presets: |kind| {
        presets::linear_scan_backward(kind)
            .into_iter()
            .map(|preset| work(preset.shape, preset.dtype, preset.layout))
            .collect()
    },
    custom: |shape, dtype, layout| Ok(work(sizes(shape, dtype)?, dtype, layout)),
};

fn work([batch, length, channels]: [usize; 3], dtype: DType, layout: Layout) -> Work {
    Box::new(BackwardWork {
        op: LinearScan::new(batch, length, channels).layout(layout),
        dtype,
    })
}

struct BackwardWork {
    op: LinearScan,
    dtype: DType,
}

impl BackwardWork {
    fn elements(&self) -> u64 {
        self.op.batch as u64 * self.op.length as u64 * self.op.channels as u64
    }
}

impl Workload for BackwardWork {
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

    /// Reads `a`, `h`, `grad_h`; writes `grad_a`, `grad_b`.
    fn bytes(&self) -> u64 {
        5 * self.elements() * self.dtype.size() as u64
    }

    /// The scan, and the product with `h`.
    fn operations(&self) -> Operations {
        Operations {
            fma: 2 * self.elements(),
            exp2: 0,
        }
    }

    fn stream(&self) -> Stream {
        Stream::Triad
    }

    fn prepare(&self, device: &Device, seed: u64) -> Result<Box<dyn Prepared>> {
        Ok(match self.dtype {
            DType::F16 => Box::new(Backward::<f16>::new(self.op, device, seed)?),
            DType::Bf16 => Box::new(Backward::<bf16>::new(self.op, device, seed)?),
            _ => Box::new(Backward::<f32>::new(self.op, device, seed)?),
        })
    }
}

struct Backward<T: Element> {
    op: LinearScan,
    device: Device,
    inputs: Inputs,
    a: Buffer<T>,
    h: Buffer<T>,
    grad_h: Buffer<T>,
    grad_a: Buffer<T>,
    grad_b: Buffer<T>,
    sampled: Vec<usize>,
}

/// States are independent of the gates here: the gradients take them as they come.
struct Inputs {
    a: Random,
    h: Random,
    grad_h: Random,
}

impl<T: Element> Backward<T> {
    fn new(op: LinearScan, device: &Device, seed: u64) -> Result<Self> {
        let elements = op.elements()?;
        let inputs = Inputs {
            a: Random::uniform(seed, GATES.0, GATES.1),
            h: Random::normal(seed ^ u64::MAX),
            grad_h: Random::normal(seed ^ (u64::MAX >> 1)),
        };
        let upload = |random: &Random| device.upload(&random.vec::<T>(elements));
        Ok(Self {
            op,
            device: device.clone(),
            a: upload(&inputs.a)?,
            h: upload(&inputs.h)?,
            grad_h: upload(&inputs.grad_h)?,
            inputs,
            grad_a: device.alloc(elements)?,
            grad_b: device.alloc(elements)?,
            sampled: sample(op.batch * op.channels, op.length, seed),
        })
    }
}

impl<T: Element> Prepared for Backward<T> {
    fn launch(&mut self) -> Result<()> {
        LinearScanBackward::new(self.op).run_with(
            &self.device,
            LinearScanBackwardArgs {
                a: &self.a,
                h: &self.h,
                grad_h: Some(&self.grad_h),
                grad_a: &mut self.grad_a,
                grad_b: &mut self.grad_b,
                h0: None,
                grad_final_state: None,
                grad_h0: None,
                offsets: None,
            },
        )
    }

    fn poison(&mut self) -> Result<()> {
        let nans = vec![T::from_f32(f32::NAN); self.grad_a.len()];
        self.grad_a.write(&nans)?;
        self.grad_b.write(&nans)
    }

    fn check(&mut self) -> Result<Accuracy> {
        let (grad_a, grad_b) = (self.grad_a.to_vec()?, self.grad_b.to_vec()?);
        let value = |random: &Random, at: usize| f64::from(random.at::<T>(at).to_f32());
        let found = |values: &[T], at: usize| f64::from(values[at].to_f32());
        let mut comparison = Comparison::new(Tolerance::new(T::DTYPE, ARITHMETIC));
        let (mut by_a, mut by_b) = (vec![0.0; self.op.length], vec![0.0; self.op.length]);
        for &row in &self.sampled {
            let (first, step) = channel(&self.op, row);
            // The gate of the step after, times the gradient there.
            let mut carried = 0.0;
            let (mut scale_a, mut scale_b) = (0.0, 0.0);
            for t in (0..self.op.length).rev() {
                let at = first + t * step;
                let g = value(&self.inputs.grad_h, at) + carried;
                let before = match t {
                    0 => 0.0,
                    _ => value(&self.inputs.h, at - step),
                };
                carried = value(&self.inputs.a, at) * g;
                by_b[t] = g;
                by_a[t] = g * before;
                scale_b = larger(scale_b, g.abs());
                scale_a = larger(scale_a, before.abs());
            }
            comparison.row();
            let at = |t: usize| first + t * step;
            let pairs = by_b.iter().enumerate();
            comparison.values(scale_b, pairs.map(|(t, &g)| (found(&grad_b, at(t)), g)));
            let pairs = by_a.iter().enumerate();
            comparison.values(
                scale_a * scale_b,
                pairs.map(|(t, &g)| (found(&grad_a, at(t)), g)),
            );
        }
        Ok(comparison.accuracy(self.op.batch * self.op.channels))
    }

    fn plant_fault(&mut self) -> Result<()> {
        if let (Some(&row), true) = (self.sampled.first(), self.op.length > 0) {
            let (first, step) = channel(&self.op, row);
            let at = first + self.op.length / 2 * step;
            let mut grad_h = self.grad_h.to_vec()?;
            grad_h[at] = T::from_f32(grad_h[at].to_f32() + 1.0);
            self.grad_h.write(&grad_h)?;
        }
        Ok(())
    }
}
