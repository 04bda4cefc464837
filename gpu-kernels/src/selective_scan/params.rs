//! What the host tells the selective scan's kernels.

use crate::simt::Global;

/// Bits of `options`.
pub mod options {
    /// `delta` goes through softplus.
    pub const SOFTPLUS: u32 = 1;
    /// `a` holds `A_log`.
    pub const LOG: u32 = 2;
}

/// Parameters of one launch over `[sequences, length, channels]`, or with the last two
/// exchanged for the kernels over columns. All arrays begin on 16-byte boundaries.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct SelectiveScanParams<T> {
    /// Inputs.
    pub x: Global<T>,
    /// Step sizes before bias and softplus.
    pub delta: Global<T>,
    /// Gate, or null.
    pub z: Global<T>,
    /// Outputs, written; may be the array of `x`, `delta` or `z` if no sequence is split.
    pub y: Global<T>,
    /// Input matrices, `[sequences, length, groups, states]` (columns: length last).
    pub b: Global<T>,
    /// Output matrices, like `b`.
    pub c: Global<T>,
    /// `A_log` or A, `[channels, states]`.
    pub a: Global<f32>,
    /// `[channels]`, or null.
    pub d_skip: Global<f32>,
    /// `[channels]`, or null.
    pub delta_bias: Global<f32>,
    /// `[sequences, channels, states]`, or null for zeros.
    pub h0: Global<f32>,
    /// `[sequences, channels, states]`, written; or null.
    pub final_state: Global<f32>,
    /// `[sequences + 1]` first time steps of packed sequences, or null.
    pub offsets: Global<i64>,
    /// Two words, and two for each block of a segment: a counter, zero between launches, and `call` if its
    /// channels are done; or null, if no sequence is split.
    pub counters: Global<u64>,
    /// What stands for "done" there: not 0, and of each call another, so that the launch behind
    /// this one does not take another call's word for its own.
    pub call: u64,
    /// The states between segments. What is in it is left over.
    pub between: Global<f32>,
    /// Time steps of each sequence, or of all of them together with `offsets`.
    pub length: u64,
    /// Channels of a group.
    pub group_channels: u64,
    /// Sequences.
    pub sequences: u32,
    /// Groups of channels that share `b` and `c`.
    pub groups: u32,
    /// Blocks of a group.
    pub channel_blocks: u32,
    /// States of a channel, at most `LANE_STATES << log2_lanes`.
    pub states: u32,
    /// Lanes of a channel: 2 to this power.
    pub log2_lanes: u32,
    /// Channels of a block: 2 to this power.
    pub log2_channels: u32,
    /// [`options`].
    pub options: u32,
    /// Segments of each sequence, if it is split; else 1.
    pub segments: u32,
    /// Tiles of a segment but the last.
    pub segment_tiles: u32,
    /// Nothing: every byte of the struct has a value.
    pub padding: u32,
}

/// Parameters of one step over `[batch, channels]`. All arrays begin on 16-byte boundaries.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct SelectiveScanStepParams<T> {
    /// States, `[batch, channels, states]`, updated.
    pub state: Global<f32>,
    /// Inputs.
    pub x: Global<T>,
    /// Step sizes before bias and softplus.
    pub delta: Global<T>,
    /// Gate, or null.
    pub z: Global<T>,
    /// Outputs, written; may be the array of `x`, `delta` or `z`.
    pub y: Global<T>,
    /// Input matrices, `[batch, groups, states]`.
    pub b: Global<T>,
    /// Output matrices, like `b`.
    pub c: Global<T>,
    /// `A_log` or A, `[channels, states]`.
    pub a: Global<f32>,
    /// `[channels]`, or null.
    pub d_skip: Global<f32>,
    /// `[channels]`, or null.
    pub delta_bias: Global<f32>,
    /// Batch elements.
    pub batch: u64,
    /// Channels of a group.
    pub group_channels: u64,
    /// Groups of channels that share `b` and `c`.
    pub groups: u32,
    /// Blocks that all channels of one batch element take.
    pub channel_blocks: u32,
    /// States of a channel, at most `LANE_STATES << log2_lanes`.
    pub states: u32,
    /// Lanes of a channel: 2 to this power.
    pub log2_lanes: u32,
    /// [`options`].
    pub options: u32,
    /// Nothing: every byte of the struct has a value.
    pub padding: u32,
}

/// Elements that each array must have for a launch to stay inside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Required {
    /// Of `x`, `delta`, `z` and `y`.
    pub elements: u64,
    /// Of `b` and `c`.
    pub matrices: u64,
    /// Of `a`.
    pub parameters: u64,
    /// Of `d_skip` and `delta_bias`.
    pub channels: u64,
    /// Of `h0` and `final_state`, or of `state`.
    pub states: u64,
    /// Of `offsets`, whose own values must lie within 0 to `length`.
    pub offsets: u64,
}

/// `rows` rows, and `sequences` sequences, of groups of channels.
fn required(
    rows: u64,
    sequences: u64,
    groups: u32,
    group_channels: u64,
    states: u32,
    offsets: u64,
) -> Option<Required> {
    let channels = group_channels.checked_mul(u64::from(groups))?;
    let states = u64::from(states);
    Some(Required {
        elements: rows.checked_mul(channels)?,
        matrices: rows.checked_mul(u64::from(groups))?.checked_mul(states)?,
        parameters: channels.checked_mul(states)?,
        channels,
        states: sequences.checked_mul(channels)?.checked_mul(states)?,
        offsets,
    })
}

impl<T> SelectiveScanParams<T> {
    /// What the kernel may access with these parameters; `None` if it is more than 64 bits count.
    pub fn required(&self) -> Option<Required> {
        let sequences = u64::from(self.sequences);
        // Packed sequences are one batch element of `length` time steps.
        let batch = if self.offsets.is_null() {
            sequences
        } else {
            sequences.min(1)
        };
        let rows = batch.checked_mul(self.length)?;
        required(
            rows,
            sequences,
            self.groups,
            self.group_channels,
            self.states,
            sequences + 1,
        )
    }
}

impl<T> SelectiveScanStepParams<T> {
    /// What the kernel may access with these parameters; `None` if it is more than 64 bits count.
    pub fn required(&self) -> Option<Required> {
        required(
            self.batch,
            self.batch,
            self.groups,
            self.group_channels,
            self.states,
            0,
        )
    }
}
