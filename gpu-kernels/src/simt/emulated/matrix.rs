//! Matrix products of a warp: a warp operation of all 32 lanes.

use crate::emulator::{MatrixOperands, WarpOp, lane};
use core::panic::Location;

macro_rules! multiply {
    ($($name:ident = $op:ident)*) => { $(
        #[track_caller]
        pub fn $name(a: [u32; 4], b: [u32; 2], c: [f32; 4]) -> [f32; 4] {
            lane::matrix_op(WarpOp::$op, MatrixOperands { a, b, c }, Location::caller())
        }
    )* };
}
multiply! {
    multiply_tf32 = MultiplyTf32
    multiply_bf16 = MultiplyBf16
    multiply_f16 = MultiplyF16
}

#[track_caller]
pub fn multiply_bf16_half([upper, lower]: [u32; 2], b: u32, c: [f32; 4]) -> [f32; 4] {
    multiply_bf16([upper, lower, 0, 0], [b, 0], c)
}
