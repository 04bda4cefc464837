//! What the host tells a linear-scan kernel.

use crate::simt::Global;

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
        let states = self.sequences.checked_mul(self.channels)?;
        let last = |count: u64, stride: u64| (count - 1).checked_mul(stride);
        let elements = if states == 0 || self.length == 0 {
            0
        } else {
            last(self.sequences, self.sequence_stride)?
                .checked_add(last(self.length, self.time_stride)?)?
                .checked_add(last(self.channels, self.channel_stride)?)?
                .checked_add(1)?
        };
        Some(Required {
            elements,
            states,
            offsets: self.sequences.checked_add(1)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn params(counts: [u64; 3], strides: [u64; 3]) -> LinearScanParams<f32> {
        LinearScanParams {
            a: Global::null(),
            b: Global::null(),
            h: Global::null(),
            h0: Global::null(),
            final_state: Global::null(),
            offsets: Global::null(),
            sequences: counts[0],
            length: counts[1],
            channels: counts[2],
            sequence_stride: strides[0],
            time_stride: strides[1],
            channel_stride: strides[2],
            reverse: 0,
            padding: 0,
        }
    }

    #[test]
    fn a_contiguous_tensor_requires_its_own_size() {
        let elements = |params: LinearScanParams<f32>| params.required().map(|r| r.elements);
        assert_eq!(elements(params([2, 3, 4], [12, 4, 1])), Some(24));
        assert_eq!(elements(params([2, 3, 4], [12, 1, 3])), Some(24));
        assert_eq!(elements(params([3, 6, 4], [0, 4, 1])), Some(24));
        assert_eq!(elements(params([2, 0, 4], [0, 4, 1])), Some(0));
        assert_eq!(elements(params([0, 3, 4], [12, 4, 1])), Some(0));
    }

    #[test]
    fn sizes_past_64_bits_are_not_wrapped() {
        assert_eq!(params([1 << 33, 2, 1 << 33], [0, 1, 1]).required(), None);
        assert_eq!(params([3, 2, 1], [1 << 63, 1, 1]).required(), None);
    }
}
