//! Faults in words: what was found, and what was expected.

use super::fault::{Fault, FaultKind, HangCause, Place, Site, Whereabouts};
use super::shadow::Access;
use std::fmt;

struct Index([u32; 3]);

impl fmt::Display for Index {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            [x, 0, 0] => write!(f, "{x}"),
            [x, y, z] => write!(f, "({x}, {y}, {z})"),
        }
    }
}

impl Fault {
    /// Everything but the kernel's name.
    pub fn message(&self) -> String {
        let (kind, seed) = (&self.kind, self.seed);
        let place = match (kind, &self.site) {
            (FaultKind::Launch { .. }, _) => String::new(),
            (_, None) => format!("{}: ", self.who()),
            (_, Some(site)) => format!("{}, at {site}: ", self.who()),
        };
        format!("{place}{kind} (FERROSEQ_EMU_SEED={seed})")
    }

    fn who(&self) -> String {
        let (block, thread) = (Index(self.block), Index(self.thread));
        format!("block {block}, thread {thread}")
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.kernel, self.message())
    }
}

impl std::error::Error for Fault {}

impl fmt::Display for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}

impl fmt::Display for FaultKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Launch { found, expected } => {
                write!(f, "launched with {found}, expected {expected}")
            }
            Self::BarrierDivergence { other, instead } => write!(
                f,
                "waits at a barrier that thread {} does not reach: it {instead}; \
                 every thread of the block must reach the same barrier",
                Index(*other)
            ),
            Self::OutsideMask {
                operation,
                mask,
                lane,
            } => write!(
                f,
                "lane {lane} calls {operation} with mask {mask:#010x}, which does not name it"
            ),
            Self::MaskMismatch {
                operation,
                mask,
                lane,
                instead,
            } => write!(
                f,
                "{operation} with mask {mask:#010x} waits for lane {lane}, which {instead}; \
                 every lane of the mask must make the same call with the same mask"
            ),
            Self::InactiveLane {
                operation,
                mask,
                source,
            } => write!(
                f,
                "{operation} reads lane {source}, which its mask {mask:#010x} does not name"
            ),
            Self::OutOfBounds {
                access,
                place,
                size,
                length,
            } => {
                write!(f, "{access} of {size} bytes at {place}, ")?;
                match length {
                    0 => f.write_str("where there is no array"),
                    _ => write!(f, "but that array has {length} bytes"),
                }
            }
            Self::Misaligned {
                access,
                place,
                alignment,
            } => write!(
                f,
                "{access} at {place}, whose address is no multiple of {alignment}"
            ),
            Self::UseAfterFree { access, place } => {
                write!(f, "{access} at {place}, which has been freed")
            }
            Self::Unwritten { place } => write!(f, "reads {place}, which nobody has written"),
            Self::Race {
                access,
                place,
                other_wrote,
                other_block,
                other_thread,
            } => write!(
                f,
                "data race: {access} at {place}, which block {}, thread {} {} with nothing to \
                 order the two (a barrier, a warp synchronisation, or release and acquire)",
                Index(*other_block),
                Index(*other_thread),
                if *other_wrote { "wrote" } else { "read" },
            ),
            Self::AsyncPending {
                access,
                place,
                owner,
            } => write!(
                f,
                "{access} at {place}, the target of an asynchronous copy that thread {} has \
                 not waited for",
                Index(*owner)
            ),
            Self::Hang {
                cause,
                resident,
                waiting,
            } => write!(
                f,
                "waits for ever: {cause} ({resident} blocks run, {waiting} have not started: a \
                 kernel may not wait for a block that is not promised to run)"
            ),
            Self::Trap => f.write_str("trap"),
            Self::Panic { message } => write!(f, "panicked: {message}"),
        }
    }
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Load => "load",
            Self::Store => "store",
            Self::AtomicLoad => "atomic load",
            Self::AtomicStore => "atomic store",
            Self::AtomicUpdate => "atomic update",
            Self::AsyncCopy => "asynchronous copy",
        })
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Shared { byte } => write!(f, "byte {byte} of shared memory"),
            Self::Global {
                address,
                array: Some(array),
            } => write!(
                f,
                "byte {} of the array at {array:#x}",
                address.wrapping_sub(*array) as i64
            ),
            Self::Global { address, .. } => write!(f, "address {address:#x}"),
        }
    }
}

impl fmt::Display for Whereabouts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ended => f.write_str("has ended"),
            Self::Absent => f.write_str("does not exist"),
            Self::Running => f.write_str("runs on"),
            Self::Barrier(site) => write!(f, "waits at the barrier at {site}"),
            Self::Warp {
                operation,
                mask,
                site,
            } => write!(f, "waits in {operation} with mask {mask:#010x} at {site}"),
        }
    }
}

impl fmt::Display for HangCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Spinning(rounds) => write!(
                f,
                "every running block has only been spinning for {rounds} rounds and nothing \
                 another block could see has changed"
            ),
            Self::Reading(accesses) => write!(
                f,
                "this thread has accessed memory {accesses} times and nothing has changed"
            ),
            Self::TurnLimit(turns) => write!(f, "the launch has taken {turns} turns, the limit"),
        }
    }
}
