//! The inner loops of the selective scan on the CPU: [`WIDTH`] channels, a tile of time steps.
//!
//! `A * log2(e)` is formed once for each channel and state, so that a decay is one
//! multiplication and one [`exp2`]. The sum over n is taken in the order of n. All this is
//! the same for every channel, whatever its neighbours are, so results do not depend on how
//! the work was cut.

use super::contiguous;
use super::lanes::{load_into, store, tiles};
use super::math::{exp, exp2, silu, softplus};
use super::pieces::LANES;
use super::selective_scan::ScanPiece;
use crate::dtype::{DType, Element};
use crate::ops::Layout;
use multiversion::multiversion;
use ndarray::{ArrayView2, ArrayViewMut2, s};
use std::f32::consts::LOG2_E;
use std::ops::Range;

/// Channels that advance together: a cache line of f32, two registers of AVX.
pub(super) const WIDTH: usize = 16;
/// Time steps of a tile: its six tensors stay in the L1 cache beside the states.
const TILE: usize = 32;

type Row = [f32; WIDTH];

/// What all parts of a scan share.
pub(super) struct Parameters<'a, T> {
    /// `[D, N]`: `A_log` if `log`, else A.
    pub a: &'a [f32],
    pub log: bool,
    /// `[B, L, G, N]` or `[B, G, N, L]`.
    pub b: &'a [T],
    pub c: &'a [T],
    pub d_skip: Option<&'a [f32]>,
    pub delta_bias: Option<&'a [f32]>,
    pub softplus: bool,
    pub length: usize,
    pub channels: usize,
    pub state: usize,
    pub groups: usize,
    pub layout: Layout,
}

impl<T: Element> Parameters<'_, T> {
    /// The lanes from `first` on, before `end`, that advance together: of one group of one
    /// batch element, [`WIDTH`] at most.
    fn block(&self, first: usize, end: usize) -> Range<usize> {
        let per_group = self.channels / self.groups;
        let group_end = first - first % per_group + per_group;
        first..end.min(group_end).min(first + WIDTH)
    }

    /// `A * log2(e)` of the channels of these lanes, `[N]` rows.
    #[inline(always)]
    fn decays(&self, lanes: &Range<usize>, out: &mut [Row]) {
        let channel = lanes.start % self.channels;
        for (n, row) in out.iter_mut().enumerate() {
            *row = [0.0; WIDTH];
            for (w, decay) in row[..lanes.len()].iter_mut().enumerate() {
                *decay = self.a[(channel + w) * self.state + n];
            }
            for decay in row {
                let a = if self.log { -exp(*decay) } else { *decay };
                // Finite unless NaN, so that a step of size 0 changes nothing.
                *decay = (a * LOG2_E).clamp(-f32::MAX, f32::MAX);
            }
        }
    }

    /// A parameter `[D]` of the channels of these lanes; absent, zeros.
    fn row(&self, lanes: &Range<usize>, parameter: Option<&[f32]>) -> Row {
        let mut row = [0.0; WIDTH];
        if let Some(parameter) = parameter {
            let channel = lanes.start % self.channels;
            row[..lanes.len()].copy_from_slice(&parameter[channel..channel + lanes.len()]);
        }
        row
    }

    /// B or C of these time steps for the group of `lane`, `[steps, N]`.
    #[inline(always)]
    fn matrix(&self, from: &[T], lane: usize, time: &Range<usize>, out: &mut [f32]) {
        let group = lane % self.channels / (self.channels / self.groups);
        let n = self.state;
        match self.layout {
            Layout::Bld => {
                for (t, out) in time.clone().zip(out.chunks_exact_mut(n)) {
                    let at = (t * self.groups + group) * n;
                    load_into(&from[at..at + n], out);
                }
            }
            Layout::Bdl => {
                let first = (lane / self.channels * self.groups + group) * n;
                let mut column = [0.0; TILE];
                for state in 0..n {
                    let at = (first + state) * self.length;
                    let column = &mut column[..time.len()];
                    load_into(&from[at + time.start..at + time.end], column);
                    for (row, &value) in out.chunks_exact_mut(n).zip(&*column) {
                        row[state] = value;
                    }
                }
            }
        }
    }
}

/// Scans a piece: its lanes block by block, each through all sequences.
#[multiversion(targets("x86_64+avx2+fma+f16c"))]
pub(super) fn scan<T: Element>(mut piece: ScanPiece<'_, T>) {
    let parameters = piece.parameters;
    let n = parameters.state;
    let (mut decays, mut state) = (vec![[0.0; WIDTH]; n], vec![[0.0; WIDTH]; n]);
    let (mut b, mut c) = (vec![0.0; TILE * n], vec![0.0; TILE * n]);
    let [mut x, mut delta, mut y] = [[[0.0; WIDTH]; TILE]; 3];
    let (first, end) = (piece.first_lane, piece.first_lane + piece.lanes());
    let mut next = first;
    while next < end {
        let lanes = parameters.block(next, end);
        next = lanes.end;
        parameters.decays(&lanes, &mut decays);
        let bias = parameters.row(&lanes, parameters.delta_bias);
        let skip = parameters.row(&lanes, parameters.d_skip);
        // In the views of this piece.
        let columns = lanes.start - first..lanes.end - first;
        for sequence in 0..piece.sequences.count() {
            initial(&piece, sequence, &columns, &mut state);
            let start = piece.sequences.start(sequence);
            let steps = piece.sequences.start(sequence + 1) - start;
            for tile in tiles(steps, TILE, false) {
                let time = start + tile.start..start + tile.end;
                let whole = piece.first_time + time.start..piece.first_time + time.end;
                parameters.matrix(parameters.b, lanes.start, &whole, &mut b);
                parameters.matrix(parameters.c, lanes.start, &whole, &mut c);
                gather(&piece.x, parameters.layout, &time, &columns, &mut x);
                gather(&piece.delta, parameters.layout, &time, &columns, &mut delta);
                let delta = &mut delta[..time.len()];
                step_sizes(delta, &bias, parameters);
                skips(&x, &skip, parameters.d_skip.is_some(), &mut y);
                advance(&x, delta, &b, &c, &decays, &mut state, &mut y);
                if let Some(z) = &piece.z {
                    gather(z, parameters.layout, &time, &columns, &mut x);
                    gate(&x[..time.len()], &mut y);
                }
                scatter(&y, parameters.layout, &time, &columns, &mut piece.y);
            }
            if let Some(last) = &mut piece.last {
                let mut last = last.slice_mut(s![sequence, columns.start * n..columns.end * n]);
                let last = contiguous(last.as_slice_mut());
                for (w, last) in last.chunks_exact_mut(n).enumerate() {
                    for (last, row) in last.iter_mut().zip(&state) {
                        *last = row[w];
                    }
                }
            }
        }
    }
}

/// The states before the first step of a sequence, `[N]` rows.
fn initial<T>(
    piece: &ScanPiece<'_, T>,
    sequence: usize,
    columns: &Range<usize>,
    state: &mut [Row],
) {
    let n = state.len();
    state.fill([0.0; WIDTH]);
    let range = s![sequence, columns.start * n..columns.end * n];
    let from = match (&piece.h0, &piece.last) {
        (_, Some(last)) if piece.in_place => last.slice(range),
        (Some(h0), _) => h0.slice(range),
        _ => return,
    };
    let from = contiguous(from.to_slice());
    for (w, from) in from.chunks_exact(n).enumerate() {
        for (row, &value) in state.iter_mut().zip(from) {
            row[w] = value;
        }
    }
}

/// Time steps and columns of a view as rows; what lies beside the columns is zero.
#[inline(always)]
fn gather<T: Element>(
    view: &ArrayView2<'_, T>,
    layout: Layout,
    time: &Range<usize>,
    columns: &Range<usize>,
    out: &mut [Row; TILE],
) {
    let part = view.slice(s![time.clone(), columns.clone()]);
    match layout {
        Layout::Bld => {
            for (out, row) in out.iter_mut().zip(part.outer_iter()) {
                let row = contiguous(row.to_slice());
                if row.len() == WIDTH {
                    load_into(&row[..WIDTH], out);
                } else {
                    *out = [0.0; WIDTH];
                    load_into(row, &mut out[..row.len()]);
                }
            }
        }
        Layout::Bdl => {
            let mut wide = [0.0; TILE];
            out.fill([0.0; WIDTH]);
            for (w, column) in part.axis_iter(LANES).enumerate() {
                let wide = &mut wide[..time.len()];
                load_into(contiguous(column.to_slice()), wide);
                for (out, &value) in out.iter_mut().zip(&*wide) {
                    out[w] = value;
                }
            }
        }
    }
}

/// Rows to where [`gather`] takes them from.
#[inline(always)]
fn scatter<T: Element>(
    rows: &[Row; TILE],
    layout: Layout,
    time: &Range<usize>,
    columns: &Range<usize>,
    view: &mut ArrayViewMut2<'_, T>,
) {
    let mut part = view.slice_mut(s![time.clone(), columns.clone()]);
    match layout {
        Layout::Bld => {
            for (row, out) in rows.iter().zip(part.outer_iter_mut()) {
                let out = contiguous(out.into_slice());
                put(&row[..out.len()], out);
            }
        }
        Layout::Bdl => {
            let mut wide = [0.0; TILE];
            for (w, column) in part.axis_iter_mut(LANES).enumerate() {
                for (wide, row) in wide.iter_mut().zip(rows) {
                    *wide = row[w];
                }
                put(&wide[..time.len()], contiguous(column.into_slice()));
            }
        }
    }
}

#[inline(always)]
fn put<T: Element>(wide: &[f32], out: &mut [T]) {
    if T::DTYPE == DType::F32 {
        return bytemuck::cast_slice_mut(out).copy_from_slice(wide);
    }
    store(wide, out);
}

/// Bias and softplus.
#[inline(always)]
fn step_sizes<T>(delta: &mut [Row], bias: &Row, parameters: &Parameters<'_, T>) {
    if parameters.delta_bias.is_some() {
        for row in delta.iter_mut() {
            for (delta, bias) in row.iter_mut().zip(bias) {
                *delta += bias;
            }
        }
    }
    if parameters.softplus {
        for row in delta {
            for delta in row {
                *delta = softplus(*delta);
            }
        }
    }
}

/// What the skip connection gives to `y`.
#[inline(always)]
fn skips(x: &[Row; TILE], skip: &Row, present: bool, y: &mut [Row; TILE]) {
    if !present {
        return y.fill([0.0; WIDTH]);
    }
    for (y, x) in y.iter_mut().zip(x) {
        for ((y, x), skip) in y.iter_mut().zip(x).zip(skip) {
            *y = skip * x;
        }
    }
}

/// The recurrence, and the sum over n on top of `y`: as many time steps as `delta` has.
#[inline(always)]
fn advance(
    x: &[Row],
    delta: &[Row],
    b: &[f32],
    c: &[f32],
    decays: &[Row],
    state: &mut [Row],
    y: &mut [Row],
) {
    let n = decays.len();
    let matrices = b.chunks_exact(n).zip(c.chunks_exact(n));
    for ((((b, c), delta), x), y) in matrices.zip(delta).zip(x).zip(y) {
        let mut sum = *y;
        let mut input = [0.0; WIDTH];
        for w in 0..WIDTH {
            input[w] = delta[w] * x[w];
        }
        for (((decay, state), &b), &c) in decays.iter().zip(&mut *state).zip(b).zip(c) {
            for w in 0..WIDTH {
                let a = exp2(delta[w] * decay[w]);
                let h = a.mul_add(state[w], input[w] * b);
                // A state that fades out does not slow what follows by being denormal.
                let h = if h.abs() < f32::MIN_POSITIVE { 0.0 } else { h };
                state[w] = h;
                sum[w] = c.mul_add(h, sum[w]);
            }
        }
        *y = sum;
    }
}

/// The gate.
#[inline(always)]
fn gate(z: &[Row], y: &mut [Row]) {
    for (y, z) in y.iter_mut().zip(z) {
        for (y, &z) in y.iter_mut().zip(z) {
            *y *= silu(z);
        }
    }
}
