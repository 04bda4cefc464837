//! What one GPU thread can do.
//!
//! The names are `cuda_std`'s where it has them, so that a kernel reads like rust-cuda
//! code. Each execution is a folder with the same functions: `nvptx` (stock rustc), `nvvm`
//! (rust-cuda, feature `nvvm`) and `emulated` (fibers on the CPU). Kernels touch memory only through [`Global`] and
//! [`Shared`]: on a device they compile to the bare access, in the emulator they are
//! where bounds, alignment, poison and races are checked.
//!
//! Two rules for whoever adds to this:
//! - What all threads of a warp or block must reach together (barriers, shuffles, votes)
//!   goes through an LLVM intrinsic, never `asm!`: inline assembly is not convergent, and
//!   LLVM moves and copies it across branches without a word.
//! - Every function here and every helper that calls one is `#[inline(always)]`.

#[cfg(all(target_arch = "nvptx64", not(feature = "nvvm")))]
#[macro_use]
#[path = "nvptx/mod.rs"]
mod arch;
#[cfg(all(target_arch = "nvptx64", feature = "nvvm"))]
#[macro_use]
#[path = "nvvm/mod.rs"]
mod arch;
#[cfg(not(target_arch = "nvptx64"))]
#[path = "emulated/mod.rs"]
mod arch;
// For its types alone.
#[cfg(all(not(target_arch = "nvptx64"), feature = "nvvm"))]
#[allow(dead_code, unused_imports)]
mod nvvm;

#[macro_use]
mod entry;
#[macro_use]
mod unroll;
pub mod atomic;
mod element;
mod global;
pub mod math;
pub mod matrix;
mod shared;
pub mod thread;
pub mod warp;

pub use element::{Element, Plain, Word};
pub use entry::{Entry, EntryInfo, LaunchBounds, LaunchShape, Multiprocessors};
pub use global::Global;
pub use shared::{Shared, async_copy};
