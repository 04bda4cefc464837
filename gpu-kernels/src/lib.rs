//! Ferroseq's device code.
//!
//! The same source runs three ways: stock `rustc` turns it into PTX (`simt/nvptx`),
//! rust-cuda does (`simt/nvvm`), and the emulator runs it on the CPU, one fiber per GPU
//! thread (`simt/emulated`). A kernel never asks which: everything that differs is
//! behind [`simt`].
//!
//! As an ordinary host crate this is the launch contract: parameter structs, tile sizes,
//! launch shapes and the list of entry points, shared by the launcher, the emulator and
//! the PTX build, and written nowhere else.

#![cfg_attr(target_arch = "nvptx64", no_std)]
#![cfg_attr(
    target_arch = "nvptx64",
    feature(asm_experimental_arch, core_float_math, link_llvm_intrinsics)
)]
#![cfg_attr(all(target_arch = "nvptx64", not(feature = "nvvm")), feature(abi_ptx))]
#![cfg_attr(target_arch = "nvptx64", allow(internal_features))]
// cuda_builder says `no_std` on the command line.
#![cfg_attr(
    all(target_arch = "nvptx64", feature = "nvvm"),
    allow(unused_attributes)
)]

#[macro_use]
pub mod simt;

pub mod activation;

#[cfg(feature = "ceilings")]
pub mod ceilings;
#[cfg(all(feature = "emulator", not(target_arch = "nvptx64")))]
pub mod emulator;
#[cfg(any(feature = "linear-scan", feature = "linear-scan-backward"))]
pub mod linear_scan;
#[cfg(feature = "moe")]
pub mod moe;
#[cfg(feature = "projection")]
pub mod projection;
pub mod scan;
#[cfg(feature = "selective-scan")]
pub mod selective_scan;

use simt::EntryInfo;

/// A family of kernels: one PTX module, built from one cargo feature of this crate.
#[derive(Clone, Copy, Debug)]
pub struct Family {
    /// The module's name, and the stem of its PTX file.
    pub module: &'static str,
    /// The cargo feature that compiles it.
    pub feature: &'static str,
    /// Its entry points.
    pub entries: &'static [EntryInfo],
}

/// Every family compiled into this build of the crate.
pub const FAMILIES: &[Family] = &[
    #[cfg(feature = "ceilings")]
    Family {
        module: ceilings::MODULE,
        feature: "ceilings",
        entries: ceilings::ENTRIES,
    },
    #[cfg(feature = "linear-scan")]
    Family {
        module: linear_scan::MODULE,
        feature: "linear-scan",
        entries: linear_scan::ENTRIES,
    },
    #[cfg(feature = "linear-scan-backward")]
    Family {
        module: linear_scan::backward::MODULE,
        feature: "linear-scan-backward",
        entries: linear_scan::backward::ENTRIES,
    },
    #[cfg(feature = "moe")]
    Family {
        module: moe::MODULE,
        feature: "moe",
        entries: moe::ENTRIES,
    },
    #[cfg(feature = "projection")]
    Family {
        module: projection::MODULE,
        feature: "projection",
        entries: projection::ENTRIES,
    },
    #[cfg(feature = "selective-scan")]
    Family {
        module: selective_scan::MODULE,
        feature: "selective-scan",
        entries: selective_scan::ENTRIES,
    },
];

// With rust-cuda, `cuda_std` has one.
#[cfg(all(target_arch = "nvptx64", not(feature = "nvvm")))]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo) -> ! {
    simt::thread::trap()
}
