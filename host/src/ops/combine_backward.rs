//! Gradients of the combine: a dispatch with weights, and a dot product for each entry.
//!
//! ```text
//! grad_packed[row(t, k)] = w[t, k] * grad_out[t]              zero for rows nobody claims
//! grad_weights[t, k]     = sum_h packed[row(t, k), h] * grad_out[t, h]    zero if dropped
//! ```
//!
//! Products and sums in f32. Each row has at most one entry: a row that two entries read is a
//! fault of the routing here. Bytes: `packed` and `grad_out` read once, `grad_packed`
//! written once.

use super::Combine;
use super::check::Check;
use super::moe::{self, Index, Routing, Sizes, Status};
use crate::buffer::Buffer;
use crate::device::{Backend, Device};
use crate::dtype::{Data, Element};
#[cfg(doc)]
use crate::error::Error;
use crate::error::Result;
use crate::{cpu, launch};
use gpu_kernels::moe::status;

const NAME: &str = "combine backward";

/// Descriptor of the gradients of one [`Combine`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CombineBackward {
    /// The combine.
    pub combine: Combine,
}

/// The arguments of one run.
#[derive(Debug)]
pub struct CombineBackwardArgs<'a, T: Data, I: Index = i32> {
    /// Gradient by the tokens, `[T, H]`.
    pub grad_out: &'a Buffer<T>,
    /// The packed rows that were combined, `[R, H]`; only `grad_weights` needs them.
    pub packed: Option<&'a Buffer<T>>,
    /// Where each token's rows lie.
    pub routing: Routing<'a, I>,
    /// Weights of the combine, `[T, K]`; `None` for ones.
    pub weights: Option<&'a Buffer<f32>>,
    /// Receives the gradient by the packed rows, `[R, H]`, every row of it.
    pub grad_packed: &'a mut Buffer<T>,
    /// Receives the gradient by the weights, `[T, K]`.
    pub grad_weights: Option<&'a mut Buffer<f32>>,
    /// Receives what is wrong with the routing.
    pub status: &'a mut Status,
    /// Scratch memory, [`CombineBackward::workspace_bytes`] or more; its contents do not
    /// matter. `None` where none is needed.
    pub workspace: Option<&'a mut Buffer<u8>>,
}

impl CombineBackward {
    /// The gradients of `combine`.
    pub const fn new(combine: Combine) -> Self {
        Self { combine }
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
            _ => launch::combine_backward::workspace_bytes(self),
        }
    }

    /// Computes the gradients and waits: by the packed rows, `[R, H]`, and by the weights,
    /// `[T, K]`; or what is wrong with the routing.
    ///
    /// # Errors
    /// As [`run_with`](Self::run_with); [`Error::Argument`] naming the first fault.
    pub fn run<'a, T: Element, I: Index>(
        &self,
        device: &Device,
        grad_out: &'a Buffer<T>,
        packed: &'a Buffer<T>,
        routing: impl Into<Routing<'a, I>>,
        weights: Option<&'a Buffer<f32>>,
    ) -> Result<(Buffer<T>, Buffer<f32>)> {
        let routing = routing.into();
        let mut workspace = device.alloc(self.workspace_bytes(device, &routing)?)?;
        let mut status = Status::new(device)?;
        let mut grad_packed = device.alloc(self.sizes().row_elements()?)?;
        let mut grad_weights = device.alloc(self.sizes().entries())?;
        self.run_with(
            device,
            CombineBackwardArgs {
                grad_out,
                packed: Some(packed),
                routing,
                weights,
                grad_packed: &mut grad_packed,
                grad_weights: Some(&mut grad_weights),
                status: &mut status,
                workspace: Some(&mut workspace),
            },
        )?;
        status.finish()?;
        Ok((grad_packed, grad_weights))
    }

    /// Computes the gradients. On a GPU it is started, not awaited, and may be captured in a
    /// graph; what is wrong with the routing is told by [`Status::finish`].
    ///
    /// # Errors
    /// [`Error::Length`], [`Error::Argument`], [`Error::WrongDevice`], [`Error::TooLarge`]
    /// before anything is touched; the device's error.
    pub fn run_with<T: Element, I: Index>(
        &self,
        device: &Device,
        args: CombineBackwardArgs<'_, T, I>,
    ) -> Result<()> {
        let sizes = self.sizes();
        sizes.check()?;
        let check = Check {
            operation: NAME,
            device,
        };
        check.buffer("grad_out", args.grad_out, sizes.token_elements()?, || {
            sizes.token_shape()
        })?;
        if let Some(packed) = args.packed {
            check.buffer("packed", packed, sizes.row_elements()?, || {
                sizes.row_shape()
            })?;
        }
        if let Some(weights) = args.weights {
            check.buffer("weights", weights, sizes.entries(), || sizes.entry_shape())?;
        }
        check.buffer(
            "grad_packed",
            args.grad_packed,
            sizes.row_elements()?,
            || sizes.row_shape(),
        )?;
        if let Some(grad_weights) = &args.grad_weights {
            check.buffer("grad_weights", grad_weights, sizes.entries(), || {
                sizes.entry_shape()
            })?;
            if args.packed.is_none() {
                return Err(moe::missing(
                    NAME,
                    "packed",
                    "the packed rows, for `grad_weights`",
                ));
            }
        }
        let bytes = self.workspace_bytes(device, &args.routing)?;
        moe::workspace(&check, args.workspace.as_deref(), bytes)?;
        sizes.routing(&check, &args.routing, args.status)?;
        args.status.expect(status::CLAIMED, NAME, 0);
        match &device.backend {
            Backend::Cpu => cpu::combine_backward::run(self, args),
            Backend::Cuda(cuda) => launch::combine_backward::run(self, cuda.as_ref(), args),
            Backend::Emulated(device) => launch::combine_backward::run(self, device.as_ref(), args),
        }
    }

    pub(crate) fn sizes(&self) -> Sizes {
        Sizes {
            operation: NAME,
            ..self.combine.sizes()
        }
    }
}
