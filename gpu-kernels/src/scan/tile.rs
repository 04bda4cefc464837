//! A tile of a tensor: copied from global to shared memory, past the registers, and back.
//!
//! The unit is the chunk of 16 bytes. A chunk that lies in the tensor and on a 16-byte
//! boundary is one asynchronous copy; any other goes element by element, and what of it
//! lies outside the tensor is filled with a step that changes nothing.

use crate::simt::thread::thread_idx_x;
use crate::simt::{Global, Plain, Shared};

/// Bytes of a chunk.
const CHUNK: u32 = 16;

/// How a tile lies in the tensor and in shared memory. Rows are what is contiguous in the
/// tensor: the channels of a time step, or the time steps of a channel.
#[derive(Clone, Copy, Debug)]
pub struct Tile {
    /// Element of row 0, column 0; wraps (a reverse scan's last tile begins outside).
    pub origin: u64,
    /// Elements from one row to the next; wraps.
    pub row_stride: u64,
    /// Rows in the tensor.
    pub rows: u32,
    /// First column in the tensor.
    pub first_column: u32,
    /// Column behind the last one in the tensor.
    pub end_column: u32,
    /// Columns of the tile: 2 to this power.
    pub log2_columns: u32,
    /// Elements of the tile: 2 to this power.
    pub log2_elements: u32,
    /// Where a chunk goes.
    pub order: Order,
    /// What [`is_inside`](Self::is_inside) says.
    pub inside: bool,
}

/// Where chunk number `q`, counted along the rows, stands in shared memory.
#[derive(Clone, Copy, Debug)]
pub enum Order {
    /// In turn, with a gap of `gap` bytes after every `2^log2_chunks` chunks, so that the
    /// threads of a warp that read different segments use different banks.
    Gaps {
        /// Chunks between gaps.
        log2_chunks: u32,
        /// Bytes of a gap.
        gap: u32,
    },
    /// Low three bits of `q` exclusive-or the next three, so that threads that read whole
    /// chunks, each its own 64 or 128 bytes, use different banks.
    Swizzled,
}

impl Order {
    /// Byte position of chunk `q`.
    #[inline(always)]
    pub fn position(self, q: u32) -> u32 {
        match self {
            Self::Gaps { log2_chunks, gap } => q * CHUNK + (q >> log2_chunks) * gap,
            Self::Swizzled => (q ^ (q >> 3 & 7)) * CHUNK,
        }
    }

    /// From the position of any chunk to that of the chunk `chunks` later, where that is
    /// a multiple of 64 and of the chunks between gaps, or there are no gaps.
    #[inline(always)]
    fn distance(self, chunks: u32) -> u32 {
        match self {
            Self::Gaps { log2_chunks, gap } => chunks * CHUNK + (chunks >> log2_chunks) * gap,
            Self::Swizzled => chunks * CHUNK,
        }
    }
}

impl Tile {
    /// Whether all of the tile lies in the tensor, on 16-byte boundaries.
    #[inline(always)]
    pub fn is_inside<T>(&self) -> bool {
        let per_chunk = (CHUNK / size_of::<T>() as u32) as u64;
        let columns = 1u32 << self.log2_columns;
        self.rows == 1 << (self.log2_elements - self.log2_columns)
            && self.first_column == 0
            && self.end_column == columns
            && (self.origin | self.row_stride) & (per_chunk - 1) == 0
    }

    /// Calls `f(index, position)` for every chunk of this thread, in a tile that
    /// [`is_inside`](Self::is_inside): a thread's chunks are evenly spaced, so that two
    /// additions lead from one to the next.
    #[inline(always)]
    #[track_caller]
    fn each_inside<T>(&self, threads: u32, mut f: impl FnMut(usize, u32)) {
        let log2_per_chunk = CHUNK.ilog2() - (size_of::<T>() as u32).ilog2();
        let log2_in_row = self.log2_columns - log2_per_chunk;
        let q = thread_idx_x();
        let column = (q & ((1 << log2_in_row) - 1)) << log2_per_chunk;
        let mut index = self.index(q >> log2_in_row, column);
        // A row is at most as long as the block is wide.
        let rows = u64::from(threads >> log2_in_row);
        let index_step = rows.wrapping_mul(self.row_stride);
        let mut position = self.order.position(q);
        let position_step = self.order.distance(threads);
        let mut left = (1u32 << (self.log2_elements - log2_per_chunk)) / threads;
        while left > 0 {
            f(index as usize, position);
            index = index.wrapping_add(index_step);
            position += position_step;
            left -= 1;
        }
    }

    /// Calls `f(q, row, column)` for every chunk of this thread.
    #[inline(always)]
    #[track_caller]
    unsafe fn each_chunk<T: Plain>(&self, threads: u32, mut f: impl FnMut(u32, u32, u32)) {
        let per_chunk = CHUNK / size_of::<T>() as u32;
        let chunks = (1 << self.log2_elements) / per_chunk;
        let mut q = thread_idx_x();
        while q < chunks {
            let element = q * per_chunk;
            f(
                q,
                element >> self.log2_columns,
                element & ((1 << self.log2_columns) - 1),
            );
            q += threads;
        }
    }

    #[inline(always)]
    fn index(&self, row: u32, column: u32) -> u64 {
        self.origin
            .wrapping_add(u64::from(row).wrapping_mul(self.row_stride))
            .wrapping_add(u64::from(column))
    }

    #[inline(always)]
    fn is_whole(&self, row: u32, column: u32, index: u64, per_chunk: u32) -> bool {
        row < self.rows
            && column >= self.first_column
            && column + per_chunk <= self.end_column
            && index & u64::from(per_chunk - 1) == 0
    }

    #[inline(always)]
    fn contains(&self, row: u32, column: u32) -> bool {
        row < self.rows && column >= self.first_column && column < self.end_column
    }

    /// Starts copying the tile of `source` to `target`; elements outside the tensor
    /// become `fill`.
    ///
    /// # Safety
    /// All of the block's `threads` threads; what the tile says lies in the tensor does;
    /// both arrays begin on 16-byte boundaries; the copies are awaited before use.
    #[inline(always)]
    #[track_caller]
    pub unsafe fn copy_in<T: Plain>(
        &self,
        threads: u32,
        source: Global<T>,
        target: Shared<T>,
        fill: T,
    ) {
        let per_chunk = CHUNK / size_of::<T>() as u32;
        // SAFETY: the caller's promise; each thread writes its own chunks.
        unsafe {
            if self.inside {
                let target = target.cast::<u32>();
                self.each_inside::<T>(threads, |index, position| {
                    target
                        .add(position / 4)
                        .copy4_async(0, source.add(index).cast(), 0);
                });
                return;
            }
            self.each_chunk::<T>(threads, |q, row, column| {
                let index = self.index(row, column);
                let at = self.order.position(q) / size_of::<T>() as u32;
                if self.is_whole(row, column, index, per_chunk) {
                    let from = source.add(index as usize).cast::<u32>();
                    target.add(at).cast::<u32>().copy4_async(0, from, 0);
                } else {
                    let mut i = 0;
                    while i < per_chunk {
                        let value = if self.contains(row, column + i) {
                            source.load_once(index.wrapping_add(u64::from(i)) as usize)
                        } else {
                            fill
                        };
                        target.store(at + i, value);
                        i += 1;
                    }
                }
            });
        }
    }

    /// Writes the tile back.
    ///
    /// # Safety
    /// As [`copy_in`](Self::copy_in); `source` is complete and behind a barrier.
    #[inline(always)]
    #[track_caller]
    pub unsafe fn copy_out<T: Plain>(&self, threads: u32, source: Shared<T>, target: Global<T>) {
        let per_chunk = CHUNK / size_of::<T>() as u32;
        // SAFETY: the caller's promise; each thread writes its own chunks.
        unsafe {
            if self.inside {
                let source = source.cast::<u32>();
                self.each_inside::<T>(threads, |index, position| {
                    let words = source.add(position / 4).load4(0);
                    target.add(index).cast::<u32>().store4_once(0, words);
                });
                return;
            }
            self.each_chunk::<T>(threads, |q, row, column| {
                let index = self.index(row, column);
                let at = self.order.position(q) / size_of::<T>() as u32;
                if self.is_whole(row, column, index, per_chunk) {
                    let words = source.add(at).cast::<u32>().load4(0);
                    target
                        .add(index as usize)
                        .cast::<u32>()
                        .store4_once(0, words);
                } else {
                    let mut i = 0;
                    while i < per_chunk {
                        if self.contains(row, column + i) {
                            let value = source.load(at + i);
                            target.store(index.wrapping_add(u64::from(i)) as usize, value);
                        }
                        i += 1;
                    }
                }
            });
        }
    }
}
