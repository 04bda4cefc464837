//! A caller's slots: every entry's row, found without an access that the caller's data
//! could lead astray.

use super::SlotArrays;
use super::place::report;
use super::rank::{NONE, expert, id};
use super::status;
use crate::simt::thread::thread_idx_x;
use crate::simt::{Global, Shared};

/// No row.
pub const NO_ROW: u32 = u32::MAX;

/// An entry's row, or what is wrong with it.
#[derive(Clone, Copy, Debug)]
pub struct Found {
    /// [`NO_ROW`] for none.
    pub row: u32,
    /// The kind of fault, [`status::WORDS`] for none.
    pub fault: usize,
    /// The value that is at fault.
    pub value: i32,
}

impl Found {
    const NOTHING: Self = Self {
        row: NO_ROW,
        fault: status::WORDS,
        value: 0,
    };

    /// Whether something is wrong.
    #[inline(always)]
    pub fn is_fault(&self) -> bool {
        self.fault < status::WORDS
    }

    /// Tells of what is wrong with entry `entry`, if anything.
    ///
    /// # Safety
    /// `words` are the status words.
    #[inline(always)]
    #[track_caller]
    pub unsafe fn report(&self, words: Global<u64>, entry: u32, top_k: u32) {
        if self.is_fault() {
            let position = status::entry(entry / top_k, entry % top_k);
            // SAFETY: the caller's promise.
            unsafe { report(words, self.fault, position, self.value) };
        }
    }
}

/// Copies the offsets to shared memory.
///
/// # Safety
/// All `threads` threads of the block, before a barrier; `offsets` has a word for each.
#[inline(always)]
#[track_caller]
pub unsafe fn fetch_offsets(from: &SlotArrays, offsets: Shared<i32>, threads: u32) {
    let mut at = thread_idx_x();
    while at <= from.experts {
        // SAFETY: `[experts + 1]`.
        unsafe { offsets.store(at, from.offsets.load(at as usize)) };
        at += threads;
    }
}

/// Checks the offsets that this thread fetched against the one before each; tells of
/// faults if `tell`. Whether there was one.
///
/// # Safety
/// Behind a barrier after [`fetch_offsets`]; `words` are the status words.
#[inline(always)]
#[track_caller]
pub unsafe fn check_offsets(
    from: &SlotArrays,
    offsets: Shared<i32>,
    threads: u32,
    words: Global<u64>,
    tell: bool,
) -> bool {
    let mut fault = false;
    let mut at = thread_idx_x();
    while at <= from.experts {
        // SAFETY: written before the barrier.
        unsafe {
            let offset = offsets.load(at);
            let least = if at > 0 { offsets.load(at - 1) } else { 0 };
            let most = if at > 0 { from.row_count as i32 } else { 0 };
            if offset < least || offset > most {
                fault = true;
                if tell {
                    report(words, status::OFFSETS, at, offset);
                }
            }
        }
        at += threads;
    }
    fault
}

/// The row of an entry.
///
/// # Safety
/// `entry` lies in the arrays; behind a barrier after [`fetch_offsets`].
#[inline(always)]
#[track_caller]
pub unsafe fn find(from: &SlotArrays, offsets: Shared<i32>, entry: u32) -> Found {
    // SAFETY: the caller's promise.
    unsafe {
        let slot = from.slots.load(entry as usize);
        row(from, offsets, slot, id(from.ids, from.wide != 0, entry))
    }
}

/// The row of an entry with this slot and id.
///
/// # Safety
/// Behind a barrier after [`fetch_offsets`].
#[inline(always)]
#[track_caller]
pub unsafe fn row(from: &SlotArrays, offsets: Shared<i32>, slot: i32, id: i64) -> Found {
    if slot == -1 {
        return Found::NOTHING;
    }
    let expert = expert(id, from.experts);
    if expert == NONE {
        return Found {
            fault: status::EXPERT_ID,
            value: status::saturate(id),
            ..Found::NOTHING
        };
    }
    // SAFETY: `expert` is in range.
    let (start, end) = unsafe { (offsets.load(expert), offsets.load(expert + 1)) };
    // In 64 bits nothing wraps, whatever the offsets hold.
    let row = i64::from(start) + i64::from(slot);
    if slot < 0 || row >= i64::from(end) {
        return Found {
            fault: status::SLOT,
            value: slot,
            ..Found::NOTHING
        };
    }
    // With offsets at fault the row may still be anywhere.
    let inside = row >= 0 && row < i64::from(from.row_count);
    Found {
        row: if inside { row as u32 } else { NO_ROW },
        ..Found::NOTHING
    }
}
