//! `ferroseq info`.

use super::output;

/// Show what this build and this machine have: GPUs, driver, embedded PTX
///
/// A machine without a driver or a GPU is not an error: that is what it says then.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:\n  ferroseq info\n  ferroseq info --json")]
pub struct Args {
    /// One JSON object on stdout
    #[arg(long)]
    json: bool,
}

pub fn run(args: &Args) -> anyhow::Result<()> {
    let info = ferroseq::info::collect();
    if args.json {
        output::print(&serde_json::to_string_pretty(&info)?)
    } else {
        output::print(info.to_string().trim_end())
    }
}
