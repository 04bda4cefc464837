//! Special registers and the block barrier. LLVM intrinsics only: convergent.

use core::arch::asm;

macro_rules! special_registers {
    ($($name:ident = $link:literal)*) => {
        mod llvm {
            unsafe extern "C" {
                $(#[link_name = $link] pub safe fn $name() -> u32;)*
                #[link_name = "llvm.nvvm.barrier0"]
                pub safe fn barrier0();
                #[link_name = "llvm.nvvm.barrier0.or"]
                pub safe fn barrier0_or(predicate: u32) -> u32;
            }
        }
        $(
            #[inline(always)]
            pub fn $name() -> u32 {
                llvm::$name()
            }
        )*
    };
}

special_registers! {
    thread_idx_x = "llvm.nvvm.read.ptx.sreg.tid.x"
    thread_idx_y = "llvm.nvvm.read.ptx.sreg.tid.y"
    thread_idx_z = "llvm.nvvm.read.ptx.sreg.tid.z"
    block_idx_x = "llvm.nvvm.read.ptx.sreg.ctaid.x"
    block_idx_y = "llvm.nvvm.read.ptx.sreg.ctaid.y"
    block_idx_z = "llvm.nvvm.read.ptx.sreg.ctaid.z"
    block_dim_x = "llvm.nvvm.read.ptx.sreg.ntid.x"
    block_dim_y = "llvm.nvvm.read.ptx.sreg.ntid.y"
    block_dim_z = "llvm.nvvm.read.ptx.sreg.ntid.z"
    grid_dim_x = "llvm.nvvm.read.ptx.sreg.nctaid.x"
    grid_dim_y = "llvm.nvvm.read.ptx.sreg.nctaid.y"
    grid_dim_z = "llvm.nvvm.read.ptx.sreg.nctaid.z"
    lane_id = "llvm.nvvm.read.ptx.sreg.laneid"
}

#[inline(always)]
pub fn sync_threads() {
    llvm::barrier0();
}

#[inline(always)]
pub fn sync_threads_or(predicate: bool) -> bool {
    llvm::barrier0_or(u32::from(predicate)) != 0
}

#[inline(always)]
pub fn spin_hint() {
    // SAFETY: a pause of this thread; touches nothing. Not convergent, needs not to be.
    unsafe { asm!("nanosleep.u32 20;", options(nostack)) }
}

#[inline(always)]
pub fn trap() -> ! {
    // SAFETY: ends the launch with an error.
    unsafe { asm!("trap;", options(nostack)) }
    loop {}
}

#[inline(always)]
pub fn opaque(mut value: u64) -> u64 {
    // SAFETY: no instruction. Not `pure`: that could be moved ahead of the loop.
    unsafe { asm!("// {0}", inout(reg64) value, options(nomem, nostack)) };
    value
}
