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
