//! What the operations must compute: in float64, with the error an f32 evaluation may make.

pub mod bound;
pub mod linear_scan;
pub mod linear_scan_backward;
pub mod selective_scan;

pub use bound::{Interval, Running};
