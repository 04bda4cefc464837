//! Conversions between f32 and the 16-bit formats. Assembly, the same for both code
//! generators.

use core::arch::asm;

#[inline(always)]
pub fn f16_to_f32(bits: u16) -> f32 {
    let value: f32;
    // SAFETY: arithmetic on registers.
    unsafe {
        asm!("cvt.f32.f16 {0}, {1};", out(reg32) value, in(reg16) bits, options(pure, nomem, nostack));
    }
    value
}

#[inline(always)]
pub fn f32_to_f16(value: f32) -> u16 {
    let bits: u16;
    // SAFETY: arithmetic on registers.
    unsafe {
        asm!("cvt.rn.f16.f32 {0}, {1};", out(reg16) bits, in(reg32) value, options(pure, nomem, nostack));
    }
    bits
}

#[inline(always)]
pub fn f32_to_bf16(value: f32) -> u16 {
    let bits: u16;
    // SAFETY: arithmetic on registers.
    unsafe {
        asm!("cvt.rn.bf16.f32 {0}, {1};", out(reg16) bits, in(reg32) value, options(pure, nomem, nostack));
    }
    bits
}

#[inline(always)]
pub fn pack_f16(low: f32, high: f32) -> u32 {
    let bits: u32;
    // SAFETY: arithmetic on registers.
    unsafe {
        asm!("cvt.rn.f16x2.f32 {0}, {1}, {2};", out(reg32) bits, in(reg32) high, in(reg32) low, options(pure, nomem, nostack));
    }
    bits
}

#[inline(always)]
pub fn pack_bf16(low: f32, high: f32) -> u32 {
    let bits: u32;
    // SAFETY: arithmetic on registers.
    unsafe {
        asm!("cvt.rn.bf16x2.f32 {0}, {1}, {2};", out(reg32) bits, in(reg32) high, in(reg32) low, options(pure, nomem, nostack));
    }
    bits
}
