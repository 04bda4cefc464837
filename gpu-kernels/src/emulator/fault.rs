//! What a kernel did wrong, where, and how to see it again.

use super::shadow::Access;
use std::panic::Location;

/// A fault stops the launch. Its message names kernel, block, thread and source line,
/// what was found and what was expected, and the seed that replays it.
#[derive(Clone, Debug)]
pub struct Fault {
    /// The entry point.
    pub kernel: &'static str,
    /// The block's index in the grid.
    pub block: [u32; 3],
    /// The thread's index in its block.
    pub thread: [u32; 3],
    /// The line of the kernel that called into `simt`, where there is one.
    pub site: Option<Site>,
    /// What it did.
    pub kind: FaultKind,
    /// `FERROSEQ_EMU_SEED` of the schedule.
    pub seed: u64,
}

/// A place in a source file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Site {
    /// The file, as the compiler names it.
    pub file: String,
    /// The line, from 1.
    pub line: u32,
}

impl From<&Location<'_>> for Site {
    fn from(location: &Location<'_>) -> Self {
        Self {
            file: location.file().to_owned(),
            line: location.line(),
        }
    }
}

/// The fault classes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FaultKind {
    /// The launch itself makes no sense; nothing ran.
    Launch {
        /// What was asked for.
        found: String,
        /// What is possible.
        expected: String,
    },
    /// Not all threads of the block reach this barrier.
    BarrierDivergence {
        /// Another thread of the block.
        other: [u32; 3],
        /// What it does instead.
        instead: Whereabouts,
    },
    /// A warp operation whose mask does not name the lane that calls it.
    OutsideMask {
        /// The operation.
        operation: &'static str,
        /// Its mask.
        mask: u32,
        /// The lane.
        lane: u32,
    },
    /// A warp operation whose mask names a lane that does not take part.
    MaskMismatch {
        /// The operation.
        operation: &'static str,
        /// Its mask.
        mask: u32,
        /// The lane that is missing.
        lane: u32,
        /// What it does instead.
        instead: Whereabouts,
    },
    /// A shuffle that reads a lane outside its mask.
    InactiveLane {
        /// The operation.
        operation: &'static str,
        /// Its mask.
        mask: u32,
        /// The lane it reads.
        source: u32,
    },
    /// An access outside every live array.
    OutOfBounds {
        /// How.
        access: Access,
        /// Where.
        place: Place,
        /// Bytes accessed.
        size: usize,
        /// Bytes of the array, 0 where no array is near.
        length: usize,
    },
    /// An address that is no multiple of what the access needs.
    Misaligned {
        /// How.
        access: Access,
        /// Where.
        place: Place,
        /// Bytes the address must be a multiple of.
        alignment: usize,
    },
    /// An access to an array that has been freed.
    UseAfterFree {
        /// How.
        access: Access,
        /// Where.
        place: Place,
    },
    /// A read of memory that nobody wrote.
    Unwritten {
        /// Where.
        place: Place,
    },
    /// Two accesses, one of them a write, that nothing orders.
    Race {
        /// How this thread accesses.
        access: Access,
        /// Where.
        place: Place,
        /// Whether the other access was a write.
        other_wrote: bool,
        /// The other thread's block.
        other_block: [u32; 3],
        /// The other thread.
        other_thread: [u32; 3],
    },
    /// An access to the target of an asynchronous copy before its wait.
    AsyncPending {
        /// How.
        access: Access,
        /// Where.
        place: Place,
        /// The thread that started the copy.
        owner: [u32; 3],
    },
    /// A wait that cannot end.
    Hang {
        /// How that shows.
        cause: HangCause,
        /// Blocks that run.
        resident: usize,
        /// Blocks that have not started.
        waiting: u64,
    },
    /// The kernel called `trap`.
    Trap,
    /// The kernel panicked.
    Panic {
        /// With this message.
        message: String,
    },
}

/// What tells that a wait cannot end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HangCause {
    /// Every running block has done nothing but spin for this many rounds.
    Spinning(u64),
    /// One thread has accessed memory this many times and nothing has changed anywhere.
    Reading(u64),
    /// The launch has taken this many turns, the limit of the machine.
    TurnLimit(u64),
}

/// Where in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// Byte of the dynamic shared memory.
    Shared {
        /// From its start.
        byte: i64,
    },
    /// Byte of an array in global memory.
    Global {
        /// The address.
        address: u64,
        /// The array's address, if one is near.
        array: Option<u64>,
    },
}

/// What a thread does that others wait for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Whereabouts {
    /// It has ended.
    Ended,
    /// The block has no such thread.
    Absent,
    /// It runs, or spins.
    Running,
    /// It waits at a barrier.
    Barrier(Site),
    /// It waits in a warp operation.
    Warp {
        /// The operation.
        operation: &'static str,
        /// Its mask.
        mask: u32,
        /// Where.
        site: Site,
    },
}
