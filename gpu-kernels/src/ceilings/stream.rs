//! Streaming with 16-byte accesses. Bytes: each array once.
//!
//! Two ways, chosen by the grid: a thread for each group of four elements, or fewer blocks
//! that stride over the arrays with several accesses in flight, whole tiles without a
//! bounds check and the one partial tile at the end with one. And two ways to read: through
//! registers, or by asynchronous copies to shared memory, of which each thread uses its own.

use super::{StreamParams, policy};
use crate::simt::math::fma;
use crate::simt::thread::{block_idx_x, grid_dim_x, thread_idx_x};
use crate::simt::{Global, Shared, async_copy};

type Group = [f32; 4];

/// Moves tiles: `load(slot, group)` begins to read a group, `store` is what becomes of what
/// it gave. All loads of a tile come before its first store, each with a slot of its own;
/// with `STAGED` they are asynchronous copies.
///
/// # Safety
/// `load` and `store` are right for every group below `groups`, and each group belongs
/// to one thread.
#[inline(always)]
unsafe fn tiles<V: Copy, const STAGED: bool>(
    groups: u64,
    load: impl Fn(u32, usize) -> V,
    store: impl Fn(usize, V),
) {
    let arrived = || {
        if STAGED {
            async_copy::commit();
            async_copy::wait::<0>();
        }
    };
    let block = u64::from(policy::BLOCK);
    if u64::from(grid_dim_x()) * block >= groups {
        // A thread for each group: many short blocks instead of a few long ones.
        let at = u64::from(block_idx_x()) * block + u64::from(thread_idx_x());
        if at < groups {
            let value = load(0, at as usize);
            arrived();
            store(at as usize, value);
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
            load(0, at),
            load(1, at + next),
            load(2, at + 2 * next),
            load(3, at + 3 * next),
        );
        arrived();
        store(at, values.0);
        store(at + next, values.1);
        store(at + 2 * next, values.2);
        store(at + 3 * next, values.3);
        tile += stride;
    }
    let mut at = tile + lane;
    while at < groups {
        let value = load(0, at as usize);
        arrived();
        store(at as usize, value);
        at += block;
    }
}

const _: () = assert!(policy::IN_FLIGHT == 4, "`tiles` is written for four");

/// A group on its way: in registers, or in this thread's slot.
#[derive(Clone, Copy)]
struct Read {
    value: Group,
    slot: Shared<f32>,
}

/// Begins to read a group of array number `array`.
#[inline(always)]
unsafe fn begin<const STAGED: bool>(
    source: Global<f32>,
    array: u32,
    slot: u32,
    group: usize,
) -> Read {
    let slots = (array * policy::IN_FLIGHT + slot) * policy::BLOCK + thread_idx_x();
    let slot = Shared::dynamic(slots * size_of::<Group>() as u32);
    let mut value = [0.0; 4];
    // SAFETY: the caller's promise; the slot is this thread's alone.
    unsafe {
        if STAGED {
            slot.copy4_async(0, source, 4 * group);
        } else {
            value = source.load4(4 * group);
        }
    }
    Read { value, slot }
}

/// What [`begin`] began to read.
#[inline(always)]
unsafe fn end<const STAGED: bool>(read: Read) -> Group {
    if STAGED {
        // SAFETY: waited for.
        unsafe { read.slot.load4(0) }
    } else {
        read.value
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
pub unsafe fn copy<const STAGED: bool>(p: StreamParams) {
    // SAFETY: groups below `groups` lie in the arrays; a group has one thread.
    unsafe {
        tiles::<_, STAGED>(
            p.groups,
            |slot, group| begin::<STAGED>(p.a, 0, slot, group),
            |group, read| put::<STAGED>(p.out, group, end::<STAGED>(read)),
        );
    }
}

/// # Safety
/// As [`copy`], with `b`.
#[inline(always)]
pub unsafe fn triad<const STAGED: bool>(p: StreamParams) {
    // SAFETY: as in `copy`.
    unsafe {
        tiles::<_, STAGED>(
            p.groups,
            |slot, group| {
                (
                    begin::<STAGED>(p.a, 0, slot, group),
                    begin::<STAGED>(p.b, 1, slot, group),
                )
            },
            |group, (a, b)| {
                let (a, b) = (end::<STAGED>(a), end::<STAGED>(b));
                let value = [
                    fma(p.scale, a[0], b[0]),
                    fma(p.scale, a[1], b[1]),
                    fma(p.scale, a[2], b[2]),
                    fma(p.scale, a[3], b[3]),
                ];
                put::<STAGED>(p.out, group, value);
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
        tiles::<_, false>(
            p.groups,
            |_, _| (),
            |group, ()| put::<ONCE>(p.out, group, [p.scale; 4]),
        );
    }
}
