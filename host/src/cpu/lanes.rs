//! Slices of sequence elements as f32 and back, shaped so that the compiler vectorises them.
//!
//! Everything here is inlined into functions compiled for AVX2, FMA and F16C as well as
//! for the baseline (`multiversion`): without the FMA instruction `f32::mul_add` is a slow
//! library call, with the same result.

use super::contiguous;
use super::pieces::LANES;
use crate::dtype::{DType, Element};
use half::{bf16, f16};
use ndarray::{ArrayView2, ArrayViewMut2};
use std::ops::Range;

/// N rows of f32 for state and conversions.
pub(super) fn scratch<const N: usize>(width: usize) -> [Vec<f32>; N] {
    std::array::from_fn(|_| vec![0.0; width])
}

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
        DType::F16 => {
            let out = bytemuck::cast_slice_mut::<T, f16>(out);
            for (out, &value) in out.iter_mut().zip(scratch) {
                *out = f16::from_bits(round_f16(value));
            }
        }
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
        for (out, &value) in out.iter_mut().zip(bytemuck::cast_slice::<T, f16>(source)) {
            *out = widen_f16(value.to_bits());
        }
        return;
    }
    for (out, &value) in out.iter_mut().zip(bytemuck::cast_slice::<T, bf16>(source)) {
        *out = f32::from_bits(u32::from(value.to_bits()) << 16);
    }
}

// The conversions of `half`, without branches or calls, so that they vectorise too.

/// Exact.
#[inline(always)]
fn widen_f16(bits: u16) -> f32 {
    let sign = u32::from(bits & 0x8000) << 16;
    let magnitude = u32::from(bits & 0x7fff) << 13;
    // Exponents are biased by 127 instead of 15. The multiplication normalises subnormals.
    let value = f32::from_bits(magnitude) * f32::from_bits((127 + 112) << 23);
    let special = if magnitude >= 0x7c00 << 13 {
        0x7f80_0000
    } else {
        0
    };
    f32::from_bits(value.to_bits() | special | sign)
}

/// Rounded to nearest even; overflow becomes infinity, NaN stays NaN.
#[inline(always)]
fn round_f16(value: f32) -> u16 {
    let bits = value.to_bits();
    let (sign, magnitude) = ((bits >> 16) & 0x8000, bits & 0x7fff_ffff);
    // Below 2^-14 the result is subnormal: this sum's last bit is worth 2^-24, f16's unit there.
    let unit = f32::from_bits((127 - 1) << 23);
    let subnormal = (f32::from_bits(magnitude) + unit).to_bits() - unit.to_bits();
    let ties = 0xfff + ((magnitude >> 13) & 1);
    let normal = magnitude.wrapping_add(ties).wrapping_sub(112 << 23) >> 13;
    let finite = if magnitude < 113 << 23 {
        subnormal
    } else {
        normal
    };
    let special = if magnitude > 0x7f80_0000 {
        0x7e00
    } else {
        0x7c00
    };
    // From 65520 on, halfway to 2^16, `normal` would round to the pattern of infinity and past it.
    let bits = if magnitude >= 143 << 23 {
        special
    } else {
        finite
    };
    (bits | sign) as u16
}

/// Rounded to nearest even.
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
    fn f16_converts_like_half() {
        let same = |a: f32, b: f32| a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan());
        for bits in 0..=u16::MAX {
            let half = f16::from_bits(bits);
            assert!(same(widen_f16(bits), half.to_f32()), "{bits:#x}");
            // Every f16, and what lies just beside and halfway to the next.
            for offset in [-1, 0, 1, 0xfff, 0x1000, 0x1001, 0x1fff] {
                let value = f32::from_bits(half.to_f32().to_bits().wrapping_add_signed(offset));
                let (ours, theirs) = (f16::from_bits(round_f16(value)), f16::from_f32(value));
                assert!(
                    same(ours.to_f32(), theirs.to_f32()),
                    "{value:e}: {ours} {theirs}"
                );
            }
        }
        // Every f32 exponent, down to where all is rounded away.
        for high in 0..=u16::MAX {
            for low in [0, 1, 0x7fff, 0x8000, 0xffff] {
                let value = f32::from_bits(u32::from(high) << 16 | low);
                let (ours, theirs) = (f16::from_bits(round_f16(value)), f16::from_f32(value));
                assert!(
                    same(ours.to_f32(), theirs.to_f32()),
                    "{value:e}: {ours} {theirs}"
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
