//! The search for rust-cuda, over made-up checkouts, sysroots and CUDA folders.

use super::*;
use std::os::unix::fs::PermissionsExt;
use tempfile::TempDir;

/// A machine that has all of it; a test takes pieces away.
struct Machine(TempDir);

const CHANNEL: &str = "nightly-2026-04-02";

impl Machine {
    fn complete() -> Self {
        let machine = Self(tempfile::tempdir().unwrap());
        for krate in ["cuda_builder", "cuda_std"] {
            machine.file(&format!("rust-cuda/crates/{krate}/Cargo.toml"), "");
        }
        let toolchain = format!("[toolchain]\nchannel = \"{CHANNEL}\"\n");
        machine.file("rust-cuda/rust-toolchain.toml", &toolchain);
        machine.file(&format!("rust-cuda/target/release/{BACKEND}"), "");
        machine.sysroot(
            &format!("toolchains/{CHANNEL}-x86_64-unknown-linux-gnu"),
            "exit 0",
        );
        machine.file("cuda/include/cuda.h", "");
        machine.file("cuda/nvvm/include/nvvm.h", "");
        machine.file("cuda/nvvm/libdevice/libdevice.10.bc", "");
        let library = "\0\0Cuda compilation tools, release 13.0, V13.0.88\0Based on\0";
        machine.file("cuda/nvvm/lib64/libnvvm.so", library);
        machine
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn file(&self, name: &str, text: &str) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// A toolchain whose rustc, given a backend, runs `load`.
    fn sysroot(&self, name: &str, load: &str) {
        let script = format!(
            "#!/bin/sh\ncase \"$1\" in\n\
             -vV) echo 'rustc 1.96.0-nightly (abc 2026-04-01)'; echo 'release: 1.96.0-nightly'; echo 'LLVM version: 22.1';;\n\
             -Zcodegen-backend=*) {load};;\n*) exit 9;;\nesac\n"
        );
        self.file(&format!("{name}/bin/rustc"), &script);
        self.file(
            &format!("{name}/lib/rustlib/src/rust/library/core/src/lib.rs"),
            "",
        );
    }

    fn without(&self, name: &str) -> &Self {
        let path = self.path(name);
        let removed = if path.is_dir() {
            fs::remove_dir_all(&path)
        } else {
            fs::remove_file(&path)
        };
        removed.unwrap();
        self
    }

    fn places(&self) -> Places {
        Places {
            checkout: Some(self.path("rust-cuda")),
            toolchain: None,
            rustup_toolchains: Some(self.path("toolchains")),
            cuda: vec![self.path("no-cuda"), self.path("cuda")],
            libraries: Vec::new(),
        }
    }
}

/// The one part that is missing.
fn lacks<'a>(search: &'a Search, name: &str) -> &'a Missing {
    assert!(search.found.is_none());
    let missing: Vec<_> = (search.parts.iter())
        .filter_map(|part| Some((part.name, part.state.as_ref().err()?)))
        .collect();
    assert_eq!(missing.len(), 1, "{missing:?}");
    assert_eq!(missing[0].0, name);
    assert!(!missing[0].1.remedy.is_empty());
    missing[0].1
}

fn says(search: &Search, name: &str, found: &str, remedy: &str) {
    let missing = lacks(search, name);
    assert!(missing.found.contains(found), "{}", missing.found);
    assert!(missing.remedy.contains(remedy), "{}", missing.remedy);
    let text = search.describe();
    assert!(text.contains(found) && text.contains(remedy), "{text}");
}

#[test]
fn all_of_it() {
    let machine = Machine::complete();
    let search = find(&machine.places());
    let found = search.found.expect("complete");
    assert_eq!(found.nvvm_version, "13.0.88");
    assert_eq!(found.version.text, "rustc 1.96.0-nightly (abc 2026-04-01)");
    assert!(
        found
            .backend
            .ends_with(format!("rust-cuda/target/release/{BACKEND}"))
    );
    assert_eq!(search.parts.len(), 4);
    let path = found.library_path();
    let path = path.to_string_lossy();
    let folders: Vec<_> = path.split(':').collect();
    assert!(folders[0].ends_with("rust-cuda/target/release"), "{path}");
    assert!(folders[1].ends_with("cuda/nvvm/lib64"), "{path}");
}

#[test]
fn no_checkout() {
    let machine = Machine::complete();
    let nobody = Places {
        checkout: None,
        toolchain: Some(CHANNEL.into()),
        ..machine.places()
    };
    says(
        &find(&nobody),
        "rust-cuda",
        "no checkout is named",
        CHECKOUT,
    );
    let other = Places {
        checkout: Some(machine.path("cuda")),
        ..nobody
    };
    says(
        &find(&other),
        "rust-cuda",
        "is no checkout of rust-cuda",
        "docs/rust-cuda.md",
    );
    machine.without("rust-cuda/crates/cuda_std");
    let half = Places {
        toolchain: Some(CHANNEL.into()),
        ..machine.places()
    };
    says(&find(&half), "rust-cuda", "(no crates/cuda_std)", "clone");
}

#[test]
fn no_toolchain() {
    let machine = Machine::complete();
    let sysroot = format!("toolchains/{CHANNEL}-x86_64-unknown-linux-gnu");
    machine.without(&format!("{sysroot}/lib/rustlib/src"));
    says(
        &find(&machine.places()),
        "its toolchain",
        "library sources",
        "rust-src",
    );
    machine.without(&sysroot);
    let found = format!("rustup has no toolchain {CHANNEL}");
    let remedy = format!("rustup toolchain install {CHANNEL} --component rustc-dev");
    says(&find(&machine.places()), "its toolchain", &found, &remedy);
    machine.without("rust-cuda/rust-toolchain.toml");
    says(
        &find(&machine.places()),
        "its toolchain",
        "names no channel",
        TOOLCHAIN,
    );
}

#[test]
fn a_toolchain_by_name_and_by_sysroot() {
    let machine = Machine::complete();
    machine.sysroot("toolchains/mine", "exit 0");
    machine.sysroot("built", "exit 0");
    for (name, folder) in [
        (OsString::from("mine"), "toolchains/mine"),
        (machine.path("built").into(), "built"),
    ] {
        let places = Places {
            toolchain: Some(name),
            ..machine.places()
        };
        let found = find(&places).found.expect("complete");
        assert_eq!(found.sysroot, machine.path(folder));
    }
    let nowhere = Places {
        toolchain: Some(machine.path("nowhere").into()),
        ..machine.places()
    };
    says(
        &find(&nowhere),
        "its toolchain",
        "nowhere/bin/rustc",
        TOOLCHAIN,
    );
}

#[test]
fn no_cuda() {
    for (piece, found) in [
        ("cuda/include/cuda.h", "no include/cuda.h in "),
        ("cuda/nvvm/include/nvvm.h", "nvvm/include/nvvm.h"),
        ("cuda/nvvm/lib64/libnvvm.so", "nvvm/lib64/libnvvm.so"),
        ("cuda/nvvm/libdevice/libdevice.10.bc", "libdevice.10.bc"),
    ] {
        let machine = Machine::complete();
        machine.without(piece);
        says(&find(&machine.places()), "CUDA for it", found, "CUDA_PATH");
    }
}

#[test]
fn no_backend() {
    let machine = Machine::complete();
    machine.without(&format!("rust-cuda/target/release/{BACKEND}"));
    let search = find(&machine.places());
    says(
        &search,
        "its backend",
        "no librustc_codegen_nvvm.so in",
        "LLVM_CONFIG",
    );
    machine.file(&format!("elsewhere/{BACKEND}"), "");
    let places = Places {
        libraries: vec![machine.path("elsewhere")],
        ..machine.places()
    };
    let found = find(&places).found.expect("complete");
    assert!(found.backend.starts_with(machine.path("elsewhere")));
}

#[test]
fn a_backend_for_another_compiler() {
    let machine = Machine::complete();
    machine.sysroot("other", "echo 'undefined symbol: _R123' >&2; exit 1");
    let places = Places {
        toolchain: Some(machine.path("other").into()),
        ..machine.places()
    };
    let search = find(&places);
    says(
        &search,
        "its backend",
        "does not load into rustc 1.96.0-nightly",
        "cargo build",
    );
    says(
        &search,
        "its backend",
        "undefined symbol: _R123",
        "cargo build",
    );
}

#[test]
fn everything_that_is_missing_is_told_at_once() {
    let search = find(&Places::default());
    let text = search.describe();
    for words in [
        "no checkout is named",
        "no checkout that names it",
        "no include/cuda.h",
    ] {
        assert!(text.contains(words), "{text}");
    }
}

#[test]
fn versions_of_libnvvm() {
    assert_eq!(
        nvvm_version(b"x release 1.0, V1.0.0\0"),
        "of unknown version"
    );
    assert_eq!(nvvm_version(b""), "of unknown version");
    let library = b"Cuda compilation tools, release 12.9, V12.9.86\n//";
    assert_eq!(nvvm_version(library), "12.9.86");
}
