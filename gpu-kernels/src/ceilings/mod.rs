//! What this card can do: the kernels that `ferroseq bench` measures its ceilings with.
//!
//! Streaming (copy, triad, write), arithmetic (`exp2`, `fma`) and a kernel that does
//! nothing. They belong to no operation; every percentage the bench prints is a share of
//! what one of these reached in the same run on the same card.

mod arithmetic;
mod params;
pub mod policy;
mod stream;
#[cfg(all(test, feature = "emulator"))]
mod tests;

pub use params::{ArithmeticParams, EmptyParams, StreamParams};

entries! {
    module "ceilings";
    /// One read, one write: `out = a`.
    Copy = ceiling_copy(StreamParams) => stream::copy::<false>,
        bounds(policy::BLOCK, policy::MIN_BLOCKS);
    /// [`struct@Copy`] by asynchronous copies, and whose written lines are the first to leave the L2.
    CopyStaged = ceiling_copy_staged(StreamParams) => stream::copy::<true>,
        bounds(policy::BLOCK, policy::MIN_BLOCKS);
    /// Two reads, one write: `out = scale * a + b`, the traffic of a linear scan.
    Triad = ceiling_triad(StreamParams) => stream::triad::<false>,
        bounds(policy::BLOCK, policy::MIN_BLOCKS);
    /// [`Triad`] by asynchronous copies, and whose written lines are the first to leave the L2.
    TriadStaged = ceiling_triad_staged(StreamParams) => stream::triad::<true>,
        bounds(policy::BLOCK, policy::MIN_BLOCKS);
    /// One write: `out = scale`.
    Write = ceiling_write(StreamParams) => stream::write::<false>,
        bounds(policy::BLOCK, policy::MIN_BLOCKS);
    /// [`Write`] whose lines are the first to leave the L2.
    WriteOnce = ceiling_write_once(StreamParams) => stream::write::<true>,
        bounds(policy::BLOCK, policy::MIN_BLOCKS);
    /// Special-function unit: chains of `exp2`.
    Exp2 = ceiling_exp2(ArithmeticParams) => arithmetic::exp2,
        bounds(policy::BLOCK, policy::ARITHMETIC_BLOCKS);
    /// f32 pipes: chains of fused multiply-adds.
    Fma = ceiling_fma(ArithmeticParams) => arithmetic::multiply_add,
        bounds(policy::BLOCK, policy::ARITHMETIC_BLOCKS);
    /// Nothing: its time is the launch's own.
    Empty = ceiling_empty(EmptyParams) => nothing,
        bounds(policy::BLOCK, 0);
}

#[inline(always)]
unsafe fn nothing(_: EmptyParams) {}
