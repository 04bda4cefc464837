//! What the MoE operations share on the CPU: the packed row of each entry, checked, and
//! the entry of each packed row.

use super::{slice, slice_mut};
use crate::buffer::Buffer;
use crate::ops::moe::Sizes;
use crate::ops::{Index, Routing, Slots, Status};
use gpu_kernels::moe::status;
use rayon::prelude::*;
use std::borrow::Cow;
use std::ops::Range;
use std::sync::atomic::{AtomicI32, Ordering};

/// Entries that one task takes.
const ENTRIES: usize = 1 << 14;

/// Elements that one task copies or adds, about.
const ELEMENTS: usize = 1 << 14;

/// Rows of `hidden` elements that one task takes.
pub(super) fn rows_of_a_task(hidden: usize) -> usize {
    ELEMENTS.div_ceil(hidden.max(1))
}

/// Lowers a word of the status.
pub(super) fn report(status: &mut Status, kind: usize, word: u64) {
    let words = slice_mut(status.words());
    words[kind] = (words[kind] as u64).min(word) as i64;
}

/// The position of entry `i` in a word of the status.
pub(super) fn position(i: usize, top_k: usize) -> u32 {
    // Within the limits that validation keeps, both fit.
    status::entry((i / top_k) as u32, (i % top_k) as u32)
}

/// The packed row of each entry, `[T, K]`, -1 where it is dropped; `None` if the routing has
/// a fault, which `status` has then.
pub(super) fn rows_of_entries<'a, I: Index>(
    sizes: &Sizes,
    routing: &Routing<'a, I>,
    status: &mut Status,
) -> Option<Cow<'a, [i32]>> {
    match routing {
        Routing::Plan(plan) => {
            let rows = slice(plan.row_idx());
            let total = slice(plan.expert_offsets()).last().copied().unwrap_or(0);
            if total as usize > sizes.rows {
                let outside = |row: &i32| *row >= 0 && *row as usize >= sizes.rows;
                if let Some(i) = rows.par_iter().position_first(outside) {
                    let word = status::word(position(i, sizes.top_k), rows[i]);
                    report(status, status::ROW, word);
                    return None;
                }
            }
            Some(Cow::Borrowed(rows))
        }
        Routing::Slots(slots) => rows_of_slots(sizes, slots, status).map(Cow::Owned),
    }
}

/// The first fault of each kind that entries can have; all ones for none.
#[derive(Clone, Copy)]
struct Faults {
    expert_id: u64,
    slot: u64,
}

fn rows_of_slots<I: Index>(
    sizes: &Sizes,
    slots: &Slots<'_, I>,
    status: &mut Status,
) -> Option<Vec<i32>> {
    let offsets = slice(slots.expert_offsets);
    if let Some(position) = wrong_offset(offsets, sizes.rows) {
        let word = status::word(position as u32, offsets[position]);
        report(status, status::OFFSETS, word);
        return None;
    }
    let (ids, slot_idx) = (slice(slots.expert_ids), slice(slots.slot_idx));
    let mut rows = vec![-1; ids.len()];
    let none = Faults {
        expert_id: status::NONE,
        slot: status::NONE,
    };
    let faults = rows
        .par_chunks_mut(ENTRIES)
        .zip(ids.par_chunks(ENTRIES).zip(slot_idx.par_chunks(ENTRIES)))
        .enumerate()
        .map(|(chunk, (rows, (ids, slots)))| {
            let mut faults = none;
            for (at, (row, (id, &slot))) in rows.iter_mut().zip(ids.iter().zip(slots)).enumerate() {
                if slot == -1 {
                    continue;
                }
                let word = |value| status::word(position(chunk * ENTRIES + at, sizes.top_k), value);
                let id: i64 = (*id).into();
                let Some(rows) = rows_of_expert(offsets, id) else {
                    faults.expert_id = faults.expert_id.min(word(status::saturate(id)));
                    continue;
                };
                // No sum overflows: a slot inside its expert is below the end of its rows.
                if slot < 0 || slot >= rows.end - rows.start {
                    faults.slot = faults.slot.min(word(slot));
                    continue;
                }
                *row = rows.start + slot;
            }
            faults
        })
        .reduce(
            || none,
            |one, other| Faults {
                expert_id: one.expert_id.min(other.expert_id),
                slot: one.slot.min(other.slot),
            },
        );
    report(status, status::EXPERT_ID, faults.expert_id);
    report(status, status::SLOT, faults.slot);
    (faults.expert_id == status::NONE && faults.slot == status::NONE).then_some(rows)
}

/// The first position whose offset is no offset.
fn wrong_offset(offsets: &[i32], rows: usize) -> Option<usize> {
    let mut before = 0;
    offsets.iter().enumerate().position(|(at, &offset)| {
        let wrong = offset < before || (at == 0 && offset != 0) || offset as usize > rows;
        before = offset;
        wrong
    })
}

fn rows_of_expert(offsets: &[i32], id: i64) -> Option<Range<i32>> {
    let id = usize::try_from(id).ok()?;
    Some(*offsets.get(id)?..*offsets.get(id + 1)?)
}

/// The entry of each of `packed` rows, -1 for none: of several, the last one.
pub(super) fn entries_of_rows(rows: &[i32], packed: usize) -> Vec<i32> {
    let mut entries = Vec::with_capacity(packed);
    entries.resize_with(packed, || AtomicI32::new(-1));
    rows.par_iter().enumerate().for_each(|(i, &row)| {
        if let Some(entry) = usize::try_from(row).ok().and_then(|row| entries.get(row)) {
            entry.fetch_max(i as i32, Ordering::Relaxed);
        }
    });
    entries.into_iter().map(AtomicI32::into_inner).collect()
}

/// The entry of each packed row of this routing, `[R]`, -1 for none.
pub(super) fn sources<'a, I: Index>(
    sizes: &Sizes,
    routing: &Routing<'a, I>,
    rows: &[i32],
) -> Cow<'a, [i32]> {
    match routing {
        // Where the plan has fewer rows than there are, the rest has no entry.
        Routing::Plan(plan) => Cow::Borrowed(slice(plan.source_of_row())),
        Routing::Slots(_) => Cow::Owned(entries_of_rows(rows, sizes.rows)),
    }
}

/// The elements of row `row` of `[.., H]`.
#[inline(always)]
pub(super) fn row<T>(rows: &[T], row: usize, hidden: usize) -> &[T] {
    &rows[row * hidden..][..hidden]
}

/// A buffer's elements, where there is one.
pub(super) fn optional<T: crate::dtype::Data>(buffer: Option<&Buffer<T>>) -> Option<&[T]> {
    buffer.map(slice)
}
