//! Combine on the CPU: each token adds up its rows, k after k.

use super::lanes::{load_into, scratch, store, target};
use super::moe::{optional, row, rows_of_a_task, rows_of_entries};
use super::{slice, slice_mut};
use crate::dtype::Element;
use crate::error::Result;
use crate::ops::{Combine, CombineArgs, Index};
use multiversion::multiversion;
use rayon::prelude::*;

/// Elements of a row that are added up at a time: what stays in the first cache.
const WIDTH: usize = 1 << 10;

pub(crate) fn run<T: Element, I: Index>(op: &Combine, args: CombineArgs<'_, T, I>) -> Result<()> {
    let Some(rows) = rows_of_entries(&op.sizes(), &args.routing, args.status) else {
        return Ok(());
    };
    let gather = Gather {
        packed: slice(args.packed),
        hidden: op.hidden,
        top_k: op.top_k,
        rows: &rows,
        weights: optional(args.weights),
    };
    gather.run(slice_mut(args.out));
    Ok(())
}

/// The sums of packed rows over each token's entries.
pub(super) struct Gather<'a, T> {
    pub packed: &'a [T],
    pub hidden: usize,
    pub top_k: usize,
    /// Packed row of each entry, -1 for none.
    pub rows: &'a [i32],
    pub weights: Option<&'a [f32]>,
}

impl<T: Element> Gather<'_, T> {
    pub(super) fn run(&self, out: &mut [T]) {
        if self.hidden == 0 {
            return;
        }
        let tokens = rows_of_a_task(self.hidden);
        out.par_chunks_mut(tokens * self.hidden)
            .enumerate()
            .for_each_init(
                || scratch::<2>(WIDTH),
                |scratch, (task, out)| {
                    for (at, out) in out.chunks_exact_mut(self.hidden).enumerate() {
                        add_up(self, task * tokens + at, out, scratch);
                    }
                },
            );
    }
}

#[multiversion(targets("x86_64+avx2+fma+f16c"))]
fn add_up<T: Element>(
    gather: &Gather<'_, T>,
    token: usize,
    out: &mut [T],
    scratch: &mut [Vec<f32>; 2],
) {
    let [sums, values] = scratch;
    let entries = token * gather.top_k..(token + 1) * gather.top_k;
    for (at, out) in out.chunks_mut(WIDTH).enumerate() {
        let (sum, mut kept) = (target::<T, false>(out, sums), false);
        for entry in entries.clone() {
            let Ok(packed) = usize::try_from(gather.rows[entry]) else {
                continue;
            };
            let source = &row(gather.packed, packed, gather.hidden)[at * WIDTH..][..sum.len()];
            let weight = gather.weights.map(|weights| weights[entry]);
            if !kept {
                load_into(source, sum);
                if let Some(weight) = weight {
                    sum.iter_mut().for_each(|sum| *sum *= weight);
                }
                kept = true;
                continue;
            }
            let values = &mut values[..sum.len()];
            load_into(source, values);
            match weight {
                Some(weight) => {
                    for (sum, value) in sum.iter_mut().zip(values) {
                        *sum = weight.mul_add(*value, *sum);
                    }
                }
                None => {
                    for (sum, value) in sum.iter_mut().zip(values) {
                        *sum += *value;
                    }
                }
            }
        }
        if !kept {
            sum.fill(0.0);
        }
        store(sums, out);
    }
}
