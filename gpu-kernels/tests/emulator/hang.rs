//! Waits that cannot end.

use crate::{kernel, launch, machine, passes};
use gpu_kernels::emulator::{Config, Fault, FaultKind, HangCause, Machine};
use gpu_kernels::simt::atomic::*;
use gpu_kernels::simt::thread::*;
use gpu_kernels::simt::{Global, LaunchShape, Shared};
use std::time::Instant;

const HERE: &str = include_str!("hang.rs");

/// Look-back over tiles: `tile` waits for `tile - 1`.
unsafe fn look_back(flags: Global<u32>, out: Global<u32>, tile: usize) {
    // SAFETY: the emulator checks every access.
    unsafe {
        if tile > 0 {
            while load_acquire(flags, tile - 1) == 0 {
                spin_hint(); // FAULT: OutOfOrder
            }
        }
        out.store(tile, tile as u32);
        store_release(flags, tile, 1);
    }
}

kernel!(OutOfOrder([flags, out, ..]: [Global<u32>; 4]) {
    // Nobody promises that block 3 starts before block 4.
    look_back(flags, out, block_idx_x() as usize);
});

kernel!(InOrder([flags, out, counter, _]: [Global<u32>; 4]) {
    look_back(flags, out, fetch_add(counter, 0, 1) as usize);
});

fn caused(fault: &Fault, by: impl Fn(HangCause) -> bool) -> bool {
    matches!(fault.kind, FaultKind::Hang { cause, .. } if by(cause))
}

#[test]
fn look_back_in_an_order_that_nobody_promised() {
    let shape = LaunchShape::linear(40, 1, 0);
    let start = Instant::now();
    let mut hung = 0;
    for seed in crate::SEEDS {
        if let Err(fault) = launch::<OutOfOrder>(seed, shape, 40) {
            crate::assert_marked(HERE, "OutOfOrder", &fault);
            let FaultKind::Hang { waiting, .. } = fault.kind else {
                panic!("{fault}");
            };
            assert!(fault.to_string().contains("only been spinning"));
            assert!(waiting > 0 && fault.block[0] > 0);
            if hung == 0 {
                println!("{fault}");
            }
            hung += 1;
        }
    }
    // Every seed that does not happen to start the blocks in ascending order.
    assert!(hung > crate::SEEDS.end / 2, "{hung}");
    assert!(start.elapsed().as_secs() < 60, "in bounded time");
    passes::<InOrder>(shape, 40);
}

kernel!(NobodySets([flags, ..]: [Global<u32>; 4]) {
    let shared = Shared::<u32>::dynamic(0);
    sync_threads();
    while load_acquire(flags, 0) == 0 {
        // Changing memory that no other block sees gets nobody anywhere.
        shared.store(thread_idx_x(), 0);
        sync_threads();
        spin_hint();
    }
});

kernel!(CountsForEver([flags, ..]: [Global<u32>; 4]) {
    while load_acquire(flags, 1) == 0 {
        fetch_add(flags, 0, 1);
        spin_hint();
    }
});

kernel!(NoHint([flags, ..]: [Global<u32>; 4]) {
    while load_acquire(flags, 0) == 0 {} // FAULT: NoHint
});

#[test]
fn every_wait_ends() {
    let fault = launch::<NobodySets>(1, LaunchShape::linear(2, 64, 256), 2).unwrap_err();
    assert!(
        caused(&fault, |cause| matches!(cause, HangCause::Spinning(_))),
        "{fault}"
    );
    let limited = Machine::new(Config {
        turn_limit: 100_000,
        ..Config::default()
    });
    let flags = crate::upload(&limited, &[0u32; 2]);
    let fault = limited
        .launch::<CountsForEver>(LaunchShape::linear(2, 1, 0), [flags; 4])
        .unwrap_err();
    assert!(
        caused(&fault, |cause| cause == HangCause::TurnLimit(100_000)),
        "{fault}"
    );
    let fault = launch::<NoHint>(1, LaunchShape::linear(2, 1, 0), 2).unwrap_err();
    assert!(
        caused(&fault, |cause| matches!(cause, HangCause::Reading(_))),
        "{fault}"
    );
    crate::assert_marked(HERE, "NoHint", &fault);
}

kernel!(WithoutHint([flags, ..]: [Global<u32>; 4]) {
    if thread_idx_x() == 63 {
        store_release(flags, 0, 1);
    } else {
        while load_acquire(flags, 0) == 0 {}
    }
});

#[test]
fn a_wait_without_a_hint_lets_the_others_run() {
    let [flags, ..] = passes::<WithoutHint>(LaunchShape::linear(1, 64, 0), 1);
    assert_eq!(flags[0], 1);
}

kernel!(SlowWork([flags, out, ..]: [Global<u32>; 4]) {
    if thread_idx_x() == 0 {
        let mut sum = 0;
        for i in 0..200_000 {
            sum += flags.load(1 + i % 2);
        }
        out.store(0, sum);
        store_release(flags, 0, 1);
    } else {
        while load_acquire(flags, 0) == 0 {
            spin_hint();
        }
    }
});

#[test]
fn work_is_not_a_hang() {
    for seed in 0..8 {
        let machine = machine(seed);
        let flags = crate::upload(&machine, &[0u32, 1, 2]);
        let out = crate::upload(&machine, &[0u32]);
        machine
            .launch::<SlowWork>(LaunchShape::linear(1, 33, 0), [flags, out, out, out])
            .unwrap_or_else(|fault| panic!("{fault}"));
        assert_eq!(crate::download(&machine, out, 1), [300_000]);
    }
}
