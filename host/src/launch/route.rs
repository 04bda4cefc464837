//! Route on a device that runs kernels: none yet.

use super::Launcher;
use crate::error::Result;
use crate::ops::moe;
use crate::ops::{Index, Route, RouteArgs};

/// Bytes of scratch memory of one run.
pub(crate) fn workspace_bytes(_: &Route) -> Result<usize> {
    Ok(0)
}

pub(crate) fn run<I: Index>(_: &Route, _: &impl Launcher, args: RouteArgs<'_, I>) -> Result<()> {
    Err(moe::not_yet("route", args.expert_ids.device()))
}
