//! One GPU thread, through rust-cuda: `cuda_std` where it does what its documentation
//! says, LLVM's intrinsics ([`llvm`]) and the assembly of `nvptx` where it does not.
//! docs/rust-cuda.md lists which is which, and why.
//!
//! On the host it is compiled without its assembly and never called, so that a change that
//! no longer fits `cuda_std` shows there.

/// An entry point of the PTX. `cuda_std`'s macro writes the trait's name `Copy` into it,
/// which a family may have given to one of its kernels.
#[cfg(target_arch = "nvptx64")]
macro_rules! entry_point {
    ($symbol:ident($params:ty) => $body:expr) => {
        const _: () = {
            use core::marker::Copy;
            #[cuda_std::kernel]
            pub unsafe fn $symbol(params: $params) {
                // SAFETY: the launcher checked the buffers against `params`.
                unsafe { $body(params) }
            }
        };
    };
}

#[cfg(target_arch = "nvptx64")]
#[path = "../nvptx/convert.rs"]
mod convert;
mod llvm;
pub mod math;
#[cfg(target_arch = "nvptx64")]
#[path = "../nvptx/matrix.rs"]
pub mod matrix;
#[cfg(target_arch = "nvptx64")]
#[path = "../nvptx/memory.rs"]
pub mod memory;
pub mod thread;
pub mod warp;
