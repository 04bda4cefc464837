//! From a tile's sums to the outputs: bias, softplus, rounding, and the elements that have
//! to be computed by the definition.

use super::ProjectionParams;
use super::operand::{Operand, add};
use super::policy::{BLOCK, TILE_COLUMNS, TILE_ROWS};
use crate::activation::{softplus, softplus_near};
use crate::simt::math::fma;
use crate::simt::thread::thread_idx_x;
use crate::simt::{Global, Shared};

/// Groups of four columns of a tile.
const GROUPS: u32 = TILE_COLUMNS / 4;
/// Rows that the block writes at a time, a group each thread; some threads are left over.
const ROWS_AT_ONCE: u32 = BLOCK / GROUPS;

/// Writes the tile whose sums lie in shared memory, in rows of `stride` words.
///
/// # Safety
/// The whole block, behind a barrier; the buffers cover what `params` describes.
#[inline(always)]
#[track_caller]
pub(super) unsafe fn write<T: Operand>(
    params: &ProjectionParams<T>,
    first_row: u64,
    first_column: u32,
    sums: Shared<f32>,
    stride: u32,
) {
    let thread = thread_idx_x();
    let (group, mut row) = (thread % GROUPS, thread / GROUPS);
    let column = first_column + 4 * group;
    if row >= ROWS_AT_ONCE || column >= params.columns {
        return;
    }
    // The rows of the tile that there are.
    let rows = (params.rows - first_row).min(u64::from(TILE_ROWS)) as u32;
    let part = params.part(column);
    let within = column - part.first;
    let whole = within + 4 <= part.outputs && (within | part.outputs).is_multiple_of(4);
    // SAFETY: sums of the tile; rows and columns of the parts.
    unsafe {
        let mut bias = [0.0; 4];
        if whole && !part.bias.is_null() {
            bias = part.bias.load4(within as usize);
        }
        let load = |row: u32| add(sums.load4(row * stride + 4 * group), bias);
        let store = |row: u32, values| {
            let at = (first_row + u64::from(row)) * u64::from(part.outputs) + u64::from(within);
            T::store4(part.out, at as usize, values);
        };
        let one_by_one = |row: u32| {
            let mut k = 0;
            while k < 4 && column + k < params.columns {
                let sum = sums.load(row * stride + 4 * group + k);
                write_one(params, first_row + u64::from(row), column + k, sum);
                k += 1;
            }
        };
        // Two rows a turn: softplus is a long chain of short steps.
        while row < rows {
            let other = row + ROWS_AT_ONCE;
            let both = other < rows;
            let mut values = load(row);
            let mut others = if both { load(other) } else { values };
            // An infinity becomes NaN, which the check finds.
            if part.softplus != 0 {
                values = values.map(softplus_near);
                others = others.map(softplus_near);
            }
            if whole && all_finite(values, others) {
                store(row, values);
                if both {
                    store(other, others);
                }
            } else {
                one_by_one(row);
                if both {
                    one_by_one(other);
                }
            }
            row += 2 * ROWS_AT_ONCE;
        }
    }
}

#[inline(always)]
fn all_finite(a: [f32; 4], b: [f32; 4]) -> bool {
    // 0 x is 0, or NaN, which stays.
    let first = fma(a[0], 0.0, fma(a[1], 0.0, fma(a[2], 0.0, a[3] * 0.0)));
    let second = fma(b[0], 0.0, fma(b[1], 0.0, fma(b[2], 0.0, b[3] * 0.0)));
    first + second == 0.0
}

/// Writes one element. If its sum is not finite it is computed again, by the definition:
/// infinity has no split into a big and a small part, and a number close to f32's largest
/// rounds to infinity.
///
/// # Safety
/// A row and a column that there are; nobody else writes the element.
#[inline(always)]
#[track_caller]
pub(super) unsafe fn write_one<T: Operand>(
    params: &ProjectionParams<T>,
    row: u64,
    column: u32,
    sum: f32,
) {
    let part = params.part(column);
    let within = u64::from(column - part.first);
    // SAFETY: an element of the part.
    unsafe {
        let mut value = sum;
        if !sum.is_finite() {
            let x = params.x.add((row * params.inputs) as usize);
            let weight = part.weight.add((within * params.inputs) as usize);
            value = dot(x, weight, params.inputs as usize);
        }
        if !part.bias.is_null() {
            value += part.bias.load(within as usize);
        }
        if part.softplus != 0 {
            value = softplus(value);
        }
        let at = row * u64::from(part.outputs) + within;
        part.out.store(at as usize, T::from_f32(value));
    }
}

#[inline(always)]
#[track_caller]
unsafe fn dot<T: Operand>(x: Global<T>, weight: Global<T>, inputs: usize) -> f32 {
    let mut sum = 0.0;
    let mut depth = 0;
    while depth < inputs {
        // SAFETY: the caller's promise.
        let (x, weight) = unsafe { (x.load(depth), weight.load(depth)) };
        sum = fma(x.to_f32(), weight.to_f32(), sum);
        depth += 1;
    }
    sum
}
