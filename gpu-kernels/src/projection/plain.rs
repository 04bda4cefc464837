//! The projection by fused multiply-adds, for rows that begin anywhere.
//!
//! 64 x 64 outputs a block, 4 x 4 a thread. 16 elements of each row are staged in shared
//! memory, transposed; their products are summed, and these sums are summed, which keeps
//! the rounding of long rows small.

use super::ProjectionParams;
use super::finish::write_one;
use super::operand::{Operand, add};
use super::policy::{PLAIN_BLOCK, PLAIN_DEPTH, PLAIN_STRIDE, PLAIN_TILE};
use crate::simt::math::fma;
use crate::simt::thread::{block_idx_x, sync_threads, thread_idx_x};
use crate::simt::{Global, Shared};

/// Elements of each factor that a thread stages at a time.
const LOADS: usize = (PLAIN_TILE * PLAIN_DEPTH / PLAIN_BLOCK) as usize;

/// # Safety
/// The buffers cover what `params` describes; launched as [`launch`](super::policy::launch)
/// says.
#[inline(always)]
pub unsafe fn project_plain<T: Operand>(params: ProjectionParams<T>) {
    let tile = block_idx_x();
    let first_row = u64::from(tile / params.column_tiles) * u64::from(PLAIN_TILE);
    let first_column = tile % params.column_tiles * PLAIN_TILE;
    let thread = thread_idx_x();
    let factor = Shared::<f32>::dynamic(0);
    let (x, weights) = (factor, factor.add(PLAIN_DEPTH * PLAIN_STRIDE));
    let (down, across) = (thread / 16 * 4, thread % 16 * 4);
    let mut sums = [[0.0; 4]; 4];
    // SAFETY: the launch contract; as each step says.
    unsafe {
        let mut from = 0;
        while from < params.inputs {
            unroll!(LOADS, i => {
                let at = thread + i as u32 * PLAIN_BLOCK;
                let (line, depth) = (at / PLAIN_DEPTH, at % PLAIN_DEPTH);
                let to = depth * PLAIN_STRIDE + line;
                let depth = from + u64::from(depth);
                x.store(to, row_element(&params, first_row + u64::from(line), depth));
                weights.store(to, column_element(&params, first_column + line, depth));
            });
            sync_threads();
            let mut chunk = [[0.0; 4]; 4];
            unroll!(PLAIN_DEPTH as usize, depth => {
                let at = depth as u32 * PLAIN_STRIDE;
                let (x, weights) = (x.load4(at + down), weights.load4(at + across));
                accumulate(&mut chunk, x, weights);
            });
            unroll!(4, i => { sums[i] = add(sums[i], chunk[i]); });
            sync_threads();
            from += u64::from(PLAIN_DEPTH);
        }
        unroll!(4, j => {
            let column = first_column + across + j as u32;
            if column < params.columns {
                unroll!(4, i => {
                    let row = first_row + u64::from(down) + i as u64;
                    if row < params.rows {
                        write_one(&params, row, column, sums[i][j]);
                    }
                });
            }
        });
    }
}

#[inline(always)]
fn accumulate(sums: &mut [[f32; 4]; 4], x: [f32; 4], weights: [f32; 4]) {
    unroll!(4, i => {
        sums[i] = [
            fma(x[i], weights[0], sums[i][0]),
            fma(x[i], weights[1], sums[i][1]),
            fma(x[i], weights[2], sums[i][2]),
            fma(x[i], weights[3], sums[i][3]),
        ];
    });
}

/// An element of `x`; zero behind the last row and at the end of a row.
#[inline(always)]
#[track_caller]
unsafe fn row_element<T: Operand>(params: &ProjectionParams<T>, row: u64, depth: u64) -> f32 {
    if row < params.rows {
        // SAFETY: a row of `x`.
        unsafe { element(params.x, params.inputs, row, depth) }
    } else {
        0.0
    }
}

/// The same of the weights.
#[inline(always)]
#[track_caller]
unsafe fn column_element<T: Operand>(params: &ProjectionParams<T>, column: u32, depth: u64) -> f32 {
    if column < params.columns {
        let part = params.part(column);
        let row = u64::from(column - part.first);
        // SAFETY: a row of the part.
        unsafe { element(part.weight, params.inputs, row, depth) }
    } else {
        0.0
    }
}

#[inline(always)]
#[track_caller]
unsafe fn element<T: Operand>(array: Global<T>, inputs: u64, row: u64, depth: u64) -> f32 {
    if depth < inputs {
        // SAFETY: the caller's promise.
        unsafe { array.load((row * inputs + depth) as usize) }.to_f32()
    } else {
        0.0
    }
}
