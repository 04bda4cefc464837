//! Warp operations: each lane arrives, the last one computes for all.

use crate::emulator::{Operands, WarpOp, lane};
use core::panic::Location;

#[track_caller]
pub fn sync(mask: u32) {
    lane::warp_op(WarpOp::Sync, mask, Operands::default(), Location::caller());
}

macro_rules! shuffles {
    ($($name:ident = $op:ident)*) => { $(
        #[track_caller]
        pub fn $name(mask: u32, value: u32, lane: u32, clamp: u32) -> u32 {
            lane::warp_op(WarpOp::$op, mask, Operands { value, lane, clamp }, Location::caller())
        }
    )* };
}
shuffles! {
    shuffle_idx = ShuffleIdx
    shuffle_up = ShuffleUp
    shuffle_down = ShuffleDown
    shuffle_xor = ShuffleXor
}

macro_rules! words {
    ($($name:ident = $op:ident)*) => { $(
        #[track_caller]
        pub fn $name(mask: u32, value: u32) -> u32 {
            let operands = Operands { value, ..Operands::default() };
            lane::warp_op(WarpOp::$op, mask, operands, Location::caller())
        }
    )* };
}
words! {
    match_any = MatchAny
    reduce_add = ReduceAdd
    reduce_min = ReduceMin
    reduce_max = ReduceMax
}

#[track_caller]
pub fn ballot(mask: u32, predicate: bool) -> u32 {
    let operands = Operands {
        value: u32::from(predicate),
        ..Operands::default()
    };
    lane::warp_op(WarpOp::Ballot, mask, operands, Location::caller())
}
