//! A tile in its chain: the state before it, from what the tiles before it have published.

use super::kernel::Worker;
use super::place::Job;
use crate::scan::access::{Access, Number};
use crate::scan::block::THREADS;
use crate::scan::lookback::Link;
use crate::simt::thread::{sync_threads, sync_threads_or, thread_idx_x};
use crate::simt::warp::{self, FULL_MASK};
use crate::simt::{Global, Word};

/// Word of the board's header: how far a look-back has to step.
const BACK: u32 = 17;

impl<A: Access<V>, const V: usize, const GRADIENTS: bool> Worker<A, V, GRADIENTS> {
    /// Publishes the tile's map and finds the state before it from what the tiles before it
    /// have published: `states` of the first `lanes` threads.
    ///
    /// # Safety
    /// The whole block, in a tile that has a predecessor.
    #[inline(always)]
    #[track_caller]
    pub(super) unsafe fn look_back(&self, job: &Job, link: &Link, states: &mut [Number<A, V>; V]) {
        let Self {
            params,
            board,
            window,
            ..
        } = self;
        let thread = thread_idx_x();
        let steps_for_lane = thread < board.lanes();
        let channel = thread * V as u32;
        let before = job.before;
        let mut back = 0;
        // SAFETY: as each step says.
        unsafe {
            if thread >> 5 == 0 {
                let mut sound = true;
                if steps_for_lane {
                    unroll!(V, v => {
                        match board.compose(thread, v) {
                            Some(map) => link.put_map::<A::Ring>(channel + v as u32, map),
                            None => sound = false,
                        }
                    });
                }
                if warp::all(FULL_MASK, sound) && thread == 0 {
                    link.hint_maps();
                }
                back = link.look_back(before, params.window);
                if steps_for_lane {
                    unroll!(V, v => {
                        states[v] = if back < before {
                            link.state_before::<A::Ring>(channel + v as u32, back)
                        } else {
                            let channel = self.channel(job.group) + u64::from(channel) + v as u64;
                            initial::<A, V>(params.h0, params.channels, job.sequence, channel)
                        };
                    });
                }
                if thread == 0 {
                    board.announce(BACK, back);
                }
            }
            if sync_threads_or(back > 0) {
                back = board.heard(BACK);
                link.fetch_maps::<A::Ring>(THREADS, back, *window);
                sync_threads();
                if steps_for_lane {
                    unroll!(V, v => {
                        let channel = channel + v as u32;
                        states[v] =
                            link.step_through::<A::Ring>(channel, back, *window, states[v]);
                    });
                }
            }
        }
    }
}

/// The state of a channel that `h0`, `[sequences, channels]`, gives; zero without it.
///
/// # Safety
/// `h0` is null or has `channels` numbers for the sequence.
#[inline(always)]
#[track_caller]
pub(super) unsafe fn initial<A: Access<V>, const V: usize>(
    h0: Global<f32>,
    channels: u64,
    sequence: u32,
    channel: u64,
) -> Number<A, V> {
    if h0.is_null() || channel >= channels {
        return Word::from_bits(0);
    }
    let at = u64::from(sequence) * channels + channel;
    // SAFETY: the caller's promise.
    unsafe { h0.cast::<Number<A, V>>().load(at as usize) }
}
