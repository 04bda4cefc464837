//! Special registers and the block barrier.

use super::llvm;
pub use cuda_std::thread::{
    block_dim_x, block_dim_y, block_dim_z, block_idx_x, block_idx_y, block_idx_z, grid_dim_x,
    grid_dim_y, grid_dim_z, thread_idx_x, thread_idx_y, thread_idx_z,
};
pub use llvm::lane_id;

#[inline(always)]
pub fn sync_threads() {
    llvm::barrier0();
}

#[inline(always)]
pub fn sync_threads_or(predicate: bool) -> bool {
    cuda_std::thread::sync_threads_or(u32::from(predicate)) != 0
}

#[cfg(target_arch = "nvptx64")]
#[inline(always)]
pub fn spin_hint() {
    // SAFETY: a pause of this thread; touches nothing. Not convergent, needs not to be.
    unsafe { core::arch::asm!("nanosleep.u32 20;", options(nostack)) }
}

#[cfg(target_arch = "nvptx64")]
#[inline(always)]
pub fn trap() -> ! {
    // SAFETY: ends the launch with an error.
    unsafe { core::arch::asm!("trap;", options(nostack)) }
    loop {}
}

#[cfg(target_arch = "nvptx64")]
#[inline(always)]
pub fn opaque(mut value: u64) -> u64 {
    // SAFETY: no instruction. Not `pure`: that could be moved ahead of the loop.
    unsafe { core::arch::asm!("// {0}", inout(reg64) value, options(nomem, nostack)) };
    value
}
