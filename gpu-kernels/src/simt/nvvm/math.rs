//! Arithmetic.

#[cfg(target_arch = "nvptx64")]
pub use super::convert::{f16_to_f32, f32_to_bf16, f32_to_f16, pack_bf16, pack_f16};
pub use super::llvm::{exp2_approx, log2_approx};

#[cfg(target_arch = "nvptx64")]
#[inline(always)]
pub fn fma(a: f32, b: f32, c: f32) -> f32 {
    core::f32::math::mul_add(a, b, c)
}

/// Assembly: libNVVM has no intrinsic for it.
#[cfg(target_arch = "nvptx64")]
#[inline(always)]
pub fn rcp_approx(x: f32) -> f32 {
    let result: f32;
    // SAFETY: arithmetic on registers.
    unsafe {
        core::arch::asm!("rcp.approx.ftz.f32 {0}, {1};", out(reg32) result, in(reg32) x, options(pure, nomem, nostack));
    }
    result
}
