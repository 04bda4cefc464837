//! Asynchronous copies and their groups.

use crate::{faults, kernel, passes};
use gpu_kernels::emulator::{Access, FaultKind};
use gpu_kernels::simt::thread::*;
use gpu_kernels::simt::{Global, LaunchShape, Shared, async_copy};

const HERE: &str = include_str!("copies.rs");

kernel!(ReadBeforeWait([a, out, ..]: [Global<u32>; 4]) {
    let (me, shared) = (thread_idx_x(), Shared::<u32>::dynamic(0));
    shared.copy_async(me, a, me as usize);
    async_copy::commit();
    out.store(me as usize, shared.load(me)); // FAULT: ReadBeforeWait
    async_copy::wait::<0>();
});

kernel!(WriteBeforeWait([a, ..]: [Global<u32>; 4]) {
    let (me, shared) = (thread_idx_x(), Shared::<u32>::dynamic(0));
    shared.copy_async(me, a, me as usize);
    shared.store(me, 1); // FAULT: WriteBeforeWait
});

kernel!(NeverCommitted([a, out, ..]: [Global<u32>; 4]) {
    let (me, shared) = (thread_idx_x(), Shared::<u32>::dynamic(0));
    shared.copy_async(me, a, me as usize);
    async_copy::wait::<0>();
    out.store(me as usize, shared.load(me)); // FAULT: NeverCommitted
});

kernel!(WrongGroup([a, out, ..]: [Global<u32>; 4]) {
    let (me, shared) = (thread_idx_x(), Shared::<u32>::dynamic(0));
    for stage in 0..3 {
        shared.copy4_async(4 * (me + 32 * stage), a, 4 * me as usize);
        async_copy::commit();
    }
    async_copy::wait::<1>();
    out.store(me as usize, shared.load(4 * (me + 32 * 2))); // FAULT: WrongGroup
});

#[test]
fn the_target_may_not_be_touched_before_its_group_was_awaited() {
    let shape = LaunchShape::linear(1, 32, 3 * 512);
    let pending = |access: Access| {
        move |fault: &gpu_kernels::emulator::Fault| {
            matches!(fault.kind, FaultKind::AsyncPending { access: found, owner, .. }
                if found == access && owner == fault.thread)
        }
    };
    faults::<ReadBeforeWait>(HERE, shape, 128, pending(Access::Load));
    faults::<WriteBeforeWait>(HERE, shape, 128, pending(Access::Store));
    faults::<NeverCommitted>(HERE, shape, 128, pending(Access::Load));
    faults::<WrongGroup>(HERE, shape, 128, pending(Access::Load));
}

kernel!(WaitWithoutBarrier([a, out, ..]: [Global<u32>; 4]) {
    let (me, shared) = (thread_idx_x(), Shared::<u32>::dynamic(0));
    shared.copy_async(me, a, me as usize);
    async_copy::commit();
    sync_threads();
    async_copy::wait::<0>();
    out.store(me as usize, shared.load((me + 1) % 64)); // FAULT: WaitWithoutBarrier
});

#[test]
fn a_wait_is_for_the_own_copies_only() {
    faults::<WaitWithoutBarrier>(HERE, LaunchShape::linear(1, 64, 512), 64, |fault| {
        matches!(
            fault.kind,
            FaultKind::Race { .. } | FaultKind::AsyncPending { .. }
        )
    });
}

/// Three stages in flight over eight tiles of 4 words a thread.
const STAGES: u32 = 3;
const TILES: u32 = 8;

kernel!(Pipeline([a, out, ..]: [Global<u32>; 4]) {
    let (me, threads) = (thread_idx_x(), block_dim_x());
    let shared = Shared::<u32>::dynamic(0);
    let start = |tile: u32| {
        if tile < TILES {
            let slot = 4 * (tile % STAGES * threads + me);
            shared.copy4_async(slot, a, 4 * (tile * threads + me) as usize);
        }
        async_copy::commit();
    };
    for tile in 0..STAGES - 1 {
        start(tile);
    }
    for tile in 0..TILES {
        async_copy::wait::<{ STAGES - 2 }>();
        sync_threads();
        // The slot of the tile before is free: everyone is past it.
        start(tile + STAGES - 1);
        let other = threads - 1 - me;
        let words = shared.load4(4 * (tile % STAGES * threads + other));
        out.store4(4 * (tile * threads + other) as usize, words.map(|word| word + tile));
    }
});

#[test]
fn a_pipeline_with_stages_in_flight() {
    let [_, out, ..] = passes::<Pipeline>(LaunchShape::linear(1, 64, 3 * 1024), 4 * 64 * 8);
    assert!(
        out.iter()
            .enumerate()
            .all(|(i, word)| *word as usize == i / 256)
    );
}
