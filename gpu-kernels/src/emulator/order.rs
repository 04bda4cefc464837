//! Which accesses are ordered: the clocks of one block's threads, and the edges that
//! barriers, warp synchronisation, fences, acquires and releases draw between them.
//!
//! Every thread has a clock. A barrier sets all clocks of its block to one new number, so
//! everything before it carries a smaller one; `sync_warp` does the same among its lanes.
//! Edges between blocks are [`Knowledge`]s that travel with the words they synchronise on.

use super::clocks::Knowledge;

/// The order among one block's threads.
#[derive(Debug)]
pub(super) struct Order {
    /// Clock at the launch's start: what carries less belongs to an earlier launch.
    start: u32,
    /// Clock of the last barrier.
    clock: u32,
    /// The block's number in the grid.
    block: u32,
    /// Keys of threads are `block << shift | thread`.
    shift: u32,
    lanes: Vec<Lane>,
    common: Knowing,
}

#[derive(Clone, Debug)]
struct Lane {
    clock: u32,
    /// For each lane of the warp, the clock before which this one has seen everything.
    seen: [u32; 32],
    /// What this thread knows beyond the block's common knowledge.
    own: Option<Box<Knowing>>,
}

#[derive(Clone, Debug, Default)]
struct Knowing {
    /// What has happened before now.
    known: Knowledge,
    /// What had happened before the last fence: a relaxed store after it hands this on.
    fenced: Knowledge,
    /// What relaxed loads have read: the next fence turns it into `known`.
    read: Knowledge,
}

impl Knowing {
    fn join(&mut self, other: &Self) {
        self.known.join(&other.known);
        self.fenced.join(&other.fenced);
        self.read.join(&other.read);
    }
}

impl Order {
    pub(super) fn new(start: u32, block: u32, shift: u32, threads: usize) -> Self {
        let lane = Lane {
            clock: start,
            seen: [0; 32],
            own: None,
        };
        Self {
            start,
            clock: start,
            block,
            shift,
            lanes: vec![lane; threads],
            common: Knowing::default(),
        }
    }

    pub(super) fn start(&self) -> u32 {
        self.start
    }

    /// The largest clock any thread has reached.
    pub(super) fn latest(&self) -> u32 {
        self.lanes.iter().map(|lane| lane.clock).max().unwrap_or(0)
    }

    #[inline]
    pub(super) fn key(&self, thread: usize) -> u32 {
        self.block << self.shift | thread as u32
    }

    /// Block and thread of a key.
    pub(super) fn whose(&self, key: u32) -> (u32, u32) {
        (key >> self.shift, key & ((1 << self.shift) - 1))
    }

    #[inline]
    pub(super) fn clock(&self, thread: usize) -> u32 {
        self.lanes[thread].clock
    }

    /// Whether what `key` did at `clock` happened before what `thread` does now.
    #[inline]
    pub(super) fn before(&self, thread: usize, key: u32, clock: u32) -> bool {
        if clock < self.start || key == self.key(thread) {
            return true;
        }
        let (block, other) = self.whose(key);
        if block == self.block {
            if clock < self.clock {
                return true;
            }
            if other as usize / 32 == thread / 32
                && clock < self.lanes[thread].seen[other as usize % 32]
            {
                return true;
            }
        }
        self.knows(thread, block, key, clock)
    }

    fn knows(&self, thread: usize, block: u32, key: u32, clock: u32) -> bool {
        self.common.known.covers(block, key, clock)
            || self.lanes[thread]
                .own
                .as_ref()
                .is_some_and(|own| own.known.covers(block, key, clock))
    }

    /// Every thread of the block has met every other.
    pub(super) fn barrier(&mut self) {
        let clock = self.latest() + 1;
        self.clock = clock;
        for lane in &mut self.lanes {
            lane.clock = clock;
            if let Some(own) = lane.own.take() {
                self.common.join(&own);
            }
        }
    }

    /// The lanes `mask` of warp `warp` have met each other.
    pub(super) fn sync_warp(&mut self, warp: usize, mask: u32) {
        let first = warp * 32;
        let members = || (0..32).filter(|lane| mask >> lane & 1 != 0);
        let clock = members()
            .map(|lane| self.lanes[first + lane].clock)
            .max()
            .unwrap_or(0)
            + 1;
        let mut seen = [0; 32];
        let mut own: Option<Box<Knowing>> = None;
        for lane in members() {
            let lane = &self.lanes[first + lane];
            for (all, one) in seen.iter_mut().zip(&lane.seen) {
                *all = (*one).max(*all);
            }
            if let Some(knowing) = &lane.own {
                own.get_or_insert_default().join(knowing);
            }
        }
        for lane in members() {
            seen[lane] = clock;
        }
        for lane in members() {
            let lane = &mut self.lanes[first + lane];
            lane.clock = clock;
            lane.seen = seen;
            lane.own.clone_from(&own);
        }
    }

    /// Everything that happened before now, to be handed on. What the thread does after
    /// this carries a later clock.
    fn snapshot(&mut self, thread: usize) -> Knowledge {
        let mut all = self.common.known.clone();
        let (warp, key) = (thread / 32 * 32, self.key(thread));
        let lane = &mut self.lanes[thread];
        if let Some(own) = &lane.own {
            all.join(&own.known);
        }
        lane.clock += 1;
        let mut seen = lane.seen;
        seen[thread - warp] = lane.clock;
        all.blocks.raise(self.block, self.clock);
        all.threads.raise_leaf(key >> 5, seen);
        all
    }

    /// A releasing store: what it hands on.
    pub(super) fn release(&mut self, thread: usize) -> Knowledge {
        self.snapshot(thread)
    }

    /// An acquiring load of a word that carried `word`.
    pub(super) fn acquire(&mut self, thread: usize, word: &Knowledge) {
        self.own(thread).known.join(word);
    }

    /// A relaxed load of a word that carried `word`.
    pub(super) fn read(&mut self, thread: usize, word: &Knowledge) {
        self.own(thread).read.join(word);
    }

    /// A relaxed store: what it hands on, which is what the last fence covers.
    pub(super) fn fenced(&self, thread: usize) -> Knowledge {
        let mut fenced = self.common.fenced.clone();
        if let Some(own) = &self.lanes[thread].own {
            fenced.join(&own.fenced);
        }
        fenced
    }

    /// A fence: acquires what relaxed loads before it read, and covers for relaxed stores after it.
    pub(super) fn fence(&mut self, thread: usize) {
        let read = self.common.read.clone();
        let own = self.own(thread);
        let mut known = std::mem::take(&mut own.read);
        known.join(&read);
        own.known.join(&known);
        let all = self.snapshot(thread);
        self.own(thread).fenced = all;
    }

    fn own(&mut self, thread: usize) -> &mut Knowing {
        self.lanes[thread].own.get_or_insert_default()
    }
}
