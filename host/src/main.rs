//! `ferroseq`: the operations on files, from the command line.

#![forbid(unsafe_code)]

mod cli;

fn main() -> std::process::ExitCode {
    cli::main()
}
