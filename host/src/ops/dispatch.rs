//! Dispatch: copies each token's row to the packed rows of its experts.
//!
//! `packed[row(t, k)] = hidden[t]`, bit for bit. Every row of `packed` is written: rows that
//! nobody claims are zero, and of two entries that claim one row the later one wins.
//!
//! Pure copying: the byte floor is one read of each token that is kept and one write of
//! each packed row, `(T + R) * H` elements.

use super::check::Check;
use super::moe::{self, Index, Payload, Routing, Sizes, Status};
use crate::buffer::Buffer;
use crate::device::{Backend, Device};
#[cfg(doc)]
use crate::error::Error;
use crate::error::Result;
use crate::{cpu, launch};

const NAME: &str = "dispatch";

/// Descriptor of a dispatch from `hidden: [T, H]` to `packed: [R, H]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dispatch {
    /// T.
    pub tokens: usize,
    /// K, copies of a token.
    pub top_k: usize,
    /// E.
    pub experts: usize,
    /// H, elements of a row.
    pub hidden: usize,
    /// R, rows of `packed`: `expert_offsets[E]` or more, less than 2^31.
    pub rows: usize,
}

/// The arguments of one run.
#[derive(Debug)]
pub struct DispatchArgs<'a, T: Payload, I: Index = i32> {
    /// Tokens, `[T, H]`.
    pub hidden: &'a Buffer<T>,
    /// Where they go.
    pub routing: Routing<'a, I>,
    /// Receives the packed rows, `[R, H]`. On a fault of the routing, `Slots` leave it as it was.
    pub packed: &'a mut Buffer<T>,
    /// Receives what is wrong with the routing.
    pub status: &'a mut Status,
    /// Scratch memory, [`Dispatch::workspace_bytes`] or more; its contents do not matter.
    /// `None` where none is needed.
    pub workspace: Option<&'a mut Buffer<u8>>,
}

impl Dispatch {
    /// Bytes of scratch memory that a run on `device` needs with this routing: none with
    /// a plan.
    ///
    /// # Errors
    /// As [`run_with`](Self::run_with), for the sizes.
    pub fn workspace_bytes<I: Index>(
        &self,
        device: &Device,
        routing: &Routing<'_, I>,
    ) -> Result<usize> {
        self.sizes().check()?;
        match (&device.backend, routing) {
            (Backend::Cpu, _) | (_, Routing::Plan(_)) => Ok(0),
            _ => launch::dispatch::workspace_bytes(self),
        }
    }

    /// Dispatches and waits: the packed rows, `[R, H]`, or what is wrong with the routing.
    ///
    /// # Errors
    /// As [`run_with`](Self::run_with); [`Error::Argument`] naming the first fault.
    pub fn run<'a, T: Payload, I: Index>(
        &self,
        device: &Device,
        hidden: &'a Buffer<T>,
        routing: impl Into<Routing<'a, I>>,
    ) -> Result<Buffer<T>> {
        let routing = routing.into();
        let bytes = self.workspace_bytes(device, &routing)?;
        let mut workspace = device.alloc(bytes)?;
        let mut status = Status::new(device)?;
        let mut packed = device.alloc(self.sizes().row_elements()?)?;
        self.run_with(
            device,
            DispatchArgs {
                hidden,
                routing,
                packed: &mut packed,
                status: &mut status,
                workspace: Some(&mut workspace),
            },
        )?;
        status.finish()?;
        Ok(packed)
    }

    /// Dispatches. On a GPU it is started, not awaited, and may be captured in a graph; what
    /// is wrong with the routing is told by [`Status::finish`].
    ///
    /// # Errors
    /// [`Error::Length`], [`Error::Argument`], [`Error::WrongDevice`], [`Error::TooLarge`]
    /// before anything is touched; the device's error.
    pub fn run_with<T: Payload, I: Index>(
        &self,
        device: &Device,
        args: DispatchArgs<'_, T, I>,
    ) -> Result<()> {
        let sizes = self.sizes();
        sizes.check()?;
        let check = Check {
            operation: NAME,
            device,
        };
        check.buffer("hidden", args.hidden, sizes.token_elements()?, || {
            sizes.token_shape()
        })?;
        check.buffer("packed", args.packed, sizes.row_elements()?, || {
            sizes.row_shape()
        })?;
        let bytes = self.workspace_bytes(device, &args.routing)?;
        moe::workspace(&check, args.workspace.as_deref(), bytes)?;
        sizes.routing(&check, &args.routing, args.status)?;
        match &device.backend {
            Backend::Cpu => cpu::dispatch::run(self, args),
            Backend::Cuda(cuda) => launch::dispatch::run(self, cuda.as_ref(), args),
            Backend::Emulated(device) => launch::dispatch::run(self, device.as_ref(), args),
        }
    }

    pub(crate) fn sizes(&self) -> Sizes {
        Sizes {
            operation: NAME,
            tokens: self.tokens,
            top_k: self.top_k,
            experts: self.experts,
            hidden: self.hidden,
            rows: self.rows,
        }
    }
}
