//! Wrong arguments: the right error, naming the argument, what was found and what was
//! expected, before anything is touched.

use ferroseq::ops::{Layout, LinearScan, LinearScanArgs, SequenceOffsets};
use ferroseq::{Device, Error};
use ferroseq_tests::devices::{devices, skipped};

const OPERATION: &str = "linear scan";

/// What each buffer holds before the run, and still must hold after an error.
const UNTOUCHED: f32 = 42.0;

/// A run with buffers of any length, each on any device.
#[derive(Clone)]
struct Attempt<'a> {
    scan: LinearScan,
    device: &'a Device,
    a: (&'a Device, usize),
    b: (&'a Device, usize),
    h: (&'a Device, usize),
    h0: (&'a Device, usize),
    final_state: (&'a Device, usize),
    offsets: Option<(&'a Device, Vec<i64>)>,
}

impl<'a> Attempt<'a> {
    /// A right one: [B, L, D] = [2, 3, 4].
    fn right(device: &'a Device) -> Self {
        Self {
            scan: LinearScan::new(2, 3, 4),
            device,
            a: (device, 24),
            b: (device, 24),
            h: (device, 24),
            h0: (device, 8),
            final_state: (device, 8),
            offsets: None,
        }
    }

    /// A right one with packed sequences of 3 and 2 steps: [B, L, D] = [1, 5, 4].
    fn packed(device: &'a Device) -> Self {
        Self {
            scan: LinearScan::new(1, 5, 4),
            a: (device, 20),
            b: (device, 20),
            h: (device, 20),
            offsets: Some((device, vec![0, 3, 5])),
            ..Self::right(device)
        }
    }

    fn run(&self) -> Result<(), Error> {
        let buffer = |(device, len): (&Device, usize)| device.upload(&vec![UNTOUCHED; len]);
        let (a, b, h0) = (buffer(self.a)?, buffer(self.b)?, buffer(self.h0)?);
        let (mut h, mut final_state) = (buffer(self.h)?, buffer(self.final_state)?);
        let offsets = self
            .offsets
            .as_ref()
            .map(|(device, offsets)| SequenceOffsets::new(device, offsets))
            .transpose()?;
        let result = self.scan.run_with(
            self.device,
            LinearScanArgs {
                a: &a,
                b: Some(&b),
                h: &mut h,
                h0: Some(&h0),
                final_state: Some(&mut final_state),
                offsets: offsets.as_ref(),
            },
        );
        if result.is_err() {
            for output in [h.to_vec()?, final_state.to_vec()?] {
                assert!(output.iter().all(|&value| value == UNTOUCHED), "{output:?}");
            }
        }
        result
    }

    /// Runs it and returns the error with its message.
    fn error(&self) -> (Error, String) {
        let error = self.run().expect_err("a wrong argument was accepted");
        let message = error.to_string();
        (error, message)
    }
}

fn on_every_device(check: impl Fn(&Device)) {
    devices().iter().for_each(|device| check(&device.device));
}

#[test]
fn right_arguments_are_accepted() {
    on_every_device(|device| {
        Attempt::right(device).run().unwrap();
        Attempt::packed(device).run().unwrap();
    });
}

type Change = fn(&mut Attempt<'_>, usize);

const BUFFERS: [(&str, Change); 5] = [
    ("a", |attempt, len| attempt.a.1 = len),
    ("b", |attempt, len| attempt.b.1 = len),
    ("h", |attempt, len| attempt.h.1 = len),
    ("h0", |attempt, len| attempt.h0.1 = len),
    ("final_state", |attempt, len| attempt.final_state.1 = len),
];

#[test]
fn lengths() {
    on_every_device(|device| {
        for (attempt, sequences) in [
            (Attempt::right(device), "B"),
            (Attempt::packed(device), "S"),
        ] {
            for (name, set) in BUFFERS {
                let (right, shape) = match (name, sequences) {
                    ("h0" | "final_state", _) => (8, format!("[{sequences}, D] = [2, 4]")),
                    (_, "B") => (24, "[B, L, D] = [2, 3, 4]".to_owned()),
                    _ => (20, "[B, L, D] = [1, 5, 4]".to_owned()),
                };
                for wrong in [0, right - 1, right + 1, 2 * right] {
                    let mut attempt = attempt.clone();
                    set(&mut attempt, wrong);
                    let (error, message) = attempt.error();
                    assert!(
                        matches!(error, Error::Length { operation: OPERATION, argument, found, expected, .. }
                            if argument == name && found == wrong && expected == right),
                        "{error:?}"
                    );
                    for part in [
                        &format!("`{name}`"),
                        &wrong.to_string(),
                        &right.to_string(),
                        &shape,
                    ] {
                        assert!(message.contains(part), "{message}: no {part}");
                    }
                }
            }
        }
    });
}

#[test]
fn the_shape_is_named_in_the_order_of_the_layout() {
    on_every_device(|device| {
        let mut attempt = Attempt::right(device);
        attempt.scan = attempt.scan.layout(Layout::Bdl);
        attempt.a.1 = 23;
        let (_, message) = attempt.error();
        assert!(message.contains("[B, D, L] = [2, 4, 3]"), "{message}");
    });
}

type Move = fn(&mut Attempt<'_>, &'static Device);

#[test]
fn other_devices() {
    if devices().len() < 2 {
        skipped("buffers on another device (there is only one device)");
    }
    for device in devices().iter().map(|d| &d.device) {
        for other in devices().iter().map(|d| &d.device).filter(|d| *d != device) {
            let moves: [(&str, Move); 6] = [
                ("a", |attempt, other| attempt.a.0 = other),
                ("b", |attempt, other| attempt.b.0 = other),
                ("h", |attempt, other| attempt.h.0 = other),
                ("h0", |attempt, other| attempt.h0.0 = other),
                ("final_state", |attempt, other| {
                    attempt.final_state.0 = other
                }),
                ("cu_seqlens", |attempt, other| {
                    if let Some(offsets) = &mut attempt.offsets {
                        offsets.0 = other;
                    }
                }),
            ];
            for (name, change) in moves {
                let mut attempt = Attempt::packed(device);
                change(&mut attempt, other);
                let (error, message) = attempt.error();
                assert!(
                    matches!(&error, Error::WrongDevice { operation: OPERATION, argument, found, expected }
                        if *argument == name && *found == other.to_string() && *expected == device.to_string()),
                    "{error:?}"
                );
                assert!(message.contains(&format!("`{name}`")), "{message}");
            }
        }
    }
}

/// The error is [`Error::Argument`] about `name` and says these things.
fn assert_argument((error, message): (Error, String), name: &str, parts: &[&str]) {
    assert!(
        matches!(&error, Error::Argument { argument, .. } if *argument == name),
        "{error:?}"
    );
    for part in parts {
        assert!(message.contains(part), "{message}: no {part}");
    }
}

#[test]
fn packed_sequences_have_batch_1() {
    on_every_device(|device| {
        let mut attempt = Attempt::packed(device);
        attempt.scan.batch = 4;
        (attempt.scan.length, attempt.scan.channels) = (5, 1);
        assert_argument(attempt.error(), "batch", &["`batch` is 4", "expected 1"]);
    });
}

#[test]
fn offsets() {
    let wrong: [(&[i64], &[&str]); 7] = [
        (&[], &["empty"]),
        (&[1, 3, 5], &["1 at position 0", "expected 0"]),
        (&[-1, 3, 5], &["-1 at position 0"]),
        (&[0, 4, 3, 5], &["3 at position 2", "at least 4"]),
        (&[0, -2, 5], &["-2 at position 1", "at least 0"]),
        (&[0, 3, 4], &["4 at the end", "expected 5"]),
        (&[0, 3, 6], &["6 at the end", "expected 5"]),
    ];
    on_every_device(|device| {
        for (offsets, parts) in wrong {
            let mut attempt = Attempt::packed(device);
            attempt.offsets = Some((device, offsets.to_vec()));
            assert_argument(attempt.error(), "cu_seqlens", parts);
        }
    });
}

#[test]
fn more_elements_than_addresses() {
    on_every_device(|device| {
        for (batch, length, channels) in [
            (usize::MAX, 2, 1),
            (1 << 40, 1 << 40, 1),
            (3, usize::MAX / 3, 2),
            (1, 1 << 31, 1 << 31),
            (usize::MAX / 8, 1, 1),
        ] {
            let mut attempt = Attempt::right(device);
            attempt.scan = LinearScan::new(batch, length, channels);
            let (error, message) = attempt.error();
            assert!(
                matches!(
                    error,
                    Error::TooLarge {
                        operation: OPERATION,
                        ..
                    }
                ),
                "{error:?}"
            );
            let shape = format!("[B, L, D] = [{batch}, {length}, {channels}]");
            assert!(message.contains(&shape), "{message}");
        }
    });
}

/// The message of a device that is not there says what was asked for and what exists.
#[test]
fn unknown_devices() {
    for spec in [
        "",
        "gpu",
        "cuda:",
        "cuda:x",
        "cuda:-1",
        "cuda:9999",
        "CPU",
        "cpu:0",
    ] {
        match Device::from_spec(spec) {
            Ok(device) => panic!("`{spec}` became {device}"),
            Err(Error::DeviceUnavailable { device, reason }) => {
                assert_eq!(device, spec);
                assert!(!reason.is_empty());
            }
            Err(other) => panic!("`{spec}`: {other:?}"),
        }
    }
}
