//! Gradients of the linear scan: a scan the other way, fused with the products.
//!
//! For a forward scan, with `g[L]` the gradient of the final state (zeros if absent):
//!
//! ```text
//! g[L-1]    = grad_h[L-1] + grad_final_state
//! g[t]      = grad_h[t] + a[t+1] * g[t+1]
//! grad_b[t] = g[t]
//! grad_a[t] = g[t] * h[t-1]          h[-1] = h0, or zeros
//! grad_h0   = a[0] * g[0]
//! ```
//!
//! and the mirror image for a reverse scan. One fused multiply-add in f32 a step carries
//! `g`; f16 and bf16 gradients are rounded to nearest when stored, the `g` that goes on is
//! not. `h` is what the scan stored.

use super::check::{self, Check, sequence_shape};
use super::{LinearScan, SequenceOffsets};
use crate::buffer::Buffer;
use crate::device::{Backend, Device};
use crate::dtype::{Data, Element};
#[cfg(doc)]
use crate::error::Error;
use crate::error::Result;
use crate::{cpu, launch};

const NAME: &str = "linear scan backward";

/// Descriptor of the gradients of one [`LinearScan`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinearScanBackward {
    /// The scan: its shape, layout and direction.
    pub scan: LinearScan,
}

/// The arguments of one run. `grad_a` and `grad_b` are written; `grad_h` absent means that
/// `grad_b` holds it and is overwritten in place.
#[derive(Debug)]
pub struct LinearScanBackwardArgs<'a, T: Data> {
    /// Gates of the scan, `[B, L, D]`.
    pub a: &'a Buffer<T>,
    /// States that the scan stored, `[B, L, D]`.
    pub h: &'a Buffer<T>,
    /// Gradient of the loss by `h`, `[B, L, D]`; `None` for the contents of `grad_b`.
    pub grad_h: Option<&'a Buffer<T>>,
    /// Receives the gradient by `a`, `[B, L, D]`.
    pub grad_a: &'a mut Buffer<T>,
    /// Receives the gradient by `b`, `[B, L, D]`.
    pub grad_b: &'a mut Buffer<T>,
    /// Initial state of the scan, `[B, D]` (`[S, D]` with packed sequences); `None` for zeros.
    pub h0: Option<&'a Buffer<f32>>,
    /// Gradient by the final state, `[B, D]` (`[S, D]`); `None` for zeros.
    pub grad_final_state: Option<&'a Buffer<f32>>,
    /// Receives the gradient by the initial state, `[B, D]` (`[S, D]`); of an empty sequence,
    /// that of the final state.
    pub grad_h0: Option<&'a mut Buffer<f32>>,
    /// Packed sequences, as in the scan.
    pub offsets: Option<&'a SequenceOffsets>,
}

impl LinearScanBackward {
    /// The gradients of `scan`.
    pub const fn new(scan: LinearScan) -> Self {
        Self { scan }
    }

    /// Computes the gradients. On a GPU they are started, not awaited, as
    /// [`LinearScan::run_with`] is.
    ///
    /// # Errors
    /// [`Error::Length`], [`Error::Argument`], [`Error::WrongDevice`], [`Error::TooLarge`]
    /// before anything is touched; the device's error.
    pub fn run_with<T: Element>(
        &self,
        device: &Device,
        args: LinearScanBackwardArgs<'_, T>,
    ) -> Result<()> {
        self.validate(device, &args)?;
        match &device.backend {
            Backend::Cpu => cpu::linear_scan_backward::run(&self.scan, args),
            Backend::Cuda(cuda) => {
                launch::linear_scan_backward::run(&self.scan, cuda.as_ref(), args)
            }
            Backend::Emulated(device) => {
                launch::linear_scan_backward::run(&self.scan, device.as_ref(), args)
            }
        }
    }

    fn validate<T: Element>(
        &self,
        device: &Device,
        args: &LinearScanBackwardArgs<'_, T>,
    ) -> Result<()> {
        let LinearScan {
            batch,
            length,
            channels,
            layout,
            ..
        } = self.scan;
        let elements = check::elements(NAME, layout, batch, length, channels)?;
        let shape = || sequence_shape(layout, batch, length, channels);
        let check = Check {
            operation: NAME,
            device,
        };
        check.buffer("a", args.a, elements, shape)?;
        check.buffer("h", args.h, elements, shape)?;
        if let Some(grad_h) = args.grad_h {
            check.buffer("grad_h", grad_h, elements, shape)?;
        }
        check.buffer("grad_a", args.grad_a, elements, shape)?;
        check.buffer("grad_b", args.grad_b, elements, shape)?;
        let states = check::states(NAME, batch, length, channels, args.offsets)?;
        if let Some(offsets) = args.offsets {
            check.device("cu_seqlens", offsets.buffer())?;
        }
        if let Some(h0) = args.h0 {
            check.buffer("h0", h0, states.elements, || states.shape())?;
        }
        if let Some(grad) = args.grad_final_state {
            check.buffer("grad_final_state", grad, states.elements, || states.shape())?;
        }
        if let Some(grad) = &args.grad_h0 {
            check.buffer("grad_h0", grad, states.elements, || states.shape())?;
        }
        Ok(())
    }
}
