//! Arithmetic that a kernel asks for by name.

use super::arch;

/// `a * b + c` rounded once. Rust never contracts `a * b + c` by itself.
#[inline(always)]
pub fn fma(a: f32, b: f32, c: f32) -> f32 {
    arch::math::fma(a, b, c)
}

/// 2^x on the special-function unit: relative error at most 2^-22,
/// denormal inputs and results flushed to zero (PTX ISA, `ex2.approx.ftz.f32`).
#[inline(always)]
pub fn exp2_approx(x: f32) -> f32 {
    arch::math::exp2_approx(x)
}

/// log2(x) on the special-function unit: absolute error at most 2^-22 for x in
/// (0.5, 2), relative 2^-22 elsewhere; denormals flushed (PTX ISA, `lg2.approx.ftz.f32`).
#[inline(always)]
pub fn log2_approx(x: f32) -> f32 {
    arch::math::log2_approx(x)
}

/// 1/x within 1 ulp, denormals flushed (PTX ISA, `rcp.approx.ftz.f32`).
#[inline(always)]
pub fn rcp_approx(x: f32) -> f32 {
    arch::math::rcp_approx(x)
}

/// Two f16, rounded to nearest, ties to even; `low` in the low bits.
#[inline(always)]
pub fn pack_f16(low: f32, high: f32) -> u32 {
    arch::math::pack_f16(low, high)
}

/// Two bf16, rounded to nearest, ties to even; `low` in the low bits.
#[inline(always)]
pub fn pack_bf16(low: f32, high: f32) -> u32 {
    arch::math::pack_bf16(low, high)
}
