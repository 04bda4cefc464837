//! Dispatch: which kernel, and how teams share out its rows.

use super::{Teams, WARP, WORD};
use crate::simt::LaunchShape;

/// Threads of a block.
pub const THREADS: u32 = 256;
/// Blocks that should fit on a multiprocessor.
pub const BLOCKS: u32 = 8;
/// Vectors that a thread has in flight, where there are many: 128 bytes.
pub const VECTORS: usize = 8;
/// The same in the kernel that takes packed rows in order.
pub const GATHERED: usize = 4;
/// Blocks of these on a multiprocessor.
pub const VECTORS_BLOCKS: u32 = 4;
/// Smaller units that a thread has in flight.
pub const UNITS: usize = 4;

/// Threads of a block of `DispatchSlots`.
pub const SLOTS_THREADS: u32 = 512;
/// Entries that each of its threads reads.
pub const SLOTS_ITEMS: usize = 8;
/// The most rows whose claims fit in a block's shared memory.
pub const SLOTS_ROWS: u32 = 8192;

/// Up to this many bytes a dispatch is bound by latency: one unit for each thread.
const SMALL: u64 = 32 << 20;

/// Byte of shared memory at which the claims begin, behind the offsets.
#[inline(always)]
pub const fn claims_at(experts: u32) -> u32 {
    (experts + 1).next_multiple_of(4) * WORD
}

/// Which kernel moves rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// `DispatchVectors`.
    Vectors,
    /// `DispatchVector`.
    Vector,
    /// `DispatchGather`.
    Gather,
    /// `DispatchWord`.
    Word,
    /// `DispatchHalf`.
    Half,
    /// `DispatchByte`.
    Byte,
}

/// A dispatch as the host prepares it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Launch {
    /// Which kernel.
    pub way: Way,
    /// Grid, block, shared memory.
    pub shape: LaunchShape,
    /// Units of a row.
    pub row_units: u32,
    /// Units of a row that a block moves.
    pub chunk: u32,
    /// Threads of a token's team.
    pub log2_team: u32,
    /// Rows that a team looks after.
    pub rows_per_team: u32,
}

/// What is dispatched.
#[derive(Clone, Copy, Debug)]
pub struct Sizes {
    /// Tokens.
    pub tokens: u32,
    /// Entries of a token.
    pub top_k: u32,
    /// Packed rows, fewer than 2^31.
    pub rows: u32,
    /// Bytes of a row, at least 1.
    pub row_bytes: u64,
}

impl Sizes {
    /// Bytes of a unit, and units of a row.
    fn units(&self) -> (u64, u64) {
        let unit = [16, 4, 2]
            .into_iter()
            .find(|unit| self.row_bytes.is_multiple_of(*unit))
            .unwrap_or(1);
        (unit, self.row_bytes / unit)
    }

    fn is_small(&self) -> bool {
        u64::from(self.rows).saturating_mul(self.row_bytes) <= SMALL
    }
}

/// The launch by a plan or claims; `behind`: its rows may lie behind the packed ones.
/// `None` if it would need more blocks than a grid has.
pub fn launch(sizes: &Sizes, behind: bool) -> Option<Launch> {
    let (unit, row_units) = sizes.units();
    let narrow = row_units <= u64::from(WARP);
    let (way, in_flight, per_thread) = match unit {
        16 if narrow || sizes.is_small() => (Way::Vector, 1, 1),
        16 if sizes.top_k == 1 && !behind => {
            // Twice what is in flight, in smaller teams: more rows at once.
            let teams = Teams::new(sizes.rows, row_units, THREADS, GATHERED as u32, 8)?;
            return Some(teams.dispatch(Way::Gather, THREADS, 0, 0));
        }
        16 => (Way::Vectors, VECTORS as u32, VECTORS as u32),
        4 => (Way::Word, UNITS as u32, UNITS as u32),
        2 => (Way::Half, UNITS as u32, UNITS as u32),
        _ => (Way::Byte, UNITS as u32, UNITS as u32),
    };
    let (count, rows_per_team) = super::watch(sizes.tokens, sizes.rows);
    let teams = Teams::new(count, row_units, THREADS, in_flight, per_thread)?;
    Some(teams.dispatch(way, THREADS, 0, rows_per_team))
}

/// The launch of `DispatchSlots`, or `None` if it is not for these sizes.
pub fn slots(sizes: &Sizes, experts: u32) -> Option<Launch> {
    let (unit, row_units) = sizes.units();
    let entries = u64::from(sizes.tokens) * u64::from(sizes.top_k);
    let most = u64::from(SLOTS_THREADS) * SLOTS_ITEMS as u64;
    if unit != 16 || entries > most || sizes.rows > SLOTS_ROWS || !sizes.is_small() {
        return None;
    }
    let (count, rows_per_team) = super::watch(sizes.tokens, sizes.rows);
    let teams = Teams::new(count, row_units, SLOTS_THREADS, 1, 1)?;
    let shared = claims_at(experts) + sizes.rows * WORD;
    Some(teams.dispatch(Way::Vector, SLOTS_THREADS, shared, rows_per_team))
}

impl Teams {
    fn dispatch(&self, way: Way, threads: u32, shared_bytes: u32, rows_per_team: u32) -> Launch {
        Launch {
            way,
            shape: self.shape(threads, shared_bytes),
            row_units: self.row_units,
            chunk: self.chunk,
            log2_team: self.log2_team,
            rows_per_team,
        }
    }
}
