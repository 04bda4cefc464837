//! The CPU backend: one file per operation, on slices.

pub(crate) mod linear_scan;
