//! The devices that every conformance test runs on, and how much to run on each.

use ferroseq::{Device, DeviceKind};
use std::collections::BTreeSet;
use std::io::Write;
use std::sync::{Mutex, OnceLock, PoisonError};

/// Which sizes a device is fast enough for.
#[derive(Clone, Copy, Debug)]
pub struct Cases {
    /// Random cases of each property.
    pub random: u32,
    /// The largest L of a random case, and of the tile-edge shapes.
    pub longest: usize,
    /// Steps of the accuracy test.
    pub accuracy_steps: usize,
    /// Whether to run the one case of nearly a million elements.
    pub large: bool,
}

impl Cases {
    /// For a real processor.
    pub const fn full() -> Self {
        Self {
            random: 128,
            longest: 2100,
            accuracy_steps: 65536,
            large: true,
        }
    }

    /// For an emulator, thousands of times slower.
    pub const fn small() -> Self {
        Self {
            random: 12,
            longest: 300,
            accuracy_steps: 2048,
            large: false,
        }
    }
}

/// A device under test.
#[derive(Clone, Debug)]
pub struct TestDevice {
    /// Its name on the command line.
    pub spec: &'static str,
    /// The device.
    pub device: Device,
    /// How much to run on it.
    pub cases: Cases,
}

impl TestDevice {
    /// Whether the definition fixes every bit: the CPU takes the steps one after another, one
    /// f32 fused multiply-add each. A GPU may split L, which rounds differently.
    pub fn is_sequential(&self) -> bool {
        self.device.kind() == DeviceKind::Cpu
    }
}

/// The CPU; the first GPU if there is one. Without a GPU a line on stderr says so, once;
/// with `FERROSEQ_REQUIRE_CUDA=1` the test fails instead.
///
/// # Panics
/// Without a GPU when one is required.
pub fn devices() -> &'static [TestDevice] {
    static DEVICES: OnceLock<Vec<TestDevice>> = OnceLock::new();
    DEVICES.get_or_init(|| {
        let mut devices = vec![TestDevice {
            spec: "cpu",
            device: Device::cpu(),
            cases: Cases::full(),
        }];
        match Device::cuda(0) {
            Ok(device) => devices.push(TestDevice {
                spec: "cuda:0",
                device,
                cases: Cases::full(),
            }),
            Err(error) if cuda_is_required() => {
                panic!("FERROSEQ_REQUIRE_CUDA=1, but {error}")
            }
            Err(error) => skipped(&format!("no CUDA device ({error})")),
        }
        // The emulator joins here: devices.push(TestDevice { spec: "emulated", device: Device::emulated(), cases: Cases::small() });
        devices
    })
}

/// Whether a missing GPU is a failure.
pub fn cuda_is_required() -> bool {
    std::env::var("FERROSEQ_REQUIRE_CUDA").is_ok_and(|value| value == "1")
}

/// Says what is not tested, once, past the harness, which keeps back what passing tests print.
pub fn skipped(what: &str) {
    static SAID: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    let mut said = SAID.lock().unwrap_or_else(PoisonError::into_inner);
    if said.insert(what.to_owned()) {
        // A closed stderr is no reason to fail a test.
        let _ = writeln!(std::io::stderr(), "skipped: {what}");
    }
}
