//! Slices of sequence elements as f32 and back, shaped so that the compiler vectorises them.
//!
//! Everything here is inlined into functions compiled for AVX2, FMA and F16C as well as
//! for the baseline (`multiversion`): without the FMA instruction `f32::mul_add` is a slow
//! library call, with the same result.

use super::contiguous;
use super::pieces::LANES;
use crate::dtype::{DType, Element};
use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};
use ndarray::{ArrayView2, ArrayViewMut2};
use std::ops::Range;

/// `source` as f32: itself if it is f32, else converted into `scratch`.
#[inline(always)]
pub(super) fn load<'a, T: Element>(source: &'a [T], scratch: &'a mut [f32]) -> &'a [f32] {
    if T::DTYPE == DType::F32 {
        return bytemuck::cast_slice(source);
    }
    let scratch = &mut scratch[..source.len()];
    widen(source, scratch);
    scratch
}

/// `source` as f32 in `out`.
#[inline(always)]
pub(super) fn load_into<T: Element>(source: &[T], out: &mut [f32]) {
    if T::DTYPE == DType::F32 {
        return out.copy_from_slice(bytemuck::cast_slice(source));
    }
    widen(source, out);
}

/// Where f32 results for `out` are computed: `out` itself if it is f32, else `scratch`, with
/// the contents of `out` if `KEEP`. Either way [`store`] follows.
#[inline(always)]
pub(super) fn target<'a, T: Element, const KEEP: bool>(
    out: &'a mut [T],
    scratch: &'a mut [f32],
) -> &'a mut [f32] {
    if T::DTYPE == DType::F32 {
        return bytemuck::cast_slice_mut(out);
    }
    let scratch = &mut scratch[..out.len()];
    if KEEP {
        widen(out, scratch);
    }
    scratch
}

/// What was computed in [`target`]'s scratch, rounded to nearest even; f32 is there already.
#[inline(always)]
pub(super) fn store<T: Element>(scratch: &[f32], out: &mut [T]) {
    let scratch = &scratch[..out.len()];
    match T::DTYPE {
        DType::F16 => bytemuck::cast_slice_mut::<T, f16>(out).convert_from_f32_slice(scratch),
        DType::Bf16 => {
            let out = bytemuck::cast_slice_mut::<T, bf16>(out);
            for (out, &value) in out.iter_mut().zip(scratch) {
                *out = bf16::from_bits(round_bf16(value));
            }
        }
        _ => {}
    }
}

#[inline(always)]
fn widen<T: Element>(source: &[T], out: &mut [f32]) {
    if T::DTYPE == DType::F16 {
        return bytemuck::cast_slice::<T, f16>(source).convert_to_f32_slice(out);
    }
    for (out, &value) in out.iter_mut().zip(bytemuck::cast_slice::<T, bf16>(source)) {
        *out = f32::from_bits(u32::from(value.to_bits()) << 16);
    }
}

/// `bf16::from_f32` without its branches.
#[inline(always)]
fn round_bf16(value: f32) -> u16 {
    let bits = value.to_bits();
    let rounded = bits.wrapping_add(0x7fff + ((bits >> 16) & 1)) >> 16;
    let quiet = (bits >> 16) | 0x40;
    let bits = if value.is_nan() { quiet } else { rounded };
    bits as u16
}

/// The N columns of a `[time, N]` view in which time is contiguous.
#[inline(always)]
pub(super) fn columns<'a, T, const N: usize>(view: ArrayView2<'a, T>) -> [&'a [T]; N] {
    let mut rest = Some(view);
    std::array::from_fn(|_| {
        let (column, others) = contiguous(rest.take()).split_at(LANES, 1);
        rest = Some(others);
        contiguous(column.index_axis_move(LANES, 0).to_slice())
    })
}

/// The same, to write.
#[inline(always)]
pub(super) fn columns_mut<'a, T, const N: usize>(view: ArrayViewMut2<'a, T>) -> [&'a mut [T]; N] {
    let mut rest = Some(view);
    std::array::from_fn(|_| {
        let (column, others) = contiguous(rest.take()).split_at(LANES, 1);
        rest = Some(others);
        contiguous(column.index_axis_move(LANES, 0).into_slice())
    })
}

/// The time steps `time` of N columns as f32.
#[inline(always)]
pub(super) fn load_tile<'a, T: Element, const N: usize, const TILE: usize>(
    columns: &'a [&[T]; N],
    time: &Range<usize>,
    scratch: &'a mut [[f32; TILE]; N],
) -> [&'a [f32]; N] {
    let mut scratch = scratch.iter_mut();
    std::array::from_fn(|lane| {
        let wide = contiguous(scratch.next());
        load(&columns[lane][time.clone()], wide)
    })
}

/// Where f32 results for the time steps `time` of N columns are computed.
#[inline(always)]
pub(super) fn target_tile<'a, T: Element, const KEEP: bool, const N: usize, const TILE: usize>(
    columns: &'a mut [&mut [T]; N],
    time: &Range<usize>,
    scratch: &'a mut [[f32; TILE]; N],
) -> [&'a mut [f32]; N] {
    let mut pairs = columns.iter_mut().zip(scratch);
    std::array::from_fn(|_| {
        let (column, wide) = contiguous(pairs.next());
        target::<T, KEEP>(&mut column[time.clone()], wide)
    })
}

/// [`store`] for N columns.
#[inline(always)]
pub(super) fn store_tile<T: Element, const N: usize, const TILE: usize>(
    scratch: &[[f32; TILE]; N],
    columns: &mut [&mut [T]; N],
    time: &Range<usize>,
) {
    for (column, wide) in columns.iter_mut().zip(scratch) {
        store(wide, &mut column[time.clone()]);
    }
}

/// `0..length` in tiles of at most `tile` steps, from the first or, reversed, from the last.
pub(super) fn tiles(
    length: usize,
    tile: usize,
    reverse: bool,
) -> impl Iterator<Item = Range<usize>> {
    (0..length.div_ceil(tile)).map(move |i| {
        let done = i * tile;
        let steps = tile.min(length - done);
        if reverse {
            length - done - steps..length - done
        } else {
            done..done + steps
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bf16_rounds_like_half() {
        for high in 0..=u16::MAX {
            for low in [0, 1, 0x7fff, 0x8000, 0x8001, 0xffff] {
                let value = f32::from_bits(u32::from(high) << 16 | low);
                assert_eq!(
                    round_bf16(value),
                    bf16::from_f32(value).to_bits(),
                    "{value:e}"
                );
            }
        }
    }

    #[test]
    fn tiles_cover_in_order() {
        assert_eq!(tiles(5, 2, false).collect::<Vec<_>>(), [0..2, 2..4, 4..5]);
        assert_eq!(tiles(5, 2, true).collect::<Vec<_>>(), [3..5, 1..3, 0..1]);
        assert_eq!(tiles(0, 2, true).count(), 0);
    }
}
