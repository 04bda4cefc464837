//! What the launches of the MoE operations share: the kernels' views of a routing, and the
//! claims that a caller's slots are turned into.

use super::Launcher;
use crate::buffer::Buffer;
use crate::dtype::{DType, Data};
use crate::error::{Error, Result};
use crate::ops::moe::Sizes;
use crate::ops::{Index, Routing, Slots, Status};
use gpu_kernels::moe::policy::claim;
use gpu_kernels::moe::{Claim, ClaimClear, ClaimParams, SlotArrays};
use gpu_kernels::simt::Global;

/// Sizes as the kernels count: within the limits that the operation checked.
#[derive(Clone, Copy, Debug)]
pub(super) struct Counts {
    pub tokens: u32,
    pub top_k: u32,
    pub entries: u32,
    pub rows: u32,
    pub hidden: u64,
}

impl Counts {
    pub(super) fn new(sizes: &Sizes) -> Result<Self> {
        let count = |n: usize| u32::try_from(n).map_err(|_| too_large(sizes));
        Ok(Self {
            tokens: count(sizes.tokens)?,
            top_k: count(sizes.top_k)?,
            entries: count(sizes.entries())?,
            rows: count(sizes.rows)?,
            hidden: sizes.hidden as u64,
        })
    }

    /// Bytes of [`claims`]: a row for each entry, an owner for each row.
    pub(super) fn claim_bytes(&self) -> usize {
        (self.entries as usize + self.rows as usize) * size_of::<u32>()
    }
}

pub(super) fn too_large(sizes: &Sizes) -> Error {
    Error::TooLarge {
        operation: sizes.operation,
        shape: sizes.row_shape(),
    }
}

/// The kernels' view of a caller's slots.
pub(super) fn slot_arrays<I: Index>(
    sizes: &Sizes,
    counts: &Counts,
    slots: &Slots<'_, I>,
) -> SlotArrays {
    SlotArrays {
        ids: slots.expert_ids.global().cast(),
        slots: slots.slot_idx.global(),
        offsets: slots.expert_offsets.global(),
        experts: sizes.experts as u32,
        wide: wide::<I>(),
        row_count: counts.rows,
        top_k: counts.top_k,
    }
}

/// Whether ids of this type are i64.
pub(super) fn wide<I: Index>() -> u32 {
    (I::DTYPE == DType::I64).into()
}

/// The status words.
pub(super) fn words(status: &mut Status) -> Global<u64> {
    status.words().global().cast()
}

/// Where entries and rows belong: what a plan says, or claims.
#[derive(Clone, Copy, Debug)]
pub(super) struct Places {
    /// `[entries]`.
    pub rows: Global<i32>,
    /// A plan's sources or the owners of claims, `[source_count]`.
    pub sources: Global<u32>,
    pub source_count: u32,
    pub claimed: bool,
}

/// The places that a routing says; a caller's slots are checked and claimed in `workspace`.
pub(super) fn places<I: Index>(
    device: &impl Launcher,
    sizes: &Sizes,
    counts: &Counts,
    routing: &Routing<'_, I>,
    status: &mut Status,
    workspace: Option<&mut Buffer<u8>>,
) -> Result<Places> {
    let slots = match routing {
        Routing::Plan(plan) => {
            let sources = plan.source_of_row();
            return Ok(Places {
                rows: plan.row_idx().global(),
                sources: sources.global().cast(),
                source_count: sources.len() as u32,
                claimed: false,
            });
        }
        Routing::Slots(slots) => slots,
    };
    let rows: Global<i32> = scratch(sizes, workspace, counts.claim_bytes())?.cast();
    let from = slot_arrays(sizes, counts, slots);
    let params = ClaimParams {
        from,
        rows,
        owners: rows.add(counts.entries as usize).cast(),
        status: words(status),
        entries: counts.entries,
        padding: 0,
    };
    device.launch::<ClaimClear>(claim::clear(counts.rows), params)?;
    device.launch::<Claim>(claim::claim(counts.entries, from.experts), params)?;
    Ok(Places {
        rows,
        sources: params.owners,
        source_count: counts.rows,
        claimed: true,
    })
}

/// The workspace, which the operation found to be large enough.
pub(super) fn scratch(
    sizes: &Sizes,
    workspace: Option<&mut Buffer<u8>>,
    bytes: usize,
) -> Result<Global<u8>> {
    match workspace {
        _ if bytes == 0 => Ok(Global::null()),
        Some(buffer) => {
            covers(sizes.operation, "workspace", buffer, bytes)?;
            Ok(buffer.global())
        }
        None => Err(crate::ops::moe::missing(
            sizes.operation,
            "workspace",
            "scratch memory (workspace_bytes)",
        )),
    }
}

/// The last word before the device: a buffer is not shorter than what the kernel accesses.
pub(super) fn covers<T: Data>(
    operation: &'static str,
    argument: &'static str,
    buffer: &Buffer<T>,
    required: usize,
) -> Result<()> {
    super::covers(operation, argument, Some(buffer), required as u64)
}
