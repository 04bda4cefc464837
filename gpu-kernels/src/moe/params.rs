//! What the host tells the MoE kernels. Sizes are checked by the host: tokens times top_k
//! is at most 2^29, rows are fewer than 2^31. All arrays begin on 16-byte boundaries.

use crate::simt::Global;

/// Parameters of the kernels of a route.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct RouteParams {
    /// Expert of each entry, `[entries]`: i32, or i64 if `wide`.
    pub ids: Global<i32>,
    /// `[entries]`, written: each entry's place among its expert's rows, or -1.
    pub slots: Global<i32>,
    /// `[entries]`, written: each entry's packed row, or -1.
    pub rows: Global<i32>,
    /// `[row_count]`, written: each row's entry, or -1.
    pub sources: Global<i32>,
    /// `[experts + 1]`, written: first row of each expert, and the end of the last one's.
    pub offsets: Global<i32>,
    /// The status words, or null if invalid ids are no fault.
    pub status: Global<u64>,
    /// Scratch: entries of each expert in each tile; null if one block does it all.
    pub table: Global<u32>,
    /// Tokens times top_k.
    pub entries: u32,
    /// Entries of a token.
    pub top_k: u32,
    /// Experts.
    pub experts: u32,
    /// 1: ids are i64.
    pub wide: u32,
    /// The most entries that an expert keeps.
    pub capacity: u32,
    /// An expert's rows are rounded up to a multiple of this; at least 1.
    pub alignment: u32,
    /// Length of `sources`.
    pub row_count: u32,
    /// Blocks that the entries are split over.
    pub tiles: u32,
    /// Entries of each of them, but for the last.
    pub tile_entries: u32,
    /// Unused; keeps the size a multiple of 8.
    pub padding: u32,
}

/// Where the entries' rows are, as a caller says.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct SlotArrays {
    /// Expert of each entry, `[entries]`: i32, or i64 if `wide`.
    pub ids: Global<i32>,
    /// Place of each entry among its expert's rows, `[entries]`; -1 for none.
    pub slots: Global<i32>,
    /// First row of each expert, and the end of the last one's, `[experts + 1]`.
    pub offsets: Global<i32>,
    /// Experts.
    pub experts: u32,
    /// 1: ids are i64.
    pub wide: u32,
    /// Packed rows there are.
    pub row_count: u32,
    /// Entries of a token.
    pub top_k: u32,
}

impl SlotArrays {
    /// No slots: the rows come from a plan.
    pub const fn absent(top_k: u32, row_count: u32) -> Self {
        Self {
            ids: Global::null(),
            slots: Global::null(),
            offsets: Global::null(),
            experts: 0,
            wide: 0,
            row_count,
            top_k,
        }
    }
}

/// Parameters of the kernels that check a caller's slots.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ClaimParams {
    /// What the caller says.
    pub from: SlotArrays,
    /// `[entries]`, written: each entry's row, or -1.
    pub rows: Global<i32>,
    /// `[row_count]`, written: 1 + the last entry that claims the row, or 0.
    pub owners: Global<u32>,
    /// The status words.
    pub status: Global<u64>,
    /// Tokens times top_k.
    pub entries: u32,
    /// Unused; keeps the size a multiple of 8.
    pub padding: u32,
}

/// Parameters of a dispatch. A unit is what one access moves.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct DispatchParams {
    /// Tokens, `[tokens, row_units]`.
    pub hidden: Global<u8>,
    /// `[row_count, row_units]`, written.
    pub packed: Global<u8>,
    /// Row of each entry, or -1, `[entries]`; unused by `DispatchSlots`.
    pub rows: Global<i32>,
    /// Of each row, `[source_count]`: its entry, or -1; if `claimed`, 1 + its entry, or 0.
    pub sources: Global<u32>,
    /// The status words.
    pub status: Global<u64>,
    /// What the caller says, for `DispatchSlots`; `row_count` and `top_k` for all.
    pub from: SlotArrays,
    /// Tokens.
    pub tokens: u32,
    /// Units of a row.
    pub row_units: u32,
    /// Length of `sources`: rows behind it have no entry.
    pub source_count: u32,
    /// 1: `sources` says which of several entries a row goes to.
    pub claimed: u32,
    /// Units that a team moves of a row: of `row_units`, the blocks in y share the rest.
    pub chunk: u32,
    /// Threads of a team: 2 to this power, at least a warp.
    pub log2_team: u32,
    /// Rows that each team looks after if nobody claims them, at most 32.
    pub rows_per_team: u32,
    /// Unused; keeps the size a multiple of 8.
    pub padding: u32,
}

/// Parameters of a combine, and of the gradient of a dispatch.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CombineParams<T> {
    /// Packed rows, `[row_count, hidden]`.
    pub packed: Global<T>,
    /// Tokens, `[tokens, hidden]`, written.
    pub out: Global<T>,
    /// `[entries]`, or null for ones.
    pub weights: Global<f32>,
    /// Row of each entry, or -1, `[entries]`; null if `from` says where they are.
    pub rows: Global<i32>,
    /// `[row_count]`, 1 + the entry whose row it is, 0 for none: others leave it out; null if
    /// entries may share rows.
    pub owners: Global<u32>,
    /// The status words.
    pub status: Global<u64>,
    /// What the caller says; `row_count` and `top_k` in any case.
    pub from: SlotArrays,
    /// Tokens.
    pub tokens: u32,
    /// Units of a row.
    pub row_units: u32,
    /// Units that a team computes of a row: of `row_units`, the blocks in y share the rest.
    pub chunk: u32,
    /// Threads of a team: 2 to this power, at least a warp.
    pub log2_team: u32,
}

/// Parameters of the gradients of a combine.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CombineBackwardParams<T> {
    /// Gradient by the tokens, `[tokens, hidden]`.
    pub grad_out: Global<T>,
    /// Packed rows, `[row_count, hidden]`; null without `grad_weights`.
    pub packed: Global<T>,
    /// `[row_count, hidden]`, written.
    pub grad_packed: Global<T>,
    /// `[entries]`, or null for ones.
    pub weights: Global<f32>,
    /// `[entries]`, written; or null.
    pub grad_weights: Global<f32>,
    /// Row of each entry, or -1, `[entries]`.
    pub rows: Global<i32>,
    /// As in [`DispatchParams`].
    pub sources: Global<u32>,
    /// The status words.
    pub status: Global<u64>,
    /// Tokens times top_k.
    pub entries: u32,
    /// Entries of a token.
    pub top_k: u32,
    /// Packed rows.
    pub row_count: u32,
    /// Units of a row.
    pub row_units: u32,
    /// Length of `sources`: rows behind it have no entry.
    pub source_count: u32,
    /// 1: `sources` are claims, and a row with two entries is a fault.
    pub claimed: u32,
    /// Rows that each warp looks after if nobody claims them, at most 32.
    pub rows_per_team: u32,
    /// Unused; keeps the size a multiple of 8.
    pub padding: u32,
}
