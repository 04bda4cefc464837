//! Cutting sequences and channels into pieces that run in parallel.
//!
//! Both layouts are one thing here: a `[time, lanes]` view, where a lane is a channel of one
//! sequence. In `[B, L, D]` the sequences follow one another in time and there are D lanes;
//! `[B, D, L]` is the transposed view of B x D lanes. Packed sequences are runs of time steps.

use crate::dtype::Data;
use crate::ops::{Layout, SequenceOffsets};
use ndarray::{ArrayView2, ArrayViewMut2, Axis};
use std::ops::Range;

/// Time runs along this axis of every view.
pub(super) const TIME: Axis = Axis(0);
/// Lanes lie along this axis of every view.
pub(super) const LANES: Axis = Axis(1);

/// Pieces per thread: enough to even out threads that are late, few enough that rows stay
/// wide and streams long.
const PIECES_PER_THREAD: usize = 4;
/// Elements below which starting another task costs more than it saves.
const SMALLEST_PIECE: usize = 16 * 1024;
/// Lanes are cut at multiples of this.
const LANE_STEP: usize = 8;
/// Channels that stay together where they are neighbours in memory: shorter rows waste the
/// hardware's prefetching.
const NARROWEST_ROW: usize = 64;
/// Channels that stay together where each is contiguous in time.
const FEWEST_COLUMNS: usize = 8;

/// A tensor as `[time, lanes]`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Grid {
    pub time: usize,
    pub lanes: usize,
    pub layout: Layout,
}

impl Grid {
    /// The grid of a `[batch, length, channels]` tensor.
    pub fn new(batch: usize, length: usize, channels: usize, layout: Layout) -> Self {
        let (time, lanes) = match layout {
            Layout::Bld => (batch * length, channels),
            Layout::Bdl => (length, batch * channels),
        };
        Self {
            time,
            lanes,
            layout,
        }
    }

    pub fn view<'a, T: Data>(&self, data: &'a [T]) -> ArrayView2<'a, T> {
        let view = match self.layout {
            Layout::Bld => ArrayView2::from_shape((self.time, self.lanes), data),
            Layout::Bdl => {
                ArrayView2::from_shape((self.lanes, self.time), data).map(|v| v.reversed_axes())
            }
        };
        view.expect("validated: the length is that of the shape")
    }

    pub fn view_mut<'a, T: Data>(&self, data: &'a mut [T]) -> ArrayViewMut2<'a, T> {
        let view = match self.layout {
            Layout::Bld => ArrayViewMut2::from_shape((self.time, self.lanes), data),
            Layout::Bdl => {
                ArrayViewMut2::from_shape((self.lanes, self.time), data).map(|v| v.reversed_axes())
            }
        };
        view.expect("validated: the length is that of the shape")
    }

    /// States, `[sequences, lanes]`.
    pub fn states<'a>(&self, sequences: usize, data: &'a [f32]) -> ArrayView2<'a, f32> {
        ArrayView2::from_shape((sequences, self.lanes), data)
            .expect("validated: one state a sequence and lane")
    }

    /// States, `[sequences, lanes]`.
    pub fn states_mut<'a>(&self, sequences: usize, data: &'a mut [f32]) -> ArrayViewMut2<'a, f32> {
        ArrayViewMut2::from_shape((sequences, self.lanes), data)
            .expect("validated: one state a sequence and lane")
    }
}

/// Sequences that follow one another in time.
#[derive(Clone, Copy, Debug)]
pub(super) enum Sequences<'a> {
    /// All of one length.
    Uniform { count: usize, length: usize },
    /// From each offset to the next.
    Packed(&'a [i64]),
}

impl<'a> Sequences<'a> {
    pub fn new(
        batch: usize,
        length: usize,
        layout: Layout,
        offsets: Option<&'a SequenceOffsets>,
    ) -> Self {
        match (offsets, layout) {
            (Some(offsets), _) => Self::Packed(offsets.as_slice()),
            (None, Layout::Bld) => Self::Uniform {
                count: batch,
                length,
            },
            // The batch is in the lanes.
            (None, Layout::Bdl) => Self::Uniform { count: 1, length },
        }
    }

    pub fn count(&self) -> usize {
        match self {
            Self::Uniform { count, .. } => *count,
            Self::Packed(offsets) => offsets.len() - 1,
        }
    }

    /// The first time step of sequence `s`, counted from this run's first; of `count()`, the end.
    pub fn start(&self, s: usize) -> usize {
        match self {
            Self::Uniform { length, .. } => s * length,
            Self::Packed(offsets) => (offsets[s] - offsets[0]) as usize,
        }
    }

    /// The time steps of sequence `s`.
    pub fn time_of(&self, s: usize) -> Range<usize> {
        self.start(s)..self.start(s + 1)
    }

    fn split_at(self, s: usize) -> (Self, Self) {
        match self {
            Self::Uniform { count, length } => (
                Self::Uniform { count: s, length },
                Self::Uniform {
                    count: count - s,
                    length,
                },
            ),
            Self::Packed(offsets) => (Self::Packed(&offsets[..=s]), Self::Packed(&offsets[s..])),
        }
    }

    /// Where to cut so that both parts have about as many time steps; `None` for one sequence.
    pub fn middle(&self) -> Option<usize> {
        let count = self.count();
        if count < 2 {
            return None;
        }
        let middle = match self {
            Self::Uniform { .. } => count / 2,
            Self::Packed(offsets) => {
                let half = offsets[0] + (offsets[count] - offsets[0]) / 2;
                offsets.partition_point(|&offset| offset <= half)
            }
        };
        Some(middle.clamp(1, count - 1))
    }
}

/// Where a piece is cut in two.
#[derive(Clone, Copy, Debug)]
pub(super) enum Cut {
    /// Before sequence `s`, which starts at time step `time`.
    Sequence { s: usize, time: usize },
    /// Before this lane.
    Lane(usize),
}

impl Cut {
    pub fn sequences<'a>(&self, sequences: Sequences<'a>) -> (Sequences<'a>, Sequences<'a>) {
        match *self {
            Self::Sequence { s, .. } => sequences.split_at(s),
            Self::Lane(_) => (sequences, sequences),
        }
    }

    /// Both parts of a `[time, lanes]` view.
    pub fn tensor<V: View>(&self, view: V) -> (V, V) {
        match *self {
            Self::Sequence { time, .. } => view.cut(TIME, time),
            Self::Lane(lane) => view.cut(LANES, lane),
        }
    }

    /// Both parts of a `[sequences, lanes]` view.
    pub fn states<V: View>(&self, view: V) -> (V, V) {
        match *self {
            Self::Sequence { s, .. } => view.cut(Axis(0), s),
            Self::Lane(lane) => view.cut(LANES, lane),
        }
    }
}

/// A view, or an absent one.
pub(super) trait View: Sized {
    fn cut(self, axis: Axis, at: usize) -> (Self, Self);
}

impl<T> View for ArrayView2<'_, T> {
    fn cut(self, axis: Axis, at: usize) -> (Self, Self) {
        self.split_at(axis, at)
    }
}

impl<T> View for ArrayViewMut2<'_, T> {
    fn cut(self, axis: Axis, at: usize) -> (Self, Self) {
        self.split_at(axis, at)
    }
}

impl<V: View> View for Option<V> {
    fn cut(self, axis: Axis, at: usize) -> (Self, Self) {
        self.map(|view| view.cut(axis, at)).unzip()
    }
}

/// A part of an operation: some sequences, some lanes, and what belongs to them.
pub(super) trait Piece: Sized + Send {
    fn sequences(&self) -> Sequences<'_>;
    fn time(&self) -> usize;
    fn lanes(&self) -> usize;
    fn split(self, cut: Cut) -> (Self, Self);
    fn run(self);
}

/// Runs a piece, in parallel if it is large.
pub(super) fn run<P: Piece>(piece: P, layout: Layout) {
    if piece.lanes() == 0 {
        return;
    }
    let elements = piece.time() * piece.lanes();
    let enough = (elements / rayon::current_num_threads()).max(SMALLEST_PIECE);
    divide(piece, layout, enough);
}

/// `enough`: elements of a piece that occupies one thread.
fn divide<P: Piece>(piece: P, layout: Layout, enough: usize) {
    let Some(cut) = best_cut(&piece, layout, enough) else {
        return piece.run();
    };
    let (left, right) = piece.split(cut);
    rayon::join(
        || divide(left, layout, enough),
        || divide(right, layout, enough),
    );
}

/// Across the slower dimension in memory if it can be cut, else across the other.
fn best_cut<P: Piece>(piece: &P, layout: Layout, enough: usize) -> Option<Cut> {
    let elements = piece.time() * piece.lanes();
    let fine = elements > (enough / PIECES_PER_THREAD).max(SMALLEST_PIECE);
    let sequence = || {
        let sequences = piece.sequences();
        let s = sequences.middle()?;
        let time = sequences.start(s);
        Some(Cut::Sequence { s, time })
    };
    let lane = |narrowest: usize| {
        let lanes = piece.lanes();
        let at = (lanes / 2).next_multiple_of(LANE_STEP);
        (lanes >= 2 * narrowest && at < lanes).then_some(Cut::Lane(at))
    };
    match layout {
        _ if !fine => None,
        // Narrower rows are slower, so these are cut no more often than there are threads.
        Layout::Bld => sequence().or_else(|| lane(NARROWEST_ROW).filter(|_| elements > enough)),
        Layout::Bdl => lane(FEWEST_COLUMNS).or_else(sequence),
    }
}
