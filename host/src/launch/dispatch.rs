//! Dispatch on a device that runs kernels: none yet.

use super::Launcher;
use crate::error::Result;
use crate::ops::moe;
use crate::ops::{Dispatch, DispatchArgs, Index, Payload};

/// Bytes of scratch memory of one run with `Slots`.
pub(crate) fn workspace_bytes(_: &Dispatch) -> Result<usize> {
    Ok(0)
}

pub(crate) fn run<T: Payload, I: Index>(
    _: &Dispatch,
    _: &impl Launcher,
    args: DispatchArgs<'_, T, I>,
) -> Result<()> {
    Err(moe::not_yet("dispatch", args.hidden.device()))
}
