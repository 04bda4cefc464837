//! The linear scan's gradients on a device that runs kernels.

use super::linear_scan::{scratch, sizes, work};
use super::{Kernels, Launcher, covers, optional, too_large};
use crate::dtype::Element;
use crate::error::Result;
use crate::ops::{LinearScan, LinearScanBackwardArgs, SequenceOffsets};
use gpu_kernels::linear_scan::backward::MODULE;
use gpu_kernels::linear_scan::policy::{self, Orientation, Work};
use gpu_kernels::linear_scan::{Gradients, LinearScanBackwardParams, LinearScanParams};

const NAME: &str = "linear scan backward";

/// Starts the gradients of scan `op`.
pub(crate) fn run<T: Element>(
    op: &LinearScan,
    device: &impl Launcher,
    args: LinearScanBackwardArgs<'_, T>,
) -> Result<()> {
    let sequences = op.sequences(args.offsets);
    if sequences == 0 || op.channels == 0 {
        return Ok(());
    }
    let work = Work {
        backward: true,
        ..work::<T>(op, sequences, args.offsets.is_some())
    };
    let launch =
        policy::launch(&work, device.multiprocessors()).ok_or_else(|| too_large(NAME, op))?;
    let scan = params(op, &args, sequences, &launch).ok_or_else(|| too_large(NAME, op))?;
    check(op, &scan, &args)?;
    let params = LinearScanBackwardParams {
        scan: LinearScanParams {
            scratch: scratch(op, device, MODULE, &launch)?,
            ..scan
        },
        gradients: Gradients {
            states: args.h.global(),
            grad_a: args.grad_a.global(),
            h0: optional(args.h0),
        },
    };
    let full = launch.tiling.is_full(work.size, work.orientation);
    let shape = launch.shape;
    match (work.orientation, full) {
        (Orientation::Rows, true) => {
            device.launch::<<T as Kernels>::BackwardRowsFull>(shape, params)
        }
        (Orientation::Rows, false) => device.launch::<<T as Kernels>::BackwardRows>(shape, params),
        (Orientation::Columns, true) => {
            device.launch::<<T as Kernels>::BackwardColumnsFull>(shape, params)
        }
        (Orientation::Columns, false) => {
            device.launch::<<T as Kernels>::BackwardColumns>(shape, params)
        }
    }
}

/// The parameters of the scan that carries the gradient, but for the scratch memory;
/// `None` if there are too many sequences.
fn params<T: Element>(
    op: &LinearScan,
    args: &LinearScanBackwardArgs<'_, T>,
    sequences: usize,
    launch: &policy::Launch,
) -> Option<LinearScanParams<T>> {
    // The gradient flows the other way.
    let other_way = op.reverse(!op.reverse);
    Some(LinearScanParams {
        a: args.a.global(),
        b: args.grad_h.unwrap_or(&*args.grad_b).global(),
        h: args.grad_b.global(),
        h0: optional(args.grad_final_state),
        final_state: optional(args.grad_h0.as_deref()),
        offsets: optional(args.offsets.map(SequenceOffsets::buffer)),
        ..sizes(&other_way, sequences, launch)?
    })
}

/// The last word before the device, as in the scan.
fn check<T: Element>(
    op: &LinearScan,
    params: &LinearScanParams<T>,
    args: &LinearScanBackwardArgs<'_, T>,
) -> Result<()> {
    let required = params.required().ok_or_else(|| too_large(NAME, op))?;
    covers(NAME, "a", Some(args.a), required.elements)?;
    covers(NAME, "h", Some(args.h), required.elements)?;
    covers(NAME, "grad_h", args.grad_h, required.elements)?;
    covers(NAME, "grad_a", Some(&*args.grad_a), required.elements)?;
    covers(NAME, "grad_b", Some(&*args.grad_b), required.elements)?;
    covers(NAME, "h0", args.h0, required.states)?;
    covers(
        NAME,
        "grad_final_state",
        args.grad_final_state,
        required.states,
    )?;
    covers(NAME, "grad_h0", args.grad_h0.as_deref(), required.states)?;
    let offsets = args.offsets.map(SequenceOffsets::buffer);
    covers(NAME, "cu_seqlens", offsets, required.offsets)
}
