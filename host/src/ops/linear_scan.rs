//! Linear scan: `h[t] = a[t] * h[t-1] + b[t]`, channel by channel.
//!
//! The recurrence of linear RNNs, gated scans, HGRN and RG-LRU. Element by element, with
//! one fused multiply-add in f32 a step; f16 and bf16 sequences are rounded to nearest
//! when stored, the state that goes on is not.

use super::{Layout, SequenceOffsets};
use crate::buffer::Buffer;
use crate::device::{Backend, Device};
use crate::dtype::{Data, Element};
use crate::error::{Error, Result};
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
        self.batch
            .checked_mul(self.length)
            .and_then(|n| n.checked_mul(self.channels))
            .filter(|n| {
                n.checked_mul(8)
                    .is_some_and(|bytes| isize::try_from(bytes).is_ok())
            })
            .ok_or_else(|| Error::TooLarge {
                operation: NAME,
                shape: self.shape(),
            })
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

    /// Sequences that are scanned: B, or S with packed sequences.
    pub(crate) fn sequences(&self, offsets: Option<&SequenceOffsets>) -> usize {
        offsets.map_or(self.batch, SequenceOffsets::sequences)
    }

    fn shape(&self) -> String {
        match self.layout {
            Layout::Bld => {
                format!(
                    "[B, L, D] = [{}, {}, {}]",
                    self.batch, self.length, self.channels
                )
            }
            Layout::Bdl => {
                format!(
                    "[B, D, L] = [{}, {}, {}]",
                    self.batch, self.channels, self.length
                )
            }
        }
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
        if let Some(offsets) = args.offsets {
            if self.batch != 1 {
                return Err(Error::Argument {
                    operation: NAME,
                    argument: "batch",
                    found: self.batch.to_string(),
                    expected: "1, with packed sequences".to_owned(),
                });
            }
            if offsets.total() != self.length {
                return Err(Error::Argument {
                    operation: NAME,
                    argument: "cu_seqlens",
                    found: format!("{} at the end", offsets.total()),
                    expected: format!("{}, the length L", self.length),
                });
            }
            check.device("cu_seqlens", offsets.buffer())?;
        }
        let sequences = self.sequences(args.offsets);
        let states = sequences
            .checked_mul(self.channels)
            .ok_or_else(|| Error::TooLarge {
                operation: NAME,
                shape: self.shape(),
            })?;
        let name = if args.offsets.is_some() { "S" } else { "B" };
        let shape = || format!("[{name}, D] = [{sequences}, {}]", self.channels);
        if let Some(h0) = args.h0 {
            check.buffer("h0", h0, states, shape)?;
        }
        if let Some(final_state) = &args.final_state {
            check.buffer("final_state", final_state, states, shape)?;
        }
        Ok(())
    }
}

/// The checks every operation makes of a buffer.
pub(crate) struct Check<'a> {
    pub operation: &'static str,
    pub device: &'a Device,
}

impl Check<'_> {
    pub(crate) fn buffer<T: Data>(
        &self,
        argument: &'static str,
        buffer: &Buffer<T>,
        expected: usize,
        shape: impl FnOnce() -> String,
    ) -> Result<()> {
        self.device(argument, buffer)?;
        if buffer.len() == expected {
            return Ok(());
        }
        Err(Error::Length {
            operation: self.operation,
            argument,
            found: buffer.len(),
            expected,
            shape: shape(),
        })
    }

    pub(crate) fn device<T: Data>(&self, argument: &'static str, buffer: &Buffer<T>) -> Result<()> {
        if buffer.device() == self.device {
            return Ok(());
        }
        Err(Error::WrongDevice {
            operation: self.operation,
            argument,
            found: buffer.device().to_string(),
            expected: self.device.to_string(),
        })
    }
}
