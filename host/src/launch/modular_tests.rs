//! The linear scan's tile and look-back over affine maps modulo 2^32: exactly associative
//! and not commutative, so that no rounding hides a wrong order. On the emulator under
//! several schedules, and on a GPU where there is one.

use super::Launcher;
use super::linear_scan::{orientation, scratch, sizes};
use crate::device::Backend;
use crate::ops::{Layout, LinearScan};
use crate::{Buffer, Device};
use gpu_kernels::linear_scan::policy::{self, Work};
use gpu_kernels::linear_scan::{
    LinearScanParams, LinearScanU32Columns, LinearScanU32ColumnsFull, LinearScanU32Rows,
    LinearScanU32RowsFull, MODULE,
};
use gpu_kernels::simt::Global;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

/// `[B, L, D]`, layout, direction.
#[derive(Clone, Copy, Debug)]
struct Case {
    shape: [usize; 3],
    layout: Layout,
    reverse: bool,
}

impl Case {
    fn at(&self, b: usize, t: usize, d: usize) -> usize {
        let [_, length, channels] = self.shape;
        match self.layout {
            Layout::Bld => (b * length + t) * channels + d,
            Layout::Bdl => (b * channels + d) * length + t,
        }
    }
}

struct Numbers {
    a: Vec<i32>,
    b: Vec<i32>,
    h0: Vec<i32>,
}

fn numbers(case: &Case, seed: u64) -> Numbers {
    let [batch, length, channels] = case.shape;
    let mut random = SmallRng::seed_from_u64(seed);
    let mut many = |count: usize| (0..count).map(|_| random.random()).collect();
    let elements = batch * length * channels;
    Numbers {
        a: many(elements),
        b: many(elements),
        h0: many(batch * channels),
    }
}

/// States and final states by the definition.
fn expected(case: &Case, numbers: &Numbers) -> (Vec<i32>, Vec<i32>) {
    let [batch, length, channels] = case.shape;
    let (mut h, mut last) = (numbers.b.clone(), numbers.h0.clone());
    for b in 0..batch {
        for d in 0..channels {
            let state = &mut last[b * channels + d];
            for step in 0..length {
                let t = if case.reverse {
                    length - 1 - step
                } else {
                    step
                };
                let at = case.at(b, t, d);
                *state = (numbers.a[at].wrapping_mul(*state)).wrapping_add(numbers.b[at]);
                h[at] = *state;
            }
        }
    }
    (h, last)
}

fn words(buffer: &Buffer<i32>) -> Global<u32> {
    buffer.global().cast()
}

fn scan(
    device: &Device,
    launcher: &impl Launcher,
    case: &Case,
    numbers: &Numbers,
) -> crate::Result<(Vec<i32>, Vec<i32>)> {
    let [batch, length, channels] = case.shape;
    let op = LinearScan::new(batch, length, channels)
        .layout(case.layout)
        .reverse(case.reverse);
    let work = Work {
        sequences: batch as u64,
        length: length as u64,
        channels: channels as u64,
        size: 4,
        orientation: orientation(case.layout),
        packed: false,
        backward: false,
    };
    let launch = policy::launch(&work, launcher.multiprocessors()).expect("a small launch");
    let poison = vec![0x5A5A_5A5A; numbers.a.len()];
    let (a, b) = (device.upload(&numbers.a)?, device.upload(&numbers.b)?);
    let (h, h0) = (device.upload(&poison)?, device.upload(&numbers.h0)?);
    let last = device.upload(&vec![0x5A5A_5A5A; numbers.h0.len()])?;
    let params = LinearScanParams::<u32> {
        a: words(&a),
        b: words(&b),
        h: words(&h),
        h0: words(&h0).cast(),
        final_state: words(&last).cast(),
        scratch: scratch(&op, launcher, MODULE, &launch)?,
        ..sizes(&op, batch, &launch).expect("few sequences")
    };
    let (shape, full) = (launch.shape, launch.tiling.is_full(4, work.orientation));
    match (case.layout, full) {
        (Layout::Bld, true) => launcher.launch::<LinearScanU32RowsFull>(shape, params),
        (Layout::Bld, false) => launcher.launch::<LinearScanU32Rows>(shape, params),
        (Layout::Bdl, true) => launcher.launch::<LinearScanU32ColumnsFull>(shape, params),
        (Layout::Bdl, false) => launcher.launch::<LinearScanU32Columns>(shape, params),
    }?;
    Ok((h.to_vec()?, last.to_vec()?))
}

fn check(device: &Device, shapes: &[[usize; 3]]) {
    for (nth, &shape) in shapes.iter().enumerate() {
        for layout in [Layout::Bld, Layout::Bdl] {
            for reverse in [false, true] {
                let case = Case {
                    shape,
                    layout,
                    reverse,
                };
                let numbers = numbers(&case, nth as u64);
                let found = match &device.backend {
                    Backend::Cpu => unreachable!("it runs no kernels"),
                    Backend::Cuda(cuda) => scan(device, cuda.as_ref(), &case, &numbers),
                    Backend::Emulated(emulated) => scan(device, emulated.as_ref(), &case, &numbers),
                };
                let found = found.unwrap_or_else(|error| panic!("{device}: {case:?}: {error}"));
                assert!(
                    found == expected(&case, &numbers),
                    "{device}: {case:?} differs"
                );
            }
        }
    }
}

#[test]
fn modular_maps_match_exactly_in_the_emulator() {
    let shapes = [
        [1, 1, 1],
        [2, 8, 9],
        [1, 255, 33],
        [1, 256, 3],
        [2, 257, 5],
        [1, 1025, 8],
        [1, 2050, 34],
    ];
    for seed in 0..3 {
        let options = crate::emulated::Options {
            seed,
            ..Default::default()
        };
        check(&Device::emulated_with(options), &shapes);
    }
}

#[test]
fn modular_maps_match_exactly_on_a_gpu() {
    let Some(device) = crate::cuda::first_gpu("modular_maps_match_exactly_on_a_gpu") else {
        return;
    };
    let shapes = [
        [1, 1, 1],
        [3, 17, 1000],
        [1, 255, 33],
        [2, 257, 64],
        [32, 1000, 45],
        [1, 65_537, 40],
        [3, 10_001, 129],
        [1, 300_001, 7],
    ];
    for _ in 0..3 {
        check(&device, &shapes);
    }
}
