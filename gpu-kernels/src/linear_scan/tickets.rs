//! Which tile a block works on next: tickets drawn by one thread, worked out to a job while
//! the others scan, and handed over in shared memory; and the copies that begin with it.

use super::kernel::Worker;
use super::place::{Job, NO_JOB};
use crate::scan::access::{Access, Number};
use crate::scan::block::THREADS;
use crate::scan::lookback;
use crate::simt::thread::{block_idx_x, grid_dim_x, thread_idx_x};
use crate::simt::{Global, Shared};

/// Words of the board's header: two jobs, this one and the next, then the launch's tag.
pub(super) const JOB: u32 = 8;
pub(super) const TAG: u32 = 16;

/// The thread that draws, in the second warp: the first one steps.
const DRAWS: u32 = 32;

/// A ticket under way; only the thread that draws has one.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Drawing {
    /// The counter as it was.
    counter: u64,
    count: u32,
    last: bool,
}

impl<A: Access<V>, const V: usize, const GRADIENTS: bool> Worker<A, V, GRADIENTS> {
    /// Starts copying one array of the tile in `slot`, if there is one, to shared memory.
    ///
    /// # Safety
    /// As [`job`](Self::job); nobody uses what is in `target`.
    #[inline(always)]
    #[track_caller]
    pub(super) unsafe fn begin(
        &self,
        slot: u32,
        source: Global<A::Element>,
        target: Shared<A::Element>,
        fill: Number<A, V>,
    ) {
        // SAFETY: the tile lies where it says.
        unsafe {
            if self.is_job(slot) {
                let tile = self.job(slot).tile;
                tile.copy_in(THREADS, source, target, A::from_value(fill));
            }
        }
    }

    /// Whether there is a job in `slot`.
    ///
    /// # Safety
    /// After the barrier behind [`drawn`](Self::drawn).
    #[inline(always)]
    #[track_caller]
    pub(super) unsafe fn is_job(&self, slot: u32) -> bool {
        // SAFETY: the caller's promise.
        unsafe { self.board.heard(slot + 7) != NO_JOB[3] }
    }

    /// One thread draws a ticket.
    ///
    /// # Safety
    /// The whole block.
    #[inline(always)]
    #[track_caller]
    pub(super) unsafe fn draw(&self, drawing: &mut Drawing) {
        if thread_idx_x() == DRAWS && !self.params.scratch.is_null() && !drawing.last {
            // SAFETY: one thread, until there are no more.
            drawing.counter = unsafe { lookback::draw(self.params.scratch) };
        }
    }

    /// One thread works out what its ticket stands for and writes it to `slot`.
    ///
    /// # Safety
    /// The whole block; what stood in `slot` has been read, behind a barrier.
    #[inline(always)]
    #[track_caller]
    pub(super) unsafe fn drawn(&self, drawing: &mut Drawing, slot: u32) {
        if thread_idx_x() != DRAWS {
            return;
        }
        let (params, blocks) = (&self.params, grid_dim_x());
        let tickets = params.groups * params.tiles;
        // SAFETY: one thread.
        unsafe {
            let mut words = [NO_JOB; 2];
            if !drawing.last {
                let (ticket, tag) = if params.scratch.is_null() {
                    (block_idx_x() + drawing.count * blocks, 0)
                } else {
                    lookback::drawn(params.scratch, drawing.counter, tickets, blocks)
                };
                self.board.announce(TAG, tag);
                drawing.count += 1;
                drawing.last = ticket >= tickets;
                if !drawing.last {
                    words = Job::of::<A, V>(params, self.log2_tile_steps, ticket).to_words();
                }
            }
            self.board.announce4(slot, words[0]);
            self.board.announce4(slot + 4, words[1]);
        }
    }

    /// The job in `slot`.
    ///
    /// # Safety
    /// After the barrier behind [`drawn`](Self::drawn).
    #[inline(always)]
    #[track_caller]
    pub(super) unsafe fn job(&self, slot: u32) -> Job {
        // SAFETY: the caller's promise.
        let words = unsafe { [self.board.heard4(slot), self.board.heard4(slot + 4)] };
        Job::from_words::<A, V>(&self.params, self.log2_tile_steps, words)
    }
}
