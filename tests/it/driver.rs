//! One binary for all machines: it starts where there is no NVIDIA driver.

use crate::cli::scene::Scene;
use crate::workspace::ferroseq;
use ferroseq::{Device, DeviceKind, Error};

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

/// Without a driver `info` says so, as text and as JSON, and succeeds.
#[test]
fn info_succeeds_with_or_without_a_driver() {
    let scene = Scene::new();
    let text = scene.run("info").ok().stdout;
    let json = scene.run("info --json").ok().json();
    let line = text.lines().find(|line| line.contains("driver:"));
    let line = line.unwrap_or_else(|| panic!("no line about the driver in\n{text}"));
    let driver = &json["driver"];
    assert_eq!(
        line.contains("none"),
        driver["library"].is_null(),
        "{text}\n{json}"
    );
    if Device::cuda(0).is_ok() {
        assert!(!driver["library"].is_null(), "{json}");
    } else if driver["library"].is_null() {
        assert!(!driver["problem"].is_null(), "no reason given: {json}");
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
