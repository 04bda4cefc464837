//! What the 32 threads of a warp do together: shuffles, votes, reductions.
//!
//! Every thread named by `mask` must be there and pass the same mask.

use super::{Word, arch};

/// All 32 lanes.
pub const FULL_MASK: u32 = !0;
/// Threads of a warp.
pub const WARP_SIZE: u32 = 32;

/// Waits for the lanes in `mask`; orders their accesses to shared and global memory.
#[inline(always)]
#[track_caller]
pub fn sync_warp(mask: u32) {
    arch::warp::sync(mask);
}

/// The value that lane `lane` (of each group of `WIDTH` lanes) passed.
#[inline(always)]
#[track_caller]
pub fn shuffle_idx<const WIDTH: u32, T: Word>(mask: u32, value: T, lane: u32) -> T {
    T::from_bits(arch::warp::shuffle_idx(
        mask,
        value.to_bits(),
        lane,
        clamp(WIDTH, 31),
    ))
}

/// The value of the lane `delta` below; in the lowest `delta` lanes of each group of
/// `WIDTH`, the lane's own value.
#[inline(always)]
#[track_caller]
pub fn shuffle_up<const WIDTH: u32, T: Word>(mask: u32, value: T, delta: u32) -> T {
    T::from_bits(arch::warp::shuffle_up(
        mask,
        value.to_bits(),
        delta,
        clamp(WIDTH, 0),
    ))
}

/// The value of the lane `delta` above; in the highest `delta` lanes of each group of
/// `WIDTH`, the lane's own value.
#[inline(always)]
#[track_caller]
pub fn shuffle_down<const WIDTH: u32, T: Word>(mask: u32, value: T, delta: u32) -> T {
    T::from_bits(arch::warp::shuffle_down(
        mask,
        value.to_bits(),
        delta,
        clamp(WIDTH, 31),
    ))
}

/// The value of the lane whose number differs from this lane's by the bits in `bits`; a
/// lane's own value where that lane lies in a later group of `WIDTH` lanes.
#[inline(always)]
#[track_caller]
pub fn shuffle_xor<const WIDTH: u32, T: Word>(mask: u32, value: T, bits: u32) -> T {
    T::from_bits(arch::warp::shuffle_xor(
        mask,
        value.to_bits(),
        bits,
        clamp(WIDTH, 31),
    ))
}

/// The lanes of `mask` whose `predicate` holds, as bits.
#[inline(always)]
#[track_caller]
pub fn ballot(mask: u32, predicate: bool) -> u32 {
    arch::warp::ballot(mask, predicate)
}

/// Whether `predicate` holds in any lane of `mask`.
#[inline(always)]
#[track_caller]
pub fn any(mask: u32, predicate: bool) -> bool {
    ballot(mask, predicate) != 0
}

/// Whether `predicate` holds in every lane of `mask`.
#[inline(always)]
#[track_caller]
pub fn all(mask: u32, predicate: bool) -> bool {
    ballot(mask, predicate) == mask
}

/// The lanes of `mask` that passed the same value as this one, as bits.
#[inline(always)]
#[track_caller]
pub fn match_any(mask: u32, value: u32) -> u32 {
    arch::warp::match_any(mask, value)
}

/// The sum (modulo 2^32) of the values that the lanes in `mask` passed.
#[inline(always)]
#[track_caller]
pub fn reduce_add(mask: u32, value: u32) -> u32 {
    arch::warp::reduce_add(mask, value)
}

/// The smallest of the values that the lanes in `mask` passed.
#[inline(always)]
#[track_caller]
pub fn reduce_min(mask: u32, value: u32) -> u32 {
    arch::warp::reduce_min(mask, value)
}

/// The largest of the values that the lanes in `mask` passed.
#[inline(always)]
#[track_caller]
pub fn reduce_max(mask: u32, value: u32) -> u32 {
    arch::warp::reduce_max(mask, value)
}

/// The third operand of `shfl.sync` (PTX ISA, "shfl.sync"): bits 8 to 12 hold the segment
/// mask, bits 0 to 4 the lane that bounds the source.
#[inline(always)]
const fn clamp(width: u32, bound: u32) -> u32 {
    assert!(width.is_power_of_two() && width <= 32);
    (32 - width) << 8 | bound
}
