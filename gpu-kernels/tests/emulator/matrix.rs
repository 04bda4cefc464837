//! Matrix products of a warp against a model written from their descriptions, and their
//! faults.

use crate::{download, faults, kernel, machine, upload};
use gpu_kernels::emulator::{FaultKind, Whereabouts};
use gpu_kernels::simt::matrix::*;
use gpu_kernels::simt::thread::*;
use gpu_kernels::simt::{Global, LaunchShape};
use half::{bf16, f16};
use rand::{Rng, SeedableRng, rngs::SmallRng};

const HERE: &str = include_str!("matrix.rs");

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Tf32,
    Bf16,
    F16,
}

#[derive(Clone, Copy)]
struct Call {
    kind: Kind,
    /// `[32][4]`, `[32][2]`, `[32][4]`, `[32][4]`.
    a: Global<u32>,
    b: Global<u32>,
    c: Global<f32>,
    d: Global<f32>,
}

kernel!(Product(call: Call) {
    // The second warp multiplies, too, with its own factors.
    let me = thread_idx_x() as usize;
    let a = [0, 1, 2, 3].map(|i| call.a.load(4 * me + i));
    let b = [0, 1].map(|i| call.b.load(2 * me + i));
    let c = [0, 1, 2, 3].map(|i| call.c.load(4 * me + i));
    let d = match call.kind {
        Kind::Tf32 => multiply_tf32(a, b, c),
        Kind::Bf16 => multiply_bf16(a, b, c),
        Kind::F16 => multiply_f16(a, b, c),
    };
    // One behind the other: the first result must not be taken from the second product.
    let e = match call.kind {
        Kind::Tf32 => multiply_tf32(a, b, d),
        Kind::Bf16 => multiply_bf16(a, b, d),
        Kind::F16 => multiply_f16(a, b, d),
    };
    for i in 0..4 {
        call.d.store(8 * me + i, d[i]);
        call.d.store(8 * me + 4 + i, e[i]);
    }
});

/// A word of one f32, cut, or of two narrow numbers; and what it stands for.
fn word(kind: Kind, random: &mut SmallRng) -> (u32, Vec<f64>) {
    let mut number = || (random.random_range(-64..=64) as f32) / 16.0;
    match kind {
        Kind::Tf32 => {
            let value = number();
            // Whatever the low bits are, they are not looked at.
            (
                value.to_bits() | random.random_range(0..0x2000),
                vec![value.into()],
            )
        }
        Kind::Bf16 => {
            let (low, high) = (bf16::from_f32(number()), bf16::from_f32(number()));
            let bits = u32::from(low.to_bits()) | u32::from(high.to_bits()) << 16;
            (bits, vec![low.to_f64(), high.to_f64()])
        }
        Kind::F16 => {
            let (low, high) = (f16::from_f32(number()), f16::from_f32(number()));
            let bits = u32::from(low.to_bits()) | u32::from(high.to_bits()) << 16;
            (bits, vec![low.to_f64(), high.to_f64()])
        }
    }
}

#[test]
fn products_of_all_kinds() {
    let mut random = SmallRng::seed_from_u64(4);
    for case in 0..60u64 {
        let kind = [Kind::Tf32, Kind::Bf16, Kind::F16][case as usize % 3];
        let per_word = if kind == Kind::Tf32 { 1 } else { 2 };
        let half = 4 * per_word;
        let machine = machine(case);
        // Two warps: A is 16 rows of 8 words, B is 8 columns of 8 words, C is 16 x 8.
        let mut words =
            |count: usize| -> Vec<_> { (0..count).map(|_| word(kind, &mut random)).collect() };
        let (a, b) = (words(2 * 16 * 8), words(2 * 8 * 8));
        let c: Vec<f32> = (0..2 * 16 * 8).map(|i| i as f32 / 8.0).collect();
        let (mut own_a, mut own_b, mut own_c) = (vec![], vec![], vec![]);
        for thread in 0..64 {
            let (warp, g, t) = (thread / 32, thread % 32 / 4, thread % 4);
            for (row, word) in [(g, t), (g + 8, t), (g, t + 4), (g + 8, t + 4)] {
                own_a.push(a[(warp * 16 + row) * 8 + word].0);
            }
            own_b.extend([t, t + 4].map(|word| b[(warp * 8 + g) * 8 + word].0));
            for row in [g, g + 8] {
                own_c.extend([2 * t, 2 * t + 1].map(|column| c[(warp * 16 + row) * 8 + column]));
            }
        }
        let call = Call {
            kind,
            a: upload(&machine, &own_a),
            b: upload(&machine, &own_b),
            c: upload(&machine, &own_c),
            d: upload(&machine, &[f32::NAN; 64 * 8]),
        };
        machine
            .launch::<Product>(LaunchShape::linear(1, 64, 0), call)
            .unwrap_or_else(|fault| panic!("{fault}"));
        let d = download(&machine, call.d, 64 * 8);
        for thread in 0..64 {
            let (warp, g, t) = (thread / 32, thread % 32 / 4, thread % 4);
            for part in 0..4 {
                let (row, column) = (g + part / 2 * 8, 2 * t + part % 2);
                let depth = |all: &[(u32, Vec<f64>)], line: usize| -> Vec<f64> {
                    all[line * 8..][..8]
                        .iter()
                        .flat_map(|word| word.1.clone())
                        .collect()
                };
                let (x, w) = (depth(&a, warp * 16 + row), depth(&b, warp * 8 + column));
                assert_eq!(x.len(), 2 * half);
                // Multiples of 1/256 below 2^16: exact in f32.
                let product: f64 = x.iter().zip(&w).map(|(x, w)| x * w).sum();
                let once = f64::from(c[(warp * 16 + row) * 8 + column]) + product;
                let at = 8 * thread + part;
                assert_eq!(f64::from(d[at]), once, "{kind:?}, thread {thread}, {part}");
                assert_eq!(f64::from(d[at + 4]), once + product, "{kind:?}, {thread}");
            }
        }
    }
}

#[derive(Clone, Copy)]
struct One {
    a: u32,
    c: f32,
    d: Global<f32>,
}

kernel!(Single(one: One) {
    // Element (0, 0) alone is not zero: a * 1 + c.
    let first = lane_id() == 0;
    let a = [if first { one.a } else { 0 }, 0, 0, 0];
    let b = [if first { 1f32.to_bits() } else { 0 }, 0];
    let d = multiply_tf32(a, b, [one.c; 4]);
    if first {
        one.d.store(0, d[0]);
    }
});

#[test]
fn sums_are_truncated_and_infinities_and_nan_come_through() {
    let sum = |a: f32, c: f32| {
        let machine = machine(0);
        let d = upload(&machine, &[0f32]);
        let one = One {
            a: a.to_bits(),
            c,
            d,
        };
        machine
            .launch::<Single>(LaunchShape::linear(1, 32, 0), one)
            .unwrap();
        download(&machine, d, 1)[0]
    };
    let ulp = f32::EPSILON;
    assert_eq!(sum(0.75 * ulp, 1.0), 1.0);
    assert_eq!(sum(-0.75 * ulp, -1.0), -1.0);
    assert_eq!(sum(1.0 * ulp, 1.0), 1.0 + ulp);
    assert_eq!(sum(f32::INFINITY, 1.0), f32::INFINITY);
    assert!(sum(f32::NAN, 1.0).is_nan());
    assert!(sum(f32::INFINITY, f32::NEG_INFINITY).is_nan());
}

kernel!(PartOfAWarp([out, ..]: [Global<u32>; 4]) {
    if lane_id() < 24 {
        let d = multiply_bf16([0; 4], [0; 2], [0.0; 4]); // FAULT: PartOfAWarp
        out.store(lane_id() as usize, d[0].to_bits());
    }
});

kernel!(OtherKind(_: [Global<u32>; 4]) {
    if lane_id() < 31 {
        multiply_bf16([0; 4], [0; 2], [0.0; 4]); // FAULT: OtherKind
    } else {
        multiply_f16([0; 4], [0; 2], [0.0; 4]); // FAULT: OtherKind
    }
});

#[test]
fn the_whole_warp_must_multiply() {
    let warp = LaunchShape::linear(1, 32, 0);
    faults::<PartOfAWarp>(HERE, warp, 32, |fault| {
        matches!(
            fault.kind,
            FaultKind::MaskMismatch {
                lane: 24,
                instead: Whereabouts::Ended,
                ..
            }
        )
    });
    faults::<OtherKind>(HERE, warp, 0, |fault| {
        matches!(
            fault.kind,
            FaultKind::MaskMismatch {
                instead: Whereabouts::Warp { .. },
                ..
            }
        )
    });
}
