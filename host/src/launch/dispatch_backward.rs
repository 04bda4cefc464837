//! Dispatch backward on a device that runs kernels: a combine of the rows that entries own.

use super::Launcher;
use super::combine::{Source, launch};
use super::moe::{Counts, places};
use crate::dtype::Element;
use crate::error::Result;
use crate::ops::{DispatchBackward, DispatchBackwardArgs, Index};
use gpu_kernels::moe::SlotArrays;
use gpu_kernels::simt::Global;

/// Bytes of scratch memory of one run with `Slots`.
pub(crate) fn workspace_bytes(op: &DispatchBackward) -> Result<usize> {
    Ok(Counts::new(&op.sizes())?.claim_bytes())
}

pub(crate) fn run<T: Element, I: Index>(
    op: &DispatchBackward,
    device: &impl Launcher,
    args: DispatchBackwardArgs<'_, T, I>,
) -> Result<()> {
    let sizes = op.sizes();
    let counts = Counts::new(&sizes)?;
    let places = places(
        device,
        &sizes,
        &counts,
        &args.routing,
        args.status,
        args.workspace,
    )?;
    let source = Source {
        rows: places.rows,
        owners: match places.claimed {
            true => places.sources,
            false => Global::null(),
        },
        from: SlotArrays::absent(counts.top_k, counts.rows),
        slots: None,
    };
    launch(
        device,
        &sizes,
        &counts,
        source,
        args.grad_packed,
        None,
        args.grad_hidden,
        args.status,
    )
}
