//! Linear scan on the CPU.

use crate::dtype::Element;
use crate::error::Result;
use crate::ops::{LinearScan, LinearScanArgs};

pub(crate) fn run<T: Element>(_op: &LinearScan, _args: LinearScanArgs<'_, T>) -> Result<()> {
    todo!("cpu backend")
}
