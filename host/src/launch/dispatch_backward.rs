//! Dispatch backward on a device that runs kernels: none yet.

use super::Launcher;
use crate::dtype::Element;
use crate::error::Result;
use crate::ops::moe;
use crate::ops::{DispatchBackward, DispatchBackwardArgs, Index};

/// Bytes of scratch memory of one run with `Slots`.
pub(crate) fn workspace_bytes(_: &DispatchBackward) -> Result<usize> {
    Ok(0)
}

pub(crate) fn run<T: Element, I: Index>(
    _: &DispatchBackward,
    _: &impl Launcher,
    args: DispatchBackwardArgs<'_, T, I>,
) -> Result<()> {
    Err(moe::not_yet("dispatch backward", args.grad_packed.device()))
}
