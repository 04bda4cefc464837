//! Selective scan: the core of the Mamba S6 layer, channel by channel.
//!
//! With `delta' = softplus(delta + delta_bias)` (or without softplus, or without bias), for
//! each channel d of group g and each state n:
//!
//! ```text
//! h[t,n] = exp(delta'[t] * A[n]) * h[t-1,n] + delta'[t] * x[t] * B[t,g,n]
//! y[t]   = (sum over n of C[t,g,n] * h[t,n] + D_skip * x[t]) * silu(z[t])
//! ```
//!
//! Gu and Dao, "Mamba: Linear-Time Sequence Modeling with Selective State Spaces" (2023),
//! algorithm 2. Softplus, `ln(1 + exp(v))`, is the identity above 20. State, parameters and
//! all arithmetic are f32; f16 and bf16 outputs are rounded to nearest when stored.
//!
//! On one device results do not depend on what else is in the batch and are the same from
//! run to run, bit for bit; between devices they agree within rounding. Decays and states
//! smaller than the smallest normal f32 may become zero. An A beyond f32 (`A_log` above 88)
//! counts as the largest f32: a step of size 0 changes nothing whatever A.
//!
//! A GPU scans a long sequence of few channels in segments at the same time, each from as many
//! time steps before it as its states need to forget, if they do. Whether they did is checked
//! bit by bit, and what was not right is scanned again from end to end: it changes how long a
//! scan takes, and no result. It takes some megabytes of scratch memory, which the device keeps.

use super::check::{self, Check, sequence_shape};
use super::{Layout, SequenceOffsets};
use crate::buffer::Buffer;
use crate::cpu;
use crate::device::{Backend, Device};
use crate::dtype::{Data, Element};
use crate::error::{Error, Result};
use crate::launch;

const NAME: &str = "selective scan";

/// The largest state size N.
pub const MAX_STATE: usize = 256;

/// Descriptor of a selective scan over `x, delta: [B, L, D]` (or `[B, D, L]`) with N states
/// a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SelectiveScan {
    /// B.
    pub batch: usize,
    /// L, time steps.
    pub length: usize,
    /// D.
    pub channels: usize,
    /// N, from 1 to [`MAX_STATE`].
    pub state: usize,
    /// G: channels `g * D/G .. (g + 1) * D/G` share the `B` and `C` of group g. G divides D.
    pub groups: usize,
    /// How `x`, `delta`, `z` and `y` lie in memory, and with them `B` and `C`.
    pub layout: Layout,
    /// Whether `delta` goes through softplus.
    pub softplus: bool,
}

/// The state matrix A, diagonal: one decay for each channel and state, `[D, N]`.
#[derive(Clone, Copy, Debug)]
pub enum StateMatrix<'a> {
    /// `A_log`: A is `-exp(A_log)`, as Mamba's parameter is kept.
    Log(&'a Buffer<f32>),
    /// A itself, usually negative.
    Plain(&'a Buffer<f32>),
}

impl<'a> StateMatrix<'a> {
    /// The buffer, whatever it holds.
    pub fn buffer(&self) -> &'a Buffer<f32> {
        match *self {
            Self::Log(buffer) | Self::Plain(buffer) => buffer,
        }
    }

    /// Whether it holds `A_log`.
    pub fn is_log(&self) -> bool {
        matches!(self, Self::Log(_))
    }

    pub(super) fn argument(&self) -> &'static str {
        match self {
            Self::Log(_) => "A_log",
            Self::Plain(_) => "A",
        }
    }
}

/// The arguments of one run: `y` and `final_state` are written.
///
/// Shapes are those of [`Layout::Bld`]. With [`Layout::Bdl`], `x`, `delta`, `z` and `y` are
/// `[B, D, L]`, and `b` and `c` are `[B, G, N, L]`.
#[derive(Debug)]
pub struct SelectiveScanArgs<'a, T: Data> {
    /// Inputs, `[B, L, D]`.
    pub x: &'a Buffer<T>,
    /// Step sizes before bias and softplus, `[B, L, D]`.
    pub delta: &'a Buffer<T>,
    /// `A_log` or `A`, `[D, N]`.
    pub a: StateMatrix<'a>,
    /// Input matrix B, `[B, L, N]` or, with groups, `[B, L, G, N]`.
    pub b: &'a Buffer<T>,
    /// Output matrix C, like `b`.
    pub c: &'a Buffer<T>,
    /// Outputs, `[B, L, D]`.
    pub y: &'a mut Buffer<T>,
    /// `D_skip`, `[D]`; `None` for zeros.
    pub d_skip: Option<&'a Buffer<f32>>,
    /// Added to `delta` before softplus, `[D]`; `None` for zeros.
    pub delta_bias: Option<&'a Buffer<f32>>,
    /// Gate: outputs are multiplied by `silu(z) = z / (1 + exp(-z))`, `[B, L, D]`.
    pub z: Option<&'a Buffer<T>>,
    /// Initial state, `[B, D, N]` (`[S, D, N]` with packed sequences); `None` for zeros.
    pub h0: Option<&'a Buffer<f32>>,
    /// Receives the last state, `[B, D, N]` (`[S, D, N]`); of an empty sequence, the initial one.
    pub final_state: Option<&'a mut Buffer<f32>>,
    /// Packed sequences; B must be 1 and the last offset L.
    pub offsets: Option<&'a SequenceOffsets>,
}

impl<'a, T: Data> SelectiveScanArgs<'a, T> {
    /// The arguments that every run has; the options are absent.
    pub fn new(
        x: &'a Buffer<T>,
        delta: &'a Buffer<T>,
        a: StateMatrix<'a>,
        b: &'a Buffer<T>,
        c: &'a Buffer<T>,
        y: &'a mut Buffer<T>,
    ) -> Self {
        Self {
            x,
            delta,
            a,
            b,
            c,
            y,
            d_skip: None,
            delta_bias: None,
            z: None,
            h0: None,
            final_state: None,
            offsets: None,
        }
    }
}

impl SelectiveScan {
    /// A selective scan in `[B, L, D]` layout with one group and softplus.
    pub const fn new(batch: usize, length: usize, channels: usize, state: usize) -> Self {
        Self {
            batch,
            length,
            channels,
            state,
            groups: 1,
            layout: Layout::Bld,
            softplus: true,
        }
    }

    /// The same scan with this many groups of channels.
    pub const fn groups(self, groups: usize) -> Self {
        Self { groups, ..self }
    }

    /// The same scan over another memory layout.
    pub const fn layout(self, layout: Layout) -> Self {
        Self { layout, ..self }
    }

    /// The same scan with or without softplus.
    pub const fn softplus(self, softplus: bool) -> Self {
        Self { softplus, ..self }
    }

    /// Elements of `x`, `delta`, `z` and `y`.
    ///
    /// # Errors
    /// [`Error::TooLarge`].
    pub fn elements(&self) -> Result<usize> {
        check::elements(NAME, self.layout, self.batch, self.length, self.channels)
    }

    /// Elements of `b` and `c`.
    ///
    /// # Errors
    /// [`Error::TooLarge`].
    pub fn matrix_elements(&self) -> Result<usize> {
        let factors = [self.batch, self.length, self.groups, self.state];
        check::product(NAME, &factors, || self.matrix_shape())
    }

    /// Elements of `A_log`.
    ///
    /// # Errors
    /// [`Error::TooLarge`].
    pub fn parameter_elements(&self) -> Result<usize> {
        check::product(NAME, &[self.channels, self.state], || {
            self.parameter_shape()
        })
    }

    /// Checks N, G, the sizes, and packed sequences against this shape, as
    /// [`run_with`](Self::run_with) does.
    ///
    /// # Errors
    /// [`Error::Argument`], [`Error::TooLarge`].
    pub fn check_sizes(&self, offsets: Option<&SequenceOffsets>) -> Result<()> {
        check_sizes(NAME, self.channels, self.state, self.groups)?;
        self.elements()?;
        self.matrix_elements()?;
        self.parameter_elements()?;
        check::states(NAME, self.batch, self.length, self.channels, offsets)?
            .of_size(NAME, self.state)
            .map(drop)
    }

    /// Runs the scan. On a GPU it is started, not awaited: reading a buffer waits, and so
    /// does [`Device::synchronize`].
    ///
    /// # Errors
    /// [`Error::Length`], [`Error::Argument`], [`Error::WrongDevice`], [`Error::TooLarge`]
    /// before anything is touched; the device's error.
    pub fn run_with<T: Element>(
        &self,
        device: &Device,
        args: SelectiveScanArgs<'_, T>,
    ) -> Result<()> {
        self.validate(device, &args)?;
        match &device.backend {
            Backend::Cpu => cpu::selective_scan::run(self, args),
            Backend::Cuda(cuda) => launch::selective_scan::run(self, cuda.as_ref(), args),
            Backend::Emulated(device) => launch::selective_scan::run(self, device.as_ref(), args),
        }
    }

    /// Sequences that are scanned: B, or S with packed sequences.
    pub(crate) fn sequences(&self, offsets: Option<&SequenceOffsets>) -> usize {
        offsets.map_or(self.batch, SequenceOffsets::sequences)
    }

    pub(super) fn shape(&self) -> String {
        sequence_shape(self.layout, self.batch, self.length, self.channels)
    }

    fn parameter_shape(&self) -> String {
        format!("[D, N] = [{}, {}]", self.channels, self.state)
    }

    pub(super) fn matrix_shape(&self) -> String {
        let Self {
            batch,
            length,
            groups,
            state,
            ..
        } = *self;
        match self.layout {
            Layout::Bld => format!("[B, L, G, N] = [{batch}, {length}, {groups}, {state}]"),
            Layout::Bdl => format!("[B, G, N, L] = [{batch}, {groups}, {state}, {length}]"),
        }
    }

    fn validate<T: Element>(&self, device: &Device, args: &SelectiveScanArgs<'_, T>) -> Result<()> {
        let check = Check {
            operation: NAME,
            device,
        };
        self.check_common(
            &check,
            &Common {
                x: args.x,
                a: args.a,
                y: args.y,
                d_skip: args.d_skip,
                delta_bias: args.delta_bias,
                z: args.z,
                h0: args.h0,
                final_state: args.final_state.as_deref(),
                offsets: args.offsets,
            },
        )?;
        let (elements, matrix) = (self.elements()?, self.matrix_elements()?);
        check.buffer("delta", args.delta, elements, || self.shape())?;
        check.buffer("B", args.b, matrix, || self.matrix_shape())?;
        check.buffer("C", args.c, matrix, || self.matrix_shape())
    }

    /// Checks sizes, and all arguments that a scan has in common with a layer.
    pub(super) fn check_common<T: Element>(
        &self,
        check: &Check<'_>,
        args: &Common<'_, T>,
    ) -> Result<()> {
        check_sizes(check.operation, self.channels, self.state, self.groups)?;
        let elements = self.elements()?;
        let parameters = self.parameter_elements()?;
        let states = check::states(
            check.operation,
            self.batch,
            self.length,
            self.channels,
            args.offsets,
        )?
        .of_size(check.operation, self.state)?;
        check.buffer("x", args.x, elements, || self.shape())?;
        check.buffer(args.a.argument(), args.a.buffer(), parameters, || {
            self.parameter_shape()
        })?;
        check.buffer("y", args.y, elements, || self.shape())?;
        check_channels(check, "D_skip", args.d_skip, self.channels)?;
        check_channels(check, "delta_bias", args.delta_bias, self.channels)?;
        if let Some(z) = args.z {
            check.buffer("z", z, elements, || self.shape())?;
        }
        if let Some(offsets) = args.offsets {
            check.device("cu_seqlens", offsets.buffer())?;
        }
        if let Some(h0) = args.h0 {
            check.buffer("h0", h0, states.elements, || states.shape())?;
        }
        match args.final_state {
            Some(last) => check.buffer("final_state", last, states.elements, || states.shape()),
            None => Ok(()),
        }
    }
}

/// The arguments that a scan has in common with a layer.
pub(super) struct Common<'a, T: Data> {
    pub x: &'a Buffer<T>,
    pub a: StateMatrix<'a>,
    pub y: &'a Buffer<T>,
    pub d_skip: Option<&'a Buffer<f32>>,
    pub delta_bias: Option<&'a Buffer<f32>>,
    pub z: Option<&'a Buffer<T>>,
    pub h0: Option<&'a Buffer<f32>>,
    pub final_state: Option<&'a Buffer<f32>>,
    pub offsets: Option<&'a SequenceOffsets>,
}

/// Checks N and G.
pub(super) fn check_sizes(
    operation: &'static str,
    channels: usize,
    state: usize,
    groups: usize,
) -> Result<()> {
    if !(1..=MAX_STATE).contains(&state) {
        return Err(Error::Argument {
            operation,
            argument: "N",
            found: state.to_string(),
            expected: format!("a state size from 1 to {MAX_STATE}"),
        });
    }
    if groups == 0 || !channels.is_multiple_of(groups) {
        return Err(Error::Argument {
            operation,
            argument: "G",
            found: groups.to_string(),
            expected: format!("a number of groups that divides the {channels} channels"),
        });
    }
    Ok(())
}

/// Checks an optional `[D]` parameter.
pub(super) fn check_channels(
    check: &Check<'_>,
    argument: &'static str,
    parameter: Option<&Buffer<f32>>,
    channels: usize,
) -> Result<()> {
    match parameter {
        Some(buffer) => check.buffer(argument, buffer, channels, || format!("[D] = [{channels}]")),
        None => Ok(()),
    }
}
