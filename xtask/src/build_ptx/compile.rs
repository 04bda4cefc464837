//! One crate, one set of features, one architecture: from Rust source to PTX text, by
//! stock rustc's NVPTX backend. Owns the flags and the folders under `target/ptx-build`.

use crate::manifest::{Arch, Profile};
use crate::process::Run;
use crate::toolchain::Compiler;
use crate::workspace::{Workspace, on_path};
use anyhow::{Context, Result, ensure};
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

/// The device crate.
pub const PACKAGE: &str = "gpu-kernels";

/// The target, in rustc's words.
const TRIPLE: &str = "nvptx64-nvidia-cuda";

/// Cargo's settings that a build may take from the user; all others stay out, so that the
/// PTX depends on this repository and the compiler alone.
const KEPT: [&str; 8] = [
    "CARGO_HOME",
    "CARGO_NET_",
    "CARGO_HTTP_",
    "CARGO_REGISTR",
    "CARGO_SOURCE_",
    "CARGO_TERM_COLOR",
    "CARGO_BUILD_JOBS",
    "CARGO_CACHE_",
];

/// What to compile.
#[derive(Clone, Copy, Debug)]
pub struct Unit<'a> {
    /// The crate's `Cargo.toml`. Its workspace has a profile `ptx`.
    pub manifest: &'a Path,
    /// The crate's name.
    pub package: &'a str,
    /// Its features; the default ones are off.
    pub features: &'a str,
    /// The name of the file that the PTX goes to, without its ending.
    pub module: &'a str,
    /// The architecture.
    pub arch: Arch,
    /// With source lines or without.
    pub profile: Profile,
}

/// The flags that every kernel is compiled with, but for `-Ctarget-cpu`.
///
/// JumpThreading copies barriers and shuffles into both arms of a branch, which is not
/// the same program on a GPU.
pub fn flags() -> Vec<String> {
    vec!["-Zmir-enable-passes=-JumpThreading".to_owned()]
}

/// Cargo's target folder for an architecture. Each has one of its own: the core library is
/// compiled with the flags of the architecture too, and would be rebuilt at every change.
fn build_folder(workspace: &Workspace, arch: Arch) -> PathBuf {
    workspace.target.join("ptx-build").join(arch.to_string())
}

/// Where the compiler writes the PTX of a crate's modules to.
fn output_folder(folder: &Path, package: &str) -> PathBuf {
    folder.join("out").join(package)
}

/// Whether the core library was compiled for it before: the difference between seconds
/// and a minute.
pub fn is_warm(workspace: &Workspace, arch: Arch) -> bool {
    let outputs = output_folder(&build_folder(workspace, arch), PACKAGE);
    fs::read_dir(outputs).is_ok_and(|mut outputs| outputs.next().is_some())
}

/// Compiles, and returns the PTX as the compiler wrote it. Prints the compiler's warnings.
pub fn compile(workspace: &Workspace, compiler: &Compiler, unit: &Unit<'_>) -> Result<String> {
    let folder = build_folder(workspace, unit.arch);
    let outputs = output_folder(&folder, unit.package);
    fs::create_dir_all(&outputs).with_context(|| format!("cannot create {}", outputs.display()))?;
    let ptx = outputs.join(format!("{}-{}.ptx", unit.module, unit.profile));
    build(compiler, unit, &folder, &ptx)?;
    if !ptx.is_file() {
        // Cargo knows its own outputs, not this one: if someone removed it, make it again.
        cargo(compiler, unit, &folder, "clean")?
            .args(["--package", unit.package])
            .capture()?;
        build(compiler, unit, &folder, &ptx)?;
    }
    let text = fs::read_to_string(&ptx)
        .with_context(|| format!("the compiler left no PTX in {}", ptx.display()))?;
    ensure!(
        text.contains(".target "),
        "{} is no PTX; it begins with {:?}",
        ptx.display(),
        text.lines().next().unwrap_or_default()
    );
    Ok(text)
}

fn build(compiler: &Compiler, unit: &Unit<'_>, folder: &Path, ptx: &Path) -> Result<()> {
    // An output path of our own: what cargo would name the file is the same for all
    // families, and after a build that cargo finds fresh it would be another's.
    let mut emit = OsString::from("asm=");
    emit.push(ptx);
    let mut run = cargo(compiler, unit, folder, "rustc")?
        .args(["--quiet", "-Zbuild-std=core", "--package", unit.package])
        .args(["--lib", "--crate-type", "cdylib"])
        .args(["--no-default-features", "--features", unit.features])
        .arg("--")
        .arg("--emit")
        .arg(emit);
    if unit.profile == Profile::Debug {
        // For this crate alone, so that the core library serves both profiles. Anything
        // more than directives makes sections that ptxas does not read.
        run = run.arg("-Cdebuginfo=line-directives-only");
    }
    let (_, warnings) = run.capture_both().with_context(|| {
        format!(
            "cannot compile {} ({}) for {}",
            unit.package, unit.features, unit.arch
        )
    })?;
    eprint!("{warnings}");
    Ok(())
}

/// A cargo command on the unit's target folder and profile, in a clean environment.
fn cargo(compiler: &Compiler, unit: &Unit<'_>, folder: &Path, command: &str) -> Result<Run> {
    // The output wanted is the assembly; linking has nothing to do.
    on_path("true").context("no program `true` on PATH, to stand for a linker")?;
    let mut flags = flags();
    flags.push(format!("-Ctarget-cpu={}", unit.arch));
    // By name: with its path, another order of PATH would rebuild the core library.
    flags.push("-Clinker=true".to_owned());
    Ok(clean(Run::cargo())
        .env("RUSTC", &compiler.rustc)
        // -Zbuild-std and the device crate's features are unstable.
        .env("RUSTC_BOOTSTRAP", "1")
        .env("CARGO_ENCODED_RUSTFLAGS", flags.join("\u{1f}"))
        .arg(command)
        .arg("--manifest-path")
        .arg(unit.manifest)
        .args(["--profile", "ptx", "--target", TRIPLE, "--target-dir"])
        .arg(folder))
}

/// A command without what the user's environment says to cargo and rustc.
pub fn clean(mut run: Run) -> Run {
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        let cargos = text.starts_with("CARGO_") && !KEPT.iter().any(|kept| text.starts_with(kept));
        if cargos || text.starts_with("RUSTC") || text == "RUSTFLAGS" {
            run = run.without_env(&name);
        }
    }
    // Empty, not absent: the user's cargo configuration may name a wrapper.
    run.env("RUSTC_WRAPPER", "")
        .env("RUSTC_WORKSPACE_WRAPPER", "")
}
