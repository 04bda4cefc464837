//! Arithmetic.

pub use super::convert::{f16_to_f32, f32_to_bf16, f32_to_f16, pack_bf16, pack_f16};

mod llvm {
    unsafe extern "C" {
        #[link_name = "llvm.nvvm.ex2.approx.ftz.f"]
        pub safe fn ex2(x: f32) -> f32;
        #[link_name = "llvm.nvvm.lg2.approx.ftz.f"]
        pub safe fn lg2(x: f32) -> f32;
        #[link_name = "llvm.nvvm.rcp.approx.ftz.f"]
        pub safe fn rcp(x: f32) -> f32;
    }
}

#[inline(always)]
pub fn fma(a: f32, b: f32, c: f32) -> f32 {
    core::f32::math::mul_add(a, b, c)
}

#[inline(always)]
pub fn exp2_approx(x: f32) -> f32 {
    llvm::ex2(x)
}

#[inline(always)]
pub fn log2_approx(x: f32) -> f32 {
    llvm::lg2(x)
}

#[inline(always)]
pub fn rcp_approx(x: f32) -> f32 {
    llvm::rcp(x)
}
