//! Combine backward on a device that runs kernels.

use super::moe::{Counts, covers, places, too_large, words};
use super::{Kernels, Launcher, optional};
use crate::dtype::Element;
use crate::error::Result;
use crate::ops::{CombineBackward, CombineBackwardArgs, Index};
use gpu_kernels::moe::CombineBackwardParams;
use gpu_kernels::moe::policy::combine as policy;

/// Bytes of scratch memory of one run with `Slots`.
pub(crate) fn workspace_bytes(op: &CombineBackward) -> Result<usize> {
    Ok(Counts::new(&op.sizes())?.claim_bytes())
}

pub(crate) fn run<T: Element, I: Index>(
    op: &CombineBackward,
    device: &impl Launcher,
    args: CombineBackwardArgs<'_, T, I>,
) -> Result<()> {
    let sizes = op.sizes();
    let counts = Counts::new(&sizes)?;
    let (name, row_elements) = (sizes.operation, sizes.row_elements()?);
    covers(name, "grad_out", args.grad_out, sizes.token_elements()?)?;
    covers(name, "grad_packed", args.grad_packed, row_elements)?;
    if let Some(packed) = args.packed {
        covers(name, "packed", packed, row_elements)?;
    }
    if let Some(weights) = args.weights {
        covers(name, "weights", weights, sizes.entries())?;
    }
    if let Some(grad_weights) = &args.grad_weights {
        covers(name, "grad_weights", grad_weights, sizes.entries())?;
    }
    let places = places(
        device,
        &sizes,
        &counts,
        &args.routing,
        args.status,
        args.workspace,
    )?;
    let bytes = counts.hidden * T::DTYPE.size() as u64;
    let whole = bytes.is_multiple_of(16);
    let row_units = if whole { bytes / 16 } else { counts.hidden };
    let (shape, rows_per_team) =
        policy::backward(counts.entries, counts.rows).ok_or_else(|| too_large(&sizes))?;
    let params = CombineBackwardParams {
        grad_out: args.grad_out.global(),
        packed: optional(args.packed),
        grad_packed: args.grad_packed.global(),
        weights: optional(args.weights),
        grad_weights: optional(args.grad_weights.as_deref()),
        rows: places.rows,
        sources: places.sources,
        status: words(args.status),
        entries: counts.entries,
        top_k: counts.top_k,
        row_count: counts.rows,
        row_units: u32::try_from(row_units)
            .ok()
            .filter(|units| *units < 1 << 31)
            .ok_or_else(|| too_large(&sizes))?,
        source_count: places.source_count,
        claimed: places.claimed.into(),
        rows_per_team,
        padding: 0,
    };
    match whole {
        true => device.launch::<<T as Kernels>::CombineBackward>(shape, params),
        false => device.launch::<<T as Kernels>::CombineBackwardAny>(shape, params),
    }
}
