//! The command line, on the real binary.

mod bench;
mod errors;
mod files;
mod info;
mod moe;
mod scan;
pub mod scene;
mod selective;
mod selective_errors;
