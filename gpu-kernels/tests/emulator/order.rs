//! Order between blocks: what counts as one, and races where there is none.

use crate::{faults, kernel, passes};
use gpu_kernels::emulator::{Access, Fault, FaultKind};
use gpu_kernels::simt::atomic::*;
use gpu_kernels::simt::thread::*;
use gpu_kernels::simt::warp::{FULL_MASK, sync_warp};
use gpu_kernels::simt::{Global, LaunchShape, Shared};

const HERE: &str = include_str!("order.rs");

fn race_between_blocks(fault: &Fault) -> bool {
    matches!(fault.kind, FaultKind::Race { other_block, .. } if other_block != fault.block)
}

kernel!(PlainSum([sum, ..]: [Global<u32>; 4]) {
    if thread_idx_x() == 0 {
        let before = sum.load(0); // FAULT: PlainSum
        sum.store(0, before + 1); // FAULT: PlainSum
    }
});

kernel!(AtomicSum([sum, most, least, ..]: [Global<u32>; 4]) {
    let me = block_idx_x() * block_dim_x() + thread_idx_x();
    fetch_add(sum, 0, me);
    fetch_max(most, 0, me);
    fetch_add64(most.cast(), 1, u64::from(me) << 30);
    fetch_min(least, 0, me.wrapping_sub(1));
    // A counter that wraps, by compare and exchange.
    let mut expected = 0;
    loop {
        let found = compare_exchange(sum, 1, expected, (expected + 1) % 7);
        if found == expected {
            break;
        }
        expected = found;
    }
});

kernel!(SharedMost([most, least, ..]: [Global<u32>; 4]) {
    let (word, me) = (Shared::<u32>::dynamic(0), thread_idx_x());
    if me == 0 {
        word.store(0, 3);
        least.cast().store(0, u64::MAX);
    }
    sync_threads();
    fetch_max_shared(word, 0, me * 5 % 64);
    fetch_min64(least.cast(), 0, u64::from(me ^ 9) << 32 | 7);
    sync_threads();
    most.store(me as usize, word.load(0));
});

kernel!(UnwrittenMost(_: [Global<u32>; 4]) {
    fetch_max_shared(Shared::dynamic(0), 0, 1); // FAULT: UnwrittenMost
});

kernel!(UnorderedMost([out, ..]: [Global<u32>; 4]) {
    let word = Shared::<u32>::dynamic(0);
    if thread_idx_x() == 0 {
        word.store(0, 0);
    }
    sync_threads();
    fetch_max_shared(word, 0, thread_idx_x()); // FAULT: UnorderedMost
    if thread_idx_x() == 5 {
        out.store(0, word.load(0)); // FAULT: UnorderedMost
    }
});

#[test]
fn the_most_of_a_block() {
    let shape = LaunchShape::linear(1, 64, 4);
    let [most, least, ..] = passes::<SharedMost>(shape, 64);
    assert_eq!(most, [63; 64]);
    assert_eq!(least[..2], [7, 0]);
    faults::<UnwrittenMost>(HERE, shape, 1, |fault| {
        matches!(fault.kind, FaultKind::Unwritten { .. })
    });
    faults::<UnorderedMost>(HERE, shape, 1, |fault| {
        matches!(fault.kind, FaultKind::Race { .. })
    });
}

#[test]
fn a_sum_of_all_blocks() {
    let shape = LaunchShape::linear(6, 32, 0);
    faults::<PlainSum>(HERE, shape, 2, race_between_blocks);
    let [sum, most, least, _] = passes::<AtomicSum>(shape, 4);
    assert_eq!((sum[0], most[0], least[0]), (191 * 192 / 2, 191, 0));
    assert_eq!(sum[1], 192 % 7);
    let wide = u64::from(most[2]) | (u64::from(most[3]) << 32);
    assert_eq!(wide, (191 * 192 / 2) << 30);
}

kernel!(MixedAccess([word, ..]: [Global<u32>; 4]) {
    if block_idx_x() == 0 {
        word.store(0, 5); // FAULT: MixedAccess
    } else {
        fetch_add(word, 0, 1); // FAULT: MixedAccess
    }
});

#[test]
fn atomic_and_plain_accesses_do_not_mix() {
    faults::<MixedAccess>(HERE, LaunchShape::linear(2, 1, 0), 1, |fault| {
        race_between_blocks(fault)
            && matches!(
                fault.kind,
                FaultKind::Race {
                    access: Access::Store | Access::AtomicUpdate,
                    ..
                }
            )
    });
}

/// A chain of blocks, each of which waits for the one before and adds to its data. Tile
/// numbers are handed out in the order of arrival.
unsafe fn chain(
    [counter, data, flags, out]: [Global<u32>; 4],
    publish: unsafe fn(Global<u32>, u32),
    wait: unsafe fn(Global<u32>, u32),
) {
    // SAFETY: the emulator checks every access.
    unsafe {
        let (me, shared) = (thread_idx_x(), Shared::<u32>::dynamic(0));
        if me == 0 {
            shared.store(0, fetch_add(counter, 0, 1));
        }
        sync_threads();
        let tile = shared.load(0);
        let width = block_dim_x();
        let mut before = 0;
        if tile > 0 {
            if me == 0 {
                wait(flags, tile - 1);
            }
            sync_threads();
            before = data.load(((tile - 1) * width + me) as usize); // FAULT: Chain
        }
        data.store((tile * width + me) as usize, before + tile + me);
        sync_threads();
        if me == 0 {
            publish(flags, tile);
        }
        out.store((tile * width + me) as usize, before);
    }
}

unsafe fn release(flags: Global<u32>, tile: u32) {
    // SAFETY: the emulator checks every access.
    unsafe { store_release(flags, tile as usize, 1) }
}

unsafe fn acquire(flags: Global<u32>, tile: u32) {
    // SAFETY: the emulator checks every access.
    unsafe {
        while load_acquire(flags, tile as usize) == 0 {
            spin_hint();
        }
    }
}

unsafe fn fence_and_add(flags: Global<u32>, tile: u32) {
    fence();
    // SAFETY: the emulator checks every access.
    unsafe { fetch_add(flags, tile as usize, 1) };
}

unsafe fn add_and_fence(flags: Global<u32>, tile: u32) {
    // SAFETY: the emulator checks every access.
    unsafe {
        while fetch_add(flags, tile as usize, 0) == 0 {
            spin_hint();
        }
    }
    fence();
}

unsafe fn add(flags: Global<u32>, tile: u32) {
    // SAFETY: the emulator checks every access.
    unsafe { fetch_add(flags, tile as usize, 1) };
}

unsafe fn poll(flags: Global<u32>, tile: u32) {
    // SAFETY: the emulator checks every access.
    unsafe {
        while fetch_add(flags, tile as usize, 0) == 0 {
            spin_hint();
        }
    }
}

kernel!(ChainReleased(arrays: [Global<u32>; 4]) { chain(arrays, release, acquire) });
kernel!(ChainFenced(arrays: [Global<u32>; 4]) { chain(arrays, fence_and_add, add_and_fence) });
kernel!(ChainReleaseToFence(arrays: [Global<u32>; 4]) { chain(arrays, release, add_and_fence) });
kernel!(ChainFenceToAcquire(arrays: [Global<u32>; 4]) { chain(arrays, fence_and_add, acquire) });
kernel!(NoRelease(arrays: [Global<u32>; 4]) { chain(arrays, add, acquire) });
kernel!(NoAcquire(arrays: [Global<u32>; 4]) { chain(arrays, release, poll) });

#[test]
fn data_behind_a_flag() {
    let shape = LaunchShape::linear(12, 40, 4);
    let [_, data, ..] = passes::<ChainReleased>(shape, 480);
    assert_eq!(data[11 * 40 + 3], 66 + 12 * 3);
    passes::<ChainFenced>(shape, 480);
    passes::<ChainReleaseToFence>(shape, 480);
    passes::<ChainFenceToAcquire>(shape, 480);
    for seed in crate::SEEDS {
        for result in [
            crate::launch::<NoRelease>(seed, shape, 480),
            crate::launch::<NoAcquire>(seed, shape, 480),
        ] {
            let fault = result.expect_err("a race");
            assert!(race_between_blocks(&fault), "{fault}");
            crate::assert_marked(HERE, "Chain", &fault);
        }
    }
}

// Value and flag in one word: no other data, no order needed.
kernel!(OneWord([words, counter, out, _]: [Global<u32>; 4]) {
    let (me, shared) = (thread_idx_x(), Shared::<u32>::dynamic(0));
    if me == 0 {
        shared.store(0, fetch_add(counter, 0, 1));
    }
    sync_threads();
    let tile = shared.load(0) as usize;
    let words = words.cast::<u64>();
    let at = |tile: usize| tile * block_dim_x() as usize + me as usize;
    let mut sum = 0;
    if tile > 0 {
        let mut word = load_relaxed64(words, at(tile - 1));
        while word >> 32 == 0 {
            spin_hint();
            word = load_relaxed64(words, at(tile - 1));
        }
        sum = word as u32;
    }
    store_relaxed64(words, at(tile), 1 << 32 | u64::from(sum + tile as u32 + me));
    out.store(at(tile), sum);
});

#[test]
fn value_and_flag_in_one_word() {
    let [.., out, _] = passes::<OneWord>(LaunchShape::linear(10, 33, 4), 660);
    assert_eq!(out[9 * 33 + 2], 36 + 9 * 2);
}

/// Fence by every thread before the barrier, one update after it; the last block reads.
unsafe fn last_block(arrays: [Global<u32>; 4], every_thread_fences: bool, one_fences: bool) {
    let [counter, data, out, _] = arrays;
    // SAFETY: the emulator checks every access.
    unsafe {
        let (me, shared) = (thread_idx_x(), Shared::<u32>::dynamic(0));
        let at = (block_idx_x() * block_dim_x() + me) as usize;
        data.store(at, at as u32 + 1);
        if every_thread_fences {
            fence();
        }
        sync_threads();
        if me == 0 {
            if one_fences {
                fence();
            }
            shared.store(0, fetch_add(counter, 0, 1));
            fence();
        }
        sync_threads();
        if shared.load(0) + 1 == grid_dim_x() {
            let mut sum = 0;
            for block in 0..grid_dim_x() {
                sum += data.load((block * block_dim_x() + me) as usize); // FAULT: LastBlockUnfenced
            }
            out.store(me as usize, sum);
            if me == 0 {
                // The counter is zero again for the next launch.
                counter.store(0, 0);
            }
        }
    }
}

kernel!(LastBlock(arrays: [Global<u32>; 4]) { last_block(arrays, false, true) });
kernel!(LastBlockFencedBefore(arrays: [Global<u32>; 4]) { last_block(arrays, true, false) });
kernel!(LastBlockUnfenced(arrays: [Global<u32>; 4]) { last_block(arrays, false, false) });

#[test]
fn the_last_block_reads_what_all_wrote() {
    let shape = LaunchShape::linear(7, 64, 4);
    for [counter, _, out, _] in [
        passes::<LastBlock>(shape, 448),
        passes::<LastBlockFencedBefore>(shape, 448),
    ] {
        assert_eq!(counter[0], 0);
        assert_eq!(out[10], (0..7).map(|block| block * 64 + 11).sum::<u32>());
    }
    faults::<LastBlockUnfenced>(HERE, shape, 448, race_between_blocks);
}

/// What lanes wrote reaches another block through `sync_warp` and one lane's release.
unsafe fn through_a_warp([flag, data, out, _]: [Global<u32>; 4], mask: u32) {
    let me = thread_idx_x();
    // SAFETY: the emulator checks every access.
    unsafe {
        if block_idx_x() == 0 {
            data.store(me as usize, me); // FAULT: ThroughOneLane
            sync_warp(mask);
            if me == 0 {
                store_release(flag, 0, 1);
            }
        } else {
            if me == 0 {
                acquire(flag, 0);
            }
            sync_warp(mask);
            out.store(me as usize, data.load(31 - me as usize)); // FAULT: ThroughOneLane
        }
    }
}

kernel!(ThroughAWarp(arrays: [Global<u32>; 4]) { through_a_warp(arrays, FULL_MASK) });
kernel!(ThroughOneLane(arrays: [Global<u32>; 4]) { through_a_warp(arrays, 1 << lane_id()) });

#[test]
fn release_covers_what_the_warp_agreed_on() {
    // In the plain order block 0 runs first; a seed that starts block 1 alone would wait
    // for ever, so both fit at once.
    let shape = LaunchShape::linear(2, 32, 0);
    for seed in crate::SEEDS {
        match crate::launch::<ThroughAWarp>(seed, shape, 32) {
            Ok(([.., out, _], _)) => assert_eq!(out[3], 28),
            Err(fault) => assert!(
                matches!(fault.kind, FaultKind::Hang { resident: 1, .. }),
                "{fault}"
            ),
        }
    }
    let fault = crate::launch::<ThroughOneLane>(0, shape, 32).unwrap_err();
    assert!(race_between_blocks(&fault), "{fault}");
    crate::assert_marked(HERE, "ThroughOneLane", &fault);
}

kernel!(WrittenAfterReading([a, ..]: [Global<u32>; 4]) {
    let word = a.load(0); // FAULT: WrittenAfterReading
    if block_idx_x() == 1 {
        a.store(0, word + 1); // FAULT: WrittenAfterReading
    }
});

#[test]
fn readers_are_remembered() {
    faults::<WrittenAfterReading>(HERE, LaunchShape::linear(3, 1, 0), 1, race_between_blocks);
}

kernel!(Bump([a, ..]: [Global<u32>; 4]) {
    let me = (grid_dim_x() - 1 - block_idx_x()) * block_dim_x() + thread_idx_x();
    a.store(me as usize, a.load(me as usize) + 1);
});

#[test]
fn launches_follow_each_other() {
    let machine = crate::machine(3);
    let a = crate::upload(&machine, &[0u32; 256]);
    for blocks in [1, 2, 4, 8] {
        let shape = LaunchShape::linear(blocks, 256 / blocks, 0);
        machine.launch::<Bump>(shape, [a; 4]).unwrap();
    }
    assert_eq!(crate::download(&machine, a, 256), [4u32; 256]);
}
