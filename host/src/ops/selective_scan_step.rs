//! One time step of the selective scan, the state updated in place: decoding.
//!
//! The definition is that of [`SelectiveScan`](super::SelectiveScan) with L = 1. After t
//! steps, state and output are those of a scan over the first t time steps: bit for bit.

use super::StateMatrix;
use super::check::{self, Check};
use super::selective_scan::{check_channels, check_sizes};
use crate::buffer::Buffer;
use crate::cpu;
use crate::device::{Backend, Device};
use crate::dtype::{Data, Element};
#[cfg(doc)]
use crate::error::Error;
use crate::error::Result;
use crate::launch;

const NAME: &str = "selective scan step";

/// Descriptor of one time step over `x, delta: [B, D]` with N states a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SelectiveScanStep {
    /// B.
    pub batch: usize,
    /// D.
    pub channels: usize,
    /// N, from 1 to [`MAX_STATE`](super::MAX_STATE).
    pub state: usize,
    /// G: channels `g * D/G .. (g + 1) * D/G` share the `B` and `C` of group g. G divides D.
    pub groups: usize,
    /// Whether `delta` goes through softplus.
    pub softplus: bool,
}

/// The arguments of one step: `state` is updated, `y` is written.
#[derive(Debug)]
pub struct SelectiveScanStepArgs<'a, T: Data> {
    /// State, `[B, D, N]`, updated in place.
    pub state: &'a mut Buffer<f32>,
    /// Inputs, `[B, D]`.
    pub x: &'a Buffer<T>,
    /// Step sizes before bias and softplus, `[B, D]`.
    pub delta: &'a Buffer<T>,
    /// `A_log` or `A`, `[D, N]`.
    pub a: StateMatrix<'a>,
    /// Input matrix B, `[B, N]` or, with groups, `[B, G, N]`.
    pub b: &'a Buffer<T>,
    /// Output matrix C, like `b`.
    pub c: &'a Buffer<T>,
    /// Outputs, `[B, D]`.
    pub y: &'a mut Buffer<T>,
    /// `D_skip`, `[D]`; `None` for zeros.
    pub d_skip: Option<&'a Buffer<f32>>,
    /// Added to `delta` before softplus, `[D]`; `None` for zeros.
    pub delta_bias: Option<&'a Buffer<f32>>,
    /// Gate: outputs are multiplied by `silu(z)`, `[B, D]`.
    pub z: Option<&'a Buffer<T>>,
}

impl SelectiveScanStep {
    /// A step with one group and softplus.
    pub const fn new(batch: usize, channels: usize, state: usize) -> Self {
        Self {
            batch,
            channels,
            state,
            groups: 1,
            softplus: true,
        }
    }

    /// The same step with this many groups of channels.
    pub const fn groups(self, groups: usize) -> Self {
        Self { groups, ..self }
    }

    /// The same step with or without softplus.
    pub const fn softplus(self, softplus: bool) -> Self {
        Self { softplus, ..self }
    }

    /// Runs the step. On a GPU it is started, not awaited: reading a buffer waits, and so
    /// does [`Device::synchronize`].
    ///
    /// # Errors
    /// [`Error::Length`], [`Error::Argument`], [`Error::WrongDevice`], [`Error::TooLarge`]
    /// before anything is touched; the device's error.
    pub fn run_with<T: Element>(
        &self,
        device: &Device,
        args: SelectiveScanStepArgs<'_, T>,
    ) -> Result<()> {
        self.validate(device, &args)?;
        match &device.backend {
            Backend::Cpu => cpu::selective_scan_step::run(self, args),
            Backend::Cuda(cuda) => launch::selective_scan_step::run(self, cuda.as_ref(), args),
            Backend::Emulated(device) => {
                launch::selective_scan_step::run(self, device.as_ref(), args)
            }
        }
    }

    fn validate<T: Element>(
        &self,
        device: &Device,
        args: &SelectiveScanStepArgs<'_, T>,
    ) -> Result<()> {
        let Self {
            batch,
            channels,
            state,
            groups,
            ..
        } = *self;
        check_sizes(NAME, channels, state, groups)?;
        let row = || format!("[B, D] = [{batch}, {channels}]");
        let matrix = || format!("[B, G, N] = [{batch}, {groups}, {state}]");
        let parameter = || format!("[D, N] = [{channels}, {state}]");
        let whole = || format!("[B, D, N] = [{batch}, {channels}, {state}]");
        let elements = check::product(NAME, &[batch, channels], row)?;
        let matrices = check::product(NAME, &[batch, groups, state], matrix)?;
        let parameters = check::product(NAME, &[channels, state], parameter)?;
        let states = check::product(NAME, &[batch, channels, state], whole)?;
        let check = Check {
            operation: NAME,
            device,
        };
        check.buffer("state", args.state, states, whole)?;
        check.buffer("x", args.x, elements, row)?;
        check.buffer("delta", args.delta, elements, row)?;
        check.buffer(args.a.argument(), args.a.buffer(), parameters, parameter)?;
        check.buffer("B", args.b, matrices, matrix)?;
        check.buffer("C", args.c, matrices, matrix)?;
        check.buffer("y", args.y, elements, row)?;
        check_channels(&check, "D_skip", args.d_skip, channels)?;
        check_channels(&check, "delta_bias", args.delta_bias, channels)?;
        match args.z {
            Some(z) => check.buffer("z", z, elements, row),
            None => Ok(()),
        }
    }
}
