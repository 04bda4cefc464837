//! The linear scan's kernel.
//!
//! Floors. Bytes: `a` and `b` are read once, `h` is written once; the look-back adds less
//! than 2%. Operations: the map of a segment and the scan through it, 3 multiply-adds an
//! element, and 4 comparisons that watch over the map; shared memory moves 32 bytes an
//! f32 element, a third of what it could. The memory is the wall.

use super::place::{Job, NO_JOB, array_elements, view};
use super::{LinearScanParams, policy};
use crate::scan::access::{Access, View};
use crate::scan::block::{Board, THREADS, board_bytes};
use crate::scan::lookback::{self, Link};
use crate::scan::ring::{Ring, TILE};
use crate::scan::thread::Segment;
use crate::simt::thread::{block_idx_x, grid_dim_x, sync_threads, sync_threads_or, thread_idx_x};
use crate::simt::warp::{self, FULL_MASK};
use crate::simt::{Global, Shared, Word, async_copy};

type Number<A, const V: usize> = <<A as Access<V>>::Ring as Ring>::Value;

/// A block's work on its tile.
struct Worker<A: Access<V>, const V: usize> {
    params: LinearScanParams<A::Element>,
    rare_steps: u32,
    board: Board<A::Ring, V>,
    log2_tile_steps: u32,
    gates: Shared<A::Element>,
    /// Inputs, then states.
    inputs: Shared<A::Element>,
    window: Shared<Number<A, V>>,
    view: View,
    tag: u32,
}

/// Words of the board's header: two jobs, this one and the next, then these.
const JOB: u32 = 8;
const TAG: u32 = 16;
const BACK: u32 = 17;

/// The thread that draws tickets, while the first warp steps.
const DRAWS: u32 = 32;

/// A ticket under way; only the thread that draws has one.
#[derive(Clone, Copy, Debug, Default)]
struct Drawing {
    /// The counter as it was.
    counter: u64,
    count: u32,
    last: bool,
}

/// # Safety
/// The buffers cover what `params` describes; launched as [`policy::launch`] says.
#[inline(always)]
pub unsafe fn scan_tiles<A: Access<V>, const V: usize, const FULL: bool>(
    params: LinearScanParams<A::Element>,
) {
    let rare_steps = 1 << params.log2_steps;
    // The usual tile's sizes are literals: addresses become immediate offsets.
    let params = if FULL {
        let (log2_steps, log2_lanes) = policy::full(A::ROWS, size_of::<A::Element>() as u32);
        LinearScanParams {
            log2_steps,
            log2_lanes,
            ..params
        }
    } else {
        params
    };
    // SAFETY: the launch contract; every access below is inside it, as each step says.
    unsafe { Worker::<A, V>::new(params, rare_steps).run() }
}

impl<A: Access<V>, const V: usize> Worker<A, V> {
    #[inline(always)]
    fn new(params: LinearScanParams<A::Element>, rare_steps: u32) -> Self {
        let board = Board::new(params.log2_lanes, A::ROWS);
        let log2_tile_steps = params.log2_steps + board.segments().ilog2();
        let array = array_elements::<A, V>(&params, log2_tile_steps);
        let gates = Shared::<A::Element>::dynamic(board_bytes(params.log2_lanes, V as u32));
        let inputs = gates.add(array);
        let view = view::<A, V>(&params, &board, log2_tile_steps);
        let window = inputs.add(array).cast();
        Self {
            params,
            rare_steps,
            board,
            log2_tile_steps,
            gates,
            inputs,
            window,
            view,
            tag: 0,
        }
    }

    /// Works on tiles until there are none left.
    ///
    /// # Safety
    /// The whole block.
    #[inline(always)]
    #[track_caller]
    unsafe fn run(&mut self) {
        let params = self.params;
        // SAFETY: an array is filled behind the barrier after its last use.
        unsafe {
            let mut drawing = Drawing::default();
            let mut slot = 0;
            self.draw(&mut drawing);
            self.drawn(&mut drawing, slot);
            sync_threads();
            self.tag = self.board.heard(TAG);
            self.begin(slot, params.a, self.gates, A::Ring::ONE);
            while self.is_job(slot) {
                self.begin(slot, params.b, self.inputs, A::Ring::NOTHING);
                async_copy::commit();
                async_copy::wait::<0>();
                sync_threads();
                self.scan(slot, &mut drawing);
                sync_threads();
                // The gates have been used: the next tile's come while the states go.
                self.begin(slot ^ JOB, params.a, self.gates, A::Ring::ONE);
                let tile = self.job(slot).tile;
                tile.copy_out(THREADS, self.inputs, params.h);
                sync_threads();
                slot ^= JOB;
            }
        }
    }

    /// Starts copying one array of the tile in `slot`, if there is one, to shared memory.
    ///
    /// # Safety
    /// As [`job`](Self::job); nobody uses what is in `target`.
    #[inline(always)]
    #[track_caller]
    unsafe fn begin(
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
    unsafe fn is_job(&self, slot: u32) -> bool {
        // SAFETY: the caller's promise.
        unsafe { self.board.heard(slot + 7) != NO_JOB[3] }
    }

    /// One thread draws a ticket.
    ///
    /// # Safety
    /// The whole block.
    #[inline(always)]
    #[track_caller]
    unsafe fn draw(&self, drawing: &mut Drawing) {
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
    unsafe fn drawn(&self, drawing: &mut Drawing, slot: u32) {
        if thread_idx_x() != DRAWS {
            return;
        }
        let (params, blocks) = (&self.params, grid_dim_x());
        let tickets = params.groups * params.tiles;
        // SAFETY: one thread.
        unsafe {
            let mut words = [NO_JOB; 2];
            if !drawing.last {
                let ticket = if params.scratch.is_null() {
                    block_idx_x() + drawing.count * blocks
                } else {
                    let (ticket, tag) =
                        lookback::drawn(params.scratch, drawing.counter, tickets, blocks);
                    self.board.announce(TAG, tag);
                    ticket
                };
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
    unsafe fn job(&self, slot: u32) -> Job {
        // SAFETY: the caller's promise.
        let words = unsafe { [self.board.heard4(slot), self.board.heard4(slot + 4)] };
        Job::from_words::<A, V>(&self.params, self.log2_tile_steps, words)
    }

    /// First channel of a group.
    #[inline(always)]
    fn channel(&self, group: u32) -> u64 {
        (u64::from(group) << self.params.log2_lanes) * V as u64
    }

    /// Scans a tile; works out meanwhile what the next ticket stands for.
    ///
    /// # Safety
    /// The whole block; the tile is complete, behind a barrier.
    #[inline(always)]
    #[track_caller]
    unsafe fn scan(&self, slot: u32, drawing: &mut Drawing) {
        let Self {
            params,
            board,
            view,
            ..
        } = self;
        // SAFETY: written a barrier ago.
        let job = &unsafe { self.job(slot) };
        let left = job.left::<A, V>();
        let thread = thread_idx_x();
        let chained = !params.scratch.is_null();
        let segment = Segment {
            gates: self.gates,
            inputs: self.inputs,
            view: *view,
            steps: 1 << params.log2_steps,
            rare_steps: self.rare_steps,
        };
        // The first `lanes` threads step for a lane each; in a chain they are one warp.
        let steps_for_lane = thread < board.lanes();
        let channel = thread * V as u32;
        let first_channel = self.channel(job.group) + u64::from(channel);
        let scratch = policy::scratch(params.groups, params.tiles, params.log2_lanes, V as u32);
        let link = Link::new(params.scratch, scratch, self.tag, job.group, job.link);
        let before = if left > 0 { job.before } else { 0 };
        // SAFETY: as each step says.
        unsafe {
            // The state before the tile, if it is known already: asked for now, looked at
            // when the segments' maps are there.
            let mut states = [A::Ring::NOTHING; V];
            let mut asked = [0; V];
            if steps_for_lane {
                unroll!(V, v => {
                    if before > 0 {
                        asked[v] = link.ask(channel + v as u32);
                    } else {
                        let channel = first_channel + v as u64;
                        states[v] = initial::<A, V>(params, job.sequence, channel);
                    }
                });
            }
            board.put_map(segment.compose::<A, V>());
            let mut unknown = false;
            if steps_for_lane && before > 0 {
                unroll!(V, v => {
                    match link.answer::<Number<A, V>>(asked[v]) {
                        Some(state) => states[v] = state,
                        None => unknown = true,
                    }
                });
            }
            let unknown = sync_threads_or(unknown);
            if unknown {
                self.look_back(job, &link, &mut states);
            }
            // Not before: the tile that is drawn now has to be at work soon.
            self.draw(drawing);

            // From the state before the tile to those before its segments and behind it.
            let mut ends = [A::Ring::NOTHING; V];
            let mut end_known = [true; V];
            let mut unsound = false;
            if steps_for_lane {
                unroll!(V, v => {
                    let state = states[v];
                    let (map, walked) = board.walk(thread, v, state);
                    unsound |= walked.is_none();
                    // The tile's map, where it may be used, decides the state behind the
                    // tile: whoever steps over this tile uses it too.
                    let end = match map {
                        Some((gate, input)) if A::Ring::within(state, TILE) => {
                            Some(A::Ring::step(gate, state, input))
                        }
                        _ => walked,
                    };
                    end_known[v] = end.is_some();
                    ends[v] = end.unwrap_or(A::Ring::NOTHING);
                    board.set_end(thread, v, ends[v]);
                    if chained && end_known[v] {
                        link.put_state::<A::Ring>(channel + v as u32, ends[v]);
                    }
                });
                if chained && thread == 0 {
                    link.hint_states();
                }
            }

            let serial = sync_threads_or(unsound);
            if serial {
                // Element by element, one segment after the other.
                let mut turn = 0;
                while turn < board.segments() {
                    if board.segment() == turn {
                        let state = board.state();
                        let rare = Segment {
                            steps: segment.rare_steps,
                            ..segment
                        };
                        let stepped = rare.scan::<A, V>(state);
                        board.pass_on(state, stepped);
                    }
                    sync_threads();
                    turn += 1;
                }
                if steps_for_lane {
                    unroll!(V, v => {
                        if end_known[v] {
                            board.set_end(thread, v, ends[v]);
                        } else {
                            ends[v] = board.end(thread, v);
                            if chained {
                                link.put_state::<A::Ring>(channel + v as u32, ends[v]);
                            }
                        }
                    });
                }
                sync_threads();
            } else {
                segment.scan::<A, V>(board.state());
            }

            self.drawn(drawing, slot ^ JOB);

            // The tile's last state is the one that its successor starts from.
            if left > 0 && board.segment() == (left - 1) >> params.log2_steps {
                let mut end = [A::Ring::NOTHING; V];
                unroll!(V, v => { end[v] = board.end(board.lane(), v); });
                A::write_one(self.inputs, view, (left - 1) & (segment.steps - 1), end);
            }

            if job.last && !params.final_state.is_null() && steps_for_lane {
                let all = params.final_state.cast::<Number<A, V>>();
                unroll!(V, v => {
                    let channel = first_channel + v as u64;
                    if channel < params.channels {
                        let at = u64::from(job.sequence) * params.channels + channel;
                        all.store(at as usize, if left > 0 { ends[v] } else { states[v] });
                    }
                });
            }
        }
    }

    /// Publishes the tile's map and finds the state before it from what the tiles before it
    /// have published: `states` of the first `lanes` threads.
    ///
    /// # Safety
    /// The whole block, in a tile that has a predecessor.
    #[inline(always)]
    #[track_caller]
    unsafe fn look_back(&self, job: &Job, link: &Link, states: &mut [Number<A, V>; V]) {
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
                            initial::<A, V>(params, job.sequence, channel)
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

/// The state of a channel before the sequence's first step.
#[inline(always)]
#[track_caller]
unsafe fn initial<A: Access<V>, const V: usize>(
    params: &LinearScanParams<A::Element>,
    sequence: u32,
    channel: u64,
) -> Number<A, V> {
    if params.h0.is_null() || channel >= params.channels {
        return Word::from_bits(0);
    }
    let at = u64::from(sequence) * params.channels + channel;
    // SAFETY: `sequence` and `channel` are in range.
    unsafe { params.h0.cast::<Number<A, V>>().load(at as usize) }
}
