//! Dispatch on a device that runs kernels.

use super::Launcher;
use super::moe::{Counts, Places, covers, places, slot_arrays, too_large, words};
use crate::error::Result;
use crate::ops::{Dispatch, DispatchArgs, Index, Payload, Routing, Status};
use gpu_kernels::moe::policy::dispatch::{self as policy, Way};
use gpu_kernels::moe::{
    DispatchByte, DispatchGather, DispatchHalf, DispatchParams, DispatchSlots, DispatchVector,
    DispatchVectors, DispatchWord, SlotArrays,
};
use gpu_kernels::simt::Global;

/// Bytes of scratch memory of one run with `Slots`, whatever the element type.
pub(crate) fn workspace_bytes(op: &Dispatch) -> Result<usize> {
    Ok(Counts::new(&op.sizes())?.claim_bytes())
}

pub(crate) fn run<T: Payload, I: Index>(
    op: &Dispatch,
    device: &impl Launcher,
    args: DispatchArgs<'_, T, I>,
) -> Result<()> {
    let sizes = op.sizes();
    let counts = Counts::new(&sizes)?;
    covers(
        sizes.operation,
        "hidden",
        args.hidden,
        sizes.token_elements()?,
    )?;
    covers(
        sizes.operation,
        "packed",
        args.packed,
        sizes.row_elements()?,
    )?;
    let hidden = args.hidden.global().cast();
    let packed = args.packed.global().cast();
    let shape = policy::Sizes {
        tokens: counts.tokens,
        top_k: counts.top_k,
        rows: counts.rows,
        row_bytes: counts.hidden * T::DTYPE.size() as u64,
    };
    if let (Routing::Slots(slots), true) = (&args.routing, shape.row_bytes > 0) {
        if let Some(launch) = policy::slots(&shape, sizes.experts as u32) {
            let from = slot_arrays(&sizes, &counts, slots);
            let params = DispatchParams {
                hidden,
                packed,
                from,
                ..params(&counts, &launch, nowhere(), args.status)
            };
            return device.launch::<DispatchSlots>(launch.shape, params);
        }
    }
    let places = places(
        device,
        &sizes,
        &counts,
        &args.routing,
        args.status,
        args.workspace,
    )?;
    if shape.row_bytes == 0 {
        return Ok(());
    }
    let behind = places.source_count > counts.rows;
    let launch = policy::launch(&shape, behind).ok_or_else(|| too_large(&sizes))?;
    let params = DispatchParams {
        hidden,
        packed,
        ..params(&counts, &launch, places, args.status)
    };
    match launch.way {
        Way::Vectors => device.launch::<DispatchVectors>(launch.shape, params),
        Way::Vector => device.launch::<DispatchVector>(launch.shape, params),
        Way::Gather => device.launch::<DispatchGather>(launch.shape, params),
        Way::Word => device.launch::<DispatchWord>(launch.shape, params),
        Way::Half => device.launch::<DispatchHalf>(launch.shape, params),
        Way::Byte => device.launch::<DispatchByte>(launch.shape, params),
    }
}

/// For the kernel that finds the places itself.
const fn nowhere() -> Places {
    Places {
        rows: Global::null(),
        sources: Global::null(),
        source_count: 0,
        claimed: false,
    }
}

/// The parameters, but for the arrays copied and the slots.
fn params(
    counts: &Counts,
    launch: &policy::Launch,
    places: Places,
    status: &mut Status,
) -> DispatchParams {
    DispatchParams {
        hidden: Global::null(),
        packed: Global::null(),
        rows: places.rows,
        sources: places.sources,
        status: words(status),
        from: SlotArrays::absent(counts.top_k, counts.rows),
        tokens: counts.tokens,
        row_units: launch.row_units,
        source_count: places.source_count,
        claimed: places.claimed.into(),
        chunk: launch.chunk,
        log2_team: launch.log2_team,
        rows_per_team: launch.rows_per_team,
        padding: 0,
    }
}
