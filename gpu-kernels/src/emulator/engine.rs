//! One launch: blocks that start, run in turns and end, on the thread that launches.
//!
//! The engine is reached from two sides that take turns: the loop below, and, while a
//! fiber runs, the functions in `lane` that the kernel calls. Neither keeps a reference
//! to it across a switch: the loop works through a raw pointer, a lane borrows for the
//! length of one call.

use super::block::{Blame, Block, State};
use super::fault::{Fault, FaultKind, HangCause, Site};
use super::fiber::{Fiber, Turn};
use super::memory::Memory;
use super::order::Order;
use super::schedule::Schedule;
use super::shared::SharedMemory;
use super::{Config, Stats, clocks::Knowledge};
use crate::simt::LaunchShape;
use std::collections::HashMap;

/// Rounds of nothing but spinning, with no change in memory, after which a wait has no end.
const SPINS: u64 = 1000;
/// The same with no change that another block could see.
const SPINS_GLOBAL: u64 = 20_000;
/// Accesses of one thread without a change anywhere, for loops that wait without `spin_hint`.
const ACCESSES: u64 = 1 << 25;
/// A thread that did this much since its last `spin_hint` is at work, not spinning.
const AT_WORK: u64 = 4096;

pub(super) struct Engine<'a> {
    pub(super) config: Config,
    pub(super) kernel: &'static str,
    pub(super) shape: LaunchShape,
    pub(super) memory: &'a mut Memory,
    pub(super) schedule: Schedule,
    pub(super) blocks: Vec<Block>,
    /// The block and thread whose fiber runs.
    pub(super) current: (usize, usize),
    pub(super) countdown: u32,
    /// What words in global memory hand on to those who read them.
    pub(super) released: HashMap<u64, Knowledge>,
    pub(super) fault: Option<Fault>,
    /// Changes of memory; blocks that started and threads that ended count too.
    pub(super) changes: u64,
    /// Those that other blocks can see.
    pub(super) changes_global: u64,
    pub(super) stats: Stats,
    /// Clock at the start, and the largest one since.
    clock: u32,
    pub(super) latest: u32,
    unstarted: u64,
    spare_shared: Vec<SharedMemory>,
}

impl<'a> Engine<'a> {
    pub(super) fn new(
        config: Config,
        kernel: &'static str,
        shape: LaunchShape,
        memory: &'a mut Memory,
        clock: u32,
    ) -> Self {
        let mut schedule = Schedule::new(config.seed);
        let countdown = schedule.until_switch();
        Self {
            config,
            kernel,
            shape,
            memory,
            schedule,
            blocks: Vec::new(),
            current: (0, 0),
            countdown,
            released: HashMap::new(),
            fault: None,
            changes: 0,
            changes_global: 0,
            stats: Stats::default(),
            clock,
            latest: clock,
            unstarted: 0,
            spare_shared: Vec::new(),
        }
    }

    /// Starts a block whose threads run `fiber`.
    fn start(
        &mut self,
        number: u32,
        fiber: &dyn Fn() -> Result<Fiber, String>,
    ) -> Result<(), FaultKind> {
        let fibers = (0..self.shape.threads())
            .map(|_| fiber())
            .collect::<Result<Vec<_>, _>>()
            .map_err(|reason| FaultKind::Launch {
                found: format!("{} threads a block", self.shape.threads()),
                expected: format!("a block the host has memory for ({reason})"),
            })?;
        let [x, y, _] = self.shape.grid;
        let index = [number % x, number / x % y, number / x / y];
        let shift = key_shift(&self.shape);
        let order = Order::new(self.clock, number, shift, fibers.len());
        let shared = match self.spare_shared.pop() {
            Some(mut shared) => {
                shared.reset();
                shared
            }
            None => SharedMemory::new(self.shape.shared_bytes as usize),
        };
        self.blocks.push(Block::new(index, order, shared, fibers));
        self.unstarted -= 1;
        self.change_global();
        Ok(())
    }

    /// Takes the threads of a block that can run, in the order of the schedule.
    fn take_round(&mut self, block: usize, round: &mut Vec<u16>) {
        round.clear();
        round.append(&mut self.blocks[block].ready);
        self.schedule.order_threads(round);
    }

    /// Takes a thread's fiber out, so that nothing here refers to it while it runs.
    fn begin_turn(&mut self, block: usize, thread: usize) -> Option<Fiber> {
        self.current = (block, thread);
        self.stats.turns += 1;
        self.blocks[block].threads[thread].fiber.take()
    }

    fn end_turn(&mut self, fiber: Fiber, turn: Turn) {
        let (block, thread) = self.current;
        match turn {
            Turn::Paused => self.blocks[block].threads[thread].fiber = Some(fiber),
            Turn::Ended => {
                self.change_global();
                if let Some(blame) = self.blocks[block].end(thread) {
                    self.blame(block, blame);
                }
            }
            Turn::Panicked { message, site } => {
                let kind = FaultKind::Panic { message };
                self.report(block, thread, site, kind);
            }
        }
    }

    /// After a round of a block: is anyone left, and does anyone get anywhere?
    fn end_round(&mut self, block: usize, spun: bool) {
        let (changes, changes_global) = (self.changes, self.changes_global);
        let state = &mut self.blocks[block];
        if state.live > 0 && state.ready.is_empty() {
            if let Some(blame) = state.explain_stall() {
                self.blame(block, blame);
            }
            return;
        }
        let spins = &mut state.spins;
        for (rounds, since, now) in [
            (&mut spins.rounds, &mut spins.since, changes),
            (
                &mut spins.rounds_global,
                &mut spins.since_global,
                changes_global,
            ),
        ] {
            if *since != now {
                (*rounds, *since) = (0, now);
            }
            *rounds += u64::from(spun);
        }
        let stuck = |block: &Block| {
            (block.spins.since == changes && block.spins.rounds >= SPINS)
                || (block.spins.since_global == changes_global
                    && block.spins.rounds_global >= SPINS_GLOBAL)
        };
        if spun && self.blocks.iter().all(stuck) {
            let rounds = self.blocks[block].spins.rounds_global;
            self.hang(block, HangCause::Spinning(rounds));
        }
        if self.stats.turns >= self.config.turn_limit {
            self.hang(block, HangCause::TurnLimit(self.stats.turns));
        }
    }

    /// Every block waits: blames the first thread of `block` that spins.
    fn hang(&mut self, block: usize, cause: HangCause) {
        let threads = &self.blocks[block].threads;
        let thread = threads
            .iter()
            .position(|t| t.spun_at.is_some() && matches!(t.state, State::Ready))
            .or_else(|| threads.iter().position(|t| matches!(t.state, State::Ready)))
            .unwrap_or(0);
        let line = threads[thread].spun_at;
        let kind = self.hanging(cause);
        self.blame(block, Blame { thread, line, kind });
    }

    pub(super) fn hanging(&self, cause: HangCause) -> FaultKind {
        FaultKind::Hang {
            cause,
            resident: self.blocks.len(),
            waiting: self.unstarted,
        }
    }

    fn retire(&mut self, block: usize) {
        let block = self.blocks.swap_remove(block);
        self.latest = self.latest.max(block.order.latest());
        self.spare_shared.push(block.shared);
        self.stats.blocks += 1;
    }

    pub(super) fn change_global(&mut self) {
        self.changes += 1;
        self.changes_global += 1;
    }

    fn blame(&mut self, block: usize, blame: Blame) {
        self.report(block, blame.thread, blame.line.map(Site::from), blame.kind);
    }

    /// Records the launch's fault; the first one counts.
    pub(super) fn report(
        &mut self,
        block: usize,
        thread: usize,
        site: Option<Site>,
        kind: FaultKind,
    ) {
        if self.fault.is_none() {
            self.fault = Some(Fault {
                kernel: self.kernel,
                block: self.blocks.get(block).map_or([0; 3], |block| block.index),
                thread: self.thread_index(thread as u32),
                site,
                kind,
                seed: self.config.seed,
            });
        }
    }

    pub(super) fn thread_index(&self, thread: u32) -> [u32; 3] {
        let [x, y, _] = self.shape.block;
        [thread % x, thread / x % y, thread / x / y]
    }

    pub(super) fn block_index(&self, block: u32) -> [u32; 3] {
        let [x, y, _] = self.shape.grid;
        [block % x, block / x % y, block / x / y]
    }
}

/// Bits of a thread's key that number it in its block. Warps keep to multiples of 32.
pub(super) fn key_shift(shape: &LaunchShape) -> u32 {
    shape.threads().next_power_of_two().trailing_zeros().max(5)
}

/// Runs all blocks to their end, or to the first fault.
///
/// # Safety
/// `engine` is valid and nobody else uses it, except the fibers this resumes, through the
/// thread's current-engine pointer.
pub(super) unsafe fn run(engine: *mut Engine<'_>, fiber: &dyn Fn() -> Result<Fiber, String>) {
    // SAFETY: the caller's promise; every borrow below ends before a fiber runs.
    let with = || unsafe { &mut *engine };
    let blocks = with().shape.grid.iter().product::<u32>();
    with().unstarted = u64::from(blocks);
    let mut waiting = with().schedule.block_order(blocks).peekable();
    let mut round = Vec::new();
    while with().fault.is_none() {
        while with().blocks.len() < with().schedule.resident as usize {
            let Some(number) = waiting.next() else { break };
            if let Err(kind) = with().start(number, fiber) {
                with().report(usize::MAX, 0, None, kind);
                return;
            }
        }
        if with().blocks.is_empty() {
            return;
        }
        let resident = with().blocks.len() as u32;
        let block = with().schedule.random.below(resident) as usize;
        with().take_round(block, &mut round);
        let mut spun = false;
        let mut worked = false;
        for thread in &round {
            let thread = usize::from(*thread);
            let Some(mut fiber) = with().begin_turn(block, thread) else {
                continue;
            };
            let turn = fiber.resume();
            with().end_turn(fiber, turn);
            let state = &with().blocks[block].threads[thread];
            spun |= state.spun_at.is_some() && state.accesses == 0;
            worked |= matches!(state.state, State::Ready) && state.accesses > AT_WORK;
            if with().fault.is_some() {
                break;
            }
        }
        if with().fault.is_some() {
            break;
        }
        with().end_round(block, spun && !worked);
        if with().blocks[block].live == 0 {
            with().retire(block);
        }
    }
    // Unwinds what is left, while the engine is still there.
    let left = std::mem::take(&mut with().blocks);
    let latest = left.iter().map(|block| block.order.latest()).max();
    with().latest = with().latest.max(latest.unwrap_or(0));
    drop(left);
}

impl Engine<'_> {
    /// One more access of the running thread; whether another one should run now.
    #[inline]
    pub(super) fn count_access(&mut self) -> Result<bool, FaultKind> {
        self.stats.accesses += 1;
        let (block, thread) = self.current;
        let thread = &mut self.blocks[block].threads[thread];
        thread.accesses += 1;
        self.countdown -= 1;
        if self.countdown > 0 {
            return Ok(false);
        }
        self.countdown = self.schedule.until_switch();
        if thread.idle_since != self.changes {
            (thread.idle_since, thread.idle_from) = (self.changes, thread.accesses);
        } else if thread.accesses.saturating_sub(thread.idle_from) > ACCESSES {
            return Err(self.hanging(HangCause::Reading(ACCESSES)));
        }
        Ok(true)
    }
}
