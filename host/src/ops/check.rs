//! The checks the operations share: lengths, devices, packed sequences, sizes.

use super::{Layout, SequenceOffsets};
use crate::buffer::Buffer;
use crate::device::Device;
use crate::dtype::Data;
use crate::error::{Error, Result};

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

/// Checks packed sequences, and gives what the state tensors of an operation must hold.
pub(crate) fn states(
    operation: &'static str,
    batch: usize,
    length: usize,
    channels: usize,
    offsets: Option<&SequenceOffsets>,
) -> Result<States> {
    if let Some(offsets) = offsets {
        if batch != 1 {
            return Err(Error::Argument {
                operation,
                argument: "batch",
                found: batch.to_string(),
                expected: "1, with packed sequences".to_owned(),
            });
        }
        if offsets.total() != length {
            return Err(Error::Argument {
                operation,
                argument: "cu_seqlens",
                found: format!("{} at the end", offsets.total()),
                expected: format!("{length}, the length L"),
            });
        }
    }
    let packed = offsets.is_some();
    let sequences = offsets.map_or(batch, SequenceOffsets::sequences);
    let mut states = States {
        packed,
        sequences,
        channels,
        size: None,
        elements: 0,
    };
    states.elements = sequences
        .checked_mul(channels)
        .ok_or_else(|| Error::TooLarge {
            operation,
            shape: states.shape(),
        })?;
    Ok(states)
}

/// The shape of a state tensor: one row a sequence.
pub(crate) struct States {
    packed: bool,
    sequences: usize,
    channels: usize,
    /// N, for states that are vectors.
    size: Option<usize>,
    pub elements: usize,
}

impl States {
    /// The same with N numbers a channel.
    pub(crate) fn of_size(mut self, operation: &'static str, size: usize) -> Result<Self> {
        self.size = Some(size);
        self.elements = product(operation, &[self.sequences, self.channels, size], || {
            self.shape()
        })?;
        Ok(self)
    }

    pub(crate) fn shape(&self) -> String {
        let name = if self.packed { "S" } else { "B" };
        let (sequences, channels) = (self.sequences, self.channels);
        match self.size {
            Some(size) => format!("[{name}, D, N] = [{sequences}, {channels}, {size}]"),
            None => format!("[{name}, D] = [{sequences}, {channels}]"),
        }
    }
}

/// The product of a shape's sizes, if that many 8-byte elements have addresses.
pub(crate) fn product(
    operation: &'static str,
    factors: &[usize],
    shape: impl FnOnce() -> String,
) -> Result<usize> {
    let addressable = |n: &usize| {
        n.checked_mul(8)
            .is_some_and(|bytes| isize::try_from(bytes).is_ok())
    };
    factors
        .iter()
        .try_fold(1usize, |n, &factor| n.checked_mul(factor))
        .filter(addressable)
        .ok_or_else(|| Error::TooLarge {
            operation,
            shape: shape(),
        })
}

/// B x L x D, if that many 8-byte elements have addresses.
pub(crate) fn elements(
    operation: &'static str,
    layout: Layout,
    batch: usize,
    length: usize,
    channels: usize,
) -> Result<usize> {
    product(operation, &[batch, length, channels], || {
        sequence_shape(layout, batch, length, channels)
    })
}

/// Rows x H, if that many 8-byte elements have addresses.
pub(crate) fn rows_elements(
    operation: &'static str,
    rows: usize,
    hidden: usize,
    shape: impl FnOnce() -> String,
) -> Result<usize> {
    rows.checked_mul(hidden)
        .filter(|n| {
            n.checked_mul(8)
                .is_some_and(|bytes| isize::try_from(bytes).is_ok())
        })
        .ok_or_else(|| Error::TooLarge {
            operation,
            shape: shape(),
        })
}

/// For messages: `[B, L, D] = [2, 3, 4]`.
pub(crate) fn sequence_shape(
    layout: Layout,
    batch: usize,
    length: usize,
    channels: usize,
) -> String {
    match layout {
        Layout::Bld => format!("[B, L, D] = [{batch}, {length}, {channels}]"),
        Layout::Bdl => format!("[B, D, L] = [{batch}, {channels}, {length}]"),
    }
}
