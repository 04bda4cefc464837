//! The threads that scan: each holds a few states of one channel in registers.
//!
//! A time step is a multiply-add for each state behind the one before it. All else (loads,
//! exponents, exponentials, inputs) is independent from step to step: several steps are one
//! block of straight code, so that a warp has work while it waits.

use super::layout::quad_position;
use super::policy::{PAIR_STRIDE, STEPS, SharedLayout, matrix_stride};
use crate::simt::Shared;
use crate::simt::math::{exp2_approx, fma};

/// The states of one lane, and where it reads and writes.
pub(super) struct Lane<const S: usize> {
    /// `A * log2(e)`.
    pub(super) rates: [f32; S],
    pub(super) states: [f32; S],
    /// States that exist.
    pub(super) here: u32,
    thread: u32,
    pairs: Shared<f32>,
    b: Shared<f32>,
    c: Shared<f32>,
    sums: Shared<f32>,
    /// Words from one buffer to the other.
    pair_words: u32,
    matrix_words: u32,
    sum_words: u32,
}

impl<const S: usize> Lane<S> {
    /// For scanning thread `thread`; `here` of its states exist.
    #[inline(always)]
    pub(super) fn new(layout: &SharedLayout, thread: u32, log2_lanes: u32, here: u32) -> Self {
        let lane = thread & ((1 << log2_lanes) - 1);
        let matrix = lane * matrix_stride(S as u32);
        Self {
            rates: [0.0; S],
            states: [0.0; S],
            here,
            thread,
            pairs: Shared::dynamic(layout.pairs).add((thread >> log2_lanes) * PAIR_STRIDE),
            b: Shared::dynamic(layout.b).add(matrix),
            c: Shared::dynamic(layout.c).add(matrix),
            sums: Shared::dynamic(layout.sums),
            pair_words: layout.pair_bytes / 4,
            matrix_words: layout.matrix_bytes / 4,
            sum_words: layout.sum_bytes / 4,
        }
    }

    /// Scans the tile in buffer `buffer`, `U` time steps at once. `FULL`: no lane has both
    /// states that exist and states that do not, whose product with an infinite input would
    /// be NaN.
    ///
    /// # Safety
    /// The tile is prepared, behind a barrier.
    #[inline(always)]
    #[track_caller]
    pub(super) unsafe fn scan<const U: usize, const FULL: bool>(&mut self, buffer: u32) {
        let pairs = self.pairs.add(buffer * self.pair_words);
        let b = self.b.add(buffer * self.matrix_words);
        let c = self.c.add(buffer * self.matrix_words);
        let sums = self.sums.add(buffer * self.sum_words);
        let mut step = 0;
        while step < STEPS {
            let (pairs, at) = (pairs.add(2 * step), step * S as u32);
            // SAFETY: the steps lie in the tile.
            unsafe {
                let shares = self.steps::<U, FULL>(pairs, b.add(at), c.add(at));
                unroll!(U / 4, i => {
                    let quad = step / 4 + i as u32;
                    sums.store4(quad_position(self.thread, quad), shares[i]);
                });
            }
            step += U as u32;
        }
    }

    /// Scans `U` time steps; this lane's shares of their `y`.
    #[inline(always)]
    #[track_caller]
    unsafe fn steps<const U: usize, const FULL: bool>(
        &mut self,
        pair_words: Shared<f32>,
        b_words: Shared<f32>,
        c_words: Shared<f32>,
    ) -> [[f32; 4]; 32] {
        const { assert!(U.is_multiple_of(4) && U * S <= 128 && S.is_multiple_of(2)) };
        // As long as a loop can be, though no more than `U * S / 4` of them are used.
        let mut pairs = [[0.0; 4]; 32];
        let (mut b, mut c) = ([[0.0; 4]; 32], [[0.0; 4]; 32]);
        let mut shares = [[0.0; 4]; 32];
        // SAFETY: the caller's promise; steps are multiples of four.
        unsafe {
            unroll!(U / 2, i => { pairs[i] = pair_words.load4(4 * i as u32); });
            unroll!(U * S / 4, i => {
                (b[i], c[i]) = (b_words.load4(4 * i as u32), c_words.load4(4 * i as u32));
            });
        }
        unroll!(U, u => {
            let [delta, input] = [pairs[u / 2][u % 2 * 2], pairs[u / 2][u % 2 * 2 + 1]];
            let mut share = 0.0;
            unroll!(S, s => {
                let (four, one) = ((u * S + s) / 4, (u * S + s) % 4);
                let decay = exp2_approx(delta * self.rates[s]);
                let state = fma(decay, self.states[s], input * b[four][one]);
                self.states[s] = if FULL || (s as u32) < self.here { state } else { 0.0 };
                share = if s == 0 {
                    c[four][one] * self.states[s]
                } else {
                    fma(c[four][one], self.states[s], share)
                };
            });
            shares[u / 4][u % 4] = share;
        });
        shares
    }
}
