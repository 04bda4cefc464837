//! Where a ticket's tile lies: in the tensor, in shared memory, and in the chain of tiles.

use super::{LinearScanParams, policy};
use crate::scan::access::{Access, View};
use crate::scan::tile::{Order, Tile};
use crate::simt::Plain;

/// What part of the work a ticket stands for.
#[derive(Clone, Copy)]
struct Part {
    sequence: u32,
    /// Its tile's place in the chain.
    link: u32,
    /// Tiles of the sequence before it.
    before: u32,
    /// First time step of the sequence, in its batch element.
    start: u64,
    /// Time steps of the sequence.
    length: u64,
}

/// Which sequence, and where in it.
#[inline(always)]
#[track_caller]
unsafe fn find_part<T: Plain>(
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

/// What a ticket stands for: worked out by one thread, handed to the others in eight words.
#[derive(Clone, Copy)]
pub(super) struct Job {
    pub(super) tile: Tile,
    pub(super) sequence: u32,
    /// Its tile's place in the chain.
    pub(super) link: u32,
    /// Tiles of the sequence before it.
    pub(super) before: u32,
    pub(super) group: u32,
    /// Whether the sequence ends in this tile.
    pub(super) last: bool,
}

/// The words that say that there is no tile.
pub(super) const NO_JOB: [u32; 4] = [u32::MAX; 4];

const LAST: u32 = 1 << 30;
const INSIDE: u32 = 1 << 31;

impl Job {
    /// Of ticket `ticket`.
    ///
    /// # Safety
    /// One of the launch's tickets.
    #[inline(always)]
    #[track_caller]
    pub(super) unsafe fn of<A: Access<V>, const V: usize>(
        params: &LinearScanParams<A::Element>,
        log2_tile_steps: u32,
        ticket: u32,
    ) -> Self {
        let group = ticket % params.groups;
        // SAFETY: the caller's promise.
        let part = unsafe { find_part(params, log2_tile_steps, ticket / params.groups) };
        let first = u64::from(part.before) << log2_tile_steps;
        let steps = 1u64 << log2_tile_steps;
        let left = part.length.saturating_sub(first).min(steps) as u32;
        let mut tile = shape::<A, V>(params, log2_tile_steps);
        let tile_channels = (V as u32) << params.log2_lanes;
        let first_channel = u64::from(group) * u64::from(tile_channels);
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
            tile.origin = row
                .wrapping_mul(params.channels)
                .wrapping_add(first_channel);
            (tile.rows, tile.end_column) = (left, channels);
        } else {
            // A reverse scan's tile ends where its first step stands.
            let step = if reverse {
                tile.first_column = steps as u32 - left;
                part.length.wrapping_sub(first + steps)
            } else {
                first
            };
            let row = batch * params.channels + first_channel;
            tile.origin = row
                .wrapping_mul(params.length)
                .wrapping_add(part.start)
                .wrapping_add(step);
            (tile.rows, tile.end_column) = (channels, tile.first_column + left);
        }
        tile.inside = tile.is_inside::<A::Element>();
        Self {
            tile,
            sequence: part.sequence,
            link: part.link,
            before: part.before,
            group,
            // A packed sequence of whole tiles has one tile too many, which is not the last.
            last: first + u64::from(left) == part.length && (left > 0 || part.length == 0),
        }
    }

    /// Time steps of the tile.
    #[inline(always)]
    pub(super) fn left<A: Access<V>, const V: usize>(&self) -> u32 {
        if A::ROWS {
            self.tile.rows
        } else {
            self.tile.end_column - self.tile.first_column
        }
    }

    /// The element of step `step` (which may lie before or behind the tile) in lane `lane`.
    #[inline(always)]
    pub(super) fn element<A: Access<V>, const V: usize>(
        &self,
        params: &LinearScanParams<A::Element>,
        lane: u32,
        step: u64,
    ) -> u64 {
        let tile = &self.tile;
        let (row, column) = if A::ROWS {
            (step, u64::from(lane) * V as u64)
        } else if params.reverse != 0 {
            let last = (1u64 << tile.log2_columns) - 1;
            (u64::from(lane), last.wrapping_sub(step))
        } else {
            (u64::from(lane), step)
        };
        tile.origin
            .wrapping_add(row.wrapping_mul(tile.row_stride))
            .wrapping_add(column)
    }

    /// For the other threads.
    #[inline(always)]
    pub(super) fn to_words(self) -> [[u32; 4]; 2] {
        let Tile {
            origin,
            rows,
            first_column,
            end_column,
            inside,
            ..
        } = self.tile;
        let columns = first_column | end_column << 16;
        let flags = if self.last { LAST } else { 0 } | if inside { INSIDE } else { 0 };
        [
            [origin as u32, (origin >> 32) as u32, rows, columns],
            [self.sequence, self.link, self.before, self.group | flags],
        ]
    }

    /// What [`to_words`](Self::to_words) wrote.
    #[inline(always)]
    pub(super) fn from_words<A: Access<V>, const V: usize>(
        params: &LinearScanParams<A::Element>,
        log2_tile_steps: u32,
        [place, rest]: [[u32; 4]; 2],
    ) -> Self {
        let mut tile = shape::<A, V>(params, log2_tile_steps);
        tile.origin = u64::from(place[0]) | u64::from(place[1]) << 32;
        tile.rows = place[2];
        (tile.first_column, tile.end_column) = (place[3] & 0xFFFF, place[3] >> 16);
        tile.inside = rest[3] & INSIDE != 0;
        Self {
            tile,
            sequence: rest[0],
            link: rest[1],
            before: rest[2],
            group: rest[3] & !(LAST | INSIDE),
            last: rest[3] & LAST != 0,
        }
    }
}

/// What all tiles of a launch have in common.
#[inline(always)]
fn shape<A: Access<V>, const V: usize>(
    params: &LinearScanParams<A::Element>,
    log2_tile_steps: u32,
) -> Tile {
    let log2_channels = ((V as u32) << params.log2_lanes).ilog2();
    let log2_elements = log2_tile_steps + log2_channels;
    let reverse = params.reverse != 0;
    let tile = Tile {
        origin: 0,
        row_stride: params.length,
        rows: 0,
        first_column: 0,
        end_column: 0,
        log2_columns: log2_tile_steps,
        log2_elements,
        order: Order::Swizzled,
        inside: false,
    };
    if !A::ROWS {
        return tile;
    }
    let stride = params.channels;
    Tile {
        row_stride: if reverse {
            stride.wrapping_neg()
        } else {
            stride
        },
        log2_columns: log2_channels,
        order: order::<A, V>(params, log2_channels),
        ..tile
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

/// Segment `segment` of lane `lane` in the tile.
#[inline(always)]
pub(super) fn view<A: Access<V>, const V: usize>(
    params: &LinearScanParams<A::Element>,
    log2_tile_steps: u32,
    lane: u32,
    segment: u32,
) -> View {
    let step = segment << params.log2_steps;
    if A::ROWS {
        let gap = policy::gap_bytes(params.log2_lanes) / size_of::<A::Element>() as u32;
        let stride = (V as u32) << params.log2_lanes;
        let first = step * stride + segment * gap + lane * V as u32;
        return View {
            first,
            stride,
            backwards: false,
        };
    }
    let row = lane << log2_tile_steps;
    let backwards = params.reverse != 0;
    let last = (1u32 << log2_tile_steps) - 1;
    View {
        first: row + if backwards { last - step } else { step },
        stride: 1,
        backwards,
    }
}
