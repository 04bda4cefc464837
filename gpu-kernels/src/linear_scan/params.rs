//! What the host tells a linear-scan kernel.

use crate::simt::{Global, Plain};

/// Parameters of one launch over `[sequences, length, channels]`, or with the last two
/// exchanged for the kernels over columns. All arrays begin on 16-byte boundaries.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct LinearScanParams<T> {
    /// Gates.
    pub a: Global<T>,
    /// Inputs.
    pub b: Global<T>,
    /// States, written; may be `b`'s array.
    pub h: Global<T>,
    /// `[sequences, channels]`, or null for zeros.
    pub h0: Global<f32>,
    /// `[sequences, channels]`, written; or null.
    pub final_state: Global<f32>,
    /// `[sequences + 1]` first time steps of packed sequences, or null.
    pub offsets: Global<i64>,
    /// The look-back's memory; null if no sequence has more than one tile.
    pub scratch: Global<u64>,
    /// Time steps of each sequence, or of all of them together with `offsets`.
    pub length: u64,
    /// Channels.
    pub channels: u64,
    /// Sequences.
    pub sequences: u32,
    /// Groups of channels, one tile wide.
    pub groups: u32,
    /// Tiles of a group, all sequences together.
    pub tiles: u32,
    /// Tiles of a sequence (unused with `offsets`).
    pub tiles_per_sequence: u32,
    /// Time steps of a segment: 2 to this power.
    pub log2_steps: u32,
    /// Lanes of a tile: 2 to this power.
    pub log2_lanes: u32,
    /// Most tiles that the look-back steps through.
    pub window: u32,
    /// 1: from the last time step to the first.
    pub reverse: u32,
}

/// What the gradient scan has besides. The scan's own parameters mean: `a` the gates, `b`
/// the gradient by the states, `h` receives that by the inputs, `h0` that by the final
/// state, `final_state` receives that by the initial state, `reverse` the other direction.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Gradients<T> {
    /// States that the forward scan stored.
    pub states: Global<T>,
    /// Gradient by the gates, written.
    pub grad_a: Global<T>,
    /// Initial state of the forward scan, `[sequences, channels]`; or null for zeros.
    pub h0: Global<f32>,
}

impl<T: Plain> Gradients<T> {
    /// Of a scan without gradients.
    pub const NONE: Self = Self {
        states: Global::null(),
        grad_a: Global::null(),
        h0: Global::null(),
    };
}

/// Parameters of one launch of the gradient scan.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct LinearScanBackwardParams<T> {
    /// The scan that carries the gradient.
    pub scan: LinearScanParams<T>,
    /// What it has besides.
    pub gradients: Gradients<T>,
}

/// Elements that each array must have for a launch to stay inside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Required {
    /// Of `a`, `b` and `h`.
    pub elements: u64,
    /// Of `h0` and `final_state`.
    pub states: u64,
    /// Of `offsets`, whose own values must lie within 0 to `length`.
    pub offsets: u64,
}

impl<T> LinearScanParams<T> {
    /// What the kernel may access with these parameters; `None` if it is more than 64 bits count.
    pub fn required(&self) -> Option<Required> {
        let sequences = u64::from(self.sequences);
        let states = sequences.checked_mul(self.channels)?;
        // Packed sequences are one batch element of `length` time steps.
        let batch = if self.offsets.is_null() {
            sequences
        } else {
            sequences.min(1)
        };
        let elements = if batch == 0 || self.length == 0 || self.channels == 0 {
            0
        } else {
            batch.checked_mul(self.length)?.checked_mul(self.channels)?
        };
        Some(Required {
            elements,
            states,
            offsets: sequences + 1,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn params(sequences: u32, length: u64, channels: u64) -> LinearScanParams<f32> {
        LinearScanParams {
            a: Global::null(),
            b: Global::null(),
            h: Global::null(),
            h0: Global::null(),
            final_state: Global::null(),
            offsets: Global::null(),
            scratch: Global::null(),
            length,
            channels,
            sequences,
            groups: 0,
            tiles: 0,
            tiles_per_sequence: 0,
            log2_steps: 0,
            log2_lanes: 0,
            window: 0,
            reverse: 0,
        }
    }

    #[test]
    fn a_contiguous_tensor_requires_its_own_size() {
        let elements = |params: LinearScanParams<f32>| params.required().map(|r| r.elements);
        assert_eq!(elements(params(2, 3, 4)), Some(24));
        let packed = LinearScanParams {
            offsets: Global::from_address(16),
            ..params(3, 6, 4)
        };
        assert_eq!(elements(packed), Some(24));
        assert_eq!(elements(params(2, 0, 4)), Some(0));
        assert_eq!(elements(params(0, 3, 4)), Some(0));
    }

    #[test]
    fn sizes_past_64_bits_are_not_wrapped() {
        assert_eq!(params(1, 1 << 33, 1 << 33).required(), None);
        assert_eq!(
            params(3, 1 << 62, 1).required().map(|r| r.elements),
            Some(3 << 62)
        );
        assert_eq!(params(4, 1 << 62, 1).required(), None);
    }
}
