//! One GPU thread, through stock rustc's NVPTX back end.
//!
//! `convert`, `matrix` and `memory` are assembly and serve `nvvm` too.

/// An entry point of the PTX.
macro_rules! entry_point {
    ($symbol:ident($params:ty) => $body:expr) => {
        #[unsafe(no_mangle)]
        unsafe extern "ptx-kernel" fn $symbol(params: $params) {
            // SAFETY: the launcher checked the buffers against `params`.
            unsafe { $body(params) }
        }
    };
}

mod convert;
pub mod math;
pub mod matrix;
pub mod memory;
pub mod thread;
pub mod warp;
