//! Barriers, indices, panics and launch shapes.

use crate::{faults, kernel, launch, machine, passes};
use gpu_kernels::emulator::{FaultKind, Whereabouts};
use gpu_kernels::simt::thread::*;
use gpu_kernels::simt::{Global, LaunchShape, Shared};

const HERE: &str = include_str!("threads.rs");

kernel!(Indices([out, ..]: [Global<u32>; 4]) {
    let block = block_idx_x() + grid_dim_x() * (block_idx_y() + grid_dim_y() * block_idx_z());
    let thread = thread_idx_x() + block_dim_x() * (thread_idx_y() + block_dim_y() * thread_idx_z());
    let threads = block_dim_x() * block_dim_y() * block_dim_z();
    assert!(block_idx_z() < grid_dim_z());
    out.store((block * threads + thread) as usize, thread << 8 | lane_id());
});

#[test]
fn every_thread_runs_once_under_its_own_index() {
    let shape = LaunchShape {
        grid: [2, 3, 2],
        block: [5, 2, 4],
        shared_bytes: 0,
    };
    let [out, ..] = passes::<Indices>(shape, 12 * 40);
    for (index, word) in out.iter().enumerate() {
        let thread = index as u32 % 40;
        assert_eq!(*word, (thread << 8) | (thread % 32));
    }
}

kernel!(Rotate([out, ..]: [Global<u32>; 4]) {
    let (me, shared) = (thread_idx_x(), Shared::<u32>::dynamic(0));
    shared.store(me, me);
    sync_threads();
    out.store(me as usize, shared.load((me + 1) % block_dim_x()));
});

#[test]
fn barrier_orders_the_block() {
    let [out, ..] = passes::<Rotate>(LaunchShape::linear(1, 96, 384), 96);
    assert!(
        out.iter()
            .enumerate()
            .all(|(i, word)| *word as usize == (i + 1) % 96)
    );
}

kernel!(VotesAtBarriers([out, ..]: [Global<u32>; 4]) {
    let (me, mut bits) = (thread_idx_x(), 0);
    for turn in 0..8 {
        bits |= u32::from(sync_threads_or(turn % 3 == 1 && me == 5 * turn)) << turn;
    }
    out.store((block_idx_x() * 64 + me) as usize, bits);
});

#[test]
fn a_vote_at_a_barrier_is_that_barriers_own() {
    let [out, ..] = passes::<VotesAtBarriers>(LaunchShape::linear(3, 64, 0), 192);
    assert_eq!(out, [0b1001_0010; 192]);
}

kernel!(MissingBarrier(_: [Global<u32>; 4]) {
    let (me, shared) = (thread_idx_x(), Shared::<u32>::dynamic(0));
    shared.store(me, 0);
    sync_threads();
    shared.store(me, me); // FAULT: MissingBarrier
    let _ = shared.load((me + 1) % block_dim_x()); // FAULT: MissingBarrier
});

#[test]
fn missing_barrier_is_a_race() {
    faults::<MissingBarrier>(HERE, LaunchShape::linear(1, 96, 384), 0, |fault| {
        let FaultKind::Race { other_thread, .. } = fault.kind else {
            return false;
        };
        let (me, other) = (fault.thread[0], other_thread[0]);
        other == (me + 1) % 96 || me == (other + 1) % 96
    });
}

kernel!(EndsEarly(_: [Global<u32>; 4]) {
    if thread_idx_x() != 40 {
        sync_threads(); // FAULT: EndsEarly
    }
});

#[test]
fn barrier_without_a_thread_that_ended() {
    faults::<EndsEarly>(HERE, LaunchShape::linear(2, 64, 0), 0, |fault| {
        matches!(
            fault.kind,
            FaultKind::BarrierDivergence {
                other: [40, 0, 0],
                instead: Whereabouts::Ended
            }
        )
    });
}

kernel!(TwoBarriers(_: [Global<u32>; 4]) {
    if thread_idx_x() < 32 {
        sync_threads(); // FAULT: TwoBarriers
        return;
    }
    sync_threads(); // FAULT: TwoBarriers
});

#[test]
fn barriers_of_different_lines() {
    faults::<TwoBarriers>(HERE, LaunchShape::linear(1, 64, 0), 0, |fault| {
        let FaultKind::BarrierDivergence { other, instead } = &fault.kind else {
            return false;
        };
        matches!(instead, Whereabouts::Barrier(_)) && (other[0] < 32) != (fault.thread[0] < 32)
    });
}

kernel!(TripCount(_: [Global<u32>; 4]) {
    let mut turn = 0;
    while turn < 3 + thread_idx_x() / 63 {
        sync_threads(); // FAULT: TripCount
        turn += 1;
    }
});

#[test]
fn one_thread_takes_one_turn_more() {
    faults::<TripCount>(HERE, LaunchShape::linear(1, 64, 0), 0, |fault| {
        fault.thread == [63, 0, 0] && matches!(fault.kind, FaultKind::BarrierDivergence { .. })
    });
}

kernel!(Traps(_: [Global<u32>; 4]) {
    if block_idx_x() == 1 && thread_idx_x() == 3 {
        trap(); // FAULT: Traps
    }
});

kernel!(Panics(_: [Global<u32>; 4]) {
    let table = [1, 2, 3];
    let index = thread_idx_x() as usize;
    sync_threads();
    std::hint::black_box(table[std::hint::black_box(index)]); // FAULT: Panics
});

#[test]
fn traps_and_panics_name_their_thread() {
    faults::<Traps>(HERE, LaunchShape::linear(3, 8, 0), 0, |fault| {
        (fault.block, fault.thread) == ([1, 0, 0], [3, 0, 0]) && fault.kind == FaultKind::Trap
    });
    faults::<Panics>(HERE, LaunchShape::linear(1, 4, 0), 0, |fault| {
        let FaultKind::Panic { message } = &fault.kind else {
            return false;
        };
        fault.thread == [3, 0, 0] && message.contains("index is 3")
    });
}

#[test]
fn a_shape_that_no_gpu_takes_is_refused() {
    for (shape, found) in [
        (
            LaunchShape::linear(1, 1025, 0),
            "blocks of [1025, 1, 1] threads",
        ),
        (LaunchShape::linear(1, 0, 0), "blocks of [0, 1, 1] threads"),
        (LaunchShape::linear(0, 32, 0), "a grid of [0, 1, 1] blocks"),
        (
            LaunchShape::linear(1, 32, 1 << 20),
            "1048576 bytes of shared memory",
        ),
    ] {
        let fault = launch::<Rotate>(0, shape, 0).unwrap_err();
        assert!(fault.to_string().contains(found), "{fault}");
    }
}

kernel!(WritesThenTraps([out, ..]: [Global<u32>; 4]) {
    let me = thread_idx_x();
    for turn in 0..5 {
        sync_threads();
        out.store(63 - me as usize, turn);
    }
    if me == 9 {
        trap();
    }
});

#[test]
fn a_machine_goes_on_after_a_fault() {
    let machine = machine(5);
    let out = crate::upload(&machine, &[0u32; 64]);
    let shape = LaunchShape::linear(1, 64, 256);
    for _ in 0..3 {
        let fault = machine
            .launch::<WritesThenTraps>(shape, [out; 4])
            .unwrap_err();
        assert_eq!(fault.kind, FaultKind::Trap);
        // What the launch before left behind is no race with this one.
        machine.launch::<Rotate>(shape, [out; 4]).unwrap();
    }
    assert_eq!(crate::download(&machine, out, 64)[63], 0);
}

kernel!(Nested(_: [Global<u32>; 4]) {
    let shape = LaunchShape::linear(1, 1, 0);
    let _ = machine(0).launch::<Indices>(shape, [Global::null(); 4]);
});

#[test]
fn a_kernel_cannot_launch_a_kernel() {
    let fault = launch::<Nested>(0, LaunchShape::linear(1, 1, 0), 0).unwrap_err();
    assert!(
        fault
            .to_string()
            .contains("a kernel cannot launch a kernel"),
        "{fault}"
    );
}
