//! Shuffles, votes and reductions.
//!
//! Not `cuda_std`'s shuffles: their clamp is wrong upwards. Not its votes: they are
//! assembly. libNVVM has no intrinsic for reductions, so those are assembly here too:
//! `volatile` (no `pure`), and `check-ptx` fails where part of a warp could reach them.

pub use super::llvm::{ballot, match_any, shuffle_down, shuffle_idx, shuffle_up, shuffle_xor};

#[inline(always)]
pub fn sync(mask: u32) {
    // SAFETY: the callers' lanes are all there and pass the same mask.
    unsafe { cuda_std::warp::sync_warp(mask) };
}

macro_rules! reduce {
    ($($name:ident = $op:literal)*) => { $(
        #[cfg(target_arch = "nvptx64")]
        #[inline(always)]
        pub fn $name(mask: u32, value: u32) -> u32 {
            let result: u32;
            // SAFETY: arithmetic on registers; the callers' lanes are all there.
            unsafe {
                core::arch::asm!(
                    concat!("redux.sync.", $op, ".u32 {0}, {1}, {2};"),
                    out(reg32) result, in(reg32) value, in(reg32) mask,
                    options(nomem, nostack)
                );
            }
            result
        }
    )* };
}
reduce! { reduce_add = "add" reduce_min = "min" reduce_max = "max" }
