//! Where the built things are: cargo's target folder, the `ferroseq` binary, the PTX.
//! In a bundle there is neither cargo nor a target folder: `FERROSEQ_BIN` names the binary.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The folder of the profile this test was built with, e.g. `target/debug`, if the test runs
/// where cargo put it.
fn profile_folder() -> Option<PathBuf> {
    let test = std::env::current_exe().ok()?;
    let folder = test.parent()?;
    (folder.file_name()? == "deps").then(|| folder.parent().map(Path::to_owned))?
}

/// The folder of the PTX, one folder per code generator in it. `FERROSEQ_PTX_DIR` says
/// where, as it does to `cargo xtask build-ptx`.
pub fn ptx_folder() -> Option<PathBuf> {
    match std::env::var_os("FERROSEQ_PTX_DIR").filter(|path| !path.is_empty()) {
        Some(path) => {
            let root =
                std::env::var_os("CARGO_MANIFEST_DIR").map(|tests| Path::new(&tests).join(".."));
            Some(root.map_or_else(|| PathBuf::from(&path), |root| root.join(&path)))
        }
        None => Some(profile_folder()?.parent()?.join("ptx")),
    }
}

/// The `ferroseq` binary: `FERROSEQ_BIN`, or built now by the cargo that runs this test.
pub fn ferroseq() -> &'static Path {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(|| match std::env::var_os("FERROSEQ_BIN") {
        Some(path) => {
            // Tests run the binary from other folders.
            std::path::absolute(&path).unwrap_or_else(|error| panic!("FERROSEQ_BIN: {error}"))
        }
        None => build(),
    })
}

fn build() -> PathBuf {
    let folder = profile_folder().expect("FERROSEQ_BIN must name the binary outside a workspace");
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let profile = match folder.file_name().and_then(|name| name.to_str()) {
        Some("debug") | None => "dev",
        Some(name) => name,
    };
    let mut build = Command::new(cargo);
    build.args([
        "build",
        "--quiet",
        "--package",
        "ferroseq",
        "--bin",
        "ferroseq",
    ]);
    build.args(["--profile", profile]).arg("--target-dir");
    build.arg(folder.parent().unwrap_or(&folder));
    if let Some(tests) = std::env::var_os("CARGO_MANIFEST_DIR") {
        build.current_dir(tests);
    }
    // What cargo tells a test about its own package is not about the one built here.
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("CARGO_PKG_") {
            build.env_remove(name);
        }
    }
    let status = build
        .status()
        .expect("cargo must run, or FERROSEQ_BIN name the binary");
    assert!(status.success(), "{build:?} failed");
    folder.join(format!("ferroseq{}", std::env::consts::EXE_SUFFIX))
}
