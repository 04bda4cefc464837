//! Combine: the weighted inverse of the dispatch.
//!
//! `out[t] = sum_k w[t, k] * packed[row(t, k)]` over the entries that are not dropped: one
//! fused multiply-add in f32 for each (an addition without weights), k ascending, rounded
//! once when stored. The first kept entry starts the sum, so that a single one keeps the
//! sign of its zeros; the sum of none is 0.
//!
//! The byte floor is one read of each claimed row and one write of each token,
//! `(T * K + T) * H` elements; the operations, `T * K * H` of them, are nothing beside it.

use super::check::Check;
use super::moe::{Index, Routing, Sizes, Status};
use crate::buffer::Buffer;
use crate::device::{Backend, Device};
use crate::dtype::{Data, Element};
#[cfg(doc)]
use crate::error::Error;
use crate::error::Result;
use crate::{cpu, launch};

const NAME: &str = "combine";

/// Descriptor of a combine from `packed: [R, H]` to `out: [T, H]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Combine {
    /// T.
    pub tokens: usize,
    /// K, rows of a token.
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
pub struct CombineArgs<'a, T: Data, I: Index = i32> {
    /// Packed rows, `[R, H]`.
    pub packed: &'a Buffer<T>,
    /// Where each token's rows lie. Two entries may share a row.
    pub routing: Routing<'a, I>,
    /// Weights, `[T, K]`; `None` for ones. Those of dropped entries are not used.
    pub weights: Option<&'a Buffer<f32>>,
    /// Receives the tokens, `[T, H]`.
    pub out: &'a mut Buffer<T>,
    /// Receives what is wrong with the routing.
    pub status: &'a mut Status,
}

impl Combine {
    /// Combines and waits: the tokens, `[T, H]`, or what is wrong with the routing.
    ///
    /// # Errors
    /// As [`run_with`](Self::run_with); [`Error::Argument`] naming the first fault.
    pub fn run<'a, T: Element, I: Index>(
        &self,
        device: &Device,
        packed: &'a Buffer<T>,
        routing: impl Into<Routing<'a, I>>,
        weights: Option<&'a Buffer<f32>>,
    ) -> Result<Buffer<T>> {
        let sizes = self.sizes();
        sizes.check()?;
        let mut status = Status::new(device)?;
        let mut out = device.alloc(sizes.token_elements()?)?;
        self.run_with(
            device,
            CombineArgs {
                packed,
                routing: routing.into(),
                weights,
                out: &mut out,
                status: &mut status,
            },
        )?;
        status.finish()?;
        Ok(out)
    }

    /// Combines. On a GPU it is started, not awaited, and may be captured in a graph; what
    /// is wrong with the routing is told by [`Status::finish`].
    ///
    /// # Errors
    /// [`Error::Length`], [`Error::Argument`], [`Error::WrongDevice`], [`Error::TooLarge`]
    /// before anything is touched; the device's error.
    pub fn run_with<T: Element, I: Index>(
        &self,
        device: &Device,
        args: CombineArgs<'_, T, I>,
    ) -> Result<()> {
        let sizes = self.sizes();
        sizes.check()?;
        let check = Check {
            operation: NAME,
            device,
        };
        check.buffer("packed", args.packed, sizes.row_elements()?, || {
            sizes.row_shape()
        })?;
        if let Some(weights) = args.weights {
            check.buffer("weights", weights, sizes.entries(), || sizes.entry_shape())?;
        }
        check.buffer("out", args.out, sizes.token_elements()?, || {
            sizes.token_shape()
        })?;
        sizes.routing(&check, &args.routing, args.status)?;
        match &device.backend {
            Backend::Cpu => cpu::combine::run(self, args),
            Backend::Cuda(cuda) => launch::combine::run(self, cuda.as_ref(), args),
            Backend::Emulated(device) => launch::combine::run(self, device.as_ref(), args),
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
