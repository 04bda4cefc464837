//! Gradient of the dispatch: a combine without weights.
//!
//! `grad_hidden[t] = sum_k grad_packed[row(t, k)]` over the entries that were copied: not the
//! dropped ones, and not those whose row a later entry took. Summed in f32 with k ascending,
//! rounded once. Bytes: one read of each claimed row, one write of each token.

use super::Dispatch;
use super::check::Check;
use super::moe::{self, Index, Routing, Sizes, Status};
use crate::buffer::Buffer;
use crate::device::{Backend, Device};
use crate::dtype::{Data, Element};
#[cfg(doc)]
use crate::error::Error;
use crate::error::Result;
use crate::{cpu, launch};

const NAME: &str = "dispatch backward";

/// Descriptor of the gradient of one [`Dispatch`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DispatchBackward {
    /// The dispatch.
    pub dispatch: Dispatch,
}

/// The arguments of one run.
#[derive(Debug)]
pub struct DispatchBackwardArgs<'a, T: Data, I: Index = i32> {
    /// Gradient by the packed rows, `[R, H]`.
    pub grad_packed: &'a Buffer<T>,
    /// Where the tokens went.
    pub routing: Routing<'a, I>,
    /// Receives the gradient by the tokens, `[T, H]`.
    pub grad_hidden: &'a mut Buffer<T>,
    /// Receives what is wrong with the routing.
    pub status: &'a mut Status,
    /// Scratch memory, [`DispatchBackward::workspace_bytes`] or more; its contents do not
    /// matter. `None` where none is needed.
    pub workspace: Option<&'a mut Buffer<u8>>,
}

impl DispatchBackward {
    /// The gradient of `dispatch`.
    pub const fn new(dispatch: Dispatch) -> Self {
        Self { dispatch }
    }

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
            _ => launch::dispatch_backward::workspace_bytes(self),
        }
    }

    /// Computes the gradient and waits: `[T, H]`, or what is wrong with the routing.
    ///
    /// # Errors
    /// As [`run_with`](Self::run_with); [`Error::Argument`] naming the first fault.
    pub fn run<'a, T: Element, I: Index>(
        &self,
        device: &Device,
        grad_packed: &'a Buffer<T>,
        routing: impl Into<Routing<'a, I>>,
    ) -> Result<Buffer<T>> {
        let routing = routing.into();
        let mut workspace = device.alloc(self.workspace_bytes(device, &routing)?)?;
        let mut status = Status::new(device)?;
        let mut grad_hidden = device.alloc(self.sizes().token_elements()?)?;
        self.run_with(
            device,
            DispatchBackwardArgs {
                grad_packed,
                routing,
                grad_hidden: &mut grad_hidden,
                status: &mut status,
                workspace: Some(&mut workspace),
            },
        )?;
        status.finish()?;
        Ok(grad_hidden)
    }

    /// Computes the gradient. On a GPU it is started, not awaited, and may be captured in a
    /// graph; what is wrong with the routing is told by [`Status::finish`].
    ///
    /// # Errors
    /// [`Error::Length`], [`Error::Argument`], [`Error::WrongDevice`], [`Error::TooLarge`]
    /// before anything is touched; the device's error.
    pub fn run_with<T: Element, I: Index>(
        &self,
        device: &Device,
        args: DispatchBackwardArgs<'_, T, I>,
    ) -> Result<()> {
        let sizes = self.sizes();
        sizes.check()?;
        let check = Check {
            operation: NAME,
            device,
        };
        check.buffer(
            "grad_packed",
            args.grad_packed,
            sizes.row_elements()?,
            || sizes.row_shape(),
        )?;
        check.buffer(
            "grad_hidden",
            args.grad_hidden,
            sizes.token_elements()?,
            || sizes.token_shape(),
        )?;
        let bytes = self.workspace_bytes(device, &args.routing)?;
        moe::workspace(&check, args.workspace.as_deref(), bytes)?;
        sizes.routing(&check, &args.routing, args.status)?;
        match &device.backend {
            Backend::Cpu => cpu::dispatch_backward::run(self, args),
            Backend::Cuda(cuda) => launch::dispatch_backward::run(self, cuda.as_ref(), args),
            Backend::Emulated(device) => {
                launch::dispatch_backward::run(self, device.as_ref(), args)
            }
        }
    }

    pub(crate) fn sizes(&self) -> Sizes {
        Sizes {
            operation: NAME,
            ..self.dispatch.sizes()
        }
    }
}
