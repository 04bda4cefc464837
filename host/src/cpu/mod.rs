//! The CPU backend: one file per operation, on slices, in safe code.
//!
//! Every channel is computed by one thread in the definition's order, so the bits do not
//! depend on how the work is split, on the number of threads or on what else is in the batch.

pub(crate) mod linear_scan;
pub(crate) mod linear_scan_backward;
pub(crate) mod projection;
pub(crate) mod selective_scan;
pub(crate) mod selective_scan_step;

mod lanes;
mod math;
mod pieces;
mod selective_tile;

use crate::buffer::{Buffer, Storage};
use crate::dtype::Data;

/// The elements of a buffer that validation found on this device.
fn slice<T: Data>(buffer: &Buffer<T>) -> &[T] {
    match &buffer.storage {
        Storage::Host(vec) => vec,
        _ => unreachable!("validated: the buffer lives on the host"),
    }
}

/// The elements of a buffer that validation found on this device.
fn slice_mut<T: Data>(buffer: &mut Buffer<T>) -> &mut [T] {
    match &mut buffer.storage {
        Storage::Host(vec) => vec,
        _ => unreachable!("validated: the buffer lives on the host"),
    }
}

/// The slice behind a row of `[B, L, D]` or a column of `[B, D, L]`: neighbours in memory.
#[inline(always)]
fn contiguous<S>(slice: Option<S>) -> S {
    slice.expect("rows and columns are cut along the contiguous axis")
}
