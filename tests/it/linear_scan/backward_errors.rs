//! Wrong arguments of the backward pass: the right error, and no output touched.

use ferroseq::ops::{LinearScan, LinearScanBackward, LinearScanBackwardArgs, SequenceOffsets};
use ferroseq::{Device, Error};
use ferroseq_tests::devices;

const NAMES: [&str; 8] = [
    "a",
    "h",
    "grad_h",
    "grad_a",
    "grad_b",
    "h0",
    "grad_final_state",
    "grad_h0",
];

/// Runs it with buffers of these lengths, in the order of [`NAMES`], all of them 42.
fn run(
    device: &Device,
    scan: LinearScan,
    lengths: [usize; 8],
    offsets: Option<&[i64]>,
) -> Result<(), Error> {
    let buffer = |len: usize| device.upload(&vec![42f32; len]);
    let [a, h, grad_h, mut grad_a, mut grad_b, h0, last, mut grad_h0] = lengths.map(buffer);
    let offsets = offsets
        .map(|offsets| SequenceOffsets::new(device, offsets))
        .transpose()?;
    let result = LinearScanBackward::new(scan).run_with(
        device,
        LinearScanBackwardArgs {
            a: a.as_ref().unwrap(),
            h: h.as_ref().unwrap(),
            grad_h: Some(grad_h.as_ref().unwrap()),
            grad_a: grad_a.as_mut().unwrap(),
            grad_b: grad_b.as_mut().unwrap(),
            h0: Some(h0.as_ref().unwrap()),
            grad_final_state: Some(last.as_ref().unwrap()),
            grad_h0: Some(grad_h0.as_mut().unwrap()),
            offsets: offsets.as_ref(),
        },
    );
    if result.is_err() {
        for output in [grad_a, grad_b, grad_h0] {
            let output = output.unwrap().to_vec()?;
            assert!(output.iter().all(|&value| value == 42.0), "{output:?}");
        }
    }
    result
}

/// Of [B, L, D] = [2, 3, 4].
const RIGHT: [usize; 8] = [24, 24, 24, 24, 24, 8, 8, 8];

#[test]
fn lengths() {
    let scan = LinearScan::new(2, 3, 4);
    for device in devices().iter().map(|device| &device.device) {
        for (at, name) in NAMES.into_iter().enumerate() {
            for wrong in [0, RIGHT[at] - 1, RIGHT[at] + 1] {
                let mut lengths = RIGHT;
                lengths[at] = wrong;
                let error = run(device, scan, lengths, None).unwrap_err();
                assert!(
                    matches!(error, Error::Length { argument, found, expected, .. }
                        if argument == name && found == wrong && expected == RIGHT[at]),
                    "{error:?}"
                );
                assert!(error.to_string().contains(&format!("`{name}`")), "{error}");
            }
        }
    }
}

#[test]
fn packed_sequences() {
    for device in devices().iter().map(|device| &device.device) {
        let batch = run(device, LinearScan::new(2, 3, 4), RIGHT, Some(&[0, 1, 3])).unwrap_err();
        assert!(
            matches!(
                batch,
                Error::Argument {
                    argument: "batch",
                    ..
                }
            ),
            "{batch:?}"
        );
        let total = run(device, LinearScan::new(1, 6, 4), RIGHT, Some(&[0, 1, 5])).unwrap_err();
        assert!(
            matches!(
                total,
                Error::Argument {
                    argument: "cu_seqlens",
                    ..
                }
            ),
            "{total:?}"
        );
    }
}

#[test]
fn more_elements_than_addresses() {
    for device in devices().iter().map(|device| &device.device) {
        let scan = LinearScan::new(1 << 40, 1 << 40, 1);
        let error = run(device, scan, RIGHT, None).unwrap_err();
        assert!(matches!(error, Error::TooLarge { .. }), "{error:?}");
    }
}
