//! The projection on the tensor cores.
//!
//! A block multiplies a tile of rows of `x` by a tile of columns, the rows of all weights
//! side by side. Chunks of 128 bytes of each row go to shared memory by asynchronous
//! copies, a few stages ahead; the warps read their fragments from there 16 bytes at a
//! time. The order in which an element is summed depends on the depth alone.
//!
//! Floors at `x: [32768, 256]` in f32 and 288 columns on an H200. Bytes: 71 MB, 17 us at
//! the card's copying speed. Operations: 4.8 GFLOP, which as one TF32 product and two in
//! bf16 (see [`Operand`]) take the tensor cores 30 us at the 65% of their rate that
//! `mma.sync` reaches on this architecture. Shared memory: 32 KB for 4 x 96 products, 42%
//! of what it could.

use super::operand::Operand;
use super::policy::{
    BLOCK, CHUNK, GROUP, STAGE, STAGES, TILE_COLUMNS, TILE_ROWS, WARP_COLUMNS, WARP_ROWS,
    WARPS_DOWN,
};
use super::{ProjectionParams, finish};
use crate::simt::thread::{block_idx_x, lane_id, sync_threads, thread_idx_x};
use crate::simt::{Global, Shared, async_copy};

/// 32-bit words of a chunk, of a group, of a stage.
const CHUNK_WORDS: u32 = CHUNK / 4;
const GROUP_WORDS: u32 = GROUP / 4;
const STAGE_WORDS: u32 = STAGE / 4;
/// 16-byte units of a chunk.
const UNITS: u32 = CHUNK / 16;
/// Rows of a tile, then columns.
const LINES: u32 = TILE_ROWS + TILE_COLUMNS;
/// Lines that the block copies at a time, a unit each thread.
const LINES_AT_ONCE: u32 = BLOCK / UNITS;
const COPIES: usize = (LINES / LINES_AT_ONCE) as usize;

/// Columns of the product in fragments of 8.
const FRAGMENTS: usize = 2 * WARP_COLUMNS;

/// Words from one row of sums to the next in shared memory: two rows that are written at
/// once (8 lanes, 16 bytes each) lie on different halves of the banks.
const SUMS_STRIDE: u32 = TILE_COLUMNS.next_multiple_of(32) + 16;
const _: () = assert!(TILE_ROWS * SUMS_STRIDE * 4 <= STAGES * STAGE);

/// A lane's sums: for each 16 rows and 8 columns of its warp, its part of the product.
type Sums = [[[f32; 4]; FRAGMENTS]; WARP_ROWS];

/// Where a unit of a line lies in its chunk. Lanes of two lines that read at once (8 lanes,
/// 16 bytes each) find them in different halves of the banks.
#[inline(always)]
fn swizzle(line: u32, unit: u32) -> u32 {
    unit ^ ((line & 1) << 2)
}

/// # Safety
/// The buffers cover what `params` describes; launched as [`launch`](super::policy::launch)
/// says.
#[inline(always)]
pub unsafe fn project<T: Operand>(params: ProjectionParams<T>) {
    let tile = block_idx_x();
    let first_row = u64::from(tile / params.column_tiles) * u64::from(TILE_ROWS);
    let first_column = tile % params.column_tiles * TILE_COLUMNS;
    let stages = Stages::<T>::new(&params);
    let warp = thread_idx_x() / 32;
    let rows = warp % WARPS_DOWN * (16 * WARP_ROWS as u32);
    let columns = warp / WARPS_DOWN * (16 * WARP_COLUMNS as u32);
    let reader = Reader::new(rows, columns);
    let mut sums: Sums = [[[0.0; 4]; FRAGMENTS]; WARP_ROWS];
    // SAFETY: the launch contract; as each step says.
    unsafe {
        stages.find_lines(&params, first_row, first_column);
        sync_threads();
        unroll!(STAGES as usize - 1, chunk => { stages.begin(chunk as u32); });
        let mut chunk = 0;
        let mut stage = 0;
        while chunk < stages.chunks {
            // All but the newest group: this chunk has arrived, for every thread behind the
            // barrier, and everyone is done with the stage that the next copies go to.
            async_copy::wait::<{ STAGES - 2 }>();
            sync_threads();
            stages.begin(chunk + STAGES - 1);
            let mut group = 0;
            while group < CHUNK / GROUP {
                reader.multiply::<T>(stage * STAGE_WORDS, group, &mut sums);
                group += 1;
            }
            stage = if stage + 1 == STAGES { 0 } else { stage + 1 };
            chunk += 1;
        }
        async_copy::wait::<0>();
        sync_threads();
        let tile = Shared::dynamic(0);
        put(&sums, tile.add((rows * SUMS_STRIDE) + columns));
        sync_threads();
        finish::write(&params, first_row, first_column, tile, SUMS_STRIDE);
    }
}

/// Puts a warp's sums in shared memory, from its first row and column on.
///
/// # Safety
/// The whole block, and nobody uses the stages any more.
#[inline(always)]
#[track_caller]
unsafe fn put(sums: &Sums, tile: Shared<f32>) {
    let (g, t) = (lane_id() / 4, lane_id() % 4);
    let own = tile.add(g * SUMS_STRIDE + 4 * t);
    unroll!(WARP_ROWS, i => {
        unroll!(WARP_COLUMNS, j => {
            let at = 16 * (i as u32 * SUMS_STRIDE + j as u32);
            let (left, right) = (sums[i][2 * j], sums[i][2 * j + 1]);
            // SAFETY: inside the stages' memory.
            unsafe {
                own.store4(at, [left[0], left[1], right[0], right[1]]);
                own.store4(at + 8 * SUMS_STRIDE, [left[2], left[3], right[2], right[3]]);
            }
        });
    });
}

/// The way of the tile's lines to shared memory.
struct Stages<T> {
    /// Chunks of a line.
    chunks: u32,
    /// Bytes of a line.
    line_bytes: u32,
    /// The block's stages.
    words: Shared<u32>,
    /// Addresses of the tile's lines.
    lines: Shared<u64>,
    /// The line and the unit that this thread copies first.
    line: u32,
    unit: u32,
    element: core::marker::PhantomData<T>,
}

impl<T: Operand> Stages<T> {
    #[inline(always)]
    fn new(params: &ProjectionParams<T>) -> Self {
        let line_bytes = (params.inputs * size_of::<T>() as u64) as u32;
        Self {
            chunks: line_bytes.div_ceil(CHUNK),
            line_bytes,
            words: Shared::dynamic(0),
            lines: Shared::dynamic(STAGES * STAGE),
            line: thread_idx_x() / UNITS,
            unit: thread_idx_x() % UNITS,
            element: core::marker::PhantomData,
        }
    }

    /// Looks up where the tile's lines begin. Behind the last row and column the last one
    /// stands in: what becomes of it is not stored.
    ///
    /// # Safety
    /// The whole block.
    #[inline(always)]
    #[track_caller]
    unsafe fn find_lines(&self, params: &ProjectionParams<T>, first_row: u64, first_column: u32) {
        let mut line = thread_idx_x();
        while line < LINES {
            let start = if line < TILE_ROWS {
                let row = (first_row + u64::from(line)).min(params.rows - 1);
                params.x.add((row * params.inputs) as usize)
            } else {
                let column = (first_column + line - TILE_ROWS).min(params.columns - 1);
                let part = params.part(column);
                let row = u64::from(column - part.first);
                part.weight.add((row * params.inputs) as usize)
            };
            // SAFETY: one of `LINES` words behind the stages, this thread's own.
            unsafe { self.lines.store(line, start.address()) };
            line += BLOCK;
        }
    }

    /// Starts copying a chunk of every line to its stage; closes the group of copies, empty
    /// behind the last chunk.
    ///
    /// # Safety
    /// The whole block, behind [`find_lines`](Self::find_lines) and a barrier; nobody reads
    /// the stage.
    #[inline(always)]
    #[track_caller]
    unsafe fn begin(&self, chunk: u32) {
        if chunk < self.chunks {
            let from = chunk * CHUNK + self.unit * 16;
            let to = chunk % STAGES * STAGE_WORDS
                + self.line * CHUNK_WORDS
                + swizzle(self.line, self.unit) * 4;
            // A line ends at a unit's end; behind it the factors are zeros.
            let inside = from < self.line_bytes;
            unroll!(COPIES, i => {
                let line = i as u32 * LINES_AT_ONCE;
                // The parity of a line, and with it the swizzle, is that of the first one.
                let to = to + line * CHUNK_WORDS;
                // SAFETY: the unit lies within its line and within the stage.
                unsafe {
                    if inside {
                        let start = Global::from_address(self.lines.load(self.line + line));
                        self.words.copy4_async(to, start, from as usize / 4);
                    } else {
                        self.words.store4(to, [0; 4]);
                    }
                }
            });
        }
        async_copy::commit();
    }
}

/// Where a lane finds its fragments in a stage.
struct Reader {
    words: Shared<u32>,
    /// Its unit of the first group in the first row of its warp's, and in its first column.
    row: u32,
    column: u32,
}

impl Reader {
    #[inline(always)]
    fn new(rows: u32, columns: u32) -> Self {
        let (g, t) = (lane_id() / 4, lane_id() % 4);
        let unit = swizzle(g, t) * 4;
        // Of 16 columns, a lane's two fragments of 8 together hold four neighbours.
        let column = 4 * (g / 2) + g % 2;
        Self {
            words: Shared::dynamic(0),
            row: (rows + g) * CHUNK_WORDS + unit,
            column: (TILE_ROWS + columns + column) * CHUNK_WORDS + unit,
        }
    }

    /// Multiplies a group of the stage that begins at a word.
    ///
    /// # Safety
    /// The whole warp, together; the stage has arrived.
    #[inline(always)]
    #[track_caller]
    unsafe fn multiply<T: Operand>(&self, stage: u32, group: u32, sums: &mut Sums) {
        // The other group is in the other half, whichever half that is.
        let row = self.words.add(stage + (self.row ^ (group * GROUP_WORDS)));
        let column = self
            .words
            .add(stage + (self.column ^ (group * GROUP_WORDS)));
        // SAFETY: inside the stage.
        unsafe {
            let mut rows = [T::rows([0; 4], [0; 4]); WARP_ROWS];
            unroll!(WARP_ROWS, i => {
                let upper = 16 * i as u32;
                rows[i] = T::rows(
                    row.load4(upper * CHUNK_WORDS),
                    row.load4((upper + 8) * CHUNK_WORDS),
                );
            });
            unroll!(FRAGMENTS, fragment => {
                let at = 16 * (fragment as u32 / 2) + 2 * (fragment as u32 % 2);
                let columns = T::columns(column.load4(at * CHUNK_WORDS));
                T::multiply(sums, fragment, &rows, &columns);
            });
        }
    }
}
