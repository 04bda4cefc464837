//! One GPU thread on the CPU: a fiber of the emulator.

pub mod math;

#[cfg(not(feature = "emulator"))]
mod absent;
#[cfg(not(feature = "emulator"))]
pub use absent::{matrix, memory, thread, warp};

#[cfg(feature = "emulator")]
pub mod matrix;
#[cfg(feature = "emulator")]
pub mod memory;
#[cfg(feature = "emulator")]
pub mod thread;
#[cfg(feature = "emulator")]
pub mod warp;
