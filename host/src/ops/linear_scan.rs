//! Linear scan: `h[t] = a[t] * h[t-1] + b[t]`, channel by channel.
//!
//! The recurrence of linear RNNs, gated scans, HGRN and RG-LRU. Element by element, with
//! one fused multiply-add in f32 a step; f16 and bf16 sequences are rounded to nearest
//! when stored, the state that goes on is not.

use super::check::{self, Check, sequence_shape};
use super::{Layout, SequenceOffsets};
use crate::buffer::Buffer;
use crate::device::{Backend, Device};
use crate::dtype::{Data, Element};
#[cfg(doc)]
use crate::error::Error;
use crate::error::Result;
use crate::{cpu, launch};

const NAME: &str = "linear scan";

/// Descriptor of a linear scan over `a, b: [B, L, D]` (or `[B, D, L]`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinearScan {
    /// B.
    pub batch: usize,
    /// L, time steps.
    pub length: usize,
    /// D.
    pub channels: usize,
    /// How `a`, `b` and `h` lie in memory.
    pub layout: Layout,
    /// From the last time step to the first: `h[t] = a[t] * h[t+1] + b[t]`.
    pub reverse: bool,
}

/// The arguments of one run. `h` is written; `b` absent means that `h` holds the inputs
/// and is overwritten in place.
#[derive(Debug)]
pub struct LinearScanArgs<'a, T: Data> {
    /// Gates, `[B, L, D]`.
    pub a: &'a Buffer<T>,
    /// Inputs, `[B, L, D]`; `None` for the contents of `h`.
    pub b: Option<&'a Buffer<T>>,
    /// States, `[B, L, D]`.
    pub h: &'a mut Buffer<T>,
    /// Initial state, `[B, D]` (`[S, D]` with packed sequences); `None` for zeros.
    pub h0: Option<&'a Buffer<f32>>,
    /// Receives the last state, `[B, D]` (`[S, D]`); of an empty sequence, the initial one.
    pub final_state: Option<&'a mut Buffer<f32>>,
    /// Packed sequences; B must be 1 and the last offset L.
    pub offsets: Option<&'a SequenceOffsets>,
}

impl LinearScan {
    /// A forward scan in `[B, L, D]` layout.
    pub const fn new(batch: usize, length: usize, channels: usize) -> Self {
        Self {
            batch,
            length,
            channels,
            layout: Layout::Bld,
            reverse: false,
        }
    }

    /// The same scan over another memory layout.
    pub const fn layout(self, layout: Layout) -> Self {
        Self { layout, ..self }
    }

    /// The same scan from the last time step to the first.
    pub const fn reverse(self, reverse: bool) -> Self {
        Self { reverse, ..self }
    }

    /// Elements of `a`, `b` and `h`.
    ///
    /// # Errors
    /// [`Error::TooLarge`].
    pub fn elements(&self) -> Result<usize> {
        check::elements(NAME, self.layout, self.batch, self.length, self.channels)
    }

    /// Runs the scan with zero initial state: [`run_with`](Self::run_with) without options.
    ///
    /// # Errors
    /// As [`run_with`](Self::run_with).
    pub fn run<T: Element>(
        &self,
        device: &Device,
        a: &Buffer<T>,
        b: &Buffer<T>,
        h: &mut Buffer<T>,
    ) -> Result<()> {
        self.run_with(
            device,
            LinearScanArgs {
                a,
                b: Some(b),
                h,
                h0: None,
                final_state: None,
                offsets: None,
            },
        )
    }

    /// Runs the scan. On a GPU it is started, not awaited: reading a buffer waits, and so
    /// does [`Device::synchronize`].
    ///
    /// # Errors
    /// [`Error::Length`], [`Error::Argument`], [`Error::WrongDevice`], [`Error::TooLarge`]
    /// before anything is touched; the device's error.
    pub fn run_with<T: Element>(&self, device: &Device, args: LinearScanArgs<'_, T>) -> Result<()> {
        self.validate(device, &args)?;
        match &device.backend {
            Backend::Cpu => cpu::linear_scan::run(self, args),
            Backend::Cuda(cuda) => launch::linear_scan::run(self, cuda.as_ref(), args),
            Backend::Emulated(device) => launch::linear_scan::run(self, device.as_ref(), args),
        }
    }

    /// Checks packed sequences against this shape, as [`run_with`](Self::run_with) does.
    ///
    /// # Errors
    /// [`Error::Argument`] unless B is 1 and the last offset L; [`Error::TooLarge`].
    pub fn check_offsets(&self, offsets: Option<&SequenceOffsets>) -> Result<()> {
        self.elements()?;
        check::states(NAME, self.batch, self.length, self.channels, offsets).map(drop)
    }

    /// Sequences that are scanned: B, or S with packed sequences.
    pub(crate) fn sequences(&self, offsets: Option<&SequenceOffsets>) -> usize {
        offsets.map_or(self.batch, SequenceOffsets::sequences)
    }

    fn shape(&self) -> String {
        sequence_shape(self.layout, self.batch, self.length, self.channels)
    }

    fn validate<T: Element>(&self, device: &Device, args: &LinearScanArgs<'_, T>) -> Result<()> {
        let elements = self.elements()?;
        let check = Check {
            operation: NAME,
            device,
        };
        check.buffer("a", args.a, elements, || self.shape())?;
        if let Some(b) = args.b {
            check.buffer("b", b, elements, || self.shape())?;
        }
        check.buffer("h", args.h, elements, || self.shape())?;
        let states = check::states(NAME, self.batch, self.length, self.channels, args.offsets)?;
        if let Some(offsets) = args.offsets {
            check.device("cu_seqlens", offsets.buffer())?;
        }
        if let Some(h0) = args.h0 {
            check.buffer("h0", h0, states.elements, || states.shape())?;
        }
        if let Some(final_state) = &args.final_state {
            check.buffer("final_state", final_state, states.elements, || {
                states.shape()
            })?;
        }
        Ok(())
    }
}
