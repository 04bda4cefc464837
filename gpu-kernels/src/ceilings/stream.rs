//! Streaming with 16-byte accesses. Bytes: each array once.
//!
//! Two ways, chosen by the grid: a thread for each group of four elements, or fewer blocks
//! that stride over the arrays with several accesses in flight, whole tiles without a
//! bounds check and the one partial tile at the end with one.

use super::{StreamParams, policy};
use crate::simt::Global;
use crate::simt::math::fma;
use crate::simt::thread::{block_idx_x, grid_dim_x, thread_idx_x};

type Group = [f32; 4];

/// Moves tiles: `load` gives what a thread reads for a group, `store` what becomes of it.
/// All loads of a tile come before its first store.
///
/// # Safety
/// `load` and `store` are right for every group below `groups`, and each group belongs
/// to one thread.
#[inline(always)]
unsafe fn tiles<V: Copy>(groups: u64, load: impl Fn(usize) -> V, store: impl Fn(usize, V)) {
    let block = u64::from(policy::BLOCK);
    if u64::from(grid_dim_x()) * block >= groups {
        // A thread for each group: many short blocks instead of a few long ones.
        let at = u64::from(block_idx_x()) * block + u64::from(thread_idx_x());
        if at < groups {
            store(at as usize, load(at as usize));
        }
        return;
    }
    let mut tile = u64::from(block_idx_x()) * policy::tile();
    let stride = u64::from(grid_dim_x()) * policy::tile();
    let lane = u64::from(thread_idx_x());
    while tile + policy::tile() <= groups {
        let at = (tile + lane) as usize;
        let next = block as usize;
        let values = (
            load(at),
            load(at + next),
            load(at + 2 * next),
            load(at + 3 * next),
        );
        store(at, values.0);
        store(at + next, values.1);
        store(at + 2 * next, values.2);
        store(at + 3 * next, values.3);
        tile += stride;
    }
    let mut at = tile + lane;
    while at < groups {
        store(at as usize, load(at as usize));
        at += block;
    }
}

const _: () = assert!(policy::IN_FLIGHT == 4, "`tiles` is written for four");

#[inline(always)]
unsafe fn get<const ONCE: bool>(source: Global<f32>, group: usize) -> Group {
    // SAFETY: the caller's promise.
    unsafe {
        if ONCE {
            source.load4_once(4 * group)
        } else {
            source.load4(4 * group)
        }
    }
}

#[inline(always)]
unsafe fn put<const ONCE: bool>(out: Global<f32>, group: usize, value: Group) {
    // SAFETY: the caller's promise.
    unsafe {
        if ONCE {
            out.store4_once(4 * group, value);
        } else {
            out.store4(4 * group, value);
        }
    }
}

/// # Safety
/// `a` and `out` hold `4 * groups` elements, aligned to 16 bytes; launched as
/// [`policy::stream_launches`] says.
#[inline(always)]
pub unsafe fn copy<const ONCE: bool>(p: StreamParams) {
    // SAFETY: groups below `groups` lie in the arrays; a group has one thread.
    unsafe {
        tiles(
            p.groups,
            |group| get::<ONCE>(p.a, group),
            |group, value| put::<ONCE>(p.out, group, value),
        );
    }
}

/// # Safety
/// As [`copy`], with `b`.
#[inline(always)]
pub unsafe fn triad<const ONCE: bool>(p: StreamParams) {
    // SAFETY: as in `copy`.
    unsafe {
        tiles(
            p.groups,
            |group| (get::<ONCE>(p.a, group), get::<ONCE>(p.b, group)),
            |group, (a, b)| {
                let value = [
                    fma(p.scale, a[0], b[0]),
                    fma(p.scale, a[1], b[1]),
                    fma(p.scale, a[2], b[2]),
                    fma(p.scale, a[3], b[3]),
                ];
                put::<ONCE>(p.out, group, value);
            },
        );
    }
}

/// # Safety
/// As [`copy`], without `a`.
#[inline(always)]
pub unsafe fn write<const ONCE: bool>(p: StreamParams) {
    // SAFETY: as in `copy`.
    unsafe {
        tiles(
            p.groups,
            |_| (),
            |group, ()| put::<ONCE>(p.out, group, [p.scale; 4]),
        );
    }
}
