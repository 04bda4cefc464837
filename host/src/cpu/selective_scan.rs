//! Selective scan on the CPU.
//!
//! Sixteen channels advance together, one state after the other, a tile of time steps at a
//! time (`selective_tile.rs`). What binds is arithmetic: an exponential for each time step,
//! channel and state, about twenty instructions with the rest; memory is an Nth of that.
//! Neither layout is favoured: a tile is brought to the order the arithmetic wants.

use super::pieces::{Cut, Grid, LANES, Sequences, TIME};
use super::selective_tile::{Parameters, WIDTH, scan};
use super::{slice, slice_mut};
use crate::dtype::Element;
use crate::error::Result;
use crate::ops::{SelectiveScan, SelectiveScanArgs};
use ndarray::{ArrayView2, ArrayViewMut2};

/// State updates (time steps x channels x N) below which starting another task costs more
/// than it saves.
const SMALLEST_PIECE: usize = 32 * 1024;
/// Pieces per thread, to even out threads that are late.
const PIECES_PER_THREAD: usize = 4;

pub(crate) fn run<T: Element>(op: &SelectiveScan, args: SelectiveScanArgs<'_, T>) -> Result<()> {
    let grid = Grid::new(op.batch, op.length, op.channels, op.layout);
    let sequences = Sequences::new(op.batch, op.length, op.layout, args.offsets);
    let parameters = Parameters {
        a: slice(args.a.buffer()),
        log: args.a.is_log(),
        b: slice(args.b),
        c: slice(args.c),
        d_skip: args.d_skip.map(slice),
        delta_bias: args.delta_bias.map(slice),
        softplus: op.softplus,
        length: op.length,
        channels: op.channels,
        state: op.state,
        groups: op.groups,
        layout: op.layout,
    };
    let rows = |lanes: usize| (sequences.count(), lanes * op.state);
    run_piece(ScanPiece {
        parameters: &parameters,
        x: grid.view(slice(args.x)),
        delta: grid.view(slice(args.delta)),
        z: args.z.map(|z| grid.view(slice(z))),
        y: grid.view_mut(slice_mut(args.y)),
        h0: args.h0.map(|h0| {
            ArrayView2::from_shape(rows(grid.lanes), slice(h0))
                .expect("validated: N states a sequence and lane")
        }),
        last: args.final_state.map(|last| {
            ArrayViewMut2::from_shape(rows(grid.lanes), slice_mut(last))
                .expect("validated: N states a sequence and lane")
        }),
        in_place: false,
        sequences,
        first_time: 0,
        first_lane: 0,
    });
    Ok(())
}

/// A part of the work: some sequences, some lanes, and what belongs to them. Views
/// `[time, lanes]`; of the states `[sequences, lanes x N]`.
pub(super) struct ScanPiece<'a, T> {
    pub parameters: &'a Parameters<'a, T>,
    pub x: ArrayView2<'a, T>,
    pub delta: ArrayView2<'a, T>,
    pub z: Option<ArrayView2<'a, T>>,
    pub y: ArrayViewMut2<'a, T>,
    pub h0: Option<ArrayView2<'a, f32>>,
    pub last: Option<ArrayViewMut2<'a, f32>>,
    /// `last` holds the initial states.
    pub in_place: bool,
    pub sequences: Sequences<'a>,
    /// Where the views begin in the whole.
    pub first_time: usize,
    pub first_lane: usize,
}

/// Runs a piece, in parallel if it is large.
pub(super) fn run_piece<T: Element>(piece: ScanPiece<'_, T>) {
    let threads = rayon::current_num_threads();
    let enough = piece.updates() / (threads * PIECES_PER_THREAD);
    divide(piece, enough.max(SMALLEST_PIECE));
}

/// `enough`: state updates of a piece that is not cut.
fn divide<T: Element>(piece: ScanPiece<'_, T>, enough: usize) {
    let cut = match piece.updates() > enough {
        true => piece.middle(),
        false => None,
    };
    let Some(cut) = cut else {
        return scan(piece);
    };
    let (left, right) = piece.split(cut);
    rayon::join(|| divide(left, enough), || divide(right, enough));
}

impl<T> ScanPiece<'_, T> {
    pub fn lanes(&self) -> usize {
        self.x.len_of(LANES)
    }

    /// Each sequence counts for one time step at least, for its states.
    fn updates(&self) -> usize {
        let time = self.x.len_of(TIME).max(self.sequences.count());
        time.saturating_mul(self.lanes())
            .saturating_mul(self.parameters.state)
    }

    /// Between sequences if there are several, else between lanes that advance together.
    fn middle(&self) -> Option<Cut> {
        if let Some(s) = self.sequences.middle() {
            let time = self.sequences.start(s);
            return Some(Cut::Sequence { s, time });
        }
        let lane = (self.lanes() / 2).next_multiple_of(WIDTH);
        (self.lanes() > WIDTH && lane < self.lanes()).then_some(Cut::Lane(lane))
    }

    fn split(self, cut: Cut) -> (Self, Self) {
        let states = match cut {
            Cut::Sequence { .. } => cut,
            Cut::Lane(lane) => Cut::Lane(lane * self.parameters.state),
        };
        let (first_time, first_lane) = match cut {
            Cut::Sequence { time, .. } => (self.first_time + time, self.first_lane),
            Cut::Lane(lane) => (self.first_time, self.first_lane + lane),
        };
        let (x, delta) = (cut.tensor(self.x), cut.tensor(self.delta));
        let (z, y) = (cut.tensor(self.z), cut.tensor(self.y));
        let (h0, last) = (states.states(self.h0), states.states(self.last));
        let sequences = cut.sequences(self.sequences);
        let left = Self {
            x: x.0,
            delta: delta.0,
            z: z.0,
            y: y.0,
            h0: h0.0,
            last: last.0,
            sequences: sequences.0,
            ..self
        };
        let right = Self {
            x: x.1,
            delta: delta.1,
            z: z.1,
            y: y.1,
            h0: h0.1,
            last: last.1,
            sequences: sequences.1,
            first_time,
            first_lane,
            ..left
        };
        (left, right)
    }
}
