//! Who this thread is, and the block's barrier.

use super::arch;

macro_rules! index {
    ($($(#[$meta:meta])* $name:ident)*) => { $(
        $(#[$meta])*
        #[inline(always)]
        pub fn $name() -> u32 {
            arch::thread::$name()
        }
    )* };
}

index! {
    /// This thread's x index in its block.
    thread_idx_x
    /// This thread's y index in its block.
    thread_idx_y
    /// This thread's z index in its block.
    thread_idx_z
    /// This block's x index in the grid.
    block_idx_x
    /// This block's y index in the grid.
    block_idx_y
    /// This block's z index in the grid.
    block_idx_z
    /// Threads of a block in x.
    block_dim_x
    /// Threads of a block in y.
    block_dim_y
    /// Threads of a block in z.
    block_dim_z
    /// Blocks of the grid in x.
    grid_dim_x
    /// Blocks of the grid in y.
    grid_dim_y
    /// Blocks of the grid in z.
    grid_dim_z
    /// This thread's lane in its warp, 0 to 31.
    lane_id
}

/// Waits until every thread of the block is here; what they wrote to shared and global
/// memory before it is seen by all of them after it.
#[inline(always)]
#[track_caller]
pub fn sync_threads() {
    arch::thread::sync_threads();
}

/// [`sync_threads`], and whether `predicate` held in any thread of the block.
#[inline(always)]
#[track_caller]
pub fn sync_threads_or(predicate: bool) -> bool {
    arch::thread::sync_threads_or(predicate)
}

/// Called in every turn of a loop that waits for another block: on a device a short
/// pause, in the emulator the place where another block gets to run.
#[inline(always)]
#[track_caller]
pub fn spin_hint() {
    arch::thread::spin_hint();
}

/// The same value, of which the compiler knows nothing: it cannot compute ahead of a loop, into
/// registers that are needed in it, what is made from it.
#[inline(always)]
pub fn opaque(value: u64) -> u64 {
    arch::thread::opaque(value)
}

/// Ends the launch with an error.
#[inline(always)]
#[track_caller]
pub fn trap() -> ! {
    arch::thread::trap()
}
