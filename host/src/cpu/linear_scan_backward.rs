//! Gradients of the linear scan on the CPU.
//!
//! Bytes: `a`, `h` and `grad_h` read once, `grad_a` and `grad_b` written once. The pieces and
//! the two ways through memory are those of the scan itself (`linear_scan.rs`), run from the
//! scan's last step to its first.

use super::lanes::{columns, columns_mut, load, load_tile, store, store_tile, target, target_tile};
use super::lanes::{load_into, scratch, tiles};
use super::pieces::{self, Cut, Grid, LANES, Piece, Sequences, TIME};
use super::{contiguous, slice, slice_mut};
use crate::dtype::Element;
use crate::error::Result;
use crate::ops::{Layout, LinearScan, LinearScanBackwardArgs};
use multiversion::multiversion;
use ndarray::{ArrayView2, ArrayViewMut2, s};
use std::ops::Range;

/// Channels that advance together through `[B, L, D]` rows, with three rows of f32 carried
/// from step to step.
const BLOCK: usize = 2048;
/// Time steps of `[B, D, L]` that are converted at once.
const TILE: usize = 128;

pub(crate) fn run<T: Element>(op: &LinearScan, args: LinearScanBackwardArgs<'_, T>) -> Result<()> {
    let grid = Grid::new(op.batch, op.length, op.channels, op.layout);
    let sequences = Sequences::new(op.batch, op.length, op.layout, args.offsets);
    let count = sequences.count();
    let piece = BackwardPiece {
        a: grid.view(slice(args.a)),
        h: grid.view(slice(args.h)),
        grad_h: args.grad_h.map(|grad| grid.view(slice(grad))),
        grad_a: grid.view_mut(slice_mut(args.grad_a)),
        grad_b: grid.view_mut(slice_mut(args.grad_b)),
        h0: args.h0.map(|h0| grid.states(count, slice(h0))),
        grad_last: args
            .grad_final_state
            .map(|grad| grid.states(count, slice(grad))),
        grad_h0: args
            .grad_h0
            .map(|grad| grid.states_mut(count, slice_mut(grad))),
        sequences,
        layout: op.layout,
        reverse: op.reverse,
    };
    pieces::run(piece, op.layout);
    Ok(())
}

/// Views `[time, lanes]` and `[sequences, lanes]`.
struct BackwardPiece<'a, T> {
    a: ArrayView2<'a, T>,
    h: ArrayView2<'a, T>,
    /// Absent: `grad_b` holds it.
    grad_h: Option<ArrayView2<'a, T>>,
    grad_a: ArrayViewMut2<'a, T>,
    grad_b: ArrayViewMut2<'a, T>,
    h0: Option<ArrayView2<'a, f32>>,
    grad_last: Option<ArrayView2<'a, f32>>,
    grad_h0: Option<ArrayViewMut2<'a, f32>>,
    sequences: Sequences<'a>,
    layout: Layout,
    reverse: bool,
}

impl<T: Element> Piece for BackwardPiece<'_, T> {
    fn sequences(&self) -> Sequences<'_> {
        self.sequences
    }
    fn time(&self) -> usize {
        self.a.len_of(TIME)
    }
    fn lanes(&self) -> usize {
        self.a.len_of(LANES)
    }
    fn split(self, cut: Cut) -> (Self, Self) {
        let (a, a2) = cut.tensor(self.a);
        let (h, h2) = cut.tensor(self.h);
        let (grad_h, grad_h2) = cut.tensor(self.grad_h);
        let (grad_a, grad_a2) = cut.tensor(self.grad_a);
        let (grad_b, grad_b2) = cut.tensor(self.grad_b);
        let (h0, h0_2) = cut.states(self.h0);
        let (grad_last, grad_last2) = cut.states(self.grad_last);
        let (grad_h0, grad_h0_2) = cut.states(self.grad_h0);
        let (sequences, sequences2) = cut.sequences(self.sequences);
        let right = Self {
            a: a2,
            h: h2,
            grad_h: grad_h2,
            grad_a: grad_a2,
            grad_b: grad_b2,
            h0: h0_2,
            grad_last: grad_last2,
            grad_h0: grad_h0_2,
            sequences: sequences2,
            ..self
        };
        let left = Self {
            a,
            h,
            grad_h,
            grad_a,
            grad_b,
            h0,
            grad_last,
            grad_h0,
            sequences,
            layout: self.layout,
            reverse: self.reverse,
        };
        (left, right)
    }
    fn run(self) {
        match self.layout {
            Layout::Bld => rows(self),
            Layout::Bdl => lanes(self),
        }
    }
}

/// `[B, L, D]`: row by row, a block of channels at a time.
#[multiversion(targets("x86_64+avx2+fma+f16c"))]
fn rows<T: Element>(mut piece: BackwardPiece<'_, T>) {
    let lanes = piece.lanes();
    let [mut g, mut gate, mut first] = scratch(lanes.min(BLOCK));
    let [mut h_wide, mut gh_wide, mut ga_wide, mut gb_wide] = scratch(lanes.min(BLOCK));
    for sequence in 0..piece.sequences.count() {
        let time = piece.sequences.time_of(sequence);
        for block in tiles(lanes, BLOCK, false) {
            let n = block.len();
            let (g, gate, first) = (&mut g[..n], &mut gate[..n], &mut first[..n]);
            start(g, piece.grad_last.as_ref(), sequence, &block);
            start(first, piece.h0.as_ref(), sequence, &block);
            gate.fill(1.0);
            let steps = time.len();
            for done in 0..steps {
                // The scan's step whose turn it is, and the one before that in the scan.
                let (row, before) = if piece.reverse {
                    let row = time.start + done;
                    (row, row + 1)
                } else {
                    let row = time.end - 1 - done;
                    (row, row.wrapping_sub(1))
                };
                let h = if done + 1 == steps {
                    &*first
                } else {
                    let h = piece.h.slice(s![before, block.clone()]);
                    load(contiguous(h.to_slice()), &mut h_wide)
                };
                let grad_a = piece.grad_a.slice_mut(s![row, block.clone()]);
                let grad_b = piece.grad_b.slice_mut(s![row, block.clone()]);
                let (grad_a, grad_b) = (
                    contiguous(grad_a.into_slice()),
                    contiguous(grad_b.into_slice()),
                );
                let ga = target::<T, false>(grad_a, &mut ga_wide);
                if let Some(grad_h) = &piece.grad_h {
                    let gh = grad_h.slice(s![row, block.clone()]);
                    let gh = load(contiguous(gh.to_slice()), &mut gh_wide);
                    step(g, gate, h, gh, ga, target::<T, false>(grad_b, &mut gb_wide));
                } else {
                    step_in_place(g, gate, h, ga, target::<T, true>(grad_b, &mut gb_wide));
                }
                store(&ga_wide, grad_a);
                store(&gb_wide, grad_b);
                let a = piece.a.slice(s![row, block.clone()]);
                load_into(contiguous(a.to_slice()), gate);
            }
            if let Some(grad_h0) = &mut piece.grad_h0 {
                let grad_h0 = contiguous(grad_h0.slice_mut(s![sequence, block]).into_slice());
                for ((out, &gate), &g) in grad_h0.iter_mut().zip(&*gate).zip(&*g) {
                    *out = gate * g;
                }
            }
        }
    }
}

/// A row of states, or zeros.
fn start(
    row: &mut [f32],
    states: Option<&ArrayView2<'_, f32>>,
    sequence: usize,
    block: &Range<usize>,
) {
    match states {
        Some(states) => {
            let states = states.slice(s![sequence, block.clone()]);
            row.copy_from_slice(contiguous(states.to_slice()));
        }
        None => row.fill(0.0),
    }
}

/// One step of a block of channels: `g` and `gate` are those of the step after it in the
/// scan, `h` the states of the step before it.
#[inline(always)]
fn step(
    g: &mut [f32],
    gate: &[f32],
    h: &[f32],
    grad_h: &[f32],
    grad_a: &mut [f32],
    grad_b: &mut [f32],
) {
    let (n, outs) = (g.len(), grad_a.iter_mut().zip(grad_b));
    let (gate, h, grad_h) = (&gate[..n], &h[..n], &grad_h[..n]);
    for (i, (g, (grad_a, grad_b))) in g.iter_mut().zip(outs).enumerate() {
        *g = gate[i].mul_add(*g, grad_h[i]);
        *grad_a = *g * h[i];
        *grad_b = *g;
    }
}

/// One step whose `grad_h` stands where `grad_b` goes.
#[inline(always)]
fn step_in_place(g: &mut [f32], gate: &[f32], h: &[f32], grad_a: &mut [f32], grad_b: &mut [f32]) {
    let (n, outs) = (g.len(), grad_a.iter_mut().zip(grad_b));
    let (gate, h) = (&gate[..n], &h[..n]);
    for (i, (g, (grad_a, grad_b))) in g.iter_mut().zip(outs).enumerate() {
        *g = gate[i].mul_add(*g, *grad_b);
        *grad_a = *g * h[i];
        *grad_b = *g;
    }
}

/// `[B, D, L]`: one channel after the other, each read as one stream.
#[multiversion(targets("x86_64+avx2+fma+f16c"))]
fn lanes<T: Element>(mut piece: BackwardPiece<'_, T>) {
    for lane in 0..piece.lanes() {
        for sequence in 0..piece.sequences.count() {
            let at = s![piece.sequences.time_of(sequence), lane..lane + 1];
            let a = columns(piece.a.slice(at));
            let h = columns(piece.h.slice(at));
            let grad_h = piece.grad_h.as_ref().map(|grad| columns(grad.slice(at)));
            let grad_a = columns_mut(piece.grad_a.slice_mut(at));
            let grad_b = columns_mut(piece.grad_b.slice_mut(at));
            let h0 = piece.h0.as_ref().map_or(0.0, |h0| h0[[sequence, lane]]);
            let grad_last = piece.grad_last.as_ref();
            let mut carry = Carry {
                g: grad_last.map_or(0.0, |grad| grad[[sequence, lane]]),
                gate: 1.0,
            };
            match (grad_h, piece.reverse) {
                (Some(gh), false) => {
                    channel::<T, false, false>(a, h, h0, gh, grad_a, grad_b, &mut carry)
                }
                (Some(gh), true) => {
                    channel::<T, true, false>(a, h, h0, gh, grad_a, grad_b, &mut carry)
                }
                (None, false) => channel::<T, false, true>(a, h, h0, a, grad_a, grad_b, &mut carry),
                (None, true) => channel::<T, true, true>(a, h, h0, a, grad_a, grad_b, &mut carry),
            }
            if let Some(grad_h0) = &mut piece.grad_h0 {
                grad_h0[[sequence, lane]] = carry.gate * carry.g;
            }
        }
    }
}

/// What one step hands to the step before it in the scan: its gradient and its gate.
struct Carry {
    g: f32,
    gate: f32,
}

/// One sequence of one channel; in place, `grad_b` holds `grad_h`, which is not read.
#[inline(always)]
fn channel<T: Element, const REVERSE: bool, const IN_PLACE: bool>(
    a: [&[T]; 1],
    h: [&[T]; 1],
    h0: f32,
    grad_h: [&[T]; 1],
    mut grad_a: [&mut [T]; 1],
    mut grad_b: [&mut [T]; 1],
    carry: &mut Carry,
) {
    let [a_wide, h_wide, gh_wide, ga_wide, gb_wide] = &mut [[[0.0f32; TILE]; 1]; 5];
    let length = a[0].len();
    // The scan's last step first.
    for time in tiles(length, TILE, !REVERSE) {
        let steps = time.len();
        let [a] = load_tile(&a, &time, a_wide).map(|a| &a[..steps]);
        let [h_tile] = load_tile(&h, &time, h_wide).map(|h| &h[..steps]);
        let [gh] = load_tile(&grad_h, &time, gh_wide).map(|gh| &gh[..steps]);
        let [ga] = target_tile::<T, false, 1, TILE>(&mut grad_a, &time, ga_wide);
        let [gb] = target_tile::<T, IN_PLACE, 1, TILE>(&mut grad_b, &time, gb_wide);
        let (ga, gb) = (&mut ga[..steps], &mut gb[..steps]);
        // The state before the tile, in the scan's direction.
        let outside = if REVERSE {
            time.end
        } else {
            time.start.wrapping_sub(1)
        };
        let outside = h[0].get(outside).map_or(h0, |h| h.to_f32());
        for step in 0..steps {
            let t = if REVERSE { step } else { steps - 1 - step };
            let before = if REVERSE { t + 1 } else { t.wrapping_sub(1) };
            let before = h_tile.get(before).copied().unwrap_or(outside);
            let grad = if IN_PLACE { gb[t] } else { gh[t] };
            carry.g = carry.gate.mul_add(carry.g, grad);
            carry.gate = a[t];
            ga[t] = carry.g * before;
            gb[t] = carry.g;
        }
        store_tile(ga_wide, &mut grad_a, &time);
        store_tile(gb_wide, &mut grad_b, &time);
    }
}

#[cfg(test)]
#[path = "linear_scan_backward_tests.rs"]
mod tests;
