//! Ferroseq's build commands.

mod check_ptx;

use clap::Parser;

#[derive(Parser)]
enum Command {
    /// Checks the PTX of the kernels without a GPU
    CheckPtx(check_ptx::Args),
}

fn main() -> anyhow::Result<()> {
    match Command::parse() {
        Command::CheckPtx(args) => check_ptx::run(args),
    }
}
