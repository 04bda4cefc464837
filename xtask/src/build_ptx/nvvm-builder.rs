//! Compiled by xtask against the `cuda_builder` of the user's rust-cuda, never as a part
//! of this workspace. One crate in, one PTX file out.
//!
//! Arguments: the crate's folder, its feature, `compute_NN`, `release` or `debug`, cargo's
//! target folder, the file to write.

use cuda_builder::{CudaBuilder, DebugInfo, NvvmArch};

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [folder, feature, arch, profile, target, output] = arguments.as_slice() else {
        eprintln!("expected six arguments");
        std::process::exit(2);
    };
    let arch: NvvmArch = arch.parse().unwrap_or_else(|error| {
        eprintln!("{arch}: {error}");
        std::process::exit(2);
    });
    let debug = if profile == "debug" {
        DebugInfo::LineTables
    } else {
        DebugInfo::None
    };
    let built = CudaBuilder::new(folder)
        .arch(arch)
        // A product and a sum are two roundings, as in the other executions.
        .fma_contraction(false)
        .debug(debug)
        .build_args(&["--quiet", "--features", feature, "--target-dir", target])
        .copy_to(output)
        .build();
    if let Err(error) = built {
        eprintln!("{error}");
        std::process::exit(1);
    }
}
