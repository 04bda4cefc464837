//! Linear scan on the CPU.
//!
//! Bytes: `a` and `b` read once, `h` written once. In `[B, L, D]` a block of neighbouring
//! channels advances row by row with its state in the L1 cache; in `[B, D, L]` two
//! channels advance together, each read as one stream.

use super::lanes::{
    columns, columns_mut, load, load_tile, scratch, store, store_tile, target, target_tile, tiles,
};
use super::pieces::{self, Cut, Grid, LANES, Piece, Sequences, TIME};
use super::{contiguous, slice, slice_mut};
use crate::dtype::Element;
use crate::error::Result;
use crate::ops::{Layout, LinearScan, LinearScanArgs};
use multiversion::multiversion;
use ndarray::{ArrayView2, ArrayViewMut2, s};

/// Channels that advance together through `[B, L, D]` rows. Whole rows are one stream each;
/// past this width the state (16 KiB) would push everything else out of L1.
const BLOCK: usize = 4096;
/// Channels of `[B, D, L]` that advance together. One is bound by the latency of its
/// multiply-adds; with more than two, rows a power of two apart fight for the same sets of
/// the cache.
const TOGETHER: usize = 2;
/// Time steps of `[B, D, L]` that are converted at once.
const TILE: usize = 128;

pub(crate) fn run<T: Element>(op: &LinearScan, args: LinearScanArgs<'_, T>) -> Result<()> {
    let grid = Grid::new(op.batch, op.length, op.channels, op.layout);
    let sequences = Sequences::new(op.batch, op.length, op.layout, args.offsets);
    let count = sequences.count();
    let piece = ScanPiece {
        a: grid.view(slice(args.a)),
        b: args.b.map(|b| grid.view(slice(b))),
        h: grid.view_mut(slice_mut(args.h)),
        h0: args.h0.map(|h0| grid.states(count, slice(h0))),
        last: args
            .final_state
            .map(|last| grid.states_mut(count, slice_mut(last))),
        sequences,
        layout: op.layout,
        reverse: op.reverse,
    };
    pieces::run(piece, op.layout);
    Ok(())
}

/// Views `[time, lanes]` and `[sequences, lanes]`.
struct ScanPiece<'a, T> {
    a: ArrayView2<'a, T>,
    /// Absent: `h` holds the inputs.
    b: Option<ArrayView2<'a, T>>,
    h: ArrayViewMut2<'a, T>,
    h0: Option<ArrayView2<'a, f32>>,
    last: Option<ArrayViewMut2<'a, f32>>,
    sequences: Sequences<'a>,
    layout: Layout,
    reverse: bool,
}

impl<T: Element> Piece for ScanPiece<'_, T> {
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
        let (a, b, h) = (cut.tensor(self.a), cut.tensor(self.b), cut.tensor(self.h));
        let (h0, last) = (cut.states(self.h0), cut.states(self.last));
        let sequences = cut.sequences(self.sequences);
        let (layout, reverse) = (self.layout, self.reverse);
        let part = |a, b, h, h0, last, sequences| Self {
            a,
            b,
            h,
            h0,
            last,
            sequences,
            layout,
            reverse,
        };
        (
            part(a.0, b.0, h.0, h0.0, last.0, sequences.0),
            part(a.1, b.1, h.1, h0.1, last.1, sequences.1),
        )
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
fn rows<T: Element>(mut piece: ScanPiece<'_, T>) {
    let lanes = piece.lanes();
    let [mut state, mut a_wide, mut b_wide, mut h_wide] = scratch(lanes.min(BLOCK));
    for sequence in 0..piece.sequences.count() {
        for block in tiles(lanes, BLOCK, false) {
            let state = &mut state[..block.len()];
            state.fill(0.0);
            if let Some(h0) = &piece.h0 {
                let h0 = h0.slice(s![sequence, block.clone()]);
                state.copy_from_slice(contiguous(h0.to_slice()));
            }
            let rows = s![piece.sequences.time_of(sequence), block.clone()];
            let mut a = piece.a.slice(rows);
            let mut b = piece.b.as_ref().map(|b| b.slice(rows));
            let mut h = piece.h.slice_mut(rows);
            if piece.reverse {
                a.invert_axis(TIME);
                b.iter_mut().for_each(|b| b.invert_axis(TIME));
                h.invert_axis(TIME);
            }
            if let Some(b) = b {
                for ((a, b), h) in a.outer_iter().zip(b.outer_iter()).zip(h.outer_iter_mut()) {
                    let h = contiguous(h.into_slice());
                    let a = load(contiguous(a.to_slice()), &mut a_wide);
                    let b = load(contiguous(b.to_slice()), &mut b_wide);
                    step(a, b, state, target::<T, false>(h, &mut h_wide));
                    store(&h_wide, h);
                }
            } else {
                for (a, h) in a.outer_iter().zip(h.outer_iter_mut()) {
                    let h = contiguous(h.into_slice());
                    let a = load(contiguous(a.to_slice()), &mut a_wide);
                    step_in_place(a, state, target::<T, true>(h, &mut h_wide));
                    store(&h_wide, h);
                }
            }
            if let Some(last) = &mut piece.last {
                let last = last.slice_mut(s![sequence, block]);
                contiguous(last.into_slice()).copy_from_slice(state);
            }
        }
    }
}

/// One time step of a block of channels.
#[inline(always)]
fn step(a: &[f32], b: &[f32], state: &mut [f32], h: &mut [f32]) {
    for (((&a, &b), state), h) in a.iter().zip(b).zip(state).zip(h) {
        *state = a.mul_add(*state, b);
        *h = *state;
    }
}

/// One time step whose inputs stand where the states go.
#[inline(always)]
fn step_in_place(a: &[f32], state: &mut [f32], h: &mut [f32]) {
    for ((&a, state), h) in a.iter().zip(state).zip(h) {
        *state = a.mul_add(*state, *h);
        *h = *state;
    }
}

/// `[B, D, L]`: a few channels together.
#[multiversion(targets("x86_64+avx2+fma+f16c"))]
fn lanes<T: Element>(mut piece: ScanPiece<'_, T>) {
    let lanes = piece.lanes();
    let together = lanes - lanes % TOGETHER;
    for first in (0..together).step_by(TOGETHER) {
        lanes_from::<T, TOGETHER>(&mut piece, first);
    }
    for first in together..lanes {
        lanes_from::<T, 1>(&mut piece, first);
    }
}

/// Scans N lanes from `first`.
#[inline(always)]
fn lanes_from<T: Element, const N: usize>(piece: &mut ScanPiece<'_, T>, first: usize) {
    for sequence in 0..piece.sequences.count() {
        let mut state = [0.0f32; N];
        if let Some(h0) = &piece.h0 {
            state = std::array::from_fn(|lane| h0[[sequence, first + lane]]);
        }
        let at = s![piece.sequences.time_of(sequence), first..first + N];
        let a = columns(piece.a.slice(at));
        let b = piece.b.as_ref().map(|b| columns(b.slice(at)));
        let h = columns_mut(piece.h.slice_mut(at));
        match (b, piece.reverse) {
            (Some(b), false) => scan::<T, N, false, false>(a, b, h, &mut state),
            (Some(b), true) => scan::<T, N, true, false>(a, b, h, &mut state),
            (None, false) => scan::<T, N, false, true>(a, a, h, &mut state),
            (None, true) => scan::<T, N, true, true>(a, a, h, &mut state),
        }
        if let Some(last) = &mut piece.last {
            for (lane, state) in state.into_iter().enumerate() {
                last[[sequence, first + lane]] = state;
            }
        }
    }
}

/// Scans one sequence of N lanes; in place, `h` holds the inputs and `b` is not read.
#[inline(always)]
fn scan<T: Element, const N: usize, const REVERSE: bool, const IN_PLACE: bool>(
    a: [&[T]; N],
    b: [&[T]; N],
    mut h: [&mut [T]; N],
    state: &mut [f32; N],
) {
    let [a_wide, b_wide, h_wide] = &mut [[[0.0f32; TILE]; N]; 3];
    for time in tiles(a[0].len(), TILE, REVERSE) {
        let steps = time.len();
        let a = load_tile(&a, &time, a_wide).map(|a| &a[..steps]);
        let b = if IN_PLACE {
            a
        } else {
            load_tile(&b, &time, b_wide).map(|b| &b[..steps])
        };
        let out = target_tile::<T, IN_PLACE, N, TILE>(&mut h, &time, h_wide);
        let out = out.map(|out| &mut out[..steps]);
        for step in 0..steps {
            let t = if REVERSE { steps - 1 - step } else { step };
            for lane in 0..N {
                let b = if IN_PLACE { out[lane][t] } else { b[lane][t] };
                state[lane] = a[lane][t].mul_add(state[lane], b);
                out[lane][t] = state[lane];
            }
        }
        store_tile(h_wide, &mut h, &time);
    }
}

#[cfg(test)]
mod tests {
    use crate::ops::{Layout, LinearScan, LinearScanArgs, SequenceOffsets};
    use crate::{Device, Element};
    use half::{bf16, f16};
    use rand::rngs::SmallRng;
    use rand::{Rng, SeedableRng};

    fn random<T: Element>(rng: &mut SmallRng, n: usize) -> Vec<T> {
        (0..n)
            .map(|_| T::from_f32(rng.random_range(-1.0..1.0)))
            .collect()
    }

    /// The definition, element by element: `[sequences x steps]` time steps of D channels.
    fn definition<T: Element>(
        op: &LinearScan,
        offsets: &[usize],
        a: &[T],
        b: &[T],
        h0: &[f32],
    ) -> (Vec<T>, Vec<f32>) {
        let (mut h, mut last) = (b.to_vec(), h0.to_vec());
        for row in 0..op.batch {
            for s in 0..offsets.len() - 1 {
                for d in 0..op.channels {
                    let column = (row * (offsets.len() - 1) + s) * op.channels + d;
                    let mut state = h0[column];
                    for i in offsets[s]..offsets[s + 1] {
                        let t = if op.reverse {
                            offsets[s] + offsets[s + 1] - 1 - i
                        } else {
                            i
                        };
                        let at = match op.layout {
                            Layout::Bld => (row * op.length + t) * op.channels + d,
                            Layout::Bdl => (row * op.channels + d) * op.length + t,
                        };
                        state = a[at].to_f32().mul_add(state, b[at].to_f32());
                        h[at] = T::from_f32(state);
                    }
                    last[column] = state;
                }
            }
        }
        (h, last)
    }

    fn check<T: Element>(op: LinearScan, packed: Option<&[i64]>, in_place: bool) {
        let device = Device::cpu();
        let rng = &mut SmallRng::seed_from_u64(7);
        let n = op.elements().unwrap();
        let (a, b) = (random::<T>(rng, n), random::<T>(rng, n));
        let offsets = packed.map(|o| SequenceOffsets::new(&device, o).unwrap());
        let starts: Vec<usize> = match packed {
            Some(offsets) => offsets.iter().map(|&o| o as usize).collect(),
            None => vec![0, op.length],
        };
        let h0: Vec<f32> = random(rng, op.batch * (starts.len() - 1) * op.channels);
        let (h, last) = definition(&op, &starts, &a, &b, &h0);
        let b_buffer = device.upload(&b).unwrap();
        let mut out = if in_place {
            device.upload(&b)
        } else {
            device.alloc(n)
        }
        .unwrap();
        let mut state = device.alloc::<f32>(h0.len()).unwrap();
        op.run_with(
            &device,
            LinearScanArgs {
                a: &device.upload(&a).unwrap(),
                b: (!in_place).then_some(&b_buffer),
                h: &mut out,
                h0: Some(&device.upload(&h0).unwrap()),
                final_state: Some(&mut state),
                offsets: offsets.as_ref(),
            },
        )
        .unwrap();
        let bytes = |v: &[T]| bytemuck::cast_slice::<T, u8>(v).to_vec();
        assert!(
            bytes(&out.to_vec().unwrap()) == bytes(&h),
            "{} {op:?}",
            T::DTYPE
        );
        assert_eq!(state.to_vec().unwrap(), last, "{} {op:?}", T::DTYPE);
    }

    #[test]
    fn is_the_definition_bit_for_bit() {
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(3)
            .build()
            .unwrap();
        pool.install(|| {
            for layout in [Layout::Bld, Layout::Bdl] {
                for reverse in [false, true] {
                    for in_place in [false, true] {
                        // Small, ragged, wider than a block, cut between threads, empty.
                        for [batch, length, channels] in [
                            [2, 5, 3],
                            [3, 300, 1],
                            [1, 130, 1100],
                            [2, 257, 97],
                            [2, 0, 3],
                        ] {
                            let op = LinearScan::new(batch, length, channels)
                                .layout(layout)
                                .reverse(reverse);
                            check::<f32>(op, None, in_place);
                            check::<f16>(op, None, in_place);
                            check::<bf16>(op, None, in_place);
                        }
                        let op = LinearScan::new(1, 700, 131).layout(layout).reverse(reverse);
                        let packed = [0, 0, 3, 3, 203, 699, 700, 700];
                        check::<f32>(op, Some(&packed), in_place);
                        check::<bf16>(op, Some(&packed), in_place);
                    }
                }
            }
        });
    }
}
