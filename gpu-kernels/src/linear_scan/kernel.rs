//! The linear scan's kernel.
//!
//! Floors. Bytes: `a` and `b` are read once, `h` is written once; the look-back adds less
//! than 2%. Operations: the map of a segment and the scan through it, 3 multiply-adds an
//! element, and 4 comparisons that watch over the map; shared memory moves 32 bytes an
//! f32 element, a third of what it could. The memory is the wall.

use super::chain::initial;
use super::edges::Beyond;
use super::place::{array_elements, view};
use super::tickets::{Drawing, JOB, TAG};
use super::{Gradients, LinearScanParams, policy};
use crate::scan::access::{Access, Number};
use crate::scan::block::{Board, THREADS, board_bytes};
use crate::scan::lookback::Link;
use crate::scan::ring::{Ring, TILE};
use crate::scan::thread::Segment;
use crate::simt::thread::{sync_threads, sync_threads_or, thread_idx_x};
use crate::simt::{Shared, async_copy};

/// A block's work on its tiles. With `GRADIENTS`, on those of the gradient scan: its gates
/// stand one step late, and it gives the products `g[t] * h[t + 1]` besides the states `g`.
pub(super) struct Worker<A: Access<V>, const V: usize, const GRADIENTS: bool> {
    pub(super) params: LinearScanParams<A::Element>,
    pub(super) gradients: Gradients<A::Element>,
    pub(super) board: Board<A::Ring, V>,
    pub(super) log2_tile_steps: u32,
    pub(super) window: Shared<Number<A, V>>,
    pub(super) tag: u32,
    pub(super) segment: Segment<A::Element>,
    /// States of the forward scan, of `GRADIENTS`.
    pub(super) others: Shared<A::Element>,
}

/// # Safety
/// The buffers cover what `params` describes; launched as [`policy::launch`] says.
#[inline(always)]
pub unsafe fn scan_tiles<A: Access<V>, const V: usize, const FULL: bool, const GRADIENTS: bool>(
    params: LinearScanParams<A::Element>,
    gradients: Gradients<A::Element>,
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
    unsafe { Worker::<A, V, GRADIENTS>::new(params, gradients, rare_steps).run() }
}

impl<A: Access<V>, const V: usize, const GRADIENTS: bool> Worker<A, V, GRADIENTS> {
    #[inline(always)]
    fn new(
        params: LinearScanParams<A::Element>,
        gradients: Gradients<A::Element>,
        rare_steps: u32,
    ) -> Self {
        let board = Board::new(params.log2_lanes, A::ROWS);
        let log2_tile_steps = params.log2_steps + board.segments().ilog2();
        let array = array_elements::<A, V>(&params, log2_tile_steps);
        let gates = Shared::<A::Element>::dynamic(board_bytes(params.log2_lanes, V as u32));
        let inputs = gates.add(array);
        let others = inputs.add(array);
        let window = if GRADIENTS { others.add(array) } else { others };
        Self {
            params,
            gradients,
            board,
            log2_tile_steps,
            window: window.cast(),
            tag: 0,
            segment: Segment {
                gates,
                inputs,
                view: view::<A, V>(&params, log2_tile_steps, board.lane(), board.segment()),
                steps: 1 << params.log2_steps,
                rare_steps,
            },
            others,
        }
    }

    /// Works on tiles until there are none left.
    ///
    /// # Safety
    /// The whole block.
    #[inline(always)]
    #[track_caller]
    unsafe fn run(&mut self) {
        let Self {
            params, gradients, ..
        } = *self;
        let Segment { gates, inputs, .. } = self.segment;
        let (one, nothing) = (A::Ring::ONE, A::Ring::NOTHING);
        // What is used up when a tile is scanned, and not written: the next tile's comes
        // while this one's results leave.
        let (early, early_target, early_fill) = if GRADIENTS {
            (gradients.states, self.others, nothing)
        } else {
            (params.a, gates, one)
        };
        // SAFETY: an array is filled behind the barrier after its last use.
        unsafe {
            let mut drawing = Drawing::default();
            let mut slot = 0;
            self.draw(&mut drawing);
            self.drawn(&mut drawing, slot);
            sync_threads();
            self.tag = self.board.heard(TAG);
            self.begin(slot, early, early_target, early_fill);
            while self.is_job(slot) {
                if GRADIENTS {
                    self.begin(slot, params.a, gates, one);
                }
                self.begin(slot, params.b, inputs, nothing);
                async_copy::commit();
                let beyond = self.beyond(slot);
                async_copy::wait::<0>();
                sync_threads();
                self.scan(slot, beyond, &mut drawing);
                sync_threads();
                self.begin(slot ^ JOB, early, early_target, early_fill);
                let tile = self.job(slot).tile;
                tile.copy_out(THREADS, inputs, params.h);
                if GRADIENTS {
                    tile.copy_out(THREADS, gates, gradients.grad_a);
                }
                sync_threads();
                slot ^= JOB;
            }
        }
    }

    /// First channel of a group.
    #[inline(always)]
    pub(super) fn channel(&self, group: u32) -> u64 {
        (u64::from(group) << self.params.log2_lanes) * V as u64
    }

    /// Scans a tile; works out meanwhile what the next ticket stands for.
    ///
    /// # Safety
    /// The whole block; the tile is complete, behind a barrier.
    #[inline(always)]
    #[track_caller]
    unsafe fn scan(&self, slot: u32, beyond: Beyond<A, V>, drawing: &mut Drawing) {
        let Self {
            params,
            board,
            segment,
            ..
        } = self;
        // SAFETY: written a barrier ago.
        let job = &unsafe { self.job(slot) };
        let left = job.left::<A, V>();
        let thread = thread_idx_x();
        let chained = !params.scratch.is_null();
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
                        states[v] = initial::<A, V>(params.h0, params.channels, job.sequence, channel);
                    }
                });
            }
            let mut first_gate = [A::Ring::ONE; V];
            if GRADIENTS {
                first_gate = self.first_gate(&beyond);
            }
            board.put_map(segment.compose::<A, V>(GRADIENTS.then_some(first_gate)));
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

            // Behind the sequence's last step its own gate applies once more: a step that
            // changes nothing has done it, unless the tile ended there.
            let last_gate = if GRADIENTS && steps_for_lane && left >> self.log2_tile_steps != 0 {
                let last = board.segments() - 1;
                let view = view::<A, V>(params, self.log2_tile_steps, thread, last);
                Some(A::read_one(segment.gates, &view, segment.steps - 1))
            } else {
                None
            };

            let serial = sync_threads_or(unsound);
            if serial {
                // Element by element, one segment after the other.
                let mut turn = 0;
                while turn < board.segments() {
                    if board.segment() == turn {
                        let state = board.state();
                        let rare = Segment {
                            steps: segment.rare_steps,
                            ..*segment
                        };
                        let stepped = self.scan_segment(&rare, job, state, first_gate, &beyond);
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
                self.scan_segment(segment, job, board.state(), first_gate, &beyond);
            }

            self.drawn(drawing, slot ^ JOB);

            // The tile's last state is the one that its successor starts from.
            if !GRADIENTS && left > 0 && board.segment() == (left - 1) >> params.log2_steps {
                let mut end = [A::Ring::NOTHING; V];
                unroll!(V, v => { end[v] = board.end(board.lane(), v); });
                let step = (left - 1) & (segment.steps - 1);
                A::write_one(segment.inputs, &segment.view, step, end);
            }

            if job.last && !params.final_state.is_null() && steps_for_lane {
                let all = params.final_state.cast::<Number<A, V>>();
                unroll!(V, v => {
                    let channel = first_channel + v as u64;
                    if channel < params.channels {
                        let at = u64::from(job.sequence) * params.channels + channel;
                        let mut end = if left > 0 { ends[v] } else { states[v] };
                        if let Some(gate) = last_gate {
                            end = A::Ring::multiply(gate[v], end);
                        }
                        all.store(at as usize, end);
                    }
                });
            }
        }
    }
}
