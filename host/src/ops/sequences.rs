//! What the sequence operations share: memory layouts and packed sequences.

use crate::buffer::Buffer;
use crate::device::Device;
use crate::error::{Error, Result};

/// How a `[B, L, D]` tensor lies in memory. Always contiguous.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Layout {
    /// `[B, L, D]`: the channels of one time step are neighbours.
    #[default]
    Bld,
    /// `[B, D, L]`: the time steps of one channel are neighbours.
    Bdl,
}

/// Where packed sequences begin and end along L (`cu_seqlens`), checked once and kept
/// on the device.
///
/// Sequence `s` is the time steps `offsets[s] .. offsets[s + 1]`; each starts from its
/// own initial state. With packed sequences the batch is 1.
#[derive(Debug)]
pub struct SequenceOffsets {
    host: Vec<i64>,
    buffer: Buffer<i64>,
}

impl SequenceOffsets {
    /// Takes `[S + 1]` offsets: the first 0, none smaller than the one before it.
    ///
    /// # Errors
    /// [`Error::Argument`] naming the first offset that is wrong; the device's error.
    pub fn new(device: &Device, offsets: &[i64]) -> Result<Self> {
        let wrong = |found: String, expected: &str| Error::Argument {
            operation: "sequence offsets",
            argument: "cu_seqlens",
            found,
            expected: expected.to_owned(),
        };
        match offsets.first() {
            None => return Err(wrong("empty".to_owned(), "S + 1 offsets, at least one")),
            Some(0) => {}
            Some(first) => return Err(wrong(format!("{first} at position 0"), "0 there")),
        }
        if let Some(at) = offsets.windows(2).position(|pair| pair[0] > pair[1]) {
            let found = format!("{} at position {}", offsets[at + 1], at + 1);
            return Err(wrong(
                found,
                &format!("at least {}, the one before it", offsets[at]),
            ));
        }
        Ok(Self {
            host: offsets.to_vec(),
            buffer: device.upload(offsets)?,
        })
    }

    /// Number of sequences S.
    pub fn sequences(&self) -> usize {
        self.host.len() - 1
    }

    /// The last offset: time steps of all sequences together.
    pub fn total(&self) -> usize {
        self.host[self.host.len() - 1] as usize
    }

    /// The offsets, on the host.
    pub fn as_slice(&self) -> &[i64] {
        &self.host
    }

    /// The offsets, on the device.
    pub fn buffer(&self) -> &Buffer<i64> {
        &self.buffer
    }
}
