//! Matrix products of a warp on the tensor cores: `D = A B + C` (PTX ISA, "mma.sync").
//!
//! `A` has 16 rows, `B` and `C` 8 columns; `C` and `D` are f32. All 32 lanes call
//! together. With `g = lane / 4` and `t = lane % 4`, a lane holds of
//!
//! - `A`: rows `g` and `g + 8`, in the order (`g`, first half of the depth), (`g + 8`,
//!   first), (`g`, second), (`g + 8`, second);
//! - `B`: column `g`, first and second half of the depth;
//! - `C` and `D`: (`g`, `2t`), (`g`, `2t + 1`), (`g + 8`, `2t`), (`g + 8`, `2t + 1`).
//!
//! A half of the depth is 4 words, and a lane holds word `t` of it: an f32, or two 16-bit
//! elements, the first in the low bits. Whoever numbers the depth of `A` and of `B` alike
//! in another order gets the same product.
//!
//! Products are exact; sums are f32 in an order of the hardware's own, truncated rather
//! than rounded.

use super::arch;

/// Depth 8, of f32 cut to TF32: the low 13 bits of `a` and `b` are not looked at.
#[inline(always)]
#[track_caller]
pub fn multiply_tf32(a: [u32; 4], b: [u32; 2], c: [f32; 4]) -> [f32; 4] {
    arch::matrix::multiply_tf32(a, b, c)
}

/// Depth 16, of bf16.
#[inline(always)]
#[track_caller]
pub fn multiply_bf16(a: [u32; 4], b: [u32; 2], c: [f32; 4]) -> [f32; 4] {
    arch::matrix::multiply_bf16(a, b, c)
}

/// Depth 8, of bf16: one half of [`multiply_bf16`]'s.
#[inline(always)]
#[track_caller]
pub fn multiply_bf16_half(a: [u32; 2], b: u32, c: [f32; 4]) -> [f32; 4] {
    arch::matrix::multiply_bf16_half(a, b, c)
}

/// Depth 16, of f16.
#[inline(always)]
#[track_caller]
pub fn multiply_f16(a: [u32; 4], b: [u32; 2], c: [f32; 4]) -> [f32; 4] {
    arch::matrix::multiply_f16(a, b, c)
}
