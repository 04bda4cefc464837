//! What a thread of the gradient scan needs from beyond its segment: the gate one step
//! before it and the state of the forward scan one step behind it.

use super::chain::initial;
use super::kernel::Worker;
use super::place::{Job, view};
use crate::scan::access::{Access, Number};
use crate::scan::ring::Ring;
use crate::scan::thread::{Edges, Segment};
use crate::simt::Global;

/// Gates before the tile and states behind it.
#[derive(Clone, Copy)]
pub(super) struct Beyond<A: Access<V>, const V: usize> {
    gate: [A::Element; V],
    other: [A::Element; V],
}

/// No step.
const NO_STEP: u32 = u32::MAX;

impl<A: Access<V>, const V: usize, const GRADIENTS: bool> Worker<A, V, GRADIENTS> {
    /// Reads what lies beyond the tile in `slot`, for the threads at its ends.
    ///
    /// # Safety
    /// There is a job in `slot`.
    #[inline(always)]
    #[track_caller]
    pub(super) unsafe fn beyond(&self, slot: u32) -> Beyond<A, V> {
        let mut beyond = Beyond {
            gate: [A::from_value(A::Ring::ONE); V],
            other: [A::from_value(A::Ring::NOTHING); V],
        };
        if GRADIENTS {
            let board = &self.board;
            // SAFETY: steps of the sequence that lie beyond the tile.
            unsafe {
                let job = self.job(slot);
                if board.segment() == 0 && job.before > 0 && job.left::<A, V>() > 0 {
                    beyond.gate = self.read(&job, self.params.a, u64::MAX, beyond.gate);
                }
                if board.segment() + 1 == board.segments() && !job.last {
                    let behind = 1u64 << self.log2_tile_steps;
                    let states = self.gradients.states;
                    beyond.other = self.read(&job, states, behind, beyond.other);
                }
            }
        }
        beyond
    }

    /// Step `step` of this thread's lane, `otherwise` where there is no such channel.
    #[inline(always)]
    #[track_caller]
    unsafe fn read(
        &self,
        job: &Job,
        array: Global<A::Element>,
        step: u64,
        otherwise: [A::Element; V],
    ) -> [A::Element; V] {
        let lane = self.board.lane();
        let first = job.element::<A, V>(&self.params, lane, step);
        let channel = self.channel(job.group) + u64::from(lane) * V as u64;
        let mut elements = otherwise;
        unroll!(V, v => {
            if channel + (v as u64) < self.params.channels {
                // SAFETY: the caller's promise.
                elements[v] = unsafe { array.load_once((first + v as u64) as usize) };
            }
        });
        elements
    }

    /// The gate one step before this thread's segment.
    ///
    /// # Safety
    /// The tile is complete, behind a barrier; nobody has written to its gates.
    #[inline(always)]
    #[track_caller]
    pub(super) unsafe fn first_gate(&self, beyond: &Beyond<A, V>) -> [Number<A, V>; V] {
        let (board, own) = (&self.board, &self.segment);
        let mut gate = [A::Ring::ONE; V];
        if board.segment() > 0 {
            let before = board.segment() - 1;
            let view = view::<A, V>(&self.params, self.log2_tile_steps, board.lane(), before);
            // SAFETY: the caller's promise; the step lies in the tile.
            gate = unsafe { A::read_one(own.gates, &view, own.steps - 1) };
        } else {
            unroll!(V, v => { gate[v] = A::to_value(beyond.gate[v]); });
        }
        gate
    }

    /// The edges of this thread's segment, whose [first gate](Self::first_gate) is `gate`.
    ///
    /// # Safety
    /// The tile is complete, behind a barrier.
    #[inline(always)]
    #[track_caller]
    unsafe fn edges(
        &self,
        job: &Job,
        gate: [Number<A, V>; V],
        beyond: &Beyond<A, V>,
    ) -> Edges<[Number<A, V>; V]> {
        let (params, board, own) = (&self.params, &self.board, &self.segment);
        let (lane, segment) = (board.lane(), board.segment());
        let mut edges = Edges {
            gate,
            other: [A::Ring::NOTHING; V],
            end: NO_STEP,
            behind: [A::Ring::NOTHING; V],
        };
        // SAFETY: as the caller promises; the step lies in the tile.
        unsafe {
            if segment + 1 < board.segments() {
                let view = view::<A, V>(params, self.log2_tile_steps, lane, segment + 1);
                edges.other = A::read_one(self.others, &view, 0);
            } else {
                unroll!(V, v => { edges.other[v] = A::to_value(beyond.other[v]); });
            }
            let left = job.left::<A, V>();
            if job.last && left > 0 && (left - 1) >> params.log2_steps == segment {
                edges.end = (left - 1) & (own.steps - 1);
                let channel = self.channel(job.group) + u64::from(lane) * V as u64;
                // Behind the last step stands the forward scan's initial state.
                let h0 = self.gradients.h0;
                unroll!(V, v => {
                    let channel = channel + v as u64;
                    edges.behind[v] =
                        initial::<A, V>(h0, params.channels, job.sequence, channel);
                });
            }
        }
        edges
    }

    /// Scans this thread's segment from `state`; returns the last state, unrounded.
    ///
    /// # Safety
    /// As [`Segment::scan`].
    #[inline(always)]
    #[track_caller]
    pub(super) unsafe fn scan_segment(
        &self,
        segment: &Segment<A::Element>,
        job: &Job,
        state: [Number<A, V>; V],
        gate: [Number<A, V>; V],
        beyond: &Beyond<A, V>,
    ) -> [Number<A, V>; V] {
        // SAFETY: the caller's promise.
        unsafe {
            if GRADIENTS {
                let edges = self.edges(job, gate, beyond);
                segment.scan_gradients::<A, V>(state, &edges, self.others)
            } else {
                segment.scan::<A, V>(state)
            }
        }
    }
}
