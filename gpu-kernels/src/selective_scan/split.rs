//! A long sequence's time steps in segments, which blocks scan at the same time.
//!
//! A state forgets: after enough steps its bits no longer depend on where it began. So a block
//! begins some tiles before its segment, from zeros: it warms up. Whether that was enough is
//! checked, not assumed: the states it has where its segment begins must be, bit for bit, those
//! that the block before it ends with. If they are in all segments of a column, the first
//! segment being exact, all results are those of one scan from end to end. If not, or if a state
//! decays too slowly to try, the launch behind this one scans the column from end to end.
//! (That takes as long for all columns as for one: so the first to see it tells all.)
//!
//! How long a warm-up takes is estimated from the step sizes before the segment: two scans of the
//! same inputs from different states come together as the decays do, to half an ulp; then each
//! step rounds them to the same number with about the probability with which the decay forgets.
//! Speculation with a check on the boundary states is from finite automata: Mytkowicz, Musuvathi,
//! Schulte, "Data-parallel finite-state machines" (2014).

use super::SelectiveScanParams;
use super::elements::{Elements, Frame, Raw, value};
use super::lane::Lane;
use super::layout::{ELEMENTS, Layout};
use super::params::options;
use super::segments::{LOG2_CHANNELS, WARM_UP_BATCH};
use super::states::States;
use crate::simt::atomic::{fence, fetch_add64, load_relaxed64, store_relaxed64};
use crate::simt::math::{exp2_approx, fma};
use crate::simt::thread::{block_idx_x, sync_threads, sync_threads_or, thread_idx_x};
use crate::simt::{Global, Shared};

/// Bits by which the slowest state must decay in the warm-up: a float's 24, and the chance that
/// one which decays no faster has not come together is 2^-16.
const BITS: f32 = 40.0;

/// Words of the counters before those of the first column: the last call that gave up.
const FIRST: usize = 2;

/// A segment that gave up, in the word that counts those that are through.
const GAVE_UP: u64 = 1 << 32;

/// The block's segment of its sequence.
#[derive(Clone, Copy)]
pub(super) struct Segment {
    /// Which one, and its sequences' channels among all.
    pub(super) index: u32,
    column: u32,
    /// First time step in the sequence, and how many.
    pub(super) first: u64,
    pub(super) length: u64,
}

impl Segment {
    /// For tiles of `steps` time steps of a sequence of `length`.
    #[inline(always)]
    pub(super) fn new<T>(params: &SelectiveScanParams<T>, steps: u32, length: u64) -> Self {
        if params.segments <= 1 {
            return Self {
                index: 0,
                column: 0,
                first: 0,
                length,
            };
        }
        let columns = params.sequences * params.groups * params.channel_blocks;
        let index = block_idx_x() / columns;
        let whole = u64::from(params.segment_tiles) * u64::from(steps);
        let first = u64::from(index) * whole;
        Self {
            index,
            column: block_idx_x() % columns,
            first,
            length: (length - first).min(whole),
        }
    }

    /// The most tiles that a warm-up may take: more would cost more than it gains.
    #[inline(always)]
    pub(super) fn most(&self, segment_tiles: u32) -> u32 {
        if self.index == 0 {
            0
        } else {
            let most = segment_tiles / 4 * 3 / WARM_UP_BATCH * WARM_UP_BATCH;
            most.max(WARM_UP_BATCH)
        }
    }

    /// The array, if this is the first segment.
    #[inline(always)]
    pub(super) fn initial(&self, h0: Global<f32>) -> Global<f32> {
        if self.index == 0 { h0 } else { Global::null() }
    }

    /// Where this thread's states, behind the segment or assumed before it, are left.
    #[inline(always)]
    fn place<T>(&self, params: &SelectiveScanParams<T>, segment: u32, behind: bool) -> Global<f32> {
        let columns = params.sequences * params.groups * params.channel_blocks;
        let row = u64::from(2 * segment + u32::from(behind)) * u64::from(columns);
        let at =
            ((row + u64::from(self.column)) << (LOG2_CHANNELS + 4)) + u64::from(thread_idx_x() * 4);
        params.between.add(at as usize)
    }

    /// Leaves the states of `lane` there.
    ///
    /// # Safety
    /// The launch contract; each place once.
    #[inline(always)]
    #[track_caller]
    pub(super) unsafe fn leave<T, const S: usize, const V: usize, const STEPS: u32>(
        &self,
        params: &SelectiveScanParams<T>,
        lane: &Lane<S, V, STEPS>,
        behind: bool,
    ) {
        let place = self.place(params, self.index, behind);
        unroll_few!(V, v => {
            let states = [0, 1, 2, 3].map(|s| lane.states[v][s % S]);
            // SAFETY: room for four states of each channel of each thread.
            unsafe { place.store4(v << (LOG2_CHANNELS + 3), states) };
        });
    }

    /// Whether any segment gave up: then the launch behind this one begins at the beginning, and
    /// takes no longer for all columns than for one.
    ///
    /// # Safety
    /// The launch contract.
    #[inline(always)]
    #[track_caller]
    pub(super) unsafe fn is_in_vain<T>(&self, params: &SelectiveScanParams<T>) -> bool {
        // SAFETY: a word that is written by atomics.
        params.segments > 1
            && thread_idx_x() == 0
            && unsafe { load_relaxed64(params.counters, 0) } == params.call
    }

    /// Tells the others that this segment gave up.
    ///
    /// # Safety
    /// The launch contract.
    #[inline(always)]
    #[track_caller]
    pub(super) unsafe fn give_up<T>(&self, params: &SelectiveScanParams<T>) {
        if thread_idx_x() == 0 {
            // SAFETY: as above.
            unsafe { store_relaxed64(params.counters, 0, params.call) };
        }
    }

    /// Tells that the segment is through, or was given up. The last of a column checks that all
    /// segments fit together, writes the final states, and leaves word for the next launch.
    ///
    /// # Safety
    /// The whole block; the launch contract; `free` is a word that nobody uses.
    #[inline(always)]
    #[track_caller]
    pub(super) unsafe fn close<T, const S: usize, const V: usize, const STEPS: u32>(
        &self,
        params: &SelectiveScanParams<T>,
        frame: &Frame,
        (states, lane): (&States<V>, &mut Lane<S, V, STEPS>),
        gave_up: bool,
        free: Shared<u32>,
    ) {
        let counter = FIRST + 2 * self.column as usize;
        // SAFETY: the launch contract; the fences order what blocks left before they were
        // counted, and what the last one reads after.
        unsafe {
            self.leave(params, lane, true);
            sync_threads();
            if thread_idx_x() == 0 {
                fence();
                let one = if gave_up { GAVE_UP + 1 } else { 1 };
                let all = fetch_add64(params.counters, counter, one) + one;
                fence();
                let last = all as u32 == params.segments;
                free.store(0, u32::from(last) << 1 | u32::from(all >= GAVE_UP));
            }
            sync_threads();
            let word = free.load(0);
            if word < 2 {
                return;
            }
            let mut differ = word & 1 != 0;
            if !differ {
                let mut segment = 1;
                while segment < params.segments {
                    differ |= self.differ::<T, V>(params, segment);
                    segment += 1;
                }
            }
            let differ = sync_threads_or(differ);
            if thread_idx_x() == 0 {
                let verdict = if differ { 0 } else { params.call };
                params.counters.store(counter + 1, verdict);
                params.counters.store(counter, 0);
            }
            if !differ {
                let last = self.place(params, params.segments - 1, true);
                unroll_few!(V, v => {
                    let four = last.load4(v << (LOG2_CHANNELS + 3));
                    unroll_few!(S, s => { lane.states[v][s] = four[s % 4]; });
                });
                states.write(params, frame, lane);
            }
        }
    }

    /// Whether this thread's states between segment `segment` and the one before differ.
    #[inline(always)]
    #[track_caller]
    unsafe fn differ<T, const V: usize>(
        &self,
        params: &SelectiveScanParams<T>,
        segment: u32,
    ) -> bool {
        let assumed = self.place(params, segment, false);
        let found = self.place(params, segment - 1, true);
        let mut differ = false;
        unroll_few!(V, v => {
            let at = v << (LOG2_CHANNELS + 3);
            // SAFETY: all blocks have left theirs.
            let (a, b) = unsafe { (assumed.load4(at), found.load4(at)) };
            unroll_few!(4, s => { differ |= a[s].to_bits() != b[s].to_bits(); });
        });
        differ
    }
}

/// Whether a launch before this one has already scanned the block's channels.
///
/// # Safety
/// The launch contract.
#[inline(always)]
#[track_caller]
pub(super) unsafe fn is_done<T>(
    params: &SelectiveScanParams<T>,
    frame: &Frame,
    group: u32,
    sequence: u32,
) -> bool {
    if params.counters.is_null() || params.segments > 1 {
        return false;
    }
    let before = frame.first_channel - u64::from(group) * params.group_channels;
    let blocks = params.group_channels.div_ceil(1 << LOG2_CHANNELS);
    let groups = u64::from(sequence) * u64::from(params.groups) + u64::from(group);
    let column = groups * blocks + (before >> LOG2_CHANNELS);
    // SAFETY: two words for each column.
    unsafe { params.counters.load(FIRST + 2 * column as usize + 1) == params.call }
}

/// With which of the elements' tiles to begin, so that those from there up to tile `most`, where
/// the segment begins, are enough; `None` if not even all of them are.
///
/// # Safety
/// The whole block; the launch contract; nobody uses the pairs.
#[inline(always)]
#[track_caller]
pub(super) unsafe fn warm_up<
    A: Layout,
    const S: usize,
    const V: usize,
    const STEPS: u32,
    const LEAN: bool,
>(
    params: &SelectiveScanParams<A::Element>,
    elements: &Elements<A, STEPS, LEAN>,
    (states, lane): (&States<V>, &Lane<S, V, STEPS>),
    channels: u32,
    most: u32,
) -> Option<u32> {
    // The rate of the slowest state of each channel.
    let mut rates = [f32::INFINITY; V];
    unroll_few!(V, v => {
        if states.channel + v as u32 * states.channel_stride < channels {
            unroll_few!(S, s => {
                let rate = -lane.rates[v][s];
                // NaN stays, and is too slow.
                if (s as u32) < lane.here && !(rate >= rates[v] || rates[v].is_nan()) {
                    rates[v] = rate;
                }
            });
        }
    });
    let mut totals = [0.0; V];
    let mut tiles = 0;
    let mut enough = false;
    while !enough && tiles < most {
        // SAFETY: the tiles lie in the sequence; barriers before and behind.
        unsafe {
            put_sums(params, elements, most - tiles - WARM_UP_BATCH);
            sync_threads();
            unroll_few!(STEPS as usize / 4, quad => {
                let pairs = lane.load_pairs(0, quad as u32);
                unroll_few!(V, v => {
                    unroll_few!(4, u => { totals[v] += pairs[v][u / 2 % 2][u % 2 * 2]; });
                });
            });
        }
        tiles += WARM_UP_BATCH;
        let (mut slow, mut hopeless) = (false, false);
        let may_be = most as f32 / tiles as f32;
        unroll_few!(V, v => {
            let bits = totals[v] * rates[v];
            let bits = if rates[v] == f32::INFINITY { BITS } else { bits };
            slow |= !(bits >= BITS);
            hopeless |= !(bits * may_be >= BITS);
        });
        enough = !sync_threads_or(slow);
        if !enough && sync_threads_or(hopeless) {
            return None;
        }
    }
    enough.then_some(most - tiles)
}

/// Puts the sums of the step sizes of the tiles from `first` on, as many as a batch has, where
/// the step sizes of one tile are otherwise.
///
/// # Safety
/// As [`warm_up`].
#[inline(always)]
#[track_caller]
unsafe fn put_sums<A: Layout, const STEPS: u32, const LEAN: bool>(
    params: &SelectiveScanParams<A::Element>,
    elements: &Elements<A, STEPS, LEAN>,
    first: u32,
) {
    let softplus = params.options & options::SOFTPLUS != 0;
    let mut tiles = [[0; ELEMENTS]; WARM_UP_BATCH as usize];
    unroll_few!(WARM_UP_BATCH as usize, k => {
        let tile = first + k as u32;
        let index = elements.first + u64::from(tile) * elements.tile_stride;
        // SAFETY: the tile lies in the sequence.
        tiles[k] = unsafe { elements.load(params.delta, index, tile) };
    });
    let mut sums = [[0.0; 2]; ELEMENTS];
    unroll_few!(WARM_UP_BATCH as usize, k => {
        add_steps(&mut sums, elements, &tiles[k], softplus);
    });
    // SAFETY: the caller's promise.
    unsafe { A::put_pairs(elements.pairs, &elements.place, sums) };
}

/// A step size that is no larger than softplus makes it, nor much smaller: ln(1 + e) is concave,
/// so it is at least e * ln(2) for e from 0 to 1.
#[inline(always)]
fn least_softplus(v: f32) -> f32 {
    let e = exp2_approx(-v.abs() * core::f32::consts::LOG2_E);
    fma(e, core::f32::consts::LN_2, if v < 0.0 { 0.0 } else { v })
}

#[inline(always)]
fn add_steps<A: Layout, const STEPS: u32, const LEAN: bool>(
    sums: &mut [[f32; 2]; ELEMENTS],
    elements: &Elements<A, STEPS, LEAN>,
    raw: &Raw,
    softplus: bool,
) {
    unroll_few!(ELEMENTS, i => {
        let delta = value::<A>(raw, i) + elements.bias[i];
        sums[i][0] += if softplus { least_softplus(delta) } else { delta };
    });
}
