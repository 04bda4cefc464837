//! Ranks of entries among those of the same expert, within a warp and within a block.
//!
//! A warp owns `ITEMS` runs of 32 consecutive entries and one counter for each expert.
//! Lanes with the same expert find each other by a match; the first of them moves the
//! counter on. Prefix sums over the warps' counters then turn a rank within the warp into
//! one within the block. Entries stay in order throughout, so the sort is stable.

use crate::simt::thread::{lane_id, sync_threads, thread_idx_x};
use crate::simt::warp::{
    FULL_MASK, WARP_SIZE, ballot, reduce_add, shuffle_idx, shuffle_up, sync_warp,
};
use crate::simt::{Global, Shared};

/// An entry that has no expert.
pub const NONE: u32 = u32::MAX;

/// How many counters are read before the first is written.
const AT_ONCE: usize = 8;

/// The counters of a block's warps, `[warps, experts]`.
#[derive(Clone, Copy, Debug)]
pub struct Counters {
    words: Shared<u32>,
    experts: u32,
    warps: u32,
}

impl Counters {
    /// Those at `words`.
    #[inline(always)]
    pub fn new(words: Shared<u32>, experts: u32, warps: u32) -> Self {
        Self {
            words,
            experts,
            warps,
        }
    }

    #[inline(always)]
    fn own(&self) -> Shared<u32> {
        self.words.add(thread_idx_x() / WARP_SIZE * self.experts)
    }

    /// This warp's counters begin at 0.
    ///
    /// # Safety
    /// The whole warp, behind a barrier after their last use.
    #[inline(always)]
    #[track_caller]
    pub unsafe fn clear(&self) {
        let mut expert = lane_id();
        while expert < self.experts {
            // SAFETY: this warp's own.
            unsafe { self.own().store(expert, 0) };
            expert += WARP_SIZE;
        }
        sync_warp(FULL_MASK);
    }

    /// Counts this warp's entries, run after run; returns their ranks in the warp.
    ///
    /// # Safety
    /// The whole warp, after [`clear`](Self::clear); experts are in range or [`NONE`].
    #[inline(always)]
    #[track_caller]
    pub unsafe fn count<const ITEMS: usize>(&self, experts: &[u32; ITEMS]) -> [u32; ITEMS] {
        let (own, below) = (self.own(), (1u32 << lane_id()) - 1);
        let mut peers = [0; ITEMS];
        unroll!(ITEMS, i => {
            peers[i] = peers_of(experts[i], self.experts);
        });
        let mut ranks = [0; ITEMS];
        unroll!(ITEMS, i => {
            let counted = experts[i] != NONE;
            let mut before = 0;
            if counted {
                // SAFETY: this warp's own; the warp is in step between the two.
                before = unsafe { own.load(experts[i]) };
            }
            sync_warp(FULL_MASK);
            let rank = (peers[i] & below).count_ones();
            if counted && rank == 0 {
                // SAFETY: as above; one lane of those with this expert.
                unsafe { own.store(experts[i], before + peers[i].count_ones()) };
            }
            sync_warp(FULL_MASK);
            ranks[i] = before + rank;
        });
        ranks
    }

    /// The block's entries of an expert.
    ///
    /// # Safety
    /// Behind a barrier after [`count`](Self::count).
    #[inline(always)]
    #[track_caller]
    pub unsafe fn sum(&self, expert: u32) -> u32 {
        let (mut sum, mut warp) = (0, 0);
        while warp < self.warps {
            unroll!(AT_ONCE, i => {
                let at = (warp + i as u32) * self.experts + expert;
                // SAFETY: nobody writes them now. Warps are a multiple of `AT_ONCE`.
                sum += unsafe { self.words.load(at) };
            });
            warp += AT_ONCE as u32;
        }
        sum
    }

    /// Turns an expert's counters into the ranks at which the warps' entries begin, the
    /// first at `first`; returns where the last ends.
    ///
    /// # Safety
    /// One thread for each expert, behind a barrier after [`count`](Self::count).
    #[inline(always)]
    #[track_caller]
    pub unsafe fn accumulate(&self, expert: u32, first: u32) -> u32 {
        let (mut end, mut warp) = (first, 0);
        while warp < self.warps {
            let at = self.words.add(warp * self.experts + expert);
            let mut counts = [0; AT_ONCE];
            // SAFETY: this thread's, until the next barrier.
            unsafe {
                unroll!(AT_ONCE, i => { counts[i] = at.load(i as u32 * self.experts); });
                unroll!(AT_ONCE, i => {
                    at.store(i as u32 * self.experts, end);
                    end += counts[i];
                });
            }
            warp += AT_ONCE as u32;
        }
        end
    }

    /// The rank at which this warp's entries of an expert begin.
    ///
    /// # Safety
    /// Behind a barrier after [`accumulate`](Self::accumulate).
    #[inline(always)]
    #[track_caller]
    pub unsafe fn start(&self, expert: u32) -> u32 {
        // SAFETY: the caller's promise.
        unsafe { self.own().load(expert) }
    }
}

/// The sum of what the threads before this one passed. A barrier.
///
/// # Safety
/// All threads of a block of at most 32 warps; `sums` are 32 words that nobody else uses.
#[inline(always)]
#[track_caller]
pub unsafe fn sum_before(value: u32, sums: Shared<u32>, warps: u32) -> u32 {
    let (lane, warp) = (lane_id(), thread_idx_x() / WARP_SIZE);
    let mut sum = value;
    unroll!(5, i => {
        let other = shuffle_up::<32, u32>(FULL_MASK, sum, 1 << i);
        if lane >= 1 << i {
            sum += other;
        }
    });
    if lane == WARP_SIZE - 1 {
        // SAFETY: one thread of the warp.
        unsafe { sums.store(warp, sum) };
    }
    sync_threads();
    let mut other = 0;
    if lane < warps && lane < warp {
        // SAFETY: written before the barrier.
        other = unsafe { sums.load(lane) };
    }
    reduce_add(FULL_MASK, other) + sum - value
}

/// The lanes that have the same expert as this one, as bits: a vote for each bit of its
/// number.
#[inline(always)]
#[track_caller]
fn peers_of(expert: u32, experts: u32) -> u32 {
    let mut same = ballot(FULL_MASK, expert != NONE);
    unroll!(5, i => { same &= agree(expert, i as u32); });
    if experts > 32 {
        unroll!(5, i => { same &= agree(expert, 5 + i as u32); });
    }
    same
}

/// The lanes that agree with this one on a bit.
#[inline(always)]
#[track_caller]
fn agree(expert: u32, bit: u32) -> u32 {
    let one = expert >> bit & 1 != 0;
    let ones = ballot(FULL_MASK, one);
    if one { ones } else { !ones }
}

/// The expert of an entry, [`NONE`] if its id is out of range.
#[inline(always)]
pub fn expert(id: i64, experts: u32) -> u32 {
    if (id as u64) < u64::from(experts) {
        id as u32
    } else {
        NONE
    }
}

/// The id of an entry.
///
/// # Safety
/// `entry` lies in the array, whose elements are i64 if `wide`.
#[inline(always)]
#[track_caller]
pub unsafe fn id(ids: Global<i32>, wide: bool, entry: u32) -> i64 {
    // SAFETY: the caller's promise.
    unsafe {
        if wide {
            ids.cast::<i64>().load(entry as usize)
        } else {
            i64::from(ids.load(entry as usize))
        }
    }
}

/// Ids that were asked for and are not looked at yet, so that they arrive together: as
/// halves, because to make one of 64 bits would be to wait for it.
#[derive(Clone, Copy, Debug)]
pub struct Ids<const ITEMS: usize> {
    low: [i32; ITEMS],
    high: [i32; ITEMS],
    wide: bool,
}

impl<const ITEMS: usize> Ids<ITEMS> {
    /// Those of entries `first`, `first + step` and so on below `end`.
    ///
    /// # Safety
    /// `ids` holds `end` entries, i64 if `wide`.
    #[inline(always)]
    #[track_caller]
    pub unsafe fn read(ids: Global<i32>, wide: bool, first: u32, step: u32, end: u32) -> Self {
        let mut this = Self {
            low: [-1; ITEMS],
            high: [-1; ITEMS],
            wide,
        };
        unroll!(ITEMS, i => {
            let entry = first + i as u32 * step;
            if entry < end {
                let at = (entry as usize) << u32::from(wide);
                // SAFETY: the caller's promise.
                this.low[i] = unsafe { ids.load(at) };
            }
        });
        if wide {
            unroll!(ITEMS, i => {
                let entry = first + i as u32 * step;
                if entry < end {
                    // SAFETY: the caller's promise.
                    this.high[i] = unsafe { ids.load(2 * entry as usize + 1) };
                }
            });
        }
        this
    }

    /// The id of one of them, -1 if there was none.
    #[inline(always)]
    pub fn get(&self, item: usize) -> i64 {
        let low = self.low[item];
        let high = if self.wide {
            self.high[item]
        } else {
            low >> 31
        };
        i64::from(high) << 32 | i64::from(low as u32)
    }
}

/// The value that the warp's lane `lane` has.
#[inline(always)]
#[track_caller]
pub fn of_lane(value: u32, lane: u32) -> u32 {
    shuffle_idx::<32, u32>(FULL_MASK, value, lane)
}

/// The first thread of this warp, counted in its team of `2^log2_team` threads, at least a
/// warp: the same for all lanes, and so that the PTX shows it.
#[inline(always)]
pub fn warp_in_team(log2_team: u32) -> u32 {
    let log2_warp = WARP_SIZE.ilog2();
    let warps = 1 << (log2_team - log2_warp);
    ((thread_idx_x() >> log2_warp) & (warps - 1)) << log2_warp
}
