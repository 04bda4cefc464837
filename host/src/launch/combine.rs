//! Combine on a device that runs kernels: none yet.

use super::Launcher;
use crate::dtype::Element;
use crate::error::Result;
use crate::ops::moe;
use crate::ops::{Combine, CombineArgs, Index};

pub(crate) fn run<T: Element, I: Index>(
    _: &Combine,
    _: &impl Launcher,
    args: CombineArgs<'_, T, I>,
) -> Result<()> {
    Err(moe::not_yet("combine", args.packed.device()))
}
