//! The selective scan layer: the projections of `x`, then the scan.
//!
//! ```text
//! delta = softplus(x W_delta^T + delta_bias)
//! B     = x W_B^T
//! C     = x W_C^T
//! y     = selective scan of (x, delta, A, B, C)
//! ```
//!
//! Weights are in the convention of PyTorch's `Linear`, `[out, in]`, sequences are
//! `[B, L, D]`. The result is that of [`Projection`] followed by [`SelectiveScan`], bit for
//! bit; in f16 and bf16 `delta`, `B` and `C` are rounded to that type between the two.

use super::check::{self, Check};
use super::projection::{Activation, Projection, ProjectionPart};
use super::selective_scan::Common;
use super::{SelectiveScan, SelectiveScanArgs, SequenceOffsets, StateMatrix};
use crate::buffer::Buffer;
use crate::device::Device;
use crate::dtype::{Data, Element};
#[cfg(doc)]
use crate::error::Error;
use crate::error::Result;

const NAME: &str = "selective scan layer";

/// Descriptor of a layer over `x: [B, L, D]` with N states a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SelectiveScanLayer {
    /// B.
    pub batch: usize,
    /// L, time steps.
    pub length: usize,
    /// D.
    pub channels: usize,
    /// N, from 1 to [`MAX_STATE`](super::MAX_STATE).
    pub state: usize,
    /// G: channels `g * D/G .. (g + 1) * D/G` share the `B` and `C` of group g. G divides D.
    pub groups: usize,
    /// Whether `delta` goes through softplus.
    pub softplus: bool,
}

/// The arguments of one run: `y` and `final_state` are written, and the workspace.
#[derive(Debug)]
pub struct SelectiveScanLayerArgs<'a, T: Data> {
    /// Inputs, `[B, L, D]`.
    pub x: &'a Buffer<T>,
    /// Weight of `delta`, `[D, D]`.
    pub w_delta: &'a Buffer<T>,
    /// Weight of `B`, `[G * N, D]`; row `g * N + n` is state n of group g.
    pub w_b: &'a Buffer<T>,
    /// Weight of `C`, like `w_b`.
    pub w_c: &'a Buffer<T>,
    /// `A_log` or `A`, `[D, N]`.
    pub a: StateMatrix<'a>,
    /// Outputs, `[B, L, D]`.
    pub y: &'a mut Buffer<T>,
    /// Added to `delta` before softplus, `[D]`; `None` for zeros.
    pub delta_bias: Option<&'a Buffer<f32>>,
    /// `D_skip`, `[D]`; `None` for zeros.
    pub d_skip: Option<&'a Buffer<f32>>,
    /// Gate: outputs are multiplied by `silu(z)`, `[B, L, D]`.
    pub z: Option<&'a Buffer<T>>,
    /// Initial state, `[B, D, N]` (`[S, D, N]` with packed sequences); `None` for zeros.
    pub h0: Option<&'a Buffer<f32>>,
    /// Receives the last state, `[B, D, N]` (`[S, D, N]`).
    pub final_state: Option<&'a mut Buffer<f32>>,
    /// Packed sequences; B must be 1 and the last offset L.
    pub offsets: Option<&'a SequenceOffsets>,
    /// Where the projections go; `None` allocates it for this run, which on a GPU is then
    /// awaited. A caller with many runs keeps one.
    pub workspace: Option<&'a mut SelectiveScanWorkspace<T>>,
}

/// What the projections of a layer leave for its scan.
#[derive(Debug)]
pub struct SelectiveScanWorkspace<T: Data> {
    /// Step sizes after bias and softplus, `[B, L, D]`.
    pub delta: Buffer<T>,
    /// Input matrix B, `[B, L, G, N]`.
    pub b: Buffer<T>,
    /// Output matrix C, `[B, L, G, N]`.
    pub c: Buffer<T>,
}

impl<'a, T: Data> SelectiveScanLayerArgs<'a, T> {
    /// The arguments that every run has; the options are absent.
    pub fn new(
        x: &'a Buffer<T>,
        [w_delta, w_b, w_c]: [&'a Buffer<T>; 3],
        a: StateMatrix<'a>,
        y: &'a mut Buffer<T>,
    ) -> Self {
        Self {
            x,
            w_delta,
            w_b,
            w_c,
            a,
            y,
            delta_bias: None,
            d_skip: None,
            z: None,
            h0: None,
            final_state: None,
            offsets: None,
            workspace: None,
        }
    }
}

impl SelectiveScanLayer {
    /// A layer with one group and softplus.
    pub const fn new(batch: usize, length: usize, channels: usize, state: usize) -> Self {
        Self {
            batch,
            length,
            channels,
            state,
            groups: 1,
            softplus: true,
        }
    }

    /// The same layer with this many groups of channels.
    pub const fn groups(self, groups: usize) -> Self {
        Self { groups, ..self }
    }

    /// The same layer with or without softplus.
    pub const fn softplus(self, softplus: bool) -> Self {
        Self { softplus, ..self }
    }

    /// The scan behind the projections: `delta` has gone through bias and softplus.
    pub const fn scan(&self) -> SelectiveScan {
        SelectiveScan::new(self.batch, self.length, self.channels, self.state)
            .groups(self.groups)
            .softplus(false)
    }

    /// A workspace for runs of this layer.
    ///
    /// # Errors
    /// [`Error::TooLarge`], [`Error::OutOfMemory`], the device's error.
    pub fn workspace<T: Element>(&self, device: &Device) -> Result<SelectiveScanWorkspace<T>> {
        let scan = self.scan();
        Ok(SelectiveScanWorkspace {
            delta: device.alloc(scan.elements()?)?,
            b: device.alloc(scan.matrix_elements()?)?,
            c: device.alloc(scan.matrix_elements()?)?,
        })
    }

    /// Runs the layer. On a GPU it is started, not awaited: reading a buffer waits, and so
    /// does [`Device::synchronize`].
    ///
    /// # Errors
    /// [`Error::Length`], [`Error::Argument`], [`Error::WrongDevice`], [`Error::TooLarge`]
    /// before any output is touched; the device's error.
    pub fn run_with<T: Element>(
        &self,
        device: &Device,
        mut args: SelectiveScanLayerArgs<'_, T>,
    ) -> Result<()> {
        self.validate(device, &args)?;
        let mut own;
        let workspace = match args.workspace.take() {
            Some(workspace) => workspace,
            None => {
                own = self.workspace(device)?;
                &mut own
            }
        };
        let SelectiveScanWorkspace { delta, b, c } = workspace;
        let matrix = self.groups * self.state;
        let activation = match self.softplus {
            true => Activation::Softplus,
            false => Activation::Identity,
        };
        let part = |outputs, weight, out| ProjectionPart {
            outputs,
            weight,
            bias: None,
            activation: Activation::Identity,
            out,
        };
        let mut parts = [
            ProjectionPart {
                bias: args.delta_bias,
                activation,
                ..part(self.channels, args.w_delta, &mut *delta)
            },
            part(matrix, args.w_b, &mut *b),
            part(matrix, args.w_c, &mut *c),
        ];
        Projection::new(self.batch * self.length, self.channels).run(device, args.x, &mut parts)?;
        self.scan().run_with(
            device,
            SelectiveScanArgs {
                x: args.x,
                delta,
                a: args.a,
                b,
                c,
                y: args.y,
                d_skip: args.d_skip,
                delta_bias: None,
                z: args.z,
                h0: args.h0,
                final_state: args.final_state,
                offsets: args.offsets,
            },
        )
    }

    fn validate<T: Element>(
        &self,
        device: &Device,
        args: &SelectiveScanLayerArgs<'_, T>,
    ) -> Result<()> {
        let (d, n, g) = (self.channels, self.state, self.groups);
        let scan = self.scan();
        let check = Check {
            operation: NAME,
            device,
        };
        scan.check_common(
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
        let square = || format!("[D, D] = [{d}, {d}]");
        let matrix = || format!("[G * N, D] = [{}, {d}]", g.saturating_mul(n));
        let squares = check::product(NAME, &[d, d], square)?;
        let weights = check::product(NAME, &[g, n, d], matrix)?;
        check.buffer("W_delta", args.w_delta, squares, square)?;
        check.buffer("W_B", args.w_b, weights, matrix)?;
        check.buffer("W_C", args.w_c, weights, matrix)?;
        let (elements, matrices) = (scan.elements()?, scan.matrix_elements()?);
        let Some(workspace) = &args.workspace else {
            return Ok(());
        };
        check.buffer("workspace.delta", &workspace.delta, elements, || {
            scan.shape()
        })?;
        check.buffer("workspace.b", &workspace.b, matrices, || {
            scan.matrix_shape()
        })?;
        check.buffer("workspace.c", &workspace.c, matrices, || {
            scan.matrix_shape()
        })
    }
}
