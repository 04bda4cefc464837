//! The operations: one file each, with its shapes, options, validation and errors. What
//! is said here is said once; every backend takes it from here.

mod linear_scan;
mod sequences;

pub use linear_scan::{LinearScan, LinearScanArgs};
pub use sequences::{Layout, SequenceOffsets};
