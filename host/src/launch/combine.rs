//! Combine on a device that runs kernels, and the gradient of the dispatch, which is one.

use super::moe::{Counts, covers, slot_arrays, too_large, words};
use super::{Kernels, Launcher, optional};
use crate::buffer::Buffer;
use crate::dtype::Element;
use crate::error::Result;
use crate::ops::moe::Sizes;
use crate::ops::{Combine, CombineArgs, Index, Routing, Status};
use gpu_kernels::moe::policy::combine as policy;
use gpu_kernels::moe::{CombineParams, SlotArrays};
use gpu_kernels::simt::Global;

pub(crate) fn run<T: Element, I: Index>(
    op: &Combine,
    device: &impl Launcher,
    args: CombineArgs<'_, T, I>,
) -> Result<()> {
    let sizes = op.sizes();
    let counts = Counts::new(&sizes)?;
    if let Some(weights) = args.weights {
        covers(sizes.operation, "weights", weights, sizes.entries())?;
    }
    let source = match &args.routing {
        Routing::Plan(plan) => Source {
            rows: plan.row_idx().global(),
            owners: Global::null(),
            from: SlotArrays::absent(counts.top_k, counts.rows),
            slots: None,
        },
        Routing::Slots(slots) => Source {
            rows: Global::null(),
            owners: Global::null(),
            from: slot_arrays(&sizes, &counts, slots),
            slots: Some(sizes.experts as u32),
        },
    };
    launch(
        device,
        &sizes,
        &counts,
        source,
        args.packed,
        args.weights,
        args.out,
        args.status,
    )
}

/// Where the rows of the entries come from.
#[derive(Clone, Copy, Debug)]
pub(super) struct Source {
    pub rows: Global<i32>,
    pub owners: Global<u32>,
    pub from: SlotArrays,
    /// Experts, if the kernel is to look for the rows itself.
    pub slots: Option<u32>,
}

#[allow(clippy::too_many_arguments)]
pub(super) fn launch<T: Element>(
    device: &impl Launcher,
    sizes: &Sizes,
    counts: &Counts,
    source: Source,
    packed: &Buffer<T>,
    weights: Option<&Buffer<f32>>,
    out: &mut Buffer<T>,
    status: &mut Status,
) -> Result<()> {
    if counts.tokens == 0 && source.slots.is_none() {
        return Ok(());
    }
    covers(sizes.operation, "packed", packed, sizes.row_elements()?)?;
    covers(sizes.operation, "out", out, sizes.token_elements()?)?;
    let vectors = counts.hidden * T::DTYPE.size() as u64;
    let whole = vectors.is_multiple_of(16);
    let row_units = if whole { vectors / 16 } else { counts.hidden };
    let launch = policy::launch(counts.tokens, counts.top_k, source.slots, row_units)
        .ok_or_else(|| too_large(sizes))?;
    let params = CombineParams {
        packed: packed.global(),
        out: out.global(),
        weights: optional(weights),
        rows: source.rows,
        owners: source.owners,
        status: words(status),
        from: source.from,
        tokens: counts.tokens,
        row_units: launch.row_units,
        chunk: launch.chunk,
        log2_team: launch.log2_team,
    };
    match (whole, launch.few) {
        (false, _) => device.launch::<<T as Kernels>::CombineAny>(launch.shape, params),
        (true, true) => device.launch::<<T as Kernels>::CombineFew>(launch.shape, params),
        (true, false) => device.launch::<<T as Kernels>::Combine>(launch.shape, params),
    }
}
