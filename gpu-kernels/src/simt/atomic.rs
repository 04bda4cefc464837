//! Atomics on global memory, at device scope, and on a block's shared memory.
//!
//! Read-modify-writes are relaxed: code generators drop their ordering, so whoever needs
//! an order says so with [`fence`], or uses [`load_acquire`] and [`store_release`].

use super::arch::memory;
use super::{Global, Shared};

/// Adds and returns what was there before. Relaxed.
///
/// # Safety
/// `index` lies in the array, which other threads access only atomically.
#[inline(always)]
#[track_caller]
pub unsafe fn fetch_add(target: Global<u32>, index: usize, value: u32) -> u32 {
    // SAFETY: the caller's promise.
    unsafe { memory::fetch_add(target.at(index), value) }
}

/// [`fetch_add`] of 64 bits.
///
/// # Safety
/// As [`fetch_add`].
#[inline(always)]
#[track_caller]
pub unsafe fn fetch_add64(target: Global<u64>, index: usize, value: u64) -> u64 {
    // SAFETY: the caller's promise.
    unsafe { memory::fetch_add64(target.at(index), value) }
}

/// Keeps the larger and returns what was there before. Relaxed.
///
/// # Safety
/// As [`fetch_add`].
#[inline(always)]
#[track_caller]
pub unsafe fn fetch_max(target: Global<u32>, index: usize, value: u32) -> u32 {
    // SAFETY: the caller's promise.
    unsafe { memory::fetch_max(target.at(index), value) }
}

/// Keeps the smaller and returns what was there before. Relaxed.
///
/// # Safety
/// As [`fetch_add`].
#[inline(always)]
#[track_caller]
pub unsafe fn fetch_min(target: Global<u32>, index: usize, value: u32) -> u32 {
    // SAFETY: the caller's promise.
    unsafe { memory::fetch_min(target.at(index), value) }
}

/// [`fetch_min`] of 64 bits.
///
/// # Safety
/// As [`fetch_add`].
#[inline(always)]
#[track_caller]
pub unsafe fn fetch_min64(target: Global<u64>, index: usize, value: u64) -> u64 {
    // SAFETY: the caller's promise.
    unsafe { memory::fetch_min64(target.at(index), value) }
}

/// [`fetch_max`] in shared memory, among the threads of the block.
///
/// # Safety
/// `index` lies in the array, which other threads access only atomically until a barrier.
#[inline(always)]
#[track_caller]
pub unsafe fn fetch_max_shared(target: Shared<u32>, index: u32, value: u32) -> u32 {
    // SAFETY: the caller's promise.
    unsafe { memory::fetch_max_shared(target.at(index), value) }
}

/// Writes `new` where `expected` stands; returns what was there before. Relaxed.
///
/// # Safety
/// As [`fetch_add`].
#[inline(always)]
#[track_caller]
pub unsafe fn compare_exchange(target: Global<u32>, index: usize, expected: u32, new: u32) -> u32 {
    // SAFETY: the caller's promise.
    unsafe { memory::compare_exchange(target.at(index), expected, new) }
}

/// Reads; what the writer did before its [`store_release`] is seen after this.
///
/// # Safety
/// As [`fetch_add`].
#[inline(always)]
#[track_caller]
pub unsafe fn load_acquire(source: Global<u32>, index: usize) -> u32 {
    // SAFETY: the caller's promise.
    unsafe { memory::load_acquire(source.at(index)) }
}

/// Writes, after everything this thread did before.
///
/// # Safety
/// As [`fetch_add`].
#[inline(always)]
#[track_caller]
pub unsafe fn store_release(target: Global<u32>, index: usize, value: u32) {
    // SAFETY: the caller's promise.
    unsafe { memory::store_release(target.at(index), value) }
}

/// Reads 64 bits in one piece, unordered: value and flag of a look-back in one word.
///
/// # Safety
/// As [`fetch_add`].
#[inline(always)]
#[track_caller]
pub unsafe fn load_relaxed64(source: Global<u64>, index: usize) -> u64 {
    // SAFETY: the caller's promise.
    unsafe { memory::load_relaxed64(source.at(index)) }
}

/// Writes 64 bits in one piece, unordered.
///
/// # Safety
/// As [`fetch_add`].
#[inline(always)]
#[track_caller]
pub unsafe fn store_relaxed64(target: Global<u64>, index: usize, value: u64) {
    // SAFETY: the caller's promise.
    unsafe { memory::store_relaxed64(target.at(index), value) }
}

/// Orders this thread's accesses before it and after it, as other threads of the device see them.
#[inline(always)]
#[track_caller]
pub fn fence() {
    memory::fence();
}
