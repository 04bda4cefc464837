//! Gradients of the combine on the CPU: each packed row takes its entry's share, each entry
//! its dot product.

use super::dispatch::scatter;
use super::lanes::{load, load_into, scratch, store, target};
use super::moe::{optional, position, report, row, rows_of_a_task, rows_of_entries, sources};
use super::{slice, slice_mut};
use crate::dtype::Element;
use crate::error::Result;
use crate::ops::{CombineBackward, CombineBackwardArgs, Index};
use gpu_kernels::moe::status;
use multiversion::multiversion;
use rayon::prelude::*;

/// Sums that a dot product keeps side by side: what a processor adds at once, twice.
const SUMS: usize = 16;

/// Elements that are converted at a time.
const WIDTH: usize = 1 << 10;

pub(crate) fn run<T: Element, I: Index>(
    op: &CombineBackward,
    args: CombineBackwardArgs<'_, T, I>,
) -> Result<()> {
    let sizes = op.sizes();
    let Some(rows) = rows_of_entries(&sizes, &args.routing, args.status) else {
        return Ok(());
    };
    let sources = sources(&sizes, &args.routing, &rows);
    let shared = |(i, row): (usize, &i32)| *row >= 0 && sources[*row as usize] != i as i32;
    if let Some(i) = rows.par_iter().enumerate().position_first(shared) {
        let word = status::word(position(i, sizes.top_k), rows[i]);
        report(args.status, status::CLAIMED, word);
        return Ok(());
    }
    let (hidden, top_k) = (sizes.hidden, sizes.top_k);
    let grad_out = slice(args.grad_out);
    let weights = optional(args.weights);
    scatter(
        slice_mut(args.grad_packed),
        hidden,
        &sources,
        |packed, entry| {
            let grad = row(grad_out, entry / top_k, hidden);
            match weights {
                Some(weights) => scale(weights[entry], grad, packed),
                None => packed.copy_from_slice(grad),
            }
        },
    );
    if let (Some(grad_weights), Some(packed)) = (args.grad_weights, optional(args.packed)) {
        slice_mut(grad_weights)
            .par_iter_mut()
            .with_min_len(rows_of_a_task(hidden))
            .zip(rows.par_iter())
            .enumerate()
            .for_each_init(
                || scratch::<2>(WIDTH),
                |scratch, (entry, (grad, &own))| {
                    *grad = usize::try_from(own).map_or(0.0, |own| {
                        let grad_out = row(grad_out, entry / top_k, hidden);
                        dot(row(packed, own, hidden), grad_out, scratch)
                    });
                },
            );
    }
    Ok(())
}

#[multiversion(targets("x86_64+avx2+fma+f16c"))]
fn scale<T: Element>(weight: f32, source: &[T], out: &mut [T]) {
    let mut scratch = [0.0; WIDTH];
    for (source, out) in source.chunks(WIDTH).zip(out.chunks_mut(WIDTH)) {
        let values = target::<T, false>(out, &mut scratch);
        load_into(source, values);
        values.iter_mut().for_each(|value| *value *= weight);
        store(&scratch, out);
    }
}

#[multiversion(targets("x86_64+avx2+fma+f16c"))]
fn dot<T: Element>(left: &[T], right: &[T], scratch: &mut [Vec<f32>; 2]) -> f32 {
    let [one, other] = scratch;
    let mut sums = [0.0f32; SUMS];
    for (left, right) in left.chunks(WIDTH).zip(right.chunks(WIDTH)) {
        let (left, right) = (load(left, one), load(right, other));
        let (lefts, rights) = (left.chunks_exact(SUMS), right.chunks_exact(SUMS));
        let rest = lefts.remainder().iter().zip(rights.remainder());
        for (left, right) in lefts.zip(rights) {
            for i in 0..SUMS {
                sums[i] = left[i].mul_add(right[i], sums[i]);
            }
        }
        for (sum, (left, right)) in sums.iter_mut().zip(rest) {
            *sum = left.mul_add(*right, *sum);
        }
    }
    sums.iter().sum()
}
