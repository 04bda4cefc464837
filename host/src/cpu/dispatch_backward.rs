//! Gradient of the dispatch on the CPU: the sums of a combine, over the entries that were
//! copied.

use super::combine::Gather;
use super::moe::{entries_of_rows, rows_of_entries};
use super::{slice, slice_mut};
use crate::dtype::Element;
use crate::error::Result;
use crate::ops::{DispatchBackward, DispatchBackwardArgs, Index, Routing};
use rayon::prelude::*;

pub(crate) fn run<T: Element, I: Index>(
    op: &DispatchBackward,
    args: DispatchBackwardArgs<'_, T, I>,
) -> Result<()> {
    let sizes = op.sizes();
    let Some(mut rows) = rows_of_entries(&sizes, &args.routing, args.status) else {
        return Ok(());
    };
    // In a plan no two entries have the same row.
    if let Routing::Slots(_) = args.routing {
        let owners = entries_of_rows(&rows, sizes.rows);
        rows.to_mut()
            .par_iter_mut()
            .enumerate()
            .for_each(|(i, row)| {
                if *row >= 0 && owners[*row as usize] != i as i32 {
                    *row = -1;
                }
            });
    }
    let gather = Gather {
        packed: slice(args.grad_packed),
        hidden: sizes.hidden,
        top_k: sizes.top_k,
        rows: &rows,
        weights: None,
    };
    gather.run(slice_mut(args.grad_hidden));
    Ok(())
}
