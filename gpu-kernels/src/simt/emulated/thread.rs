//! Indices, the block barrier, and the ways to give up one's turn.

use crate::emulator::{FaultKind, lane};
use core::panic::Location;

macro_rules! index {
    ($($name:ident = $value:expr;)*) => { $(
        pub fn $name() -> u32 {
            $value
        }
    )* };
}

index! {
    thread_idx_x = lane::thread_index()[0];
    thread_idx_y = lane::thread_index()[1];
    thread_idx_z = lane::thread_index()[2];
    block_idx_x = lane::block_index()[0];
    block_idx_y = lane::block_index()[1];
    block_idx_z = lane::block_index()[2];
    block_dim_x = lane::shape().block[0];
    block_dim_y = lane::shape().block[1];
    block_dim_z = lane::shape().block[2];
    grid_dim_x = lane::shape().grid[0];
    grid_dim_y = lane::shape().grid[1];
    grid_dim_z = lane::shape().grid[2];
    lane_id = lane::lane_id();
}

#[track_caller]
pub fn sync_threads() {
    lane::sync_threads_or(false, Location::caller());
}

#[track_caller]
pub fn sync_threads_or(predicate: bool) -> bool {
    lane::sync_threads_or(predicate, Location::caller())
}

#[track_caller]
pub fn spin_hint() {
    lane::spin_hint(Location::caller());
}

#[track_caller]
pub fn trap() -> ! {
    lane::fail(FaultKind::Trap, Location::caller())
}

pub fn opaque(value: u64) -> u64 {
    value
}
