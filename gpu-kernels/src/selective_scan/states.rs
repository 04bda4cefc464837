//! A scanning thread's states: where they lie in memory, from the first time step to the last.

use super::SelectiveScanParams;
use super::arithmetic::exponent_rate;
use super::elements::Frame;
use super::lane::Lane;
use super::params::options;

/// Where a thread's states of `V` channels lie.
#[derive(Clone, Copy)]
pub(super) struct States<const V: usize> {
    /// First channel in the block, and channels from one to the next.
    pub(super) channel: u32,
    pub(super) channel_stride: u32,
    /// First state of each.
    pub(super) first_state: u32,
    /// Sequence.
    pub(super) sequence: u32,
}

impl<const V: usize> States<V> {
    /// Where channel `v`'s lie in `[channels, states]`; nowhere, if it does not exist.
    #[inline(always)]
    fn parameters(&self, v: usize, frame: &Frame, states: u32) -> Option<usize> {
        let channel = self.channel + v as u32 * self.channel_stride;
        let row = frame.first_channel + u64::from(channel);
        let at = row * u64::from(states) + u64::from(self.first_state);
        (channel < frame.channels).then_some(at as usize)
    }

    /// And from there in `[sequences, channels, states]`.
    #[inline(always)]
    fn sequence(&self, frame: &Frame, states: u32) -> usize {
        (u64::from(self.sequence) * frame.all_channels * u64::from(states)) as usize
    }

    /// Reads A and the initial states.
    ///
    /// # Safety
    /// The launch contract.
    #[inline(always)]
    #[track_caller]
    pub(super) unsafe fn read<T, const S: usize, const STEPS: u32>(
        &self,
        params: &SelectiveScanParams<T>,
        frame: &Frame,
        lane: &mut Lane<S, V, STEPS>,
    ) {
        let sequence = self.sequence(frame, params.states);
        unroll_few!(V, v => {
            if let Some(at) = self.parameters(v, frame, params.states) {
                unroll_few!(S, s => {
                    if (s as u32) < lane.here {
                        // SAFETY: the channel and the state exist.
                        unsafe {
                            let is_log = params.options & options::LOG != 0;
                            lane.rates[v][s] = exponent_rate(params.a.load(at + s), is_log);
                            if !params.h0.is_null() {
                                lane.states[v][s] = params.h0.load(sequence + at + s);
                            }
                        }
                    }
                });
            }
        });
    }

    /// Writes the final states, if they are asked for.
    ///
    /// # Safety
    /// The launch contract.
    #[inline(always)]
    #[track_caller]
    pub(super) unsafe fn write<T, const S: usize, const STEPS: u32>(
        &self,
        params: &SelectiveScanParams<T>,
        frame: &Frame,
        lane: &Lane<S, V, STEPS>,
    ) {
        if params.final_state.is_null() {
            return;
        }
        let sequence = self.sequence(frame, params.states);
        unroll_few!(V, v => {
            if let Some(at) = self.parameters(v, frame, params.states) {
                unroll_few!(S, s => {
                    if (s as u32) < lane.here {
                        // SAFETY: the channel and the state exist.
                        unsafe {
                            params.final_state.store(sequence + at + s, lane.states[v][s]);
                        }
                    }
                });
            }
        });
    }
}
