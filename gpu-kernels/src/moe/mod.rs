//! Mixture of experts: route, dispatch, combine.
//!
//! An entry is one of a token's K copies; entries are numbered as they lie in `[T, K]`.
//! [`route`](mod@route) finds each entry's packed row (`row_idx`) and each row's entry
//! (`source_of_row`); dispatch, combine and the gradients move rows between the two orders.
//! Where a caller brings slots of its own, [`claim`](mod@claim) checks them and builds the
//! same two arrays first.

mod backward;
mod claim;
mod combine;
mod copy;
mod dispatch;
mod dispatch_slots;
mod packet;
mod params;
mod place;
pub mod policy;
mod rank;
mod route;
mod slots;
pub mod status;
#[cfg(all(test, feature = "emulator"))]
mod tests;

pub use params::{
    ClaimParams, CombineBackwardParams, CombineParams, DispatchParams, RouteParams, SlotArrays,
};

use copy::{Byte, Half, Vector, Word};
use dispatch::{gather, scatter};
use dispatch_slots::dispatch_slots;
use half::{bf16, f16};
use packet::{One, Pack};
use policy::{claim as claims, combine as combines, dispatch as dispatches, route as routes};

entries! {
    module "moe";
    /// Route of few entries by one block.
    RouteAlone = moe_route_alone(RouteParams) => place::alone,
        bounds(routes::ALONE_THREADS, 1);
    /// Route, first step: entries of each expert in each tile.
    RouteCount = moe_route_count(RouteParams) => route::count,
        bounds(routes::TILE_THREADS, 1);
    /// Route, only with a large table: its columns summed.
    RouteTotals = moe_route_totals(RouteParams) => route::totals,
        bounds(routes::TILE_THREADS, 1);
    /// Route, last step: every entry's place.
    RoutePlace = moe_route_place(RouteParams) => place::tiles::<false>,
        bounds(routes::TILE_THREADS, 1);
    /// The same behind [`RouteTotals`].
    RoutePlaceSummed = moe_route_place_summed(RouteParams) => place::tiles::<true>,
        bounds(routes::TILE_THREADS, 1);
    /// Slots of the caller, first step: no row is claimed.
    ClaimClear = moe_claim_clear(ClaimParams) => claim::clear,
        bounds(claims::THREADS, 0);
    /// Slots of the caller: checked, and each row claimed by its last entry.
    Claim = moe_claim(ClaimParams) => claim::claim,
        bounds(claims::THREADS, 0);
    /// Dispatch of rows of whole 16-byte vectors, several for each thread.
    DispatchVectors = moe_dispatch_vectors(DispatchParams) => scatter::<Vector, { dispatches::VECTORS }>,
        bounds(dispatches::THREADS, dispatches::VECTORS_BLOCKS);
    /// Dispatch of rows of whole 16-byte vectors, one for each thread.
    DispatchVector = moe_dispatch_vector(DispatchParams) => scatter::<Vector, 1>,
        bounds(dispatches::THREADS, dispatches::BLOCKS);
    /// Dispatch of rows of whole 4-byte words.
    DispatchWord = moe_dispatch_word(DispatchParams) => scatter::<Word, { dispatches::UNITS }>,
        bounds(dispatches::THREADS, dispatches::BLOCKS);
    /// Dispatch of rows of whole 2-byte halves.
    DispatchHalf = moe_dispatch_half(DispatchParams) => scatter::<Half, { dispatches::UNITS }>,
        bounds(dispatches::THREADS, dispatches::BLOCKS);
    /// Dispatch of rows of bytes.
    DispatchByte = moe_dispatch_byte(DispatchParams) => scatter::<Byte, { dispatches::UNITS }>,
        bounds(dispatches::THREADS, dispatches::BLOCKS);
    /// Dispatch of many tokens to one expert each, packed row after packed row.
    DispatchGather = moe_dispatch_gather(DispatchParams)
        => gather::<Vector, { dispatches::GATHERED }>,
        bounds(dispatches::THREADS, dispatches::VECTORS_BLOCKS);
    /// Dispatch of few entries with slots of the caller, in one step.
    DispatchSlots = moe_dispatch_slots(DispatchParams) => dispatch_slots::<Vector, 1>,
        bounds(dispatches::SLOTS_THREADS, 1);
    /// Combine of f32 rows of whole 16-byte vectors.
    CombineF32 = moe_combine_f32(CombineParams<f32>) => combine::combine::<Pack<f32>, 1, { combines::COPIES }>,
        bounds(combines::THREADS, combines::BLOCKS);
    /// The same for one or two rows a token.
    CombineF32Few = moe_combine_f32_few(CombineParams<f32>) => combine::combine::<Pack<f32>, { combines::COLUMNS }, { combines::FEW as usize }>,
        bounds(combines::THREADS, combines::BLOCKS);
    /// Combine of f32 rows of any width.
    CombineF32Any = moe_combine_f32_any(CombineParams<f32>) => combine::combine::<One<f32>, 1, { combines::COPIES }>,
        bounds(combines::THREADS, combines::BLOCKS);
    /// Combine of f16 rows of whole 16-byte vectors.
    CombineF16 = moe_combine_f16(CombineParams<f16>) => combine::combine::<Pack<f16>, 1, { combines::COPIES }>,
        bounds(combines::THREADS, combines::BLOCKS);
    /// The same for one or two rows a token.
    CombineF16Few = moe_combine_f16_few(CombineParams<f16>) => combine::combine::<Pack<f16>, { combines::COLUMNS }, { combines::FEW as usize }>,
        bounds(combines::THREADS, combines::BLOCKS);
    /// Combine of f16 rows of any width.
    CombineF16Any = moe_combine_f16_any(CombineParams<f16>) => combine::combine::<One<f16>, 1, { combines::COPIES }>,
        bounds(combines::THREADS, combines::BLOCKS);
    /// Combine of bf16 rows of whole 16-byte vectors.
    CombineBf16 = moe_combine_bf16(CombineParams<bf16>) => combine::combine::<Pack<bf16>, 1, { combines::COPIES }>,
        bounds(combines::THREADS, combines::BLOCKS);
    /// The same for one or two rows a token.
    CombineBf16Few = moe_combine_bf16_few(CombineParams<bf16>)
        => combine::combine::<Pack<bf16>, { combines::COLUMNS }, { combines::FEW as usize }>, bounds(combines::THREADS, combines::BLOCKS);
    /// Combine of bf16 rows of any width.
    CombineBf16Any = moe_combine_bf16_any(CombineParams<bf16>)
        => combine::combine::<One<bf16>, 1, { combines::COPIES }>, bounds(combines::THREADS, combines::BLOCKS);
    /// Gradients of the combine of f32 rows of whole 16-byte vectors.
    CombineBackwardF32 = moe_combine_backward_f32(CombineBackwardParams<f32>)
        => backward::combine::<Pack<f32>>, bounds(combines::THREADS, combines::BLOCKS);
    /// Gradients of the combine of f32 rows of any width.
    CombineBackwardF32Any = moe_combine_backward_f32_any(CombineBackwardParams<f32>)
        => backward::combine::<One<f32>>, bounds(combines::THREADS, combines::BLOCKS);
    /// Gradients of the combine of f16 rows of whole 16-byte vectors.
    CombineBackwardF16 = moe_combine_backward_f16(CombineBackwardParams<f16>)
        => backward::combine::<Pack<f16>>, bounds(combines::THREADS, combines::BLOCKS);
    /// Gradients of the combine of f16 rows of any width.
    CombineBackwardF16Any = moe_combine_backward_f16_any(CombineBackwardParams<f16>)
        => backward::combine::<One<f16>>, bounds(combines::THREADS, combines::BLOCKS);
    /// Gradients of the combine of bf16 rows of whole 16-byte vectors.
    CombineBackwardBf16 = moe_combine_backward_bf16(CombineBackwardParams<bf16>)
        => backward::combine::<Pack<bf16>>, bounds(combines::THREADS, combines::BLOCKS);
    /// Gradients of the combine of bf16 rows of any width.
    CombineBackwardBf16Any = moe_combine_backward_bf16_any(CombineBackwardParams<bf16>)
        => backward::combine::<One<bf16>>, bounds(combines::THREADS, combines::BLOCKS);
}
