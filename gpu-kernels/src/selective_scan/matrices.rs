//! A tile of B and C: copied to shared memory as it lies in the tensor, then laid out by
//! lanes as f32, so that a lane reads its states of consecutive time steps at once.
//!
//! Each thread lays out the chunks of 16 bytes that it copied: no barrier between. Chunks that
//! need no change ([`direct`]) are copied to their place at once.

use super::SelectiveScanParams;
use super::elements::Frame;
use super::layout::{Layout, Packed};
use super::policy::{SharedLayout, matrix_stride};
use crate::simt::thread::opaque;
use crate::simt::{Global, Plain, Shared};

/// Where B and C lie, for this block and tiles of `T` time steps.
pub(super) struct Matrices<A: Layout, const T: u32> {
    b: Global<A::Element>,
    c: Global<A::Element>,
    raw_b: Shared<A::Element>,
    raw_c: Shared<A::Element>,
    by_lane_b: Shared<f32>,
    by_lane_c: Shared<f32>,
    /// Words from one tile by lanes to the other.
    matrix_words: u32,
    /// Element of the tile's first row and column.
    origin: u64,
    /// Elements from one row to the next: rows are time steps, or states.
    row_stride: u64,
    states: u32,
    log2_states: u32,
    threads: u32,
    thread: u32,
}

impl<A: Layout, const T: u32> Matrices<A, T> {
    /// For `threads` threads, and group `group` of the block's sequence.
    #[inline(always)]
    pub(super) fn new(
        params: &SelectiveScanParams<A::Element>,
        layout: &SharedLayout,
        (thread, threads): (u32, u32),
        log2_states: u32,
        frame: &Frame,
        group: u32,
    ) -> Self {
        let Frame { batch, start, .. } = *frame;
        let (groups, states) = (u64::from(params.groups), u64::from(params.states));
        let group = u64::from(group);
        let (origin, row_stride) = if A::ROWS {
            let row = batch * params.length + start;
            ((row * groups + group) * states, groups * states)
        } else {
            let row = (batch * groups + group) * states;
            (row * params.length + start, params.length)
        };
        Self {
            b: params.b,
            c: params.c,
            raw_b: Shared::dynamic(layout.raw_b),
            raw_c: Shared::dynamic(layout.raw_c),
            by_lane_b: Shared::dynamic(layout.b),
            by_lane_c: Shared::dynamic(layout.c),
            matrix_words: layout.matrix_bytes / 4,
            origin,
            row_stride,
            states: params.states,
            log2_states,
            threads,
            thread,
        }
    }

    /// Makes places that follow from the thread be computed anew: few threads have a chunk, and
    /// the loop needs the registers.
    #[inline(always)]
    pub(super) fn forget(&mut self) {
        self.thread = opaque(self.thread.into()) as u32;
    }

    /// Steps on to the next tile.
    #[inline(always)]
    pub(super) fn advance(&mut self) {
        let steps = u64::from(T);
        self.origin += if A::ROWS {
            steps * self.row_stride
        } else {
            steps
        };
    }

    /// Calls `f(first element of the chunk in the tile, row, column)` for this thread's chunks.
    #[inline(always)]
    #[track_caller]
    fn each_chunk(&self, mut f: impl FnMut(u32, u32, u32)) {
        let log2_columns = if A::ROWS { self.log2_states } else { T.ilog2() };
        let chunk = A::Element::CHUNK as u32;
        let mut at = self.thread * chunk;
        while at < T << self.log2_states {
            f(at, at >> log2_columns, at & ((1 << log2_columns) - 1));
            at += self.threads * chunk;
        }
    }

    /// Starts copying the tile's first `left` time steps; what lies outside becomes 0. If
    /// [`direct`], to buffer `buffer`.
    ///
    /// # Safety
    /// All these threads; the tile lies in the tensors; every thread has laid out its chunks
    /// of the tile before, and waits for the copies before it lays these out. If [`direct`],
    /// nobody reads the buffer meanwhile.
    #[inline(always)]
    #[track_caller]
    pub(super) unsafe fn copy<const S: usize>(&self, left: u32, buffer: u32) {
        let chunk = A::Element::CHUNK as u32;
        let (rows, columns) = if A::ROWS {
            (left, self.states)
        } else {
            (self.states, left)
        };
        self.each_chunk(|at, row, column| {
            let index = self.origin + u64::from(row) * self.row_stride + u64::from(column);
            let whole =
                row < rows && column + chunk <= columns && index & u64::from(chunk - 1) == 0;
            let target = |raw: Shared<A::Element>, by_lane: Shared<f32>| {
                if direct::<A, S>() {
                    let at = buffer * self.matrix_words + position::<S, T>(column, row);
                    by_lane.cast::<A::Element>().add(at)
                } else {
                    raw.add(at)
                }
            };
            let (to_b, to_c) = (
                target(self.raw_b, self.by_lane_b),
                target(self.raw_c, self.by_lane_c),
            );
            // SAFETY: what lies in the tensors is read; the chunks are this thread's.
            unsafe {
                if whole {
                    let copy = |to: Shared<A::Element>, source: Global<A::Element>| {
                        let source = source.add(index as usize).cast::<u32>();
                        to.cast::<u32>().copy4_async(0, source, 0);
                    };
                    copy(to_b, self.b);
                    copy(to_c, self.c);
                } else {
                    let mut i = 0;
                    while i < chunk {
                        let inside = row < rows && column + i < columns;
                        let index = index as usize + i as usize;
                        let copy = |to: Shared<A::Element>, source: Global<A::Element>| {
                            let value = if inside { source.load(index) } else { zero() };
                            to.store(i, value);
                        };
                        copy(to_b, self.b);
                        copy(to_c, self.c);
                        i += 1;
                    }
                }
            }
        });
    }

    /// Lays the tile out by lanes of `S` states, in buffer `buffer`.
    ///
    /// # Safety
    /// All these threads; this thread's copies are there; nobody reads the buffer meanwhile.
    #[inline(always)]
    #[track_caller]
    pub(super) unsafe fn lay_out<const S: usize>(&self, buffer: u32) {
        let by_lane_b = self.by_lane_b.add(buffer * self.matrix_words);
        let by_lane_c = self.by_lane_c.add(buffer * self.matrix_words);
        self.each_chunk(|at, row, column| {
            // SAFETY: the chunks are this thread's; positions lie in the arrays.
            unsafe {
                let b = self.raw_b.add(at).cast::<u32>().load4(0);
                let c = self.raw_c.add(at).cast::<u32>().load4(0);
                put::<A, S, T>(by_lane_b, row, column, A::Element::unpack(b));
                put::<A, S, T>(by_lane_c, row, column, A::Element::unpack(c));
            }
        });
    }
}

/// Whether chunks are copied to where lanes read them: four states of a time step, as f32.
#[inline(always)]
pub(super) fn direct<A: Layout, const S: usize>() -> bool {
    A::ROWS && A::Element::CHUNK == 4 && S >= 4
}

/// Where a state of a time step lies in a tile by lanes.
#[inline(always)]
fn position<const S: usize, const T: u32>(state: u32, step: u32) -> u32 {
    let states = S as u32;
    (state / states) * matrix_stride(states, T) + step * states + state % states
}

/// Writes a chunk: of one time step's states, or of one state's time steps.
#[inline(always)]
#[track_caller]
unsafe fn put<A: Layout, const S: usize, const T: u32>(
    by_lane: Shared<f32>,
    row: u32,
    column: u32,
    values: [f32; 8],
) {
    // SAFETY: the caller's promise.
    unsafe {
        if !A::ROWS {
            unroll_few!(8, i => {
                if i < A::Element::CHUNK {
                    by_lane.store(position::<S, T>(row, column + i as u32), values[i]);
                }
            });
        } else if S < 4 {
            unroll_few!(4, i => {
                if 2 * i < A::Element::CHUNK {
                    let two = [values[2 * i], values[2 * i + 1]];
                    by_lane.store2(position::<S, T>(column + 2 * i as u32, row), two);
                }
            });
        } else {
            unroll_few!(2, i => {
                if 4 * i < A::Element::CHUNK {
                    let four = [values[4 * i], values[4 * i + 1], values[4 * i + 2], values[4 * i + 3]];
                    by_lane.store4(position::<S, T>(column + 4 * i as u32, row), four);
                }
            });
        }
    }
}

#[inline(always)]
fn zero<T: Plain>() -> T {
    bytemuck::Zeroable::zeroed()
}
