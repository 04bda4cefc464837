//! Route on the CPU: a stable counting sort.
//!
//! Pieces of entries are counted, the counts summed over the pieces, then each piece gives
//! its entries their slots. `source_of_row` is written expert by expert, from lists that
//! each piece made on the way. How the entries are cut changes nothing in the result.

use super::moe::{position, report};
use super::{slice, slice_mut};
use crate::error::Result;
use crate::ops::{Index, InvalidIds, Route, RouteArgs};
use gpu_kernels::moe::status;
use rayon::prelude::*;

/// The fewest entries of a piece, and the most pieces: their counters are E numbers each.
const ENTRIES: usize = 1 << 14;
const PIECES: usize = 64;

pub(crate) fn run<I: Index>(op: &Route, args: RouteArgs<'_, I>) -> Result<()> {
    let ids = slice(args.expert_ids);
    let piece = ids.len().div_ceil(PIECES).max(ENTRIES);
    let counts: Vec<Count> = ids.par_chunks(piece).map(|ids| count(op, ids)).collect();
    if op.invalid == InvalidIds::Error {
        let first = counts
            .iter()
            .enumerate()
            .find_map(|(at, count)| Some(at * piece + count.invalid?));
        if let Some(i) = first {
            let word = status::word(position(i, op.top_k), status::saturate(ids[i].into()));
            report(args.status, status::EXPERT_ID, word);
        }
    }

    // Of each piece and expert: the slot of its first entry there.
    let mut totals = vec![0; op.experts];
    let firsts: Vec<Vec<i32>> = counts
        .iter()
        .map(|count| {
            let firsts = totals.clone();
            for (total, count) in totals.iter_mut().zip(&count.experts) {
                *total += count;
            }
            firsts
        })
        .collect();
    let capacity = op
        .capacity
        .map_or(i32::MAX, |most| most.try_into().unwrap_or(i32::MAX));
    let offsets = slice_mut(&mut args.plan.expert_offsets);
    offsets[0] = 0;
    for (e, total) in totals.iter().enumerate() {
        // `Route::rows` has bounded the sum, rounded up as it is.
        let rows = (*total.min(&capacity) as usize).next_multiple_of(op.alignment);
        offsets[e + 1] = offsets[e] + rows as i32;
    }
    let offsets = &*offsets;

    let lists: Vec<Lists> = ids
        .par_chunks(piece)
        .zip(slice_mut(&mut args.plan.slot_idx).par_chunks_mut(piece))
        .zip(slice_mut(&mut args.plan.row_idx).par_chunks_mut(piece))
        .zip(counts.par_iter().zip(firsts))
        .enumerate()
        .map(|(at, (((ids, slots), rows), (count, firsts)))| {
            let mut lists = Lists::new(&count.experts);
            let mut next = firsts;
            for (i, ((id, slot), row)) in ids.iter().zip(slots).zip(rows).enumerate() {
                (*slot, *row) = (-1, -1);
                let Some(e) = expert(*id, op.experts) else {
                    continue;
                };
                if next[e] < capacity {
                    (*slot, *row) = (next[e], offsets[e] + next[e]);
                    lists.push(e, (at * piece + i) as i32);
                }
                next[e] = next[e].saturating_add(1);
            }
            lists
        })
        .collect();

    write_sources(slice_mut(&mut args.plan.source_of_row), offsets, &lists);
    Ok(())
}

fn expert<I: Index>(id: I, experts: usize) -> Option<usize> {
    usize::try_from(id.into()).ok().filter(|e| *e < experts)
}

/// What is in a piece of entries.
struct Count {
    experts: Vec<i32>,
    /// The first invalid id, from the piece's beginning.
    invalid: Option<usize>,
}

fn count<I: Index>(op: &Route, ids: &[I]) -> Count {
    let mut count = Count {
        experts: vec![0; op.experts],
        invalid: None,
    };
    for (i, id) in ids.iter().enumerate() {
        match expert(*id, op.experts) {
            Some(e) => count.experts[e] += 1,
            None => {
                count.invalid.get_or_insert(i);
            }
        }
    }
    count
}

/// The kept entries of a piece, by expert and in order.
struct Lists {
    entries: Vec<i32>,
    /// Where each expert's list begins, and where its next entry goes.
    begins: Vec<usize>,
    next: Vec<usize>,
}

impl Lists {
    fn new(counts: &[i32]) -> Self {
        let mut total = 0;
        let begins: Vec<usize> = counts
            .iter()
            .map(|count| {
                total += *count as usize;
                total - *count as usize
            })
            .collect();
        Self {
            entries: vec![-1; total],
            next: begins.clone(),
            begins,
        }
    }

    fn push(&mut self, expert: usize, entry: i32) {
        self.entries[self.next[expert]] = entry;
        self.next[expert] += 1;
    }

    fn of(&self, expert: usize) -> &[i32] {
        &self.entries[self.begins[expert]..self.next[expert]]
    }
}

/// Each expert's entries one after another, -1 behind them.
fn write_sources(sources: &mut [i32], offsets: &[i32], lists: &[Lists]) {
    let mut rest = sources;
    let mut experts = Vec::with_capacity(offsets.len());
    for pair in offsets.windows(2) {
        let (rows, behind) = rest.split_at_mut((pair[1] - pair[0]) as usize);
        experts.push(rows);
        rest = behind;
    }
    rest.fill(-1);
    experts
        .into_par_iter()
        .enumerate()
        .for_each(|(e, mut rows)| {
            for list in lists {
                let (own, behind) = rows.split_at_mut(list.of(e).len());
                own.copy_from_slice(list.of(e));
                rows = behind;
            }
            rows.fill(-1);
        });
}
