//! One GPU thread, through stock rustc's NVPTX back end.

pub mod math;
pub mod matrix;
pub mod memory;
pub mod thread;
pub mod warp;
