//! Combine backward on a device that runs kernels: none yet.

use super::Launcher;
use crate::dtype::Element;
use crate::error::Result;
use crate::ops::moe;
use crate::ops::{CombineBackward, CombineBackwardArgs, Index};

/// Bytes of scratch memory of one run with `Slots`.
pub(crate) fn workspace_bytes(_: &CombineBackward) -> Result<usize> {
    Ok(0)
}

pub(crate) fn run<T: Element, I: Index>(
    _: &CombineBackward,
    _: &impl Launcher,
    args: CombineBackwardArgs<'_, T, I>,
) -> Result<()> {
    Err(moe::not_yet("combine backward", args.grad_out.device()))
}
