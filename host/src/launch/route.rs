//! Route on a device that runs kernels.

use super::moe::{covers, wide, words};
use super::{Launcher, too_large};
use crate::error::Result;
use crate::ops::{Index, InvalidIds, Route, RouteArgs};
use gpu_kernels::moe::policy::route::{self as policy, Way};
use gpu_kernels::moe::{
    RouteAlone, RouteCount, RouteParams, RoutePlace, RoutePlaceSummed, RouteTotals,
};
use gpu_kernels::simt::Global;

const NAME: &str = "route";

fn launch(op: &Route) -> Result<policy::Launch> {
    let entries = u32::try_from(op.entries()).map_err(|_| too_large(NAME, op))?;
    Ok(policy::launch(entries, op.experts as u32))
}

/// Bytes of scratch memory of one run.
pub(crate) fn workspace_bytes(op: &Route) -> Result<usize> {
    let words = launch(op)?.table_words;
    usize::try_from(words * size_of::<u32>() as u64).map_err(|_| too_large(NAME, op))
}

pub(crate) fn run<I: Index>(
    op: &Route,
    device: &impl Launcher,
    args: RouteArgs<'_, I>,
) -> Result<()> {
    let launch = launch(op)?;
    let plan = args.plan;
    let (entries, rows) = (op.entries(), plan.source_of_row.len());
    covers(NAME, "expert_ids", args.expert_ids, entries)?;
    covers(NAME, "plan", &plan.slot_idx, entries)?;
    covers(NAME, "plan", &plan.row_idx, entries)?;
    covers(NAME, "plan", &plan.expert_offsets, op.experts + 1)?;
    let table = match (workspace_bytes(op)?, args.workspace) {
        (0, _) => Global::null(),
        (bytes, Some(workspace)) => {
            covers(NAME, "workspace", workspace, bytes)?;
            workspace.global().cast()
        }
        (_, None) => {
            return Err(crate::ops::moe::missing(
                NAME,
                "workspace",
                "scratch memory",
            ));
        }
    };
    // Beyond what 32 bits hold, a capacity keeps all, and an alignment pads nothing that
    // `Route::rows` would have let through.
    let most = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    let params = RouteParams {
        ids: args.expert_ids.global().cast(),
        slots: plan.slot_idx.global(),
        rows: plan.row_idx.global(),
        sources: plan.source_of_row.global(),
        offsets: plan.expert_offsets.global(),
        status: match op.invalid {
            InvalidIds::Error => words(args.status),
            InvalidIds::Drop => Global::null(),
        },
        table,
        entries: most(entries),
        top_k: op.top_k as u32,
        experts: op.experts as u32,
        wide: wide::<I>(),
        capacity: op.capacity.map_or(u32::MAX, most),
        alignment: most(op.alignment),
        row_count: u32::try_from(rows).map_err(|_| too_large(NAME, op))?,
        tiles: launch.tiles,
        tile_entries: launch.tile_entries,
        padding: 0,
    };
    match launch.way {
        Way::Alone(shape) => device.launch::<RouteAlone>(shape, params),
        Way::Tiles {
            count,
            totals,
            place,
        } => {
            device.launch::<RouteCount>(count, params)?;
            let Some(totals) = totals else {
                return device.launch::<RoutePlace>(place, params);
            };
            device.launch::<RouteTotals>(totals, params)?;
            device.launch::<RoutePlaceSummed>(place, params)
        }
    }
}
