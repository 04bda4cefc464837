//! The intrinsics that `cuda_std` does not offer, or offers through a function of its own
//! that LLVM does not know to be convergent: it may copy a call of that into both arms of
//! a branch, which is not the same program on a GPU.

macro_rules! intrinsics {
    ($($name:ident($($argument:ident: $t:ty),*) $(-> $result:ty)? = $link:literal)*) => {
        #[cfg(target_arch = "nvptx64")]
        unsafe extern "C" {
            $(#[link_name = $link] pub safe fn $name($($argument: $t),*) $(-> $result)?;)*
        }
        $(
            #[cfg(not(target_arch = "nvptx64"))]
            pub fn $name($(_: $t),*) $(-> $result)? {
                unreachable!($link)
            }
        )*
    };
}

intrinsics! {
    barrier0() = "llvm.nvvm.barrier0"
    lane_id() -> u32 = "llvm.nvvm.read.ptx.sreg.laneid"
    shuffle_idx(mask: u32, value: u32, lane: u32, clamp: u32) -> u32 = "llvm.nvvm.shfl.sync.idx.i32"
    shuffle_up(mask: u32, value: u32, delta: u32, clamp: u32) -> u32 = "llvm.nvvm.shfl.sync.up.i32"
    shuffle_down(mask: u32, value: u32, delta: u32, clamp: u32) -> u32 = "llvm.nvvm.shfl.sync.down.i32"
    shuffle_xor(mask: u32, value: u32, bits: u32, clamp: u32) -> u32 = "llvm.nvvm.shfl.sync.bfly.i32"
    ballot(mask: u32, predicate: bool) -> u32 = "llvm.nvvm.vote.ballot.sync"
    match_any(mask: u32, value: u32) -> u32 = "llvm.nvvm.match.any.sync.i32"
    exp2_approx(x: f32) -> f32 = "llvm.nvvm.ex2.approx.ftz.f"
    log2_approx(x: f32) -> f32 = "llvm.nvvm.lg2.approx.ftz.f"
}
