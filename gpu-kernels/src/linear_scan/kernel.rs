//! The linear scan's kernel.
//!
//! Floors. Bytes: `a` and `b` are read once, `h` is written once; the look-back adds less
//! than 2%. Operations: the map of a segment and the scan through it, 3 multiply-adds an
//! element, and 4 comparisons that watch over the map; shared memory moves 32 bytes an
//! f32 element, a third of what it could. The memory is the wall.

use super::place::{Part, array_elements, find_part, tile, view};
use super::{LinearScanParams, policy};
use crate::scan::access::{Access, View};
use crate::scan::block::{Board, THREADS, board_bytes};
use crate::scan::lookback::{self, Link};
use crate::scan::ring::{Ring, TILE};
use crate::scan::thread::Segment;
use crate::scan::tile::Tile;
use crate::simt::thread::{block_idx_x, sync_threads, sync_threads_or, thread_idx_x};
use crate::simt::warp::{self, FULL_MASK};
use crate::simt::{Shared, Word, async_copy};

type Number<A, const V: usize> = <<A as Access<V>>::Ring as Ring>::Value;

/// A block's work on its tile.
struct Worker<A: Access<V>, const V: usize> {
    params: LinearScanParams<A::Element>,
    board: Board<A::Ring, V>,
    log2_tile_steps: u32,
    gates: Shared<A::Element>,
    /// Inputs, then states.
    inputs: Shared<A::Element>,
    window: Shared<Number<A, V>>,
    view: View,
    tag: u32,
}

/// What a ticket stands for.
struct Job {
    part: Part,
    tile: Tile,
    group: u32,
    /// Time steps of the tile.
    left: u32,
}

/// # Safety
/// The buffers cover what `params` describes; launched as [`policy::launch`] says.
#[inline(always)]
pub unsafe fn scan_tiles<A: Access<V>, const V: usize, const FULL: bool>(
    params: LinearScanParams<A::Element>,
) {
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
    let mut worker = Worker::<A, V>::new(params);
    // SAFETY: the launch contract; every access below is inside it, as each step says.
    unsafe {
        let mut ticket = block_idx_x();
        if !params.scratch.is_null() {
            if thread_idx_x() == 0 {
                let (ticket, tag) = lookback::draw(params.scratch, params.groups * params.tiles);
                worker.board.announce(0, ticket);
                worker.board.announce(1, tag);
            }
            sync_threads();
            (ticket, worker.tag) = (worker.board.heard(0), worker.board.heard(1));
        }
        let job = worker.begin(ticket);
        async_copy::wait::<0>();
        sync_threads();
        worker.work(&job);
    }
}

impl<A: Access<V>, const V: usize> Worker<A, V> {
    #[inline(always)]
    fn new(params: LinearScanParams<A::Element>) -> Self {
        let board = Board::new(params.log2_lanes, A::ROWS);
        let log2_tile_steps = params.log2_steps + board.segments().ilog2();
        let array = array_elements::<A, V>(&params, log2_tile_steps);
        let gates = Shared::<A::Element>::dynamic(board_bytes(params.log2_lanes, V as u32));
        let inputs = gates.add(array);
        let view = view::<A, V>(&params, &board, log2_tile_steps);
        let window = inputs.add(array).cast();
        Self {
            params,
            board,
            log2_tile_steps,
            gates,
            inputs,
            window,
            view,
            tag: 0,
        }
    }

    /// Starts copying a ticket's tile to shared memory.
    ///
    /// # Safety
    /// The whole block; one of the launch's tickets.
    #[inline(always)]
    #[track_caller]
    unsafe fn begin(&self, ticket: u32) -> Job {
        let params = &self.params;
        let group = ticket % params.groups;
        // SAFETY: the tile lies where it says.
        unsafe {
            let part = find_part(params, self.log2_tile_steps, ticket / params.groups);
            let first = u64::from(part.before) << self.log2_tile_steps;
            let steps = 1u64 << self.log2_tile_steps;
            let left = part.length.saturating_sub(first).min(steps) as u32;
            let tile = tile::<A, V>(
                params,
                &part,
                first,
                left,
                self.log2_tile_steps,
                self.channel(group),
            );
            tile.copy_in(THREADS, params.a, self.gates, A::from_value(A::Ring::ONE));
            tile.copy_in(
                THREADS,
                params.b,
                self.inputs,
                A::from_value(A::Ring::NOTHING),
            );
            async_copy::commit();
            Job {
                part,
                tile,
                group,
                left,
            }
        }
    }

    /// First channel of a group.
    #[inline(always)]
    fn channel(&self, group: u32) -> u64 {
        (u64::from(group) << self.params.log2_lanes) * V as u64
    }

    /// Scans a tile and writes it back.
    ///
    /// # Safety
    /// The whole block; the tile is complete, behind a barrier.
    #[inline(always)]
    #[track_caller]
    unsafe fn work(&self, job: &Job) {
        let Self {
            params,
            board,
            view,
            window,
            ..
        } = self;
        let Job {
            part,
            tile,
            group,
            left,
        } = job;
        let (group, left) = (*group, *left);
        let thread = thread_idx_x();
        let chained = !params.scratch.is_null();
        let inputs = self.inputs;
        let segment = Segment {
            gates: self.gates,
            inputs,
            view: *view,
            steps: 1 << params.log2_steps,
        };
        // The first `lanes` threads step for a lane each; in a chain they are one warp.
        let steps_for_lane = thread < board.lanes();
        let channel = thread * V as u32;
        let first_channel = self.channel(group);
        let scratch = policy::scratch(params.groups, params.tiles, params.log2_lanes, V as u32);
        let link = Link::new(params.scratch, scratch, self.tag, group, part.link);
        let before = if left > 0 { part.before } else { 0 };
        // SAFETY: as each step says.
        unsafe {
            board.put_map(segment.compose::<A, V>());
            sync_threads();

            let mut maps = [None; V];
            if steps_for_lane {
                unroll!(V, v => { maps[v] = board.compose(thread, v); });
            }
            let mut states = [A::Ring::NOTHING; V];
            let mut back = 0;
            if chained {
                if thread >> 5 == 0 {
                    let mut sound = true;
                    if steps_for_lane {
                        unroll!(V, v => {
                            match maps[v] {
                                Some(map) => link.put_map::<A::Ring>(channel + v as u32, map),
                                None => sound = false,
                            }
                        });
                    }
                    if warp::all(FULL_MASK, sound) && thread == 0 {
                        link.hint_maps();
                    }
                    back = link.look_back(before, params.window);
                    if steps_for_lane && back < before {
                        unroll!(V, v => {
                            states[v] = link.state_before::<A::Ring>(channel + v as u32, back);
                        });
                    }
                    if thread == 0 {
                        board.announce(2, back);
                    }
                }
                if sync_threads_or(back > 0) {
                    back = board.heard(2);
                    link.fetch_maps::<A::Ring>(THREADS, back, *window);
                    sync_threads();
                }
            }

            // From the state before the tile to those before its segments and behind it.
            let mut ends = [A::Ring::NOTHING; V];
            let mut end_known = [true; V];
            let mut unsound = false;
            if steps_for_lane {
                unroll!(V, v => {
                    if back == before {
                        let channel = first_channel + u64::from(channel) + v as u64;
                        states[v] = initial::<A, V>(params, part.sequence, channel);
                    }
                    let state =
                        link.step_through::<A::Ring>(channel + v as u32, back, *window, states[v]);
                    let walked = board.walk(thread, v, state);
                    unsound |= walked.is_none();
                    // The tile's map, where it may be used, decides the state behind the
                    // tile: whoever steps over this tile uses it too.
                    let end = match maps[v] {
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
            }

            let serial = sync_threads_or(unsound);
            if serial {
                // Element by element, one segment after the other.
                let mut turn = 0;
                while turn < board.segments() {
                    if board.segment() == turn {
                        let state = board.state();
                        let stepped = segment.scan::<A, V>(state);
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
            if chained && thread == 0 {
                link.hint_states();
            }

            // The tile's last state is the one that its successor starts from.
            if left > 0 && board.segment() == (left - 1) >> params.log2_steps {
                let mut end = [A::Ring::NOTHING; V];
                unroll!(V, v => { end[v] = board.end(board.lane(), v); });
                A::write_one(inputs, view, (left - 1) & (segment.steps - 1), end);
            }
            sync_threads();
            tile.copy_out(THREADS, inputs, params.h);

            // A packed sequence of whole tiles has one tile too many, which is not the last.
            let is_last = (u64::from(part.before) << self.log2_tile_steps) + u64::from(left)
                == part.length
                && (left > 0 || part.length == 0);
            if !params.final_state.is_null() && is_last && steps_for_lane {
                let all = params.final_state.cast::<Number<A, V>>();
                unroll!(V, v => {
                    let channel = first_channel + u64::from(channel) + v as u64;
                    if channel < params.channels {
                        let at = u64::from(part.sequence) * params.channels + channel;
                        all.store(at as usize, if left > 0 { ends[v] } else { states[v] });
                    }
                });
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
