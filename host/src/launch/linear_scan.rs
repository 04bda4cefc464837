//! Linear scan on a device that runs kernels.

use super::Launcher;
use crate::dtype::Element;
use crate::error::Result;
use crate::ops::{LinearScan, LinearScanArgs};

pub(crate) fn run<T: Element>(
    _op: &LinearScan,
    _device: &impl Launcher,
    _args: LinearScanArgs<'_, T>,
) -> Result<()> {
    todo!("typed launch")
}
