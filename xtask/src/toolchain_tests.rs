//! The search for the device compiler, over made-up sysroots whose rustc is a script.

use super::*;
use std::os::unix::fs::{PermissionsExt, symlink};
use tempfile::TempDir;

/// A sysroot to put pieces into.
struct Sysroot(PathBuf);

impl Sysroot {
    fn rustc(self, release: &str) -> Self {
        self.rustc_with(release, "    sm_80\n    sm_90")
    }

    fn rustc_with(self, release: &str, cpus: &str) -> Self {
        let root = self.0.display();
        let script = format!(
            "#!/bin/sh\ncase \"$*\" in\n\
             -vV) echo 'rustc {release} (abc 2026-05-25)'; echo 'release: {release}'; echo 'LLVM version: 22.1';;\n\
             '--print sysroot') echo '{root}';;\n\
             '--print target-cpus'*) echo '{cpus}';;\n\
             *) exit 9;;\nesac\n"
        );
        self.file("bin/rustc", &script)
    }

    fn sources(self) -> Self {
        self.file("lib/rustlib/src/rust/library/core/src/lib.rs", "")
    }

    fn sources_version(self, version: &str) -> Self {
        self.file("lib/rustlib/src/rust/src/version", version)
    }

    fn file(self, path: &str, contents: &str) -> Self {
        let path = self.0.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, contents).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        self
    }

    fn bin(&self) -> PathBuf {
        self.0.join("bin")
    }
}

struct Machine(TempDir);

impl Machine {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn sysroot(&self, name: &str) -> Sysroot {
        Sysroot(self.0.path().join(name))
    }

    /// Complete, version 1.96.0.
    fn good(&self, name: &str) -> Sysroot {
        self.sysroot(name).rustc("1.96.0").sources()
    }

    fn places(&self, path: &[&Sysroot]) -> Places {
        Places {
            explicit: None,
            rustup_toolchains: Some(self.0.path().join("toolchains")),
            path: path.iter().map(|sysroot| sysroot.bin()).collect(),
        }
    }
}

fn reason(search: &Search) -> &str {
    assert!(search.compiler.is_none(), "{search:?}");
    assert_eq!(search.rejected.len(), 1, "{search:?}");
    &search.rejected[0].reason
}

#[test]
fn nothing_anywhere() {
    let machine = Machine::new();
    let search = find(&machine.places(&[]));
    assert!(search.compiler.is_none() && search.rejected.is_empty());
}

#[test]
fn the_environment_goes_first_then_the_nightly_then_the_system() {
    let machine = Machine::new();
    let named = machine.good("named");
    let nightly = machine.good(&format!("toolchains/{NIGHTLY}-x86_64-unknown-linux-gnu"));
    let system = machine.good("system").sources_version("1.96.0\n");
    let mut places = machine.places(&[&system]);
    places.explicit = Some(named.bin().join("rustc"));
    let chosen = |places: &Places| {
        let compiler = find(places).compiler.unwrap();
        (compiler.origin, compiler.rustc)
    };
    assert_eq!(
        chosen(&places),
        (Origin::Environment, named.bin().join("rustc"))
    );
    places.explicit = None;
    assert_eq!(
        chosen(&places),
        (Origin::Nightly, nightly.bin().join("rustc"))
    );
    places.rustup_toolchains = None;
    assert_eq!(
        chosen(&places),
        (Origin::Distribution, system.bin().join("rustc"))
    );
    let compiler = find(&places).compiler.unwrap();
    assert_eq!(compiler.version.release, Release(1, 96, 0));
    assert!(compiler.library.ends_with("lib/rustlib/src/rust/library"));
}

#[test]
fn a_named_compiler_is_never_replaced() {
    let machine = Machine::new();
    let system = machine.good("system");
    let mut places = machine.places(&[&system]);
    places.explicit = Some(machine.0.path().join("nowhere/rustc"));
    assert_eq!(reason(&find(&places)), "there is no such file");
}

#[test]
fn another_nightly_is_not_looked_at() {
    let machine = Machine::new();
    machine.good("toolchains/nightly-2026-04-03-x86_64-unknown-linux-gnu");
    machine.good("toolchains/nightly-x86_64-unknown-linux-gnu");
    let search = find(&machine.places(&[]));
    assert!(search.compiler.is_none() && search.rejected.is_empty());
}

#[test]
fn a_nightly_without_sources_yields_to_the_system() {
    let machine = Machine::new();
    machine
        .sysroot(&format!("toolchains/{NIGHTLY}-x86_64-unknown-linux-gnu"))
        .rustc("1.96.0-nightly");
    let system = machine.good("system");
    let search = find(&machine.places(&[&system]));
    assert_eq!(search.compiler.unwrap().origin, Origin::Distribution);
    assert_eq!(search.rejected[0].origin, Origin::Nightly);
    assert!(
        search.rejected[0]
            .reason
            .contains("sources are not installed")
    );
}

#[test]
fn no_sources() {
    let machine = Machine::new();
    let system = machine.sysroot("system").rustc("1.96.0");
    let search = find(&machine.places(&[&system]));
    let reason = reason(&search);
    assert!(reason.contains("sources are not installed"), "{reason}");
    assert!(reason.contains("rustlib/src/rust/library"), "{reason}");
}

#[test]
fn sources_of_another_version() {
    let machine = Machine::new();
    let system = machine.good("system").sources_version("1.85.0\n");
    let search = find(&machine.places(&[&system]));
    assert_eq!(
        reason(&search),
        "its library sources are those of 1.85.0, but it is 1.96.0"
    );
}

#[test]
fn too_old() {
    let machine = Machine::new();
    let system = machine.sysroot("system").rustc("1.95.0").sources();
    let search = find(&machine.places(&[&system]));
    let reason = reason(&search);
    assert!(
        reason.contains("1.95.0") && reason.contains("1.96.0"),
        "{reason}"
    );
}

#[test]
fn no_ptx_in_its_llvm() {
    let machine = Machine::new();
    let system = machine
        .sysroot("system")
        .rustc_with("1.96.0", "    generic")
        .sources();
    let search = find(&machine.places(&[&system]));
    assert!(reason(&search).contains("cannot write PTX"));
}

#[test]
fn what_is_no_compiler() {
    let machine = Machine::new();
    let broken = machine
        .sysroot("broken")
        .file("bin/rustc", "#!/bin/sh\nexit 4\n");
    let search = find(&machine.places(&[&broken]));
    assert!(reason(&search).contains("exit status: 4"));
    let silent = machine.sysroot("silent").file("bin/rustc", "#!/bin/sh\n");
    let search = find(&machine.places(&[&silent]));
    assert!(reason(&search).contains("printed no version"));
}

#[test]
fn rustup_proxies_are_no_compilers() {
    let machine = Machine::new();
    let linked = machine.sysroot("linked").file("bin/rustup", "#!/bin/sh\n");
    symlink("rustup", linked.bin().join("rustc")).unwrap();
    let hard = machine.sysroot("hard").file("bin/rustup", "#!/bin/sh\n");
    fs::hard_link(hard.bin().join("rustup"), hard.bin().join("rustc")).unwrap();
    let search = find(&machine.places(&[&linked, &hard]));
    assert!(
        search.rejected.is_empty() && search.compiler.is_none(),
        "{search:?}"
    );
}

#[test]
fn one_compiler_under_two_names_is_asked_once() {
    let machine = Machine::new();
    let system = machine.sysroot("system").rustc("1.80.0");
    let second = machine.sysroot("second");
    fs::create_dir_all(&second.0).unwrap();
    symlink(system.bin(), second.bin()).unwrap();
    let search = find(&machine.places(&[&system, &second]));
    assert!(reason(&search).contains("1.80.0"));
}
