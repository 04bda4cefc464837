//! Ferroseq's integration tests, one binary.
//!
//! `linear_scan`, `selective_scan` and `projection` are the conformance suite: every test
//! runs on every device of [`ferroseq_tests::devices`]. `cli` and `driver` run the real `ferroseq` binary. `ptx`
//! reads the compiled kernels. `oracle` tests the tests' own foundations.

mod cli;
mod driver;
mod linear_scan;
mod oracle;
mod projection;
mod ptx;
mod selective_scan;
mod workspace;

use ferroseq::DeviceKind;
use ferroseq_tests::{TestDevice, devices};

/// Runs `check` on every device and fails with everything that failed.
fn on_every_device(check: impl Fn(&TestDevice) -> Result<(), String>) {
    let every = [DeviceKind::Cpu, DeviceKind::Cuda, DeviceKind::Emulated];
    on_devices(&every, check);
}

/// The same on the devices of these kinds, for an operation that not all have.
fn on_devices(kinds: &[DeviceKind], check: impl Fn(&TestDevice) -> Result<(), String>) {
    let failures: Vec<String> = devices()
        .iter()
        .filter(|device| kinds.contains(&device.device.kind()))
        .filter_map(|device| check(device).err())
        .collect();
    assert!(failures.is_empty(), "\n{}", failures.join("\n"));
}

/// Tests a function `fn check<T: Sample>(&TestDevice) -> Result<(), String>` with every
/// element type: three tests in a module of the function's name. `on KINDS:` in front
/// names the kinds of devices.
macro_rules! every_type {
    (on $kinds:path: $($check:ident)*) => { $(
        mod $check {
            #[test]
            fn f32() {
                crate::on_devices($kinds, super::$check::<f32>);
            }
            #[test]
            fn f16() {
                crate::on_devices($kinds, super::$check::<half::f16>);
            }
            #[test]
            fn bf16() {
                crate::on_devices($kinds, super::$check::<half::bf16>);
            }
        }
    )* };
    ($($check:ident)*) => { $(
        mod $check {
            #[test]
            fn f32() {
                crate::on_every_device(super::$check::<f32>);
            }
            #[test]
            fn f16() {
                crate::on_every_device(super::$check::<half::f16>);
            }
            #[test]
            fn bf16() {
                crate::on_every_device(super::$check::<half::bf16>);
            }
        }
    )* };
}
use every_type;
