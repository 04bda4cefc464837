//! Wrong arguments of core, step and layer: the right error, naming the argument, what was
//! found and what was expected, before any output is touched.

use super::SCAN;
use super::layer::LAYER;
use ferroseq::ops::{
    Layout, SelectiveScan, SelectiveScanArgs, SelectiveScanLayer, SelectiveScanLayerArgs,
    SelectiveScanStep, SelectiveScanStepArgs, SequenceOffsets, StateMatrix,
};
use ferroseq::{Buffer, Device, Error};
use ferroseq_tests::devices::skipped;

/// What each output holds before the run, and still must hold after an error.
const UNTOUCHED: f32 = 42.0;

/// Which operation, and what is wrong with it.
#[derive(Clone, Copy)]
enum Operation {
    Scan,
    Step,
    Layer,
}

/// Sizes of an attempt, one buffer of a wrong length, one on a wrong device.
#[derive(Clone)]
struct Attempt<'a> {
    operation: Operation,
    device: &'a Device,
    sizes: [usize; 5],
    layout: Layout,
    log: bool,
    offsets: Option<Vec<i64>>,
    wrong_length: Option<(&'static str, usize)>,
    foreign: Option<(&'static str, &'a Device)>,
}

impl<'a> Attempt<'a> {
    /// A right one: B, L, D, G, N = 2, 3, 6, 2, 4.
    fn right(device: &'a Device, operation: Operation) -> Self {
        Self {
            operation,
            device,
            sizes: [2, 3, 6, 2, 4],
            layout: Layout::Bld,
            log: true,
            offsets: None,
            wrong_length: None,
            foreign: None,
        }
    }

    /// A buffer of the right length, unless it is the wrong one.
    fn buffer(&self, name: &str, len: usize) -> Result<Buffer<f32>, Error> {
        let len = match self.wrong_length {
            Some((wrong, found)) if wrong == name => found,
            _ => len,
        };
        let device = match self.foreign {
            Some((foreign, device)) if foreign == name => device,
            _ => self.device,
        };
        device.upload(&vec![UNTOUCHED; len])
    }

    fn run(&self) -> Result<(), Error> {
        // Sizes that are themselves wrong must not make this test allocate.
        let [batch, length, d, g, n] = self.sizes.map(|size| size.min(300));
        let (elements, matrix) = (batch * length * d, batch * length * g * n);
        let sequences = self.offsets.as_ref().map_or(batch, |o| o.len() - 1);
        let states = sequences * d * n;
        let a = self.buffer(if self.log { "A_log" } else { "A" }, d * n)?;
        let a = match self.log {
            true => StateMatrix::Log(&a),
            false => StateMatrix::Plain(&a),
        };
        let d_skip = self.buffer("D_skip", d)?;
        let delta_bias = self.buffer("delta_bias", d)?;
        let offsets = self.offsets.as_ref().map(|offsets| {
            let device = match self.foreign {
                Some(("cu_seqlens", device)) => device,
                _ => self.device,
            };
            SequenceOffsets::new(device, offsets)
        });
        let offsets = offsets.transpose()?;
        let [b_size, l_size, d_size, g_size, n_size] = self.sizes;
        let mut outputs = Vec::new();
        let result = match self.operation {
            Operation::Scan => {
                let (x, delta) = (self.buffer("x", elements)?, self.buffer("delta", elements)?);
                let (b, c) = (self.buffer("B", matrix)?, self.buffer("C", matrix)?);
                let (z, h0) = (self.buffer("z", elements)?, self.buffer("h0", states)?);
                let mut y = self.buffer("y", elements)?;
                let mut last = self.buffer("final_state", states)?;
                let op = SelectiveScan::new(b_size, l_size, d_size, n_size)
                    .groups(g_size)
                    .layout(self.layout);
                let result = op.run_with(
                    self.device,
                    SelectiveScanArgs {
                        d_skip: Some(&d_skip),
                        delta_bias: Some(&delta_bias),
                        z: Some(&z),
                        h0: Some(&h0),
                        final_state: Some(&mut last),
                        offsets: offsets.as_ref(),
                        ..SelectiveScanArgs::new(&x, &delta, a, &b, &c, &mut y)
                    },
                );
                outputs.extend([y, last]);
                result
            }
            Operation::Step => {
                let row = batch * d;
                let (x, delta) = (self.buffer("x", row)?, self.buffer("delta", row)?);
                let matrix = batch * g * n;
                let (b, c) = (self.buffer("B", matrix)?, self.buffer("C", matrix)?);
                let (z, mut y) = (self.buffer("z", row)?, self.buffer("y", row)?);
                let mut state = self.buffer("state", batch * d * n)?;
                let op = SelectiveScanStep::new(b_size, d_size, n_size).groups(g_size);
                let result = op.run_with(
                    self.device,
                    SelectiveScanStepArgs {
                        state: &mut state,
                        x: &x,
                        delta: &delta,
                        a,
                        b: &b,
                        c: &c,
                        y: &mut y,
                        d_skip: Some(&d_skip),
                        delta_bias: Some(&delta_bias),
                        z: Some(&z),
                    },
                );
                outputs.extend([y, state]);
                result
            }
            Operation::Layer => {
                let (x, z) = (self.buffer("x", elements)?, self.buffer("z", elements)?);
                let w_delta = self.buffer("W_delta", d * d)?;
                let (w_b, w_c) = (
                    self.buffer("W_B", g * n * d)?,
                    self.buffer("W_C", g * n * d)?,
                );
                let h0 = self.buffer("h0", states)?;
                let mut y = self.buffer("y", elements)?;
                let mut last = self.buffer("final_state", states)?;
                let op = SelectiveScanLayer::new(b_size, l_size, d_size, n_size).groups(g_size);
                let result = op.run_with(
                    self.device,
                    SelectiveScanLayerArgs {
                        d_skip: Some(&d_skip),
                        delta_bias: Some(&delta_bias),
                        z: Some(&z),
                        h0: Some(&h0),
                        final_state: Some(&mut last),
                        offsets: offsets.as_ref(),
                        ..SelectiveScanLayerArgs::new(&x, [&w_delta, &w_b, &w_c], a, &mut y)
                    },
                );
                outputs.extend([y, last]);
                result
            }
        };
        if result.is_err() {
            for output in outputs {
                let values = output.to_vec()?;
                assert!(values.iter().all(|&value| value == UNTOUCHED), "{values:?}");
            }
        }
        result
    }

    fn message(&self) -> String {
        let error = self.run().expect_err("a wrong argument was accepted");
        error.to_string()
    }

    fn name(&self) -> &'static str {
        match self.operation {
            Operation::Scan => "selective scan",
            Operation::Step => "selective scan step",
            Operation::Layer => "selective scan layer",
        }
    }
}

/// Buffer, right length, and the shape that the error names; B, L, D, G, N = 2, 3, 6, 2, 4.
const SCAN_BUFFERS: &[(&str, usize, &str)] = &[
    ("x", 36, "[B, L, D] = [2, 3, 6]"),
    ("delta", 36, "[B, L, D] = [2, 3, 6]"),
    ("A_log", 24, "[D, N] = [6, 4]"),
    ("B", 48, "[B, L, G, N] = [2, 3, 2, 4]"),
    ("C", 48, "[B, L, G, N] = [2, 3, 2, 4]"),
    ("y", 36, "[B, L, D] = [2, 3, 6]"),
    ("D_skip", 6, "[D] = [6]"),
    ("delta_bias", 6, "[D] = [6]"),
    ("z", 36, "[B, L, D] = [2, 3, 6]"),
    ("h0", 48, "[B, D, N] = [2, 6, 4]"),
    ("final_state", 48, "[B, D, N] = [2, 6, 4]"),
];
const STEP_BUFFERS: &[(&str, usize, &str)] = &[
    ("state", 48, "[B, D, N] = [2, 6, 4]"),
    ("x", 12, "[B, D] = [2, 6]"),
    ("delta", 12, "[B, D] = [2, 6]"),
    ("A_log", 24, "[D, N] = [6, 4]"),
    ("B", 16, "[B, G, N] = [2, 2, 4]"),
    ("C", 16, "[B, G, N] = [2, 2, 4]"),
    ("y", 12, "[B, D] = [2, 6]"),
    ("D_skip", 6, "[D] = [6]"),
    ("delta_bias", 6, "[D] = [6]"),
    ("z", 12, "[B, D] = [2, 6]"),
];
const LAYER_BUFFERS: &[(&str, usize, &str)] = &[
    ("x", 36, "[B, L, D] = [2, 3, 6]"),
    ("W_delta", 36, "[D, D] = [6, 6]"),
    ("W_B", 48, "[G * N, D] = [8, 6]"),
    ("W_C", 48, "[G * N, D] = [8, 6]"),
    ("A_log", 24, "[D, N] = [6, 4]"),
    ("y", 36, "[B, L, D] = [2, 3, 6]"),
    ("D_skip", 6, "[D] = [6]"),
    ("delta_bias", 6, "[D] = [6]"),
    ("z", 36, "[B, L, D] = [2, 3, 6]"),
    ("h0", 48, "[B, D, N] = [2, 6, 4]"),
    ("final_state", 48, "[B, D, N] = [2, 6, 4]"),
];

type Buffers = &'static [(&'static str, usize, &'static str)];
const OPERATIONS: [(Operation, Buffers); 3] = [
    (Operation::Scan, SCAN_BUFFERS),
    (Operation::Step, STEP_BUFFERS),
    (Operation::Layer, LAYER_BUFFERS),
];

fn on_devices(check: impl Fn(&Device, Operation, Buffers)) {
    for (operation, buffers) in OPERATIONS {
        let kinds = match operation {
            Operation::Layer => LAYER,
            _ => SCAN,
        };
        crate::on_devices(kinds, |device| {
            check(&device.device, operation, buffers);
            Ok(())
        });
    }
}

#[test]
fn right_arguments_are_accepted() {
    on_devices(|device, operation, _| {
        let mut attempt = Attempt::right(device, operation);
        attempt.run().expect("right");
        attempt.log = false;
        attempt.run().expect("right");
        if matches!(operation, Operation::Step) {
            return;
        }
        attempt.sizes[0] = 1;
        attempt.offsets = Some(vec![0, 2, 3]);
        attempt.run().expect("right");
    });
}

#[test]
fn lengths() {
    on_devices(|device, operation, buffers| {
        for &(name, right, shape) in buffers {
            for found in [0, right - 1, right + 1] {
                let mut attempt = Attempt::right(device, operation);
                attempt.wrong_length = Some((name, found));
                let expected = format!(
                    "{}: `{name}` holds {found} elements, expected {right} ({shape})",
                    attempt.name()
                );
                assert_eq!(attempt.message(), expected);
            }
        }
    });
}

#[test]
fn the_other_layout_and_the_other_matrix_have_their_own_names() {
    crate::on_devices(SCAN, |device| {
        let mut attempt = Attempt::right(&device.device, Operation::Scan);
        attempt.layout = Layout::Bdl;
        attempt.wrong_length = Some(("C", 1));
        assert_eq!(
            attempt.message(),
            "selective scan: `C` holds 1 elements, expected 48 ([B, G, N, L] = [2, 2, 4, 3])"
        );
        attempt.log = false;
        attempt.wrong_length = Some(("A", 1));
        assert_eq!(
            attempt.message(),
            "selective scan: `A` holds 1 elements, expected 24 ([D, N] = [6, 4])"
        );
        Ok(())
    });
}

#[test]
fn state_sizes_and_groups() {
    on_devices(|device, operation, _| {
        for n in [0, 257, usize::MAX] {
            let mut attempt = Attempt::right(device, operation);
            attempt.sizes[4] = n;
            let expected = format!(
                "{}: `N` is {n}, expected a state size from 1 to 256",
                attempt.name()
            );
            assert_eq!(attempt.message(), expected);
        }
        for g in [0, 4, 7] {
            let mut attempt = Attempt::right(device, operation);
            attempt.sizes[3] = g;
            let expected = format!(
                "{}: `G` is {g}, expected a number of groups that divides the 6 channels",
                attempt.name()
            );
            assert_eq!(attempt.message(), expected);
        }
    });
}

#[test]
fn sizes_past_all_memory() {
    on_devices(|device, operation, _| {
        for at in [0, 1, 2] {
            let mut attempt = Attempt::right(device, operation);
            if at == 1 && matches!(operation, Operation::Step) {
                continue;
            }
            attempt.sizes[at] = usize::MAX / 4 * 2;
            let error = attempt.run().expect_err("too large");
            assert!(matches!(error, Error::TooLarge { .. }), "{error}");
        }
    });
}

#[test]
fn packed_sequences_must_fit() {
    on_devices(|device, operation, _| {
        if matches!(operation, Operation::Step) {
            return;
        }
        let mut attempt = Attempt::right(device, operation);
        attempt.offsets = Some(vec![0, 3]);
        let batch = format!(
            "{}: `batch` is 2, expected 1, with packed sequences",
            attempt.name()
        );
        assert_eq!(attempt.message(), batch);
        attempt.sizes[0] = 1;
        attempt.offsets = Some(vec![0, 2]);
        let total = format!(
            "{}: `cu_seqlens` is 2 at the end, expected 3, the length L",
            attempt.name()
        );
        assert_eq!(attempt.message(), total);
        attempt.offsets = Some(vec![0, 1, 3]);
        attempt.wrong_length = Some(("h0", 24));
        assert!(attempt.message().contains("[S, D, N] = [2, 6, 4]"));
    });
}

#[test]
fn every_buffer_must_live_on_the_device() {
    // Every emulated device is one of its own.
    let elsewhere = Device::emulated();
    on_devices(|device, operation, buffers| {
        let offsets = match operation {
            Operation::Step => None,
            _ => Some(("cu_seqlens", 0, "")),
        };
        for &(name, ..) in buffers.iter().chain(&offsets) {
            let mut attempt = Attempt::right(device, operation);
            if name == "cu_seqlens" {
                attempt.sizes[0] = 1;
                attempt.offsets = Some(vec![0, 3]);
            }
            attempt.foreign = Some((name, &elsewhere));
            let message = attempt.message();
            let expected = format!("{}: `{name}` lives on emulated", attempt.name());
            assert!(message.starts_with(&expected), "{message}");
        }
    });
}

/// A device without kernels says so, whatever the arguments' number.
#[test]
fn a_device_without_kernels_says_so() {
    if SCAN.len() > 1 {
        return skipped("every device has the selective scan: none to refuse it");
    }
    let device = Device::emulated();
    for (operation, _) in OPERATIONS {
        let error = Attempt::right(&device, operation)
            .run()
            .expect_err("no kernels");
        assert!(matches!(error, Error::DeviceUnavailable { .. }), "{error}");
        assert!(
            error.to_string().contains("runs on the CPU only"),
            "{error}"
        );
    }
}
