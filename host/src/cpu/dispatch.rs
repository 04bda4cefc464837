//! Dispatch on the CPU: each packed row copies its entry's token.

use super::moe::{row, rows_of_a_task, rows_of_entries, sources};
use super::{slice, slice_mut};
use crate::error::Result;
use crate::ops::{Dispatch, DispatchArgs, Index, Payload};
use rayon::prelude::*;

pub(crate) fn run<T: Payload, I: Index>(op: &Dispatch, args: DispatchArgs<'_, T, I>) -> Result<()> {
    let sizes = op.sizes();
    let Some(rows) = rows_of_entries(&sizes, &args.routing, args.status) else {
        return Ok(());
    };
    let sources = sources(&sizes, &args.routing, &rows);
    let hidden = slice(args.hidden);
    scatter(
        slice_mut(args.packed),
        op.hidden,
        &sources,
        |packed, entry| {
            packed.copy_from_slice(row(hidden, entry / op.top_k, op.hidden));
        },
    );
    Ok(())
}

/// Lets `write` fill the packed row of each entry; rows without one are zero.
pub(super) fn scatter<T: crate::dtype::Data>(
    packed: &mut [T],
    hidden: usize,
    sources: &[i32],
    write: impl Fn(&mut [T], usize) + Sync,
) {
    if hidden == 0 {
        return;
    }
    let rows = rows_of_a_task(hidden);
    packed
        .par_chunks_mut(rows * hidden)
        .enumerate()
        .for_each(|(task, packed)| {
            for (at, packed) in packed.chunks_exact_mut(hidden).enumerate() {
                let source = sources.get(task * rows + at).copied();
                match source.and_then(|source| usize::try_from(source).ok()) {
                    Some(entry) => write(packed, entry),
                    None => packed.fill(T::default()),
                }
            }
        });
}
