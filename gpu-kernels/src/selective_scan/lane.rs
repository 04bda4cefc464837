//! The threads that scan: each holds a few states of one or two channels in registers.
//!
//! A time step is a multiply-add for each state behind the one before it. All else (loads,
//! exponents, exponentials, inputs) is independent from step to step. A tile's time steps are
//! one block of straight code, and where registers allow what four of them need is loaded while
//! the four before are computed, so that a warp has work while it waits.

use super::arithmetic::share;
use super::layout::{first_quad, further};
use super::policy::{SharedLayout, matrix_stride, pair_stride};
use crate::simt::Shared;
use crate::simt::math::{exp2_approx, fma};

/// `S` states of each of `V` channels, and where they read and write, in tiles of `T` steps.
pub(super) struct Lane<const S: usize, const V: usize, const T: u32> {
    /// `A * log2(e)`.
    pub(super) rates: [[f32; S]; V],
    pub(super) states: [[f32; S]; V],
    /// States that exist, of each channel that does.
    pub(super) here: u32,
    /// The first quad of the first channel's row of shares, and rows from one channel to the next.
    first_quad: u32,
    row_stride: u32,
    /// Words from one channel to the next.
    channel_words: u32,
    pairs: Shared<f32>,
    b: Shared<f32>,
    c: Shared<f32>,
    pub(super) sums: Shared<f32>,
    /// Words from one buffer to the other.
    pair_words: u32,
    matrix_words: u32,
    pub(super) sum_words: u32,
}

/// What four time steps need.
#[derive(Clone, Copy)]
pub(super) struct Four<const S: usize, const V: usize> {
    /// Of each channel: step size and input, twice.
    pub(super) pairs: [[[f32; 4]; 2]; V],
    /// `S` states of four steps, in turn.
    pub(super) b: [[f32; 4]; S],
    pub(super) c: [[f32; 4]; S],
}

/// Decays of four time steps, of each channel and state.
pub(super) type Decays<const S: usize, const V: usize> = [[[f32; 4]; S]; V];

impl<const S: usize, const V: usize, const T: u32> Lane<S, V, T> {
    /// For lane `lane` of the channels `channel` and, `2^log2_channels / V` further on, others.
    #[inline(always)]
    pub(super) fn new(
        layout: &SharedLayout,
        (channel, lane): (u32, u32),
        (log2_channels, log2_lanes): (u32, u32),
        here: u32,
    ) -> Self {
        let matrix = lane * matrix_stride(S as u32, T);
        let channel_stride = (1 << log2_channels) / V as u32;
        Self {
            rates: [[0.0; S]; V],
            states: [[0.0; S]; V],
            here,
            first_quad: first_quad((channel << log2_lanes) + lane, T),
            row_stride: channel_stride << log2_lanes,
            channel_words: channel_stride * pair_stride(T),
            pairs: Shared::dynamic(layout.pairs).add(channel * pair_stride(T)),
            b: Shared::dynamic(layout.b).add(matrix),
            c: Shared::dynamic(layout.c).add(matrix),
            sums: Shared::dynamic(layout.sums),
            pair_words: layout.pair_bytes / 4,
            matrix_words: layout.matrix_bytes / 4,
            sum_words: layout.sum_bytes / 4,
        }
    }

    /// Scans the tile in buffer `buffer`. `FULL`: no lane has both states that exist and
    /// states that do not, whose product with an infinite input would be NaN. `AHEAD`: the
    /// exponentials of four time steps, and the loads of the four after, while the four
    /// before are scanned. It takes registers.
    ///
    /// # Safety
    /// The tile is prepared, behind a barrier.
    #[inline(always)]
    #[track_caller]
    pub(super) unsafe fn scan<const FULL: bool, const AHEAD: bool>(&mut self, buffer: u32) {
        let sums = self.sums.add(buffer * self.sum_words);
        // SAFETY: the steps lie in the tile.
        unsafe {
            if FULL && AHEAD {
                let mut four = self.load(buffer, 0);
                let mut decays = self.decays(&four);
                let mut next = self.load(buffer, 1);
                unroll_few!(T as usize / 4, quad => {
                    let quad = quad as u32;
                    let (now, now_decays) = (four, decays);
                    if 4 * quad + 4 < T {
                        four = next;
                        if 4 * quad + 8 < T {
                            next = self.load(buffer, quad + 2);
                        }
                        decays = self.decays(&four);
                    }
                    let shares = self.steps::<FULL>(&now, &now_decays);
                    self.store(sums, quad, shares);
                });
                let _ = (four, decays, next);
            } else {
                let mut quad = 0;
                while quad < T / 4 {
                    let four = self.load(buffer, quad);
                    let shares = self.steps::<FULL>(&four, &self.decays(&four));
                    self.store(sums, quad, shares);
                    quad += 1;
                }
            }
        }
    }

    /// The same a few loads at a time, which takes few registers, with B and C in buffer
    /// `buffer` and one buffer of all else.
    ///
    /// # Safety
    /// The tile is prepared, behind a barrier.
    #[inline(always)]
    #[track_caller]
    pub(super) unsafe fn scan_close<const FULL: bool>(&mut self, buffer: u32) {
        let mut quad = 0;
        while quad < T / 4 {
            let mut shares = [[0.0; 4]; V];
            unroll_few!(2, half => {
                // SAFETY: the steps lie in the tile.
                unsafe { self.two_steps::<FULL>(buffer, 2 * quad + half as u32, half, &mut shares) };
            });
            // SAFETY: this thread's own.
            unsafe { self.store(self.sums, quad, shares) };
            quad += 1;
        }
    }

    /// Scans time steps `2 * two ..`, which are the first or the second half of four.
    #[inline(always)]
    #[track_caller]
    unsafe fn two_steps<const FULL: bool>(
        &mut self,
        buffer: u32,
        two: u32,
        half: usize,
        shares: &mut [[f32; 4]; V],
    ) {
        let mut pairs = [[0.0; 4]; V];
        unroll_few!(V, v => {
            // SAFETY: the caller's promise; strides are multiples of four.
            pairs[v] = unsafe { self.pairs.add(v as u32 * self.channel_words).load4(4 * two) };
        });
        unroll_few!(2, u => {
            let at = buffer * self.matrix_words + (2 * two + u as u32) * S as u32;
            // SAFETY: as above.
            let (b, c): ([f32; S], [f32; S]) =
                unsafe { (states(self.b.add(at)), states(self.c.add(at))) };
            unroll_few!(V, v => {
                let (delta, input) = (pairs[v][2 * u % 4], pairs[v][(2 * u + 1) % 4]);
                self.one_step::<FULL>(v, (delta, input), &b);
                shares[v][(2 * half + u) % 4] = share(|s| c[s % S], &self.states[v]);
            });
        });
    }

    /// Takes channel `v`'s states one time step further.
    #[inline(always)]
    fn one_step<const FULL: bool>(&mut self, v: usize, (delta, input): (f32, f32), b: &[f32; S]) {
        unroll_few!(S, s => {
            let decay = exp2_approx(delta * self.rates[v][s]);
            let state = fma(decay, self.states[v][s], input * b[s]);
            let here = FULL || (s as u32) < self.here;
            self.states[v][s] = if here { state } else { 0.0 };
        });
    }

    /// Reads what time steps `4 * quad ..` need.
    #[inline(always)]
    #[track_caller]
    unsafe fn load(&self, buffer: u32, quad: u32) -> Four<S, V> {
        let matrix = buffer * self.matrix_words + 4 * S as u32 * quad;
        let (b, c) = (self.b.add(matrix), self.c.add(matrix));
        let mut four = Four {
            // SAFETY: the caller's promise.
            pairs: unsafe { self.load_pairs(buffer, quad) },
            b: [[0.0; 4]; S],
            c: [[0.0; 4]; S],
        };
        // SAFETY: the caller's promise; strides and steps are multiples of four.
        unsafe {
            unroll_few!(S, i => {
                four.b[i] = b.load4(4 * i as u32);
                four.c[i] = c.load4(4 * i as u32);
            });
        }
        four
    }

    /// Reads step sizes and inputs of time steps `4 * quad ..`.
    #[inline(always)]
    #[track_caller]
    pub(super) unsafe fn load_pairs(&self, buffer: u32, quad: u32) -> [[[f32; 4]; 2]; V] {
        let first = self.pairs.add(buffer * self.pair_words + 8 * quad);
        let mut all = [[[0.0; 4]; 2]; V];
        unroll_few!(V, v => {
            let pairs = first.add(v as u32 * self.channel_words);
            // SAFETY: the caller's promise; strides and steps are multiples of four.
            all[v] = unsafe { [pairs.load4(0), pairs.load4(4)] };
        });
        all
    }

    /// Writes the shares of time steps `4 * quad ..`.
    #[inline(always)]
    #[track_caller]
    pub(super) unsafe fn store(&self, sums: Shared<f32>, quad: u32, shares: [[f32; 4]; V]) {
        // In bytes: one instruction, whatever the quad.
        let place = (4 * self.first_quad) ^ (quad << 4);
        unroll_few!(V, v => {
            let place = further(place, v as u32 * self.row_stride, T, 4);
            let to = sums.cast::<u8>().add(place).cast();
            // SAFETY: this thread's own.
            unsafe { to.store4(0, shares[v]) };
        });
    }

    /// The decays of four time steps.
    #[inline(always)]
    pub(super) fn decays(&self, four: &Four<S, V>) -> Decays<S, V> {
        let mut decays = [[[0.0; 4]; S]; V];
        unroll_few!(4, u => {
            unroll_few!(V, v => {
                let delta = four.pairs[v][u / 2 % 2][u % 2 * 2];
                unroll_few!(S, s => {
                    decays[v][s][u % 4] = exp2_approx(delta * self.rates[v][s]);
                });
            });
        });
        decays
    }

    /// Scans four time steps; this lane's shares of their `y`.
    #[inline(always)]
    pub(super) fn steps<const FULL: bool>(
        &mut self,
        four: &Four<S, V>,
        decays: &Decays<S, V>,
    ) -> [[f32; 4]; V] {
        let mut shares = [[0.0; 4]; V];
        unroll_few!(4, u => {
            unroll_few!(V, v => { shares[v][u % 4] = self.step::<FULL>(four, decays, u % 4, v); });
        });
        shares
    }

    /// Scans time step `u` of four; this lane's share of channel `v`'s `y`.
    #[inline(always)]
    fn step<const FULL: bool>(
        &mut self,
        four: &Four<S, V>,
        decays: &Decays<S, V>,
        u: usize,
        v: usize,
    ) -> f32 {
        let input = four.pairs[v][u / 2][u % 2 * 2 + 1];
        unroll_few!(S, s => {
            let at = u * S + s;
            let next = input * four.b[at / 4][at % 4];
            let state = fma(decays[v][s][u], self.states[v][s], next);
            self.states[v][s] = if FULL || (s as u32) < self.here { state } else { 0.0 };
        });
        let c = |s: usize| four.c[(u * S + s) / 4 % S][(u * S + s) % 4];
        share(c, &self.states[v])
    }
}

/// A lane's `S` states of one time step, where they begin in a matrix by lanes.
#[inline(always)]
#[track_caller]
unsafe fn states<const S: usize>(matrix: Shared<f32>) -> [f32; S] {
    let mut all = [0.0; S];
    unroll_few!(S / 4, i => {
        // SAFETY: the step lies in the tile.
        let four = unsafe { matrix.load4(4 * i as u32) };
        unroll_few!(4, j => { all[(4 * i + j) % S] = four[j]; });
    });
    all
}
