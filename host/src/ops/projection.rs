//! Projection: `out = activation(x W^T + bias)` for several weights over the same `x`, read
//! once.
//!
//! Weights are in the convention of PyTorch's `Linear`, `[out, in]`. Products are summed in
//! f32, never in a narrower type, to a relative error against float64 of at most 5e-6 over
//! a whole f32 result (Frobenius norm); f16 and bf16 outputs are rounded to nearest when
//! stored. A row of the result depends on that row of `x` alone, bit for bit, whatever the
//! number of rows, and is the same from run to run.

use super::check::{self, Check};
use crate::buffer::Buffer;
use crate::cpu;
use crate::device::{Backend, Device};
use crate::dtype::{Data, Element};
#[cfg(doc)]
use crate::error::Error;
use crate::error::Result;
use crate::launch;

const NAME: &str = "projection";

/// Descriptor of projections of `x: [rows, in]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Projection {
    /// Rows of `x`: B x L for a sequence.
    pub rows: usize,
    /// Columns of `x` and of every weight.
    pub inputs: usize,
}

/// What is applied to a projection's outputs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Activation {
    /// Nothing.
    #[default]
    Identity,
    /// `ln(1 + exp(v))`, the identity above 20.
    Softplus,
}

/// One weight, and where its product goes.
#[derive(Debug)]
pub struct ProjectionPart<'a, T: Data> {
    /// Rows of the weight, columns of `out`.
    pub outputs: usize,
    /// Weight, `[outputs, in]`.
    pub weight: &'a Buffer<T>,
    /// Added to every row, `[outputs]`; `None` for zeros.
    pub bias: Option<&'a Buffer<f32>>,
    /// Applied last.
    pub activation: Activation,
    /// Receives the product, `[rows, outputs]`.
    pub out: &'a mut Buffer<T>,
}

impl Projection {
    /// Projections of `x: [rows, inputs]`.
    pub const fn new(rows: usize, inputs: usize) -> Self {
        Self { rows, inputs }
    }

    /// Projects `x: [rows, in]` by every part's weight. On a GPU it is started, not awaited.
    ///
    /// # Errors
    /// [`Error::Length`], [`Error::WrongDevice`], [`Error::TooLarge`] before anything is
    /// touched; the device's error.
    pub fn run<T: Element>(
        &self,
        device: &Device,
        x: &Buffer<T>,
        parts: &mut [ProjectionPart<'_, T>],
    ) -> Result<()> {
        self.validate(device, x, parts)?;
        match &device.backend {
            Backend::Cpu => cpu::projection::run(self, x, parts),
            Backend::Cuda(cuda) => launch::projection::run(self, cuda.as_ref(), x, parts),
            Backend::Emulated(device) => launch::projection::run(self, device.as_ref(), x, parts),
        }
    }

    fn validate<T: Element>(
        &self,
        device: &Device,
        x: &Buffer<T>,
        parts: &[ProjectionPart<'_, T>],
    ) -> Result<()> {
        let Self { rows, inputs } = *self;
        let check = Check {
            operation: NAME,
            device,
        };
        let shape = || format!("[rows, in] = [{rows}, {inputs}]");
        let elements = check::product(NAME, &[rows, inputs], shape)?;
        check.buffer("x", x, elements, shape)?;
        for part in parts {
            let outputs = part.outputs;
            let weight = || format!("[out, in] = [{outputs}, {inputs}]");
            let out = || format!("[rows, out] = [{rows}, {outputs}]");
            let weights = check::product(NAME, &[outputs, inputs], weight)?;
            let outs = check::product(NAME, &[rows, outputs], out)?;
            check.buffer("weight", part.weight, weights, weight)?;
            if let Some(bias) = part.bias {
                check.buffer("bias", bias, outputs, || format!("[out] = [{outputs}]"))?;
            }
            check.buffer("out", part.out, outs, out)?;
        }
        Ok(())
    }
}
