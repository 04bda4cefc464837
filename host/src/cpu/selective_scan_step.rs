//! One step of the selective scan on the CPU: the scan of sequences one time step long, with
//! the states where they are.

use super::pieces::Sequences;
use super::selective_scan::{ScanPiece, run_piece};
use super::selective_tile::Parameters;
use super::{slice, slice_mut};
use crate::dtype::Element;
use crate::error::Result;
use crate::ops::{Layout, SelectiveScanStep, SelectiveScanStepArgs};
use ndarray::{ArrayView2, ArrayViewMut2};

pub(crate) fn run<T: Element>(
    op: &SelectiveScanStep,
    args: SelectiveScanStepArgs<'_, T>,
) -> Result<()> {
    const VALIDATED: &str = "validated: the length is that of the shape";
    let parameters = Parameters {
        a: slice(args.a.buffer()),
        log: args.a.is_log(),
        b: slice(args.b),
        c: slice(args.c),
        d_skip: args.d_skip.map(slice),
        delta_bias: args.delta_bias.map(slice),
        softplus: op.softplus,
        length: 1,
        channels: op.channels,
        state: op.state,
        groups: op.groups,
        layout: Layout::Bld,
    };
    let shape = (op.batch, op.channels);
    let states = (op.batch, op.channels * op.state);
    run_piece(ScanPiece {
        parameters: &parameters,
        x: ArrayView2::from_shape(shape, slice(args.x)).expect(VALIDATED),
        delta: ArrayView2::from_shape(shape, slice(args.delta)).expect(VALIDATED),
        z: args
            .z
            .map(|z| ArrayView2::from_shape(shape, slice(z)).expect(VALIDATED)),
        y: ArrayViewMut2::from_shape(shape, slice_mut(args.y)).expect(VALIDATED),
        h0: None,
        last: Some(ArrayViewMut2::from_shape(states, slice_mut(args.state)).expect(VALIDATED)),
        in_place: true,
        sequences: Sequences::Uniform {
            count: op.batch,
            length: 1,
        },
        first_time: 0,
        first_lane: 0,
    });
    Ok(())
}
