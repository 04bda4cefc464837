//! What the host tells a linear-scan kernel.

use crate::simt::Global;

/// Parameters of one launch. An element of sequence `s` at time `t` in channel `d` stands
/// at `s * sequence_stride + t * time_stride + d * channel_stride`.
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
    /// `[sequences + 1]` first rows of packed sequences in one batch element, or null.
    pub offsets: Global<i64>,
    /// Sequences.
    pub sequences: u64,
    /// Rows of each sequence, unless `offsets` says otherwise.
    pub length: u64,
    /// Channels.
    pub channels: u64,
    /// Elements from one batch element to the next (0 with `offsets`).
    pub sequence_stride: u64,
    /// Elements from one row to the next.
    pub time_stride: u64,
    /// Elements from one channel to the next.
    pub channel_stride: u64,
    /// 1: from the last row to the first.
    pub reverse: u32,
    /// Unused; keeps the size a multiple of 8.
    pub padding: u32,
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
