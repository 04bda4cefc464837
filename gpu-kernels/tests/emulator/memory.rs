//! Bounds, alignment, lifetime and poison.

use crate::{download, faults, kernel, launch, machine, passes, upload};
use gpu_kernels::emulator::{Access, FaultKind, MemoryError, Place};
use gpu_kernels::simt::thread::*;
use gpu_kernels::simt::{Global, LaunchShape, Shared};

const HERE: &str = include_str!("memory.rs");

kernel!(OffByOne([out, ..]: [Global<u32>; 4]) {
    let i = block_idx_x() * block_dim_x() + thread_idx_x();
    out.store(i as usize + 1, i); // FAULT: OffByOne
});

kernel!(InBounds([out, ..]: [Global<u32>; 4]) {
    let i = block_idx_x() * block_dim_x() + thread_idx_x();
    out.store(i as usize, i);
});

#[test]
fn off_by_one() {
    let shape = LaunchShape::linear(3, 32, 0);
    faults::<OffByOne>(HERE, shape, 96, |fault| {
        (fault.block, fault.thread) == ([2, 0, 0], [31, 0, 0])
            && matches!(
                fault.kind,
                FaultKind::OutOfBounds {
                    access: Access::Store,
                    size: 4,
                    length: 384,
                    ..
                }
            )
            && fault.to_string().contains("byte 384 of the array")
    });
    passes::<InBounds>(shape, 96);
}

kernel!(BelowZero([a, ..]: [Global<u32>; 4]) {
    let _ = a.load(0usize.wrapping_sub(1)); // FAULT: BelowZero
});

kernel!(NullView(_: [Global<u32>; 4]) {
    let _ = Global::<u32>::null().load(2); // FAULT: NullView
});

kernel!(SharedOverrun(_: [Global<u32>; 4]) {
    Shared::<u32>::dynamic(0).store(thread_idx_x(), 1); // FAULT: SharedOverrun
});

#[test]
fn outside_everything() {
    let one = LaunchShape::linear(1, 1, 0);
    let outside =
        |fault: &gpu_kernels::emulator::Fault| matches!(fault.kind, FaultKind::OutOfBounds { .. });
    faults::<BelowZero>(HERE, one, 4, |fault| {
        outside(fault) && fault.to_string().contains("byte -4")
    });
    faults::<NullView>(HERE, one, 4, |fault| {
        outside(fault) && fault.to_string().contains("address 0x8")
    });
    faults::<SharedOverrun>(HERE, LaunchShape::linear(1, 33, 128), 0, |fault| {
        outside(fault) && fault.thread == [32, 0, 0]
    });
}

kernel!(MisalignedVector([a, b, ..]: [Global<u32>; 4]) {
    b.store4(4 * thread_idx_x() as usize, a.load4(4 * thread_idx_x() as usize + 1)); // FAULT: MisalignedVector
});

kernel!(AlignedVector([a, b, ..]: [Global<u32>; 4]) {
    let (i, shared) = (thread_idx_x(), Shared::<u32>::dynamic(0));
    shared.store4(4 * i, a.load4_once(4 * i as usize).map(|word| word + i));
    b.store4_once(4 * i as usize, shared.load4(4 * i));
});

kernel!(MisalignedShared(_: [Global<u32>; 4]) {
    // The start of shared memory is aligned to 16 bytes: 8 more is not.
    Shared::<u32>::dynamic(8).store4(0, [1; 4]); // FAULT: MisalignedShared
});

#[test]
fn misaligned_vectors() {
    faults::<MisalignedVector>(HERE, LaunchShape::linear(1, 2, 0), 16, |fault| {
        matches!(
            fault.kind,
            FaultKind::Misaligned {
                access: Access::Load,
                alignment: 16,
                ..
            }
        )
    });
    faults::<MisalignedShared>(HERE, LaunchShape::linear(1, 1, 64), 0, |fault| {
        fault.kind
            == FaultKind::Misaligned {
                access: Access::Store,
                place: Place::Shared { byte: 8 },
                alignment: 16,
            }
    });
    let [_, b, ..] = passes::<AlignedVector>(LaunchShape::linear(1, 32, 512), 128);
    assert!(
        b.iter()
            .enumerate()
            .all(|(i, word)| *word as usize == i / 4)
    );
}

kernel!(Reads([a, b, ..]: [Global<u32>; 4]) {
    b.store(0, a.load(3)); // FAULT: Reads
});

#[test]
fn use_after_free() {
    for seed in crate::SEEDS {
        let machine = machine(seed);
        let [a, b] = [(); 2].map(|()| upload(&machine, &[7u32; 4]));
        let shape = LaunchShape::linear(1, 1, 0);
        machine.launch::<Reads>(shape, [a, b, a, b]).unwrap();
        assert_eq!(download(&machine, b, 4), [7; 4]);
        machine.free(crate::address(a)).unwrap();
        let fault = machine.launch::<Reads>(shape, [a, b, a, b]).unwrap_err();
        assert!(
            matches!(
                fault.kind,
                FaultKind::UseAfterFree {
                    access: Access::Load,
                    ..
                }
            ),
            "{fault}"
        );
        crate::assert_marked(HERE, "Reads", &fault);
        assert!(matches!(
            machine.free(crate::address(a)),
            Err(MemoryError::NotAllocated { .. })
        ));
    }
}

kernel!(UnwrittenShared([out, ..]: [Global<u32>; 4]) {
    let (me, shared) = (thread_idx_x(), Shared::<u32>::dynamic(0));
    if me != 5 {
        shared.store(me, me);
    }
    sync_threads();
    out.store((block_idx_x() * 32 + me) as usize, shared.load(31 - me)); // FAULT: UnwrittenShared
});

#[test]
fn shared_memory_starts_unwritten_in_every_block() {
    faults::<UnwrittenShared>(HERE, LaunchShape::linear(3, 32, 128), 96, |fault| {
        fault.thread == [26, 0, 0]
            && fault.kind
                == FaultKind::Unwritten {
                    place: Place::Shared { byte: 20 },
                }
    });
}

kernel!(Copies([a, b, ..]: [Global<u32>; 4]) {
    let i = thread_idx_x() as usize;
    b.store(i, a.load(i)); // FAULT: Copies
});

#[test]
fn output_memory_that_nobody_wrote() {
    for seed in crate::SEEDS {
        let machine = machine(seed);
        let out = |unwritten| Global::from_address(machine.alloc_zeroed(256, unwritten).unwrap());
        let (a, b) = (out(true), out(true));
        let half = LaunchShape::linear(1, 32, 0);
        let fault = machine.launch::<Copies>(half, [a, b, a, b]).unwrap_err();
        assert!(matches!(fault.kind, FaultKind::Unwritten { .. }), "{fault}");
        crate::assert_marked(HERE, "Copies", &fault);
        // Untouched memory reads as zeros to the host; memory written in part does not.
        assert_eq!(download(&machine, b, 64), [0u32; 64]);
        machine
            .launch::<Copies>(half, [out(false), b, a, b])
            .unwrap();
        assert_eq!(
            machine.read(crate::address(b), &mut [0; 256]),
            Err(MemoryError::Unwritten { byte: 128 })
        );
        machine
            .launch::<Copies>(LaunchShape::linear(1, 64, 0), [out(false), b, a, b])
            .unwrap();
        assert_eq!(download(&machine, b, 64), [0u32; 64]);
    }
}

kernel!(SmallTypes([a, b, ..]: [Global<u32>; 4]) {
    let i = thread_idx_x();
    let bytes = Shared::<u8>::dynamic(0);
    bytes.store(i, i as u8);
    sync_threads();
    // Neighbouring bytes and halves of one word belong to different threads.
    let halves = Shared::<half::f16>::dynamic(64);
    halves.store(i, half::f16::from_bits(u16::from(bytes.load(63 - i))));
    a.cast::<u8>().store(i as usize, bytes.load(i));
    sync_threads();
    let wide = Shared::<u64>::dynamic(64);
    if i < 16 {
        b.cast::<u64>().store(i as usize, wide.load(i));
    }
});

#[test]
fn small_types_do_not_race_with_their_neighbours() {
    let [a, b, ..] = passes::<SmallTypes>(LaunchShape::linear(1, 64, 192), 32);
    assert_eq!(a[1], u32::from_ne_bytes([4, 5, 6, 7]));
    assert_eq!(b[0], 63 | 62 << 16);
}

#[test]
fn a_wild_address_does_not_end_the_process() {
    let wild = Global::from_address(0xDEAD_BEE0);
    let fault = machine(1)
        .launch::<Reads>(LaunchShape::linear(1, 1, 0), [wild; 4])
        .unwrap_err();
    assert!(
        fault
            .to_string()
            .contains("address 0xdeadbeec, where there is no array"),
        "{fault}"
    );
    assert!(launch::<InBounds>(0, LaunchShape::linear(1, 1, 0), 1).is_ok());
}
