//! Warp operations against a model written from their descriptions, and their faults.

use crate::{faults, kernel, launch, machine, passes};
use gpu_kernels::emulator::{FaultKind, Whereabouts};
use gpu_kernels::simt::thread::*;
use gpu_kernels::simt::warp::*;
use gpu_kernels::simt::{Global, LaunchShape, Shared};
use rand::{Rng, SeedableRng, rngs::SmallRng};

const HERE: &str = include_str!("warp.rs");

/// One call by all lanes of `mask`.
#[derive(Clone, Copy)]
struct Call {
    mask: u32,
    mode: u32,
    width: u32,
    out: Global<u32>,
    values: [u32; 32],
    lanes: [u32; 32],
}

fn shuffle<const WIDTH: u32>(call: &Call, value: u32, lane: u32) -> u32 {
    match call.mode {
        0 => shuffle_idx::<WIDTH, u32>(call.mask, value, lane),
        1 => shuffle_up::<WIDTH, u32>(call.mask, value, lane),
        2 => shuffle_down::<WIDTH, u32>(call.mask, value, lane),
        _ => shuffle_xor::<WIDTH, u32>(call.mask, value, lane),
    }
}

kernel!(Shuffles(call: Call) {
    let me = lane_id() as usize;
    if call.mask >> me & 1 == 0 {
        return;
    }
    let (value, lane) = (call.values[me], call.lanes[me]);
    let result = match call.width {
        1 => shuffle::<1>(&call, value, lane),
        2 => shuffle::<2>(&call, value, lane),
        4 => shuffle::<4>(&call, value, lane),
        8 => shuffle::<8>(&call, value, lane),
        16 => shuffle::<16>(&call, value, lane),
        _ => shuffle::<32>(&call, value, lane),
    };
    call.out.store(me, result);
});

/// The lane that `me` reads, as `simt::warp` describes the four modes.
fn source(mode: u32, width: u32, me: u32, operand: u32) -> u32 {
    // Operands count modulo 32, as the instruction takes five bits of them.
    let operand = operand % 32;
    let group = me / width * width;
    match mode {
        0 => group + operand % width,
        1 if me >= group + operand => me - operand,
        2 if me + operand < group + width => me + operand,
        // A lane of an earlier group can be read, one of a later group cannot.
        3 if me ^ operand < group + width => me ^ operand,
        _ => me,
    }
}

#[test]
fn shuffles_of_all_modes_widths_and_masks() {
    let mut random = SmallRng::seed_from_u64(1);
    for case in 0..2000u32 {
        let (mode, width) = (case % 4, 1 << (case / 4 % 6));
        let mask = if case % 3 == 0 {
            FULL_MASK
        } else {
            random.random::<u32>() | 1
        };
        let mut lanes = [0; 32];
        for (me, lane) in (0..32).zip(&mut lanes) {
            let active = |operand: &u32| mask >> source(mode, width, me, *operand) & 1 != 0;
            // The operand that names the lane itself.
            let own = if mode == 0 { me } else { 0 };
            *lane = (0..50)
                .map(|_| random.random_range(0..70))
                .find(active)
                .unwrap_or(own);
        }
        let machine = machine(u64::from(case));
        let call = Call {
            mask,
            mode,
            width,
            out: crate::upload(&machine, &[!0; 32]),
            values: random.random(),
            lanes,
        };
        machine
            .launch::<Shuffles>(LaunchShape::linear(1, 32, 0), call)
            .unwrap_or_else(|fault| panic!("{fault}"));
        for (me, result) in (0..32).zip(crate::download(&machine, call.out, 32)) {
            let from = source(mode, width, me, lanes[me as usize]);
            let expected = if mask >> me & 1 != 0 {
                call.values[from as usize]
            } else {
                !0
            };
            assert_eq!(
                result, expected,
                "mode {mode}, width {width}, mask {mask:#x}, lane {me}"
            );
        }
    }
}

#[test]
fn a_shuffle_from_an_inactive_lane_is_found_for_every_mode() {
    let mut random = SmallRng::seed_from_u64(2);
    let mut found = [0; 4];
    for case in 0..2000u32 {
        let (mode, width) = (case % 4, 1 << (case / 4 % 6));
        let mask = random.random::<u32>() | 1;
        let lanes: [u32; 32] = std::array::from_fn(|_| random.random_range(0..32));
        let machine = machine(u64::from(case));
        let call = Call {
            mask,
            mode,
            width,
            out: crate::upload(&machine, &[0; 32]),
            values: [1; 32],
            lanes,
        };
        let wrong = |me: u32| {
            let from = source(mode, width, me, lanes[me as usize]);
            (mask >> me & 1 != 0 && mask >> from & 1 == 0).then_some((me, from))
        };
        let result = machine.launch::<Shuffles>(LaunchShape::linear(1, 32, 0), call);
        match (0..32).find_map(wrong) {
            None => assert!(result.is_ok()),
            Some((me, from)) => {
                found[mode as usize] += 1;
                let fault = result.unwrap_err();
                assert_eq!(fault.thread, [me, 0, 0]);
                assert!(
                    matches!(fault.kind, FaultKind::InactiveLane { source, .. } if source == from)
                );
            }
        }
    }
    assert!(found.iter().all(|count| *count > 100), "{found:?}");
}

kernel!(Votes(call: Call) {
    let me = lane_id() as usize;
    if call.mask >> me & 1 == 0 {
        return;
    }
    let (mask, value) = (call.mask, call.values[me]);
    let results = [
        ballot(mask, value & 1 != 0),
        u32::from(any(mask, value & 6 == 6)),
        u32::from(all(mask, value & 6 != 0)),
        match_any(mask, value),
        reduce_add(mask, value.wrapping_mul(0x9E37_79B9)),
        reduce_min(mask, value),
        reduce_max(mask, value),
    ];
    for (i, result) in results.into_iter().enumerate() {
        call.out.store(32 * i + me, result);
    }
});

#[test]
fn votes_matches_and_reductions() {
    let mut random = SmallRng::seed_from_u64(3);
    for case in 0..200u64 {
        let mask = if case % 4 == 0 {
            FULL_MASK
        } else {
            random.random::<u32>() | 1 << (case % 32)
        };
        let machine = machine(case);
        let values: [u32; 32] = std::array::from_fn(|_| random.random_range(0..8));
        let out = crate::upload(&machine, &[0; 7 * 32]);
        let call = Call {
            mask,
            mode: 0,
            width: 32,
            out,
            values,
            lanes: [0; 32],
        };
        machine
            .launch::<Votes>(LaunchShape::linear(1, 32, 0), call)
            .unwrap_or_else(|fault| panic!("{fault}"));
        let out = crate::download(&machine, out, 7 * 32);
        let lanes = || (0..32usize).filter(|lane| mask >> lane & 1 != 0);
        let bits = |holds: &dyn Fn(u32) -> bool| {
            lanes()
                .filter(|lane| holds(values[*lane]))
                .map(|lane| 1u32 << lane)
                .sum::<u32>()
        };
        for me in lanes() {
            assert_eq!(out[me], bits(&|v| v & 1 != 0));
            assert_eq!(
                out[32 + me],
                u32::from(lanes().any(|lane| values[lane] & 6 == 6))
            );
            assert_eq!(
                out[64 + me],
                u32::from(lanes().all(|lane| values[lane] & 6 != 0))
            );
            assert_eq!(out[96 + me], bits(&|v| v == values[me]));
            let sum = lanes().fold(0u32, |sum, lane| {
                sum.wrapping_add(values[lane].wrapping_mul(0x9E37_79B9))
            });
            assert_eq!(out[128 + me], sum);
            assert_eq!(Some(out[160 + me]), lanes().map(|lane| values[lane]).min());
            assert_eq!(Some(out[192 + me]), lanes().map(|lane| values[lane]).max());
        }
    }
}

kernel!(HalfArrives(_: [Global<u32>; 4]) {
    if lane_id() < 16 {
        sync_warp(FULL_MASK); // FAULT: HalfArrives
    }
});

kernel!(BranchesShuffle([out, ..]: [Global<u32>; 4]) {
    let me = lane_id();
    let sum = if me < 16 {
        shuffle_xor::<32, u32>(FULL_MASK, me, 1) // FAULT: BranchesShuffle
    } else {
        shuffle_xor::<32, u32>(FULL_MASK, me, 2) // FAULT: BranchesShuffle
    };
    out.store(me as usize, sum);
});

kernel!(BranchesShuffleRight([out, ..]: [Global<u32>; 4]) {
    let me = lane_id();
    let sum = if me < 16 {
        shuffle_xor::<32, u32>(0xFFFF, me, 1)
    } else {
        shuffle_xor::<32, u32>(0xFFFF_0000, me, 2)
    };
    sync_warp(FULL_MASK);
    out.store(me as usize, sum);
});

kernel!(NotNamed(_: [Global<u32>; 4]) {
    ballot(0xFFFF, true); // FAULT: NotNamed
});

kernel!(ShortWarp(_: [Global<u32>; 4]) {
    reduce_add(FULL_MASK, 1); // FAULT: ShortWarp
});

kernel!(Crossed(_: [Global<u32>; 4]) {
    if thread_idx_x() == 7 {
        sync_threads();
    } else {
        sync_warp(FULL_MASK); // FAULT: Crossed
    }
});

#[test]
fn masks_that_disagree_with_who_is_there() {
    let warp = LaunchShape::linear(2, 32, 0);
    faults::<HalfArrives>(HERE, warp, 0, |fault| {
        matches!(
            fault.kind,
            FaultKind::MaskMismatch {
                lane: 16,
                instead: Whereabouts::Ended,
                ..
            }
        )
    });
    faults::<BranchesShuffle>(HERE, warp, 32, |fault| {
        matches!(
            fault.kind,
            FaultKind::MaskMismatch {
                lane: 16,
                instead: Whereabouts::Warp { .. },
                ..
            }
        )
    });
    faults::<NotNamed>(
        HERE,
        warp,
        0,
        |fault| matches!(fault.kind, FaultKind::OutsideMask { mask: 0xFFFF, lane, .. } if lane >= 16),
    );
    faults::<ShortWarp>(HERE, LaunchShape::linear(1, 48, 0), 0, |fault| {
        matches!(
            fault.kind,
            FaultKind::MaskMismatch {
                lane: 16,
                instead: Whereabouts::Absent,
                ..
            }
        ) && fault.thread[0] >= 32
    });
    faults::<Crossed>(HERE, LaunchShape::linear(1, 32, 0), 0, |fault| {
        matches!(
            fault.kind,
            FaultKind::MaskMismatch {
                lane: 7,
                instead: Whereabouts::Barrier(_),
                ..
            }
        )
    });
    passes::<BranchesShuffleRight>(LaunchShape::linear(1, 32, 0), 32);
}

kernel!(WarpRace([out, ..]: [Global<u32>; 4]) {
    let (me, shared) = (lane_id(), Shared::<u32>::dynamic(0));
    shared.store(me, 0);
    sync_warp(FULL_MASK);
    shared.store(me, me); // FAULT: WarpRace
    // A shuffle brings the lanes together, but orders no memory.
    shuffle_idx::<32, u32>(FULL_MASK, me, 0);
    out.store(me as usize, shared.load(me ^ 1)); // FAULT: WarpRace
});

kernel!(WarpOrdered([out, ..]: [Global<u32>; 4]) {
    let (me, shared) = (lane_id(), Shared::<u32>::dynamic(0).add(thread_idx_x() / 32 * 32));
    for turn in 0..4 {
        shared.store(me, me + turn);
        sync_warp(FULL_MASK);
        let word = shared.load(me ^ 1);
        sync_warp(if me < 16 { 0xFFFF } else { 0xFFFF_0000 });
        out.store((block_idx_x() * block_dim_x() + thread_idx_x()) as usize, word);
    }
});

#[test]
fn only_sync_warp_orders_memory_within_a_warp() {
    faults::<WarpRace>(
        HERE,
        LaunchShape::linear(1, 32, 128),
        32,
        |fault| matches!(fault.kind, FaultKind::Race { other_thread, .. } if other_thread[0] == fault.thread[0] ^ 1),
    );
    let [out, ..] = passes::<WarpOrdered>(LaunchShape::linear(2, 64, 256), 128);
    assert_eq!(out[5], 4 + 3);
}

#[test]
fn a_pass_of_a_warp_counts_its_operations() {
    let (_, stats) = launch::<WarpOrdered>(0, LaunchShape::linear(1, 64, 256), 64).unwrap();
    assert_eq!(stats.warp_operations, 2 * 4 * 3);
    assert_eq!(stats.blocks, 1);
}
