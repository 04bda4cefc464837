//! Where a ticket's tile lies: in the tensor, in shared memory, and in the chain of tiles.

use super::{LinearScanParams, policy};
use crate::scan::access::{Access, View};
use crate::scan::block::Board;
use crate::scan::tile::{Order, Tile};
use crate::simt::Plain;

/// What part of the work a ticket stands for.
#[derive(Clone, Copy)]
pub(super) struct Part {
    pub(super) sequence: u32,
    /// Its tile's place in the chain.
    pub(super) link: u32,
    /// Tiles of the sequence before it.
    pub(super) before: u32,
    /// First time step of the sequence, in its batch element.
    pub(super) start: u64,
    /// Time steps of the sequence.
    pub(super) length: u64,
}

/// Which sequence, and where in it.
#[inline(always)]
#[track_caller]
pub(super) unsafe fn find_part<T: Plain>(
    params: &LinearScanParams<T>,
    log2_tile_steps: u32,
    tile: u32,
) -> Part {
    if params.offsets.is_null() {
        // Time outermost: a tile's predecessor was drawn a whole batch earlier.
        let (before, sequence) = (tile / params.sequences, tile % params.sequences);
        let link = sequence * params.tiles_per_sequence + before;
        return Part {
            sequence,
            link,
            before,
            start: 0,
            length: params.length,
        };
    }
    // SAFETY: indices up to `sequences`.
    unsafe {
        let offset = |sequence: u32| params.offsets.load(sequence as usize) as u64;
        let first_tile = |sequence: u32| (offset(sequence) >> log2_tile_steps) as u32 + sequence;
        // The last sequence whose first tile is not behind this one.
        let (mut low, mut high) = (0, params.sequences);
        while high - low > 1 {
            let middle = low.midpoint(high);
            if first_tile(middle) <= tile {
                low = middle;
            } else {
                high = middle;
            }
        }
        let start = offset(low);
        Part {
            sequence: low,
            link: tile,
            before: tile - first_tile(low),
            start,
            length: offset(low + 1) - start,
        }
    }
}

/// A part's tile in the tensor.
#[inline(always)]
pub(super) fn tile<A: Access<V>, const V: usize>(
    params: &LinearScanParams<A::Element>,
    part: &Part,
    first: u64,
    left: u32,
    log2_tile_steps: u32,
    first_channel: u64,
) -> Tile {
    let tile_channels = (V as u32) << params.log2_lanes;
    let channels = params
        .channels
        .saturating_sub(first_channel)
        .min(u64::from(tile_channels)) as u32;
    // Packed sequences are one batch element.
    let batch = if params.offsets.is_null() {
        u64::from(part.sequence)
    } else {
        0
    };
    let log2_channels = tile_channels.ilog2();
    let log2_elements = log2_tile_steps + log2_channels;
    let reverse = params.reverse != 0;
    if A::ROWS {
        let step = if reverse {
            part.length.wrapping_sub(1 + first)
        } else {
            first
        };
        let row = (batch * params.length)
            .wrapping_add(part.start)
            .wrapping_add(step);
        let row_stride = params.channels;
        Tile {
            origin: row
                .wrapping_mul(params.channels)
                .wrapping_add(first_channel),
            row_stride: if reverse {
                row_stride.wrapping_neg()
            } else {
                row_stride
            },
            rows: left,
            first_column: 0,
            end_column: channels,
            log2_columns: log2_channels,
            log2_elements,
            order: order::<A, V>(params, log2_channels),
        }
    } else {
        let tile_steps = 1u32 << log2_tile_steps;
        // A reverse scan's tile ends where its first step stands.
        let (step, first_column) = if reverse {
            (
                part.length.wrapping_sub(first + u64::from(tile_steps)),
                tile_steps - left,
            )
        } else {
            (first, 0)
        };
        let row = batch * params.channels + first_channel;
        Tile {
            origin: row
                .wrapping_mul(params.length)
                .wrapping_add(part.start)
                .wrapping_add(step),
            row_stride: params.length,
            rows: channels,
            first_column,
            end_column: first_column + left,
            log2_columns: log2_tile_steps,
            log2_elements,
            order: Order::Swizzled,
        }
    }
}

/// Where the chunks of a tile of rows go: a gap behind each segment.
#[inline(always)]
fn order<A: Access<V>, const V: usize>(
    params: &LinearScanParams<A::Element>,
    log2_channels: u32,
) -> Order {
    let log2_per_chunk = 16u32.ilog2() - (size_of::<A::Element>() as u32).ilog2();
    Order::Gaps {
        log2_chunks: params.log2_steps + log2_channels - log2_per_chunk,
        gap: policy::gap_bytes(params.log2_lanes),
    }
}

/// Elements of one array of the tile, with its gaps.
#[inline(always)]
pub(super) fn array_elements<A: Access<V>, const V: usize>(
    params: &LinearScanParams<A::Element>,
    log2_tile_steps: u32,
) -> u32 {
    let elements = (V as u32) << (log2_tile_steps + params.log2_lanes);
    if !A::ROWS {
        return elements;
    }
    let segments = 1 << (log2_tile_steps - params.log2_steps);
    elements + segments * policy::gap_bytes(params.log2_lanes) / size_of::<A::Element>() as u32
}

/// This thread's segment in the tile.
#[inline(always)]
pub(super) fn view<A: Access<V>, const V: usize>(
    params: &LinearScanParams<A::Element>,
    board: &Board<A::Ring, V>,
    log2_tile_steps: u32,
) -> View {
    let step = board.segment() << params.log2_steps;
    if A::ROWS {
        let gap = policy::gap_bytes(params.log2_lanes) / size_of::<A::Element>() as u32;
        let stride = (V as u32) << params.log2_lanes;
        let first = step * stride + board.segment() * gap + board.lane() * V as u32;
        return View {
            first,
            stride,
            backwards: false,
        };
    }
    let row = board.lane() << log2_tile_steps;
    let backwards = params.reverse != 0;
    let last = (1u32 << log2_tile_steps) - 1;
    View {
        first: row + if backwards { last - step } else { step },
        stride: 1,
        backwards,
    }
}
