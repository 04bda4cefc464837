//! Dispatch on a device that runs kernels.

use super::Launcher;
use super::moe::{Counts, Places, covers, places, slot_arrays, too_large, units, words};
use crate::error::Result;
use crate::ops::moe::Sizes;
use crate::ops::{Dispatch, DispatchArgs, Index, Payload, Routing, Status};
use gpu_kernels::moe::policy::dispatch as policy;
use gpu_kernels::moe::{
    DispatchByte, DispatchHalf, DispatchParams, DispatchSlots, DispatchVector, DispatchWord,
    SlotArrays,
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
    let (unit, row_units) = units(counts.hidden * T::DTYPE.size() as u64);
    let hidden = args.hidden.global().cast();
    let packed = args.packed.global().cast();
    if let (Routing::Slots(slots), 16) = (&args.routing, unit)
        && let Some(launch) = at_once(&sizes, &counts, row_units)
    {
        let from = slot_arrays(&sizes, &counts, slots);
        let params = DispatchParams {
            hidden,
            packed,
            from,
            ..params(&counts, &launch, row_units, nowhere(), args.status)
        };
        return device.launch::<DispatchSlots>(launch.shape, params);
    }
    let places = places(
        device,
        &sizes,
        &counts,
        &args.routing,
        args.status,
        args.workspace,
    )?;
    if row_units == 0 {
        return Ok(());
    }
    let launch =
        policy::launch(counts.tokens, counts.rows, row_units).ok_or_else(|| too_large(&sizes))?;
    let params = DispatchParams {
        hidden,
        packed,
        ..params(&counts, &launch, row_units, places, args.status)
    };
    match unit {
        16 => device.launch::<DispatchVector>(launch.shape, params),
        4 => device.launch::<DispatchWord>(launch.shape, params),
        2 => device.launch::<DispatchHalf>(launch.shape, params),
        _ => device.launch::<DispatchByte>(launch.shape, params),
    }
}

/// The launch that takes all entries at once, if they are few and rows not empty.
fn at_once(sizes: &Sizes, counts: &Counts, row_units: u64) -> Option<policy::Launch> {
    if row_units == 0 {
        return None;
    }
    policy::slots(
        counts.tokens,
        counts.top_k,
        sizes.experts as u32,
        counts.rows,
        row_units,
    )
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
    row_units: u64,
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
        // The policy refused what 32 bits do not hold.
        row_units: row_units as u32,
        source_count: places.source_count,
        claimed: places.claimed.into(),
        chunk: launch.chunk,
        log2_team: launch.log2_team,
        rows_per_team: launch.rows_per_team,
        padding: 0,
    }
}
