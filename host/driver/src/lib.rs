//! The CUDA driver, loaded when the program runs instead of linked when it is built.
//!
//! `cust_raw` declares the driver's `cu*` functions and links `-lcuda`. This crate defines
//! them: each forwards to the real driver (`libcuda.so.1`) if the machine has one, and
//! returns `CUDA_ERROR_NO_DEVICE` if not, so one binary builds and starts everywhere. The
//! empty archive in `stub/lib64` is what `-lcuda` finds (`.cargo/config.toml` says where).
//!
//! It also stands between the driver's codes and `cust`'s closed enum `CUresult`, which
//! lacks the newer ones: a code that the enum does not have arrives there as
//! `CUDA_ERROR_UNKNOWN`, and [`last_code`] keeps the driver's own number.
//!
//! The environment variable `FERROSEQ_LIBCUDA` names a file to load in place of the
//! system's driver (for tests, or a driver outside the loader's path).

mod codes;
mod library;
mod table;

pub use codes::{describe, last_code};
pub use library::{DriverInfo, Missing, status};

/// `CUDA_SUCCESS`.
pub const SUCCESS: i32 = 0;
/// `CUDA_ERROR_OUT_OF_MEMORY`.
pub const OUT_OF_MEMORY: i32 = 2;
/// `CUDA_ERROR_NO_DEVICE`: also what every function returns where there is no driver.
pub const NO_DEVICE: i32 = 100;
/// `CUDA_ERROR_NOT_FOUND`: also what a function returns that this driver does not have.
pub const NOT_FOUND: i32 = 500;
/// `CUDA_ERROR_UNKNOWN`: what `cust` sees for a code that it has no name for.
pub const UNKNOWN: i32 = 999;

/// Names of the driver functions that this crate defines.
pub const fn functions() -> &'static [&'static str] {
    table::NAMES
}
