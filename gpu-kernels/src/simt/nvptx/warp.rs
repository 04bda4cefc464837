//! Shuffles, votes and reductions. LLVM intrinsics only: convergent.

mod llvm {
    unsafe extern "C" {
        #[link_name = "llvm.nvvm.bar.warp.sync"]
        pub safe fn bar_warp_sync(mask: u32);
        #[link_name = "llvm.nvvm.shfl.sync.idx.i32"]
        pub safe fn shfl_idx(mask: u32, value: u32, lane: u32, clamp: u32) -> u32;
        #[link_name = "llvm.nvvm.shfl.sync.up.i32"]
        pub safe fn shfl_up(mask: u32, value: u32, delta: u32, clamp: u32) -> u32;
        #[link_name = "llvm.nvvm.shfl.sync.down.i32"]
        pub safe fn shfl_down(mask: u32, value: u32, delta: u32, clamp: u32) -> u32;
        #[link_name = "llvm.nvvm.shfl.sync.bfly.i32"]
        pub safe fn shfl_bfly(mask: u32, value: u32, bits: u32, clamp: u32) -> u32;
        #[link_name = "llvm.nvvm.vote.ballot.sync"]
        pub safe fn ballot(mask: u32, predicate: bool) -> u32;
        #[link_name = "llvm.nvvm.match.any.sync.i32"]
        pub safe fn match_any(mask: u32, value: u32) -> u32;
        #[link_name = "llvm.nvvm.redux.sync.add"]
        pub safe fn redux_add(value: u32, mask: u32) -> u32;
        #[link_name = "llvm.nvvm.redux.sync.umin"]
        pub safe fn redux_min(value: u32, mask: u32) -> u32;
        #[link_name = "llvm.nvvm.redux.sync.umax"]
        pub safe fn redux_max(value: u32, mask: u32) -> u32;
    }
}

#[inline(always)]
pub fn sync(mask: u32) {
    llvm::bar_warp_sync(mask);
}

#[inline(always)]
pub fn shuffle_idx(mask: u32, value: u32, lane: u32, clamp: u32) -> u32 {
    llvm::shfl_idx(mask, value, lane, clamp)
}

#[inline(always)]
pub fn shuffle_up(mask: u32, value: u32, delta: u32, clamp: u32) -> u32 {
    llvm::shfl_up(mask, value, delta, clamp)
}

#[inline(always)]
pub fn shuffle_down(mask: u32, value: u32, delta: u32, clamp: u32) -> u32 {
    llvm::shfl_down(mask, value, delta, clamp)
}

#[inline(always)]
pub fn shuffle_xor(mask: u32, value: u32, bits: u32, clamp: u32) -> u32 {
    llvm::shfl_bfly(mask, value, bits, clamp)
}

#[inline(always)]
pub fn ballot(mask: u32, predicate: bool) -> u32 {
    llvm::ballot(mask, predicate)
}

#[inline(always)]
pub fn match_any(mask: u32, value: u32) -> u32 {
    llvm::match_any(mask, value)
}

#[inline(always)]
pub fn reduce_add(mask: u32, value: u32) -> u32 {
    llvm::redux_add(value, mask)
}

#[inline(always)]
pub fn reduce_min(mask: u32, value: u32) -> u32 {
    llvm::redux_min(value, mask)
}

#[inline(always)]
pub fn reduce_max(mask: u32, value: u32) -> u32 {
    llvm::redux_max(value, mask)
}
