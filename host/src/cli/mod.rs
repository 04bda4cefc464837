//! The command line: one file per subcommand, and what they share.

mod bench;
mod chunked;
mod combine;
mod dispatch;
mod info;
mod layer;
mod moe;
mod names;
mod output;
mod paths;
mod progress;
mod report;
mod route;
mod scan;
mod selective;
mod selective_scan;
mod source;
mod step;
mod tensors;

use clap::{Parser, Subcommand};
use ferroseq::codegen::{self, Codegen};
use std::process::ExitCode;

/// Sequence-model kernels on tensor files, on an NVIDIA GPU or the CPU
#[derive(Debug, Parser)]
#[command(
    name = "ferroseq",
    version,
    max_term_width = 100,
    long_about = "Sequence-model kernels on tensor files, on an NVIDIA GPU or the CPU.\n\n\
        Reads .npy and .safetensors files, runs one operation on the device you choose, and \
        writes the result whole or not at all: an output file appears under its name only \
        when everything has succeeded.",
    after_help = "`ferroseq help COMMAND` is the manual of a command, with examples.",
    after_long_help = "\
Devices:
  auto      the first GPU that the binary has kernels for, else the CPU; the report says which
  cpu       all cores, or as many as RAYON_NUM_THREADS says
  cuda      GPU 0; cuda:N is GPU N, as the CUDA driver counts them
  emulated  the GPU's kernels on the CPU, every access checked: thousands of times slower
  A device you name is never replaced by another: without it the command fails.

Exit codes:
  0  done
  1  failed; one line on stderr says what, the lines after it say why
  2  the command line made no sense

Examples:
  ferroseq info
  ferroseq scan --a a.npy --b b.npy --out h.npy
  ferroseq route --expert-ids ids.npy --experts 64 --out plan.safetensors
  ferroseq selective-scan --input mamba.safetensors --out y.npy
  ferroseq bench --json bench.json --plot bench.svg
  ferroseq scan --input gates.safetensors --name a=gate --out states.safetensors --json"
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
    /// Whose PTX a GPU runs: auto, nvptx (stock rustc) or nvvm (rust-cuda); auto takes that for
    /// the highest architecture, of equals nvptx. `ferroseq info` says what the binary has
    #[arg(long, global = true, value_name = "NAME")]
    codegen: Option<Codegen>,
}

#[derive(Debug, Subcommand)]
enum Command {
    Scan(Box<scan::Args>),
    Route(Box<route::Args>),
    Dispatch(Box<dispatch::Args>),
    Combine(Box<combine::Args>),
    SelectiveScan(Box<selective_scan::Args>),
    Layer(Box<layer::Args>),
    Step(Box<step::Args>),
    Info(info::Args),
    Bench(bench::Args),
}

/// Parses, runs, reports.
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    if let Some(codegen) = cli.codegen {
        codegen::choose(codegen);
    }
    let result = match cli.command {
        Command::Scan(args) => scan::run(*args),
        Command::Route(args) => route::run(*args),
        Command::Dispatch(args) => dispatch::run(*args),
        Command::Combine(args) => combine::run(*args),
        Command::SelectiveScan(args) => selective_scan::run(*args),
        Command::Layer(args) => layer::run(*args),
        Command::Step(args) => step::run(*args),
        Command::Info(args) => info::run(&args),
        Command::Bench(args) => bench::run(args),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            output::error(&error);
            ExitCode::FAILURE
        }
    }
}
