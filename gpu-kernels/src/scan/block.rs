//! The block's layer: the segments of one tile, brought together in shared memory.
//!
//! A tile is `lanes` lanes by `THREADS / lanes` segments; every thread holds one segment
//! of one lane. The first `lanes` threads then step through the maps of the segments in
//! order: few segments follow each other, so this is cheaper than a tree, and it keeps
//! one fixed order of operations.

use super::ring::{Composed, Ring, SEGMENT, TILE};
use crate::simt::Shared;
use crate::simt::thread::thread_idx_x;

/// Threads of a block.
pub const THREADS: u32 = 256;
const LOG2_THREADS: u32 = THREADS.ilog2();

/// Gate and input of a map.
pub type Map<R> = (<R as Ring>::Value, <R as Ring>::Value);

/// Bytes for what the whole block agrees on.
const HEADER_BYTES: u32 = 96;

/// Shared memory of a board in bytes, a multiple of 16.
pub const fn board_bytes(log2_lanes: u32, v: u32) -> u32 {
    HEADER_BYTES + (3 * THREADS * v + ends(log2_lanes, v)) * size_of::<u32>() as u32
}

const fn ends(log2_lanes: u32, v: u32) -> u32 {
    (v << log2_lanes).next_multiple_of(4)
}

/// What a tile's threads share, for `V` channels a lane.
#[derive(Clone, Copy, Debug)]
pub struct Board<R: Ring, const V: usize> {
    header: Shared<u32>,
    gates: Shared<R::Value>,
    inputs: Shared<R::Value>,
    states: Shared<R::Value>,
    ends: Shared<R::Value>,
    log2_lanes: u32,
    lane: u32,
    segment: u32,
}

impl<R: Ring, const V: usize> Board<R, V> {
    /// The block's board, for tiles of `2^log2_lanes` lanes. Neighbouring threads are
    /// neighbouring lanes if `by_lane`, else neighbouring segments.
    #[inline(always)]
    pub fn new(log2_lanes: u32, by_lane: bool) -> Self {
        let words = THREADS * V as u32;
        let values = Shared::dynamic(HEADER_BYTES);
        let (thread, log2_segments) = (thread_idx_x(), LOG2_THREADS - log2_lanes);
        let (lane, segment) = if by_lane {
            (thread & ((1 << log2_lanes) - 1), thread >> log2_lanes)
        } else {
            (thread >> log2_segments, thread & ((1 << log2_segments) - 1))
        };
        Self {
            header: Shared::dynamic(0),
            gates: values,
            inputs: values.add(words),
            states: values.add(2 * words),
            ends: values.add(3 * words),
            log2_lanes,
            lane,
            segment,
        }
    }

    /// Lanes of the tile.
    #[inline(always)]
    pub fn lanes(&self) -> u32 {
        1 << self.log2_lanes
    }

    /// Segments of the tile.
    #[inline(always)]
    pub fn segments(&self) -> u32 {
        1 << (LOG2_THREADS - self.log2_lanes)
    }

    /// This thread's lane.
    #[inline(always)]
    pub fn lane(&self) -> u32 {
        self.lane
    }

    /// This thread's segment.
    #[inline(always)]
    pub fn segment(&self) -> u32 {
        self.segment
    }

    /// Channel after channel, so that neighbouring lanes use neighbouring banks.
    #[inline(always)]
    fn slot(&self, segment: u32, lane: u32, v: usize) -> u32 {
        v as u32 * THREADS + (segment << self.log2_lanes) + lane
    }

    /// Writes word `word` (0 to 23) of what the block agrees on.
    ///
    /// # Safety
    /// One thread, between two barriers.
    #[inline(always)]
    #[track_caller]
    pub unsafe fn announce(&self, word: u32, value: u32) {
        // SAFETY: the caller's promise.
        unsafe { self.header.store(word, value) }
    }

    /// Word `word` of what the block agrees on.
    ///
    /// # Safety
    /// After the barrier behind [`announce`](Self::announce).
    #[inline(always)]
    #[track_caller]
    pub unsafe fn heard(&self, word: u32) -> u32 {
        // SAFETY: the caller's promise.
        unsafe { self.header.load(word) }
    }

    /// Writes words `word ..` of what the block agrees on; `word` is a multiple of 4.
    ///
    /// # Safety
    /// As [`announce`](Self::announce).
    #[inline(always)]
    #[track_caller]
    pub unsafe fn announce4(&self, word: u32, values: [u32; 4]) {
        // SAFETY: the caller's promise.
        unsafe { self.header.store4(word, values) }
    }

    /// Words `word ..` of what the block agrees on; `word` is a multiple of 4.
    ///
    /// # Safety
    /// As [`heard`](Self::heard).
    #[inline(always)]
    #[track_caller]
    pub unsafe fn heard4(&self, word: u32) -> [u32; 4] {
        // SAFETY: the caller's promise.
        unsafe { self.header.load4(word) }
    }

    /// Writes the map of this thread's segment.
    ///
    /// # Safety
    /// The block is `THREADS` threads; every thread calls this once before the barrier.
    #[inline(always)]
    #[track_caller]
    pub unsafe fn put_map(&self, (gates, inputs): ([R::Value; V], [R::Value; V])) {
        unroll!(V, v => {
            let slot = self.slot(self.segment, self.lane, v);
            // SAFETY: one slot a thread and channel.
            unsafe {
                self.gates.store(slot, gates[v]);
                self.inputs.store(slot, inputs[v]);
            }
        });
    }

    /// The map of the whole tile in channel `v` of `lane`, or `None` if it may not be used.
    ///
    /// # Safety
    /// After the barrier behind [`put_map`](Self::put_map); `lane < lanes`.
    #[inline(always)]
    #[track_caller]
    pub unsafe fn compose(&self, lane: u32, v: usize) -> Option<Map<R>> {
        // SAFETY: every slot was written before the barrier.
        unsafe {
            let mut map = Composed::<R>::start();
            let mut segment = 0;
            while segment < self.segments() {
                let slot = self.slot(segment, lane, v);
                map = map.then(self.gates.load(slot), self.inputs.load(slot));
                segment += 1;
            }
            map.parts(TILE)
        }
    }

    /// Steps from `state` through the maps of the segments and writes the state before
    /// each of them. Returns the map of the whole tile, as [`compose`](Self::compose), and
    /// the state behind the last segment, or `None` if a step was unsound: then the
    /// segments must [`pass_on`](Self::pass_on) their states one after the other.
    ///
    /// # Safety
    /// As [`compose`](Self::compose); one thread a lane.
    #[inline(always)]
    #[track_caller]
    pub unsafe fn walk(
        &self,
        lane: u32,
        v: usize,
        state: R::Value,
    ) -> (Option<Map<R>>, Option<R::Value>) {
        let mut map = Composed::<R>::start();
        let (mut state, mut sound, mut segment) = (state, true, 0);
        while segment < self.segments() {
            let slot = self.slot(segment, lane, v);
            sound &= R::within(state, SEGMENT);
            // SAFETY: the maps were written before the barrier; this lane's states are
            // this thread's alone until the next one.
            unsafe {
                self.states.store(slot, state);
                let (gate, input) = (self.gates.load(slot), self.inputs.load(slot));
                state = R::step(gate, state, input);
                map = map.then(gate, input);
            }
            segment += 1;
        }
        // An unsound map has the gate NaN, and so the state behind it.
        sound &= R::within(state, SEGMENT);
        (map.parts(TILE), sound.then_some(state))
    }

    /// The state before this thread's segment.
    ///
    /// # Safety
    /// After the barrier behind [`walk`](Self::walk) or the previous segment's
    /// [`pass_on`](Self::pass_on).
    #[inline(always)]
    #[track_caller]
    pub unsafe fn state(&self) -> [R::Value; V] {
        let mut state = [R::NOTHING; V];
        unroll!(V, v => {
            // SAFETY: written before the barrier.
            state[v] = unsafe { self.states.load(self.slot(self.segment, self.lane, v)) };
        });
        state
    }

    /// Hands the state after this thread's segment to the lane's next one: the map's
    /// where that is sound, as [`walk`](Self::walk) did, else the one that stepping
    /// through the segment gave. The last segment's becomes the tile's [`end`](Self::end).
    ///
    /// # Safety
    /// One segment after the other, a barrier between.
    #[inline(always)]
    #[track_caller]
    pub unsafe fn pass_on(&self, state: [R::Value; V], stepped: [R::Value; V]) {
        unroll!(V, v => {
            let slot = self.slot(self.segment, self.lane, v);
            // SAFETY: this segment's turn; whoever reads what it writes does so after the
            // barrier.
            unsafe {
                let mapped = R::step(self.gates.load(slot), state[v], self.inputs.load(slot));
                let sound = R::within(state[v], SEGMENT) & R::within(mapped, SEGMENT);
                let next = if sound { mapped } else { stepped[v] };
                if self.segment + 1 < self.segments() {
                    self.states.store(slot + self.lanes(), next);
                } else {
                    self.set_end(self.lane, v, next);
                }
            }
        });
    }

    /// Writes the state after the tile in channel `v` of `lane`.
    ///
    /// # Safety
    /// `lane < lanes`; one thread a lane.
    #[inline(always)]
    #[track_caller]
    pub unsafe fn set_end(&self, lane: u32, v: usize, end: R::Value) {
        // SAFETY: the caller's promise.
        unsafe { self.ends.store(((v as u32) << self.log2_lanes) + lane, end) }
    }

    /// The state after the tile in channel `v` of `lane`.
    ///
    /// # Safety
    /// After the barrier behind [`set_end`](Self::set_end).
    #[inline(always)]
    #[track_caller]
    pub unsafe fn end(&self, lane: u32, v: usize) -> R::Value {
        // SAFETY: written before the barrier.
        unsafe { self.ends.load(((v as u32) << self.log2_lanes) + lane) }
    }
}
