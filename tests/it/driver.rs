//! One binary for all machines: it starts where there is no NVIDIA driver.

use crate::workspace::ferroseq;
use ferroseq::{Device, DeviceKind, Error};
use std::process::Command;

/// Nothing in the binary's list of libraries names the driver: the loader finds it later.
#[cfg(target_os = "linux")]
#[test]
fn the_binary_does_not_link_the_driver() {
    let binary = std::fs::read(ferroseq()).unwrap();
    let needed = goblin::elf::Elf::parse(&binary).unwrap().libraries;
    assert!(
        needed.iter().any(|name| name.starts_with("libc.so")),
        "{needed:?}"
    );
    assert!(
        !needed.iter().any(|name| name.starts_with("libcuda")),
        "{needed:?}"
    );
}

#[test]
fn info_succeeds_with_or_without_a_driver() {
    let output = Command::new(ferroseq()).arg("info").output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    if let Err(error) = Device::cuda(0) {
        let text = String::from_utf8(output.stdout).unwrap().to_lowercase();
        assert!(
            text.contains("no ") && (text.contains("driver") || text.contains("gpu")),
            "{error}, but info says\n{text}"
        );
    }
}

/// A GPU that is not there is an error that says so, never another device.
#[test]
fn a_missing_gpu_is_an_error() {
    match Device::cuda(4096) {
        Err(Error::DeviceUnavailable { device, reason }) => {
            assert!(device.contains("4096"), "{device}");
            assert!(!reason.is_empty());
        }
        other => panic!("{other:?}"),
    }
}

/// `auto` is the first GPU, or the CPU where there is none.
#[test]
fn auto_takes_the_first_gpu_or_the_cpu() {
    let expected = match Device::cuda(0) {
        Ok(_) => DeviceKind::Cuda,
        Err(_) => DeviceKind::Cpu,
    };
    assert_eq!(Device::auto().kind(), expected);
}
