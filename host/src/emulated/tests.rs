//! The emulated device through the library's own interface.

use super::{EmulatedDevice, Options, options};
use crate::launch::Launcher;
use crate::ops::{Layout, LinearScan, LinearScanArgs, SequenceOffsets};
use crate::{Device, DeviceKind, Error};
use gpu_kernels::simt::{Entry, EntryInfo, Global, LaunchBounds, LaunchShape};
use rand::{Rng, SeedableRng, rngs::SmallRng};

fn device(seed: u64) -> Device {
    Device::emulated_with(Options {
        seed,
        poison: true,
        races: true,
    })
}

#[test]
fn buffers_hold_what_was_written() {
    let device = device(1);
    assert_eq!(device.kind(), DeviceKind::Emulated);
    assert_eq!(device.to_string(), "emulated (seed 1)");
    assert_eq!(device, device.clone());
    assert_ne!(device, Device::emulated_with(device_options(&device)));
    let mut buffer = device.upload(&[1i64, -2, 3]).unwrap();
    assert_eq!(buffer.to_vec().unwrap(), [1, -2, 3]);
    buffer.write(&[4, 5, 6]).unwrap();
    assert_eq!(buffer.to_vec().unwrap(), [4, 5, 6]);
    assert_eq!(device.alloc::<f32>(3).unwrap().to_vec().unwrap(), [0.0; 3]);
    assert!(device.alloc::<u8>(0).unwrap().is_empty());
    assert!(matches!(
        device.alloc::<f32>(usize::MAX),
        Err(Error::OutOfMemory { .. })
    ));
    device.synchronize().unwrap();
}

fn device_options(device: &Device) -> Options {
    device.as_emulated().unwrap().options()
}

#[test]
fn specs_and_variables() {
    assert_eq!(
        Device::from_spec("emulated").unwrap().kind(),
        DeviceKind::Emulated
    );
    assert!(
        Device::from_spec("emulated:1")
            .unwrap_err()
            .to_string()
            .contains("emulated")
    );
    let parse = |pairs: &'static [(&str, &str)]| {
        options::parse(|name| {
            pairs
                .iter()
                .find(|(key, _)| *key == name)
                .map(|(_, value)| (*value).to_owned())
        })
    };
    assert_eq!(parse(&[]), Ok(Options::default()));
    assert_eq!(
        parse(&[
            ("FERROSEQ_EMU_SEED", "77"),
            ("FERROSEQ_EMU_POISON", "1"),
            ("FERROSEQ_EMU_RACES", "0")
        ]),
        Ok(Options {
            seed: 77,
            poison: true,
            races: false
        })
    );
    for (pairs, text) in [
        (
            &[("FERROSEQ_EMU_SEED", "-1")],
            "emulator: `FERROSEQ_EMU_SEED` is \"-1\", expected a number",
        ),
        (
            &[("FERROSEQ_EMU_POISON", "yes")],
            "`FERROSEQ_EMU_POISON` is \"yes\", expected 0 or 1",
        ),
    ] {
        let error = options::error(parse(pairs).unwrap_err()).to_string();
        assert!(error.contains(text), "{error}");
    }
}

/// The definition, one f32 fused multiply-add a step.
fn oracle(
    op: &LinearScan,
    a: &[f32],
    b: &[f32],
    h0: &[f32],
    offsets: &[i64],
) -> (Vec<f32>, Vec<f32>) {
    let mut h = vec![0.0; b.len()];
    let mut last = h0.to_vec();
    for (sequence, last) in last.chunks_mut(op.channels).enumerate() {
        let (batch, first, end) = match offsets {
            [] => (sequence, 0, op.length),
            _ => (
                0,
                offsets[sequence] as usize,
                offsets[sequence + 1] as usize,
            ),
        };
        for (channel, state) in last.iter_mut().enumerate() {
            let mut rows: Vec<usize> = (first..end).collect();
            if op.reverse {
                rows.reverse();
            }
            for row in rows {
                let at = match op.layout {
                    Layout::Bld => (batch * op.length + row) * op.channels + channel,
                    Layout::Bdl => (batch * op.channels + channel) * op.length + row,
                };
                *state = a[at].mul_add(*state, b[at]);
                h[at] = *state;
            }
        }
    }
    (h, last)
}

#[test]
fn linear_scan_runs_under_many_seeds() {
    let mut random = SmallRng::seed_from_u64(1);
    for seed in 0..64 {
        let device = device(seed);
        let packed = seed % 3 == 0;
        let op = LinearScan {
            batch: if packed { 1 } else { random.random_range(1..4) },
            length: random.random_range(0..70),
            channels: random.random_range(1..150),
            layout: if random.random() {
                Layout::Bld
            } else {
                Layout::Bdl
            },
            reverse: random.random(),
        };
        let offsets: Vec<i64> = if packed {
            let length = op.length as i64;
            vec![0, length / 3, length / 3, length]
        } else {
            Vec::new()
        };
        let states = op.channels * if packed { 3 } else { op.batch };
        let mut draw =
            |len: usize| -> Vec<f32> { (0..len).map(|_| random.random_range(-1.0..1.0)).collect() };
        let elements = op.elements().unwrap();
        let (a, b, h0) = (draw(elements), draw(elements), draw(states));
        let mut h = device.alloc::<f32>(elements).unwrap();
        let mut last = device.alloc::<f32>(states).unwrap();
        let checked = packed.then(|| SequenceOffsets::new(&device, &offsets).unwrap());
        op.run_with(
            &device,
            LinearScanArgs {
                a: &device.upload(&a).unwrap(),
                b: Some(&device.upload(&b).unwrap()),
                h: &mut h,
                h0: Some(&device.upload(&h0).unwrap()),
                final_state: Some(&mut last),
                offsets: checked.as_ref(),
            },
        )
        .unwrap();
        let (expected, expected_last) = oracle(&op, &a, &b, &h0, &offsets);
        // The kernel splits L as it likes: compare within rounding, not bit for bit.
        let close = |found: Vec<f32>, expected: Vec<f32>| {
            for (found, expected) in found.iter().zip(&expected) {
                assert!(
                    (found - expected).abs() <= 1e-4 * expected.abs().max(1.0),
                    "{op:?}"
                );
            }
        };
        close(h.to_vec().unwrap(), expected);
        close(last.to_vec().unwrap(), expected_last);
    }
}

#[derive(Clone, Copy)]
struct Marks {
    scratch: Global<u32>,
    at: usize,
    leave: u32,
}

struct UsesScratch;

impl Entry for UsesScratch {
    type Params = Marks;
    const INFO: EntryInfo = EntryInfo {
        name: "uses_scratch",
        module: "test",
        param_size: size_of::<Marks>(),
        bounds: LaunchBounds {
            max_threads: 32,
            min_blocks: 0,
        },
    };

    #[allow(unsafe_code)]
    unsafe fn run(params: Marks) {
        // SAFETY: the emulator checks the access.
        unsafe { params.scratch.store(params.at, params.leave) }
    }
}

#[test]
fn scratch_is_zero_at_first_and_then_kept_for_its_purpose() {
    let device = EmulatedDevice::new(Options::default());
    let shape = LaunchShape::linear(1, 1, 0);
    let run = |purpose, bytes, at: usize| {
        let scratch = device.scratch(purpose, bytes).unwrap();
        let params = Marks {
            scratch,
            at,
            leave: 7,
        };
        device
            .launch::<UsesScratch>(shape, params)
            .map(|()| scratch)
    };
    let word = |scratch: Global<u32>| {
        let mut bytes = [0; 12];
        device.machine.read(scratch.address(), &mut bytes).unwrap();
        bytes[4]
    };
    let first = run("a", 12, 0).unwrap();
    assert_eq!(word(first), 0);
    let again = run("a", 8, 1).unwrap();
    assert_eq!(again.address(), first.address());
    assert_eq!(word(first), 7);
    let other = run("b", 12, 2).unwrap();
    assert_eq!(word(other), 0);
    let larger = run("a", 16, 3).unwrap();
    assert_eq!(word(larger), 0);
    let error = run("b", 12, 3).unwrap_err().to_string();
    assert!(
        error.contains("byte 12 of the array") && error.contains("has 12 bytes"),
        "{error}"
    );
}
