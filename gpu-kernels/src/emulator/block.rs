//! A block that runs: its threads, who waits for whom, its shared memory.

use super::fault::{FaultKind, Whereabouts};
use super::fiber::{Fiber, Pause};
use super::matrix::{self, MatrixOperands};
use super::order::Order;
use super::shared::{AsyncCopy, SharedMemory};
use super::warp::{Operands, WarpOp};
use std::collections::VecDeque;
use std::panic::Location;

pub(super) type Line = &'static Location<'static>;

pub(super) struct Block {
    pub(super) index: [u32; 3],
    pub(super) threads: Vec<Thread>,
    /// Threads that can run, in no particular order.
    pub(super) ready: Vec<u16>,
    pub(super) live: usize,
    at_barrier: usize,
    first_at_barrier: Option<(usize, Line)>,
    /// Whether a thread at the barrier brought a predicate that holds, and whether one did
    /// at the last barrier that everyone passed.
    vote: bool,
    pub(super) voted: bool,
    /// Warp operations that wait for lanes, per warp.
    groups: Vec<Vec<Group>>,
    pub(super) order: Order,
    pub(super) shared: SharedMemory,
    /// Rounds in a row in which threads did nothing but spin.
    pub(super) spins: Spins,
}

/// How long a block has been spinning.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Spins {
    /// Rounds since anything changed.
    pub(super) rounds: u64,
    /// The change that was the last one then.
    pub(super) since: u64,
    /// The same, for changes that other blocks can see.
    pub(super) rounds_global: u64,
    pub(super) since_global: u64,
}

pub(super) struct Thread {
    pub(super) fiber: Option<Fiber>,
    /// How to pause; set when the fiber starts.
    pub(super) pause: *const Pause,
    pub(super) state: State,
    /// What its warp operation returned.
    pub(super) result: u32,
    /// What it brought to its last matrix product, and its part of the result.
    pub(super) factors: MatrixOperands,
    pub(super) product: [f32; 4],
    /// Where it last called `spin_hint`.
    pub(super) spun_at: Option<Line>,
    /// Memory accesses since then.
    pub(super) accesses: u64,
    /// The last change it saw, and `accesses` then.
    pub(super) idle_since: u64,
    pub(super) idle_from: u64,
    open: Vec<AsyncCopy>,
    committed: VecDeque<Vec<AsyncCopy>>,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum State {
    Ready,
    Barrier(Line),
    Warp(WarpOp, u32, Line),
    Ended,
}

/// Lanes that have arrived at one warp operation.
struct Group {
    op: WarpOp,
    mask: u32,
    line: Line,
    arrived: u32,
    operands: [Operands; 32],
}

/// A fault of a thread of this block.
pub(super) struct Blame {
    pub(super) thread: usize,
    pub(super) line: Option<Line>,
    pub(super) kind: FaultKind,
}

fn same_line(a: Line, b: Line) -> bool {
    std::ptr::eq(a, b) || a == b
}

impl Block {
    pub(super) fn new(
        index: [u32; 3],
        order: Order,
        shared: SharedMemory,
        fibers: Vec<Fiber>,
    ) -> Self {
        let threads: Vec<Thread> = fibers
            .into_iter()
            .map(|fiber| Thread {
                fiber: Some(fiber),
                pause: std::ptr::null(),
                state: State::Ready,
                result: 0,
                factors: MatrixOperands::default(),
                product: [0.0; 4],
                spun_at: None,
                accesses: 0,
                idle_since: 0,
                idle_from: 0,
                open: Vec::new(),
                committed: VecDeque::new(),
            })
            .collect();
        Self {
            index,
            ready: (0..threads.len() as u16).collect(),
            live: threads.len(),
            at_barrier: 0,
            first_at_barrier: None,
            vote: false,
            voted: false,
            groups: (0..threads.len().div_ceil(32))
                .map(|_| Vec::new())
                .collect(),
            order,
            shared,
            spins: Spins::default(),
            threads,
        }
    }

    /// Arrives at the block's barrier. Everyone goes on once the last one is there.
    pub(super) fn arrive_at_barrier(
        &mut self,
        thread: usize,
        predicate: bool,
        line: Line,
    ) -> Result<bool, FaultKind> {
        let diverges = |other: usize, instead| {
            Err(FaultKind::BarrierDivergence {
                other: [other as u32, 0, 0],
                instead,
            })
        };
        if self.live < self.threads.len()
            && let Some(other) = self
                .threads
                .iter()
                .position(|t| matches!(t.state, State::Ended))
        {
            return diverges(other, Whereabouts::Ended);
        }
        match self.first_at_barrier {
            None => self.first_at_barrier = Some((thread, line)),
            Some((other, at)) if !same_line(at, line) => {
                return diverges(other, Whereabouts::Barrier(at.into()));
            }
            Some(_) => {}
        }
        self.threads[thread].state = State::Barrier(line);
        self.at_barrier += 1;
        self.vote |= predicate;
        if self.at_barrier < self.threads.len() {
            return Ok(false);
        }
        self.at_barrier = 0;
        self.first_at_barrier = None;
        self.voted = std::mem::take(&mut self.vote);
        self.order.barrier();
        for thread in &mut self.threads {
            thread.state = State::Ready;
        }
        self.ready.clear();
        self.ready.extend(0..self.threads.len() as u16);
        Ok(true)
    }

    /// Arrives at a warp operation; the result, if this lane was the last of the mask.
    pub(super) fn arrive_at_warp_op(
        &mut self,
        thread: usize,
        op: WarpOp,
        mask: u32,
        operands: Operands,
        line: Line,
    ) -> Result<Option<u32>, Blame> {
        let (warp, lane) = (thread / 32, thread % 32);
        if mask >> lane & 1 == 0 {
            return Err(Blame {
                thread,
                line: Some(line),
                kind: FaultKind::OutsideMask {
                    operation: op.name(),
                    mask,
                    lane: lane as u32,
                },
            });
        }
        let groups = &mut self.groups[warp];
        let index = groups
            .iter()
            .position(|g| g.op == op && g.mask == mask && same_line(g.line, line));
        let index = index.unwrap_or_else(|| {
            groups.push(Group {
                op,
                mask,
                line,
                arrived: 0,
                operands: Default::default(),
            });
            groups.len() - 1
        });
        let group = &mut groups[index];
        group.arrived |= 1 << lane;
        group.operands[lane] = operands;
        if group.arrived != mask {
            self.threads[thread].state = State::Warp(op, mask, line);
            return Ok(None);
        }
        let group = groups.swap_remove(index);
        let results = op
            .evaluate(mask, &group.operands)
            .map_err(|(lane, kind)| Blame {
                thread: warp * 32 + lane as usize,
                line: Some(line),
                kind,
            })?;
        if op == WarpOp::Sync {
            self.order.sync_warp(warp, mask);
        }
        if op.is_product() {
            self.multiply(op, warp);
        }
        for other in (0..32).filter(|other| mask >> other & 1 != 0 && *other != lane) {
            let other = warp * 32 + other;
            self.threads[other].state = State::Ready;
            self.threads[other].result = results[other % 32];
            self.ready.push(other as u16);
        }
        Ok(Some(results[lane]))
    }

    /// All lanes of a warp have brought their parts of a matrix product.
    fn multiply(&mut self, op: WarpOp, warp: usize) {
        let threads = &mut self.threads[warp * 32..][..32];
        let products = matrix::multiply(op, &std::array::from_fn(|lane| threads[lane].factors));
        for (thread, product) in threads.iter_mut().zip(products) {
            thread.product = product;
        }
    }

    /// The thread's kernel has returned.
    pub(super) fn end(&mut self, thread: usize) -> Option<Blame> {
        self.threads[thread].state = State::Ended;
        self.live -= 1;
        let (waiting, line) = self.first_at_barrier?;
        Some(Blame {
            thread: waiting,
            line: Some(line),
            kind: FaultKind::BarrierDivergence {
                other: [thread as u32, 0, 0],
                instead: Whereabouts::Ended,
            },
        })
    }

    /// Why nobody in this block can run, though not everyone has ended.
    pub(super) fn explain_stall(&self) -> Option<Blame> {
        for (thread, waiting) in self.threads.iter().enumerate() {
            let State::Warp(op, mask, line) = waiting.state else {
                continue;
            };
            let first = thread / 32 * 32;
            let missing = (0..32).filter(|lane| mask >> lane & 1 != 0).find(|lane| {
                !matches!(
                    self.threads.get(first + lane).map(|t| t.state),
                    Some(State::Warp(o, m, l)) if o == op && m == mask && same_line(l, line)
                )
            })?;
            return Some(Blame {
                thread,
                line: Some(line),
                kind: FaultKind::MaskMismatch {
                    operation: op.name(),
                    mask,
                    lane: missing as u32,
                    instead: self.whereabouts(first + missing),
                },
            });
        }
        None
    }

    fn whereabouts(&self, thread: usize) -> Whereabouts {
        match self.threads.get(thread).map(|t| t.state) {
            None => Whereabouts::Absent,
            Some(State::Ended) => Whereabouts::Ended,
            Some(State::Ready) => Whereabouts::Running,
            Some(State::Barrier(line)) => Whereabouts::Barrier(line.into()),
            Some(State::Warp(op, mask, line)) => Whereabouts::Warp {
                operation: op.name(),
                mask,
                site: line.into(),
            },
        }
    }

    pub(super) fn start_copy(&mut self, thread: usize, copy: AsyncCopy) {
        self.shared.mark_pending(copy.offset, copy.size);
        self.threads[thread].open.push(copy);
    }

    pub(super) fn commit_copies(&mut self, thread: usize) {
        let thread = &mut self.threads[thread];
        thread.committed.push_back(std::mem::take(&mut thread.open));
    }

    /// Lands the thread's copies, all but those of its `pending` newest groups.
    pub(super) fn wait_copies(&mut self, thread: usize, pending: usize, races: bool) {
        while self.threads[thread].committed.len() > pending {
            for copy in self.threads[thread]
                .committed
                .pop_front()
                .unwrap_or_default()
            {
                self.shared.land(&copy);
                if races {
                    // Nobody can have touched it meanwhile: this only sets the time of the write.
                    self.shared.shadow.access(
                        &self.order,
                        thread,
                        copy.offset,
                        copy.size,
                        super::shadow::Access::AsyncCopy,
                    );
                }
            }
        }
    }

    /// Whose copy is still writing the byte.
    pub(super) fn copy_owner(&self, offset: usize) -> usize {
        let covers = |copy: &AsyncCopy| (copy.offset..copy.offset + copy.size).contains(&offset);
        self.threads
            .iter()
            .position(|t| {
                t.open
                    .iter()
                    .chain(t.committed.iter().flatten())
                    .any(covers)
            })
            .unwrap_or(0)
    }
}
