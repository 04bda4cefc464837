//! `cargo xtask test`: set-up, PTX, then every test of the workspace.

use crate::build_ptx::{self, Options};
use crate::process::step;
use crate::setup;
use crate::workspace::Workspace;
use anyhow::Result;

/// Arguments of the command.
#[derive(Debug, Default, clap::Args)]
pub struct Args {
    /// Handed to `cargo test`.
    #[arg(last = true, value_name = "CARGO TEST ARGUMENTS")]
    cargo: Vec<String>,
}

/// Runs the command.
pub fn run(args: Args) -> Result<()> {
    let workspace = Workspace::locate()?;
    build_ptx::ensure(&Options::default())?;
    if let Err(reason) = setup::ptxas(&workspace) {
        eprintln!("no ptxas; what needs it is skipped: {reason}");
    }
    let mut cargo = workspace.cargo().arg("test");
    if !names_packages(&args.cargo) {
        cargo = cargo.arg("--workspace");
    }
    cargo = cargo.args(&args.cargo);
    step(cargo.line());
    cargo.show()
}

/// Whether cargo's part of the arguments chooses packages.
fn names_packages(args: &[String]) -> bool {
    args.iter()
        .take_while(|arg| *arg != "--")
        .any(|arg| arg.starts_with("-p") || arg.starts_with("--package"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_are_seen() {
        let named = |line: &str| {
            let args: Vec<_> = line.split_whitespace().map(str::to_owned).collect();
            names_packages(&args)
        };
        assert!(named("-p ferroseq") && named("-pferroseq") && named("--package=x name"));
        assert!(!named("") && !named("name --release") && !named("name -- -p"));
    }
}
