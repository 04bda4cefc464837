//! Tile sizes of the projection and the launches that follow from them.

use crate::simt::LaunchShape;

/// Bytes of a row that a stage of the pipeline holds: one line of the L2.
pub const CHUNK: u32 = 128;

/// Bytes of a row that are multiplied at once: 16 from each of the four lanes of a row.
pub const GROUP: u32 = 64;

/// Stages of the pipeline. One is multiplied while two are on their way: 2.5 us of work,
/// several times the latency of memory. 84 KB a block: two blocks on an H200, one on the
/// smallest devices.
pub const STAGES: u32 = 3;

/// Tiles of 16 rows of a warp, and of 16 columns. 32 x 96: beside the 96 sums of a lane and
/// the split fragments of 32 rows there are registers left to split the next columns while
/// products are under way. (64 x 48 splits less, but has none left: its products wait for
/// each other.)
pub const WARP_ROWS: usize = 2;
/// See [`WARP_ROWS`].
pub const WARP_COLUMNS: usize = 6;

/// Warps of a block, down and across. 128 x 96: D = 256 with N = 16 has 288 columns, three
/// tiles without a rest; two blocks on a multiprocessor fill each other's gaps.
pub const WARPS_DOWN: u32 = 4;
/// See [`WARPS_DOWN`].
pub const WARPS_ACROSS: u32 = 1;

/// Threads of a block.
pub const BLOCK: u32 = 32 * WARPS_DOWN * WARPS_ACROSS;
/// Blocks that fit on a multiprocessor.
pub const BLOCKS: u32 = 2;

/// Rows of a tile.
pub const TILE_ROWS: u32 = 16 * WARP_ROWS as u32 * WARPS_DOWN;
/// Columns of a tile.
pub const TILE_COLUMNS: u32 = 16 * WARP_COLUMNS as u32 * WARPS_ACROSS;

/// Bytes of one stage: a chunk of each row of `x` and of each row of the weights.
pub const STAGE: u32 = (TILE_ROWS + TILE_COLUMNS) * CHUNK;

/// The plain kernel: 16 x 16 threads with 4 x 4 sums each.
pub const PLAIN_TILE: u32 = 64;
/// Threads of its blocks.
pub const PLAIN_BLOCK: u32 = 256;
/// Elements of a row that it stages at a time.
pub const PLAIN_DEPTH: u32 = 16;
/// Elements between two depths in its shared memory: a multiple of 4, off the banks.
pub const PLAIN_STRIDE: u32 = PLAIN_TILE + 4;

/// Where the tensor cores' kernel, which counts the bytes of a row in 32 bits, ends.
const MOST_INPUTS: u64 = 1 << 29;

/// Which kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// On the tensor cores.
    Matrix,
    /// Fused multiply-adds, for rows that do not begin on 16-byte boundaries.
    Plain,
}

impl Method {
    /// For rows of `inputs` elements of `size` bytes. Depends on nothing else, so that a row
    /// is rounded the same way whatever else is in the batch.
    pub const fn new(inputs: u64, size: u32) -> Self {
        if inputs.is_multiple_of(16 / size as u64) && inputs < MOST_INPUTS {
            Self::Matrix
        } else {
            Self::Plain
        }
    }
}

/// A launch as the host prepares it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Launch {
    /// Which kernel.
    pub method: Method,
    /// Grid, block, shared memory.
    pub shape: LaunchShape,
    /// Tiles side by side. Blocks of the same rows follow each other, so that a row of `x`
    /// comes from memory once.
    pub column_tiles: u32,
}

/// The launch for `[rows, inputs]` by `columns` rows of weights, or `None` if it would need
/// more blocks than a grid has. None of the sizes but `inputs` is 0.
pub fn launch(rows: u64, inputs: u64, columns: u32, size: u32) -> Option<Launch> {
    let method = Method::new(inputs, size);
    let (tile_rows, tile_columns, threads, shared_bytes) = match method {
        Method::Matrix => (TILE_ROWS, TILE_COLUMNS, BLOCK, shared_bytes()),
        Method::Plain => (PLAIN_TILE, PLAIN_TILE, PLAIN_BLOCK, plain_shared_bytes()),
    };
    let column_tiles = columns.div_ceil(tile_columns);
    let blocks = rows
        .div_ceil(u64::from(tile_rows))
        .checked_mul(u64::from(column_tiles))
        .filter(|&blocks| blocks < 1 << 31)?;
    Some(Launch {
        method,
        shape: LaunchShape::linear(blocks as u32, threads, shared_bytes),
        column_tiles,
    })
}

/// The stages, and behind them the addresses of the tile's rows.
const fn shared_bytes() -> u32 {
    STAGES * STAGE + 8 * (TILE_ROWS + TILE_COLUMNS)
}

const fn plain_shared_bytes() -> u32 {
    2 * PLAIN_DEPTH * PLAIN_STRIDE * 4
}
