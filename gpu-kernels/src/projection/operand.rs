//! How elements of each type are multiplied on the tensor cores.
//!
//! A *group* is 64 bytes along the depth: each of the four lanes of a row holds 16 of them.
//! Which element of the group counts as which depth of a product does not matter as long
//! as both factors agree, so a lane's 16 bytes are used in the order they lie in.

use crate::simt::math::{pack_bf16, pack_f16};
use crate::simt::matrix::{multiply_bf16, multiply_f16, multiply_tf32};
use crate::simt::{Element, Global};
use half::{bf16, f16};

/// An element type, and its fragments of a group.
pub trait Operand: Element {
    /// A lane's part of 16 rows of `x`.
    type Rows: Copy;
    /// A lane's part of 8 rows of the weights: columns of the product.
    type Columns: Copy;

    /// From the lane's words of row `g` and row `g + 8`.
    fn rows(upper: [u32; 4], lower: [u32; 4]) -> Self::Rows;

    /// From the lane's words of column `g`.
    fn columns(words: [u32; 4]) -> Self::Columns;

    /// Adds the products of `M` times 16 rows and 8 columns to `sums[i][fragment]`. The whole
    /// warp, together.
    fn multiply<const M: usize, const N: usize>(
        sums: &mut [[[f32; 4]; N]; M],
        fragment: usize,
        rows: &[Self::Rows; M],
        columns: &Self::Columns,
    );

    /// Stores four neighbours.
    ///
    /// # Safety
    /// As [`Global::store`] for all four; `index` is a multiple of 4.
    unsafe fn store4(out: Global<Self>, index: usize, values: [f32; 4]);
}

/// An f32 as the sum of a TF32 number and a rest, and both in bf16:
///
/// `x w = big(x) big(w) + big(x) small(w) + small(x) big(w) + small(x) small(w)`
///
/// The first product takes TF32's 11 bits; the next two, 2^-11 as large, are good enough
/// in bf16, at twice the speed and with f32's exponents; the last is left out. Against
/// |x| |w| the error is at most 4 * 2^-20 (both factors of both small products rounded to 8
/// bits) + 2^-22 = 4.1e-6, and 3e-7 in the root mean square. Three TF32 products (Ootomo
/// and Yokota 2022, arXiv 2203.03341) would cost 6 units of the tensor cores' time where
/// this costs 4.
///
/// The tensor cores truncate what they add, always towards zero: over many steps that would
/// show. So they sum a group, and the groups are summed in ordinary f32.
#[derive(Clone, Copy)]
pub struct Rows {
    /// For two products of depth 8.
    big: [[u32; 4]; 2],
    big16: [u32; 4],
    small16: [u32; 4],
}

/// As [`Rows`], of columns.
#[derive(Clone, Copy)]
pub struct Columns {
    big: [[u32; 2]; 2],
    big16: [u32; 2],
    small16: [u32; 2],
}

/// Four elements: big in TF32, big in bf16, small in bf16.
#[inline(always)]
fn split(words: [u32; 4]) -> ([u32; 4], [u32; 2], [u32; 2]) {
    // To nearest: half of TF32's last place, then the 13 bits off.
    let big = words.map(|word| word.wrapping_add(0x1000) & !0x1FFF);
    let value = f32::from_bits;
    let small = [0, 1, 2, 3].map(|i: usize| value(words[i]) - value(big[i]));
    let pair = |low: u32, high: u32| pack_bf16(value(low), value(high));
    (
        big,
        [pair(big[0], big[1]), pair(big[2], big[3])],
        [pack_bf16(small[0], small[1]), pack_bf16(small[2], small[3])],
    )
}

#[inline(always)]
pub(super) fn add(a: [f32; 4], b: [f32; 4]) -> [f32; 4] {
    [a[0] + b[0], a[1] + b[1], a[2] + b[2], a[3] + b[3]]
}

impl Operand for f32 {
    type Rows = Rows;
    type Columns = Columns;

    #[inline(always)]
    fn rows(upper: [u32; 4], lower: [u32; 4]) -> Rows {
        let (ub, ub16, us16) = split(upper);
        let (lb, lb16, ls16) = split(lower);
        Rows {
            big: [[ub[0], lb[0], ub[1], lb[1]], [ub[2], lb[2], ub[3], lb[3]]],
            big16: [ub16[0], lb16[0], ub16[1], lb16[1]],
            small16: [us16[0], ls16[0], us16[1], ls16[1]],
        }
    }

    #[inline(always)]
    fn columns(words: [u32; 4]) -> Columns {
        let (big, big16, small16) = split(words);
        Columns {
            big: [[big[0], big[1]], [big[2], big[3]]],
            big16,
            small16,
        }
    }

    #[inline(always)]
    #[track_caller]
    fn multiply<const M: usize, const N: usize>(
        sums: &mut [[[f32; 4]; N]; M],
        fragment: usize,
        rows: &[Rows; M],
        columns: &Columns,
    ) {
        unroll!(M, i => {
            let row = &rows[i];
            // The small ones first.
            let mut group = multiply_bf16(row.small16, columns.big16, [0.0; 4]);
            group = multiply_bf16(row.big16, columns.small16, group);
            group = multiply_tf32(row.big[0], columns.big[0], group);
            group = multiply_tf32(row.big[1], columns.big[1], group);
            sums[i][fragment] = add(sums[i][fragment], group);
        });
    }

    #[inline(always)]
    #[track_caller]
    unsafe fn store4(out: Global<f32>, index: usize, values: [f32; 4]) {
        // SAFETY: the caller's promise; four f32 are 16 bytes.
        unsafe { out.store4(index, values) }
    }
}

/// 16-bit elements go to the tensor cores as they are.
macro_rules! narrow {
    ($($element:ty: $multiply:ident, $pack:ident;)*) => { $(
        impl Operand for $element {
            type Rows = [[u32; 4]; 2];
            type Columns = [[u32; 2]; 2];

            #[inline(always)]
            fn rows(upper: [u32; 4], lower: [u32; 4]) -> Self::Rows {
                [
                    [upper[0], lower[0], upper[1], lower[1]],
                    [upper[2], lower[2], upper[3], lower[3]],
                ]
            }

            #[inline(always)]
            fn columns(words: [u32; 4]) -> Self::Columns {
                [[words[0], words[1]], [words[2], words[3]]]
            }

            #[inline(always)]
            #[track_caller]
            fn multiply<const M: usize, const N: usize>(
                sums: &mut [[[f32; 4]; N]; M],
                fragment: usize,
                rows: &[Self::Rows; M],
                columns: &Self::Columns,
            ) {
                unroll!(M, i => {
                    let sum = $multiply(rows[i][0], columns[0], sums[i][fragment]);
                    sums[i][fragment] = $multiply(rows[i][1], columns[1], sum);
                });
            }

            #[inline(always)]
            #[track_caller]
            unsafe fn store4(out: Global<Self>, index: usize, v: [f32; 4]) {
                let pairs = u64::from($pack(v[0], v[1])) | u64::from($pack(v[2], v[3])) << 32;
                // SAFETY: the caller's promise; four elements are 8 bytes.
                unsafe { out.cast::<u64>().store(index / 4, pairs) }
            }
        }
    )* };
}
narrow! {
    f16: multiply_f16, pack_f16;
    bf16: multiply_bf16, pack_bf16;
}
