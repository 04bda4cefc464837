//! Throughput of the special-function unit and of the f32 pipes: independent chains in
//! registers, one store a thread at the end.

use super::ArithmeticParams;
use super::policy::{BLOCK, CHAINS, UNROLL};
use crate::simt::math::{exp2_approx, fma};
use crate::simt::thread::{block_idx_x, thread_idx_x};

/// # Safety
/// `out` holds an element for each thread of the launch.
#[inline(always)]
unsafe fn chains(p: ArithmeticParams, step: impl Fn(f32) -> f32) {
    let thread = block_idx_x() * BLOCK + thread_idx_x();
    // Every chain starts elsewhere, or the compiler would compute one for all.
    let mut x = [0.0f32; CHAINS];
    for (chain, x) in x.iter_mut().enumerate() {
        *x = p.seed + chain as f32;
    }
    let mut turn = 0;
    while turn < p.turns {
        for _ in 0..UNROLL {
            for x in &mut x {
                *x = step(*x);
            }
        }
        turn += 1;
    }
    let mut sum = 0.0;
    for x in x {
        sum += x;
    }
    // SAFETY: the caller's promise.
    unsafe { p.out.store(thread as usize, sum) };
}

/// # Safety
/// As [`chains`].
#[inline(always)]
pub unsafe fn exp2(p: ArithmeticParams) {
    // SAFETY: the caller's promise. The sign keeps the values near 0.64, where 2^-x = x.
    unsafe { chains(p, |x| exp2_approx(-x)) };
}

/// # Safety
/// As [`chains`].
#[inline(always)]
pub unsafe fn multiply_add(p: ArithmeticParams) {
    // SAFETY: the caller's promise.
    unsafe { chains(p, |x| fma(x, p.scale, p.offset)) };
}
