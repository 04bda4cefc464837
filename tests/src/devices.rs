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

/// The CPU; the first GPU if there is one; the emulator. Without a GPU a line on stderr says so, once;
/// with `FERROSEQ_REQUIRE_CUDA=1` the test fails instead.
///
/// `FERROSEQ_TEST_DEVICES`, a list such as `cuda:0` or `cpu,emulated`, takes only those;
/// `FERROSEQ_TEST_CASES=small` takes the emulator's sizes everywhere (for a tool that slows a GPU
/// down, such as compute-sanitizer).
///
/// # Panics
/// Without a GPU when one is required, and if a variable has a value that is not known.
pub fn devices() -> &'static [TestDevice] {
    static DEVICES: OnceLock<Vec<TestDevice>> = OnceLock::new();
    DEVICES.get_or_init(|| {
        let full = match std::env::var("FERROSEQ_TEST_CASES").as_deref() {
            Err(_) | Ok("full") => Cases::full(),
            Ok("small") => Cases::small(),
            Ok(other) => panic!("FERROSEQ_TEST_CASES: found {other:?}, expected full or small"),
        };
        let chosen = std::env::var("FERROSEQ_TEST_DEVICES").ok();
        let names = || chosen.iter().flat_map(|list| list.split(','));
        if let Some(unknown) = names().find(|name| !["cpu", "cuda:0", "emulated"].contains(name)) {
            panic!(
                "FERROSEQ_TEST_DEVICES: found {unknown:?}, expected a list of cpu, cuda:0, emulated"
            );
        }
        let wanted = |spec| chosen.is_none() || names().any(|name| name == spec);
        let test = |spec, device, cases| TestDevice {
            spec,
            device,
            cases,
        };
        let mut devices = Vec::new();
        if wanted("cpu") {
            devices.push(test("cpu", Device::cpu(), full));
        }
        if wanted("cuda:0") {
            match Device::cuda(0) {
                Ok(device) => devices.push(test("cuda:0", device, full)),
                Err(error) if cuda_is_required() => {
                    panic!("FERROSEQ_REQUIRE_CUDA=1, but {error}")
                }
                Err(error) => skipped(&format!("no CUDA device ({error})")),
            }
        }
        if wanted("emulated") {
            devices.push(test("emulated", Device::emulated(), Cases::small()));
        }
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
