//! The linear scan's gradients on a device that runs kernels.

use super::linear_scan::{covers, scratch, too_large, work};
use super::{Kernels, Launcher};
use crate::buffer::Buffer;
use crate::dtype::Element;
use crate::error::Result;
use crate::ops::{LinearScan, LinearScanBackwardArgs};
use gpu_kernels::linear_scan::backward::MODULE;
use gpu_kernels::linear_scan::policy::{self, Orientation, Work};
use gpu_kernels::linear_scan::{Gradients, LinearScanBackwardParams, LinearScanParams};
use gpu_kernels::simt::Global;

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
    let launch = policy::launch(&work, device.multiprocessors()).ok_or_else(|| too_large(op))?;
    let scan = params(op, &args, sequences, &launch).ok_or_else(|| too_large(op))?;
    check(op, &scan, &args)?;
    let params = LinearScanBackwardParams {
        scan: LinearScanParams {
            scratch: scratch(op, device, MODULE, &launch)?,
            ..scan
        },
        gradients: Gradients {
            states: args.h.global(),
            grad_a: args.grad_a.global(),
            h0: args.h0.map_or(Global::null(), Buffer::global),
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
    let grad_b = args.grad_b.global();
    Some(LinearScanParams {
        a: args.a.global(),
        b: args.grad_h.map_or(grad_b, Buffer::global),
        h: grad_b,
        h0: args.grad_final_state.map_or(Global::null(), Buffer::global),
        final_state: args
            .grad_h0
            .as_ref()
            .map_or(Global::null(), |grad| grad.global()),
        offsets: args
            .offsets
            .map_or(Global::null(), |offsets| offsets.buffer().global()),
        scratch: Global::null(),
        length: op.length as u64,
        channels: op.channels as u64,
        sequences: u32::try_from(sequences).ok()?,
        groups: launch.groups,
        tiles: launch.tiles,
        tiles_per_sequence: launch.tiles_per_sequence,
        log2_steps: launch.tiling.log2_steps,
        log2_lanes: launch.tiling.log2_lanes,
        window: launch.window,
        // The gradient flows the other way.
        reverse: (!op.reverse).into(),
    })
}

/// The last word before the device, as in the scan.
fn check<T: Element>(
    op: &LinearScan,
    params: &LinearScanParams<T>,
    args: &LinearScanBackwardArgs<'_, T>,
) -> Result<()> {
    let required = params.required().ok_or_else(|| too_large(op))?;
    covers("a", args.a, required.elements)?;
    covers("h", args.h, required.elements)?;
    if let Some(grad_h) = args.grad_h {
        covers("grad_h", grad_h, required.elements)?;
    }
    covers("grad_a", args.grad_a, required.elements)?;
    covers("grad_b", args.grad_b, required.elements)?;
    if let Some(h0) = args.h0 {
        covers("h0", h0, required.states)?;
    }
    if let Some(grad) = args.grad_final_state {
        covers("grad_final_state", grad, required.states)?;
    }
    if let Some(grad) = &args.grad_h0 {
        covers("grad_h0", grad, required.states)?;
    }
    match args.offsets {
        Some(offsets) => covers("cu_seqlens", offsets.buffer(), required.offsets),
        None => Ok(()),
    }
}
