//! Linear scan on a device that runs kernels.

use super::{Kernels, Launcher};
use crate::buffer::Buffer;
use crate::dtype::{Data, Element};
use crate::error::{Error, Result};
use crate::ops::{Layout, LinearScan, LinearScanArgs};
use gpu_kernels::linear_scan::{LinearScanParams, policy};
use gpu_kernels::simt::Global;

pub(crate) fn run<T: Element>(
    op: &LinearScan,
    device: &impl Launcher,
    args: LinearScanArgs<'_, T>,
) -> Result<()> {
    let params = params(op, &args);
    check(op, &params, &args)?;
    match policy::launch(&params) {
        Some(shape) => device.launch::<<T as Kernels>::LinearScan>(shape, params),
        None if params.sequences == 0 || params.channels == 0 => Ok(()),
        None => Err(too_large(op)),
    }
}

fn params<T: Element>(op: &LinearScan, args: &LinearScanArgs<'_, T>) -> LinearScanParams<T> {
    let (length, channels) = (op.length as u64, op.channels as u64);
    let (time_stride, channel_stride) = match op.layout {
        Layout::Bld => (channels, 1),
        Layout::Bdl => (1, length),
    };
    LinearScanParams {
        a: args.a.global(),
        b: args.b.map_or_else(|| args.h.global(), Buffer::global),
        h: args.h.global(),
        h0: args.h0.map_or(Global::null(), Buffer::global),
        final_state: args
            .final_state
            .as_ref()
            .map_or(Global::null(), |state| state.global()),
        offsets: args
            .offsets
            .map_or(Global::null(), |offsets| offsets.buffer().global()),
        sequences: op.sequences(args.offsets) as u64,
        length,
        channels,
        sequence_stride: match args.offsets {
            // Read only where B > 0, and then it fits (`LinearScan::elements`).
            None => length.saturating_mul(channels),
            Some(_) => 0,
        },
        time_stride,
        channel_stride,
        reverse: op.reverse.into(),
        padding: 0,
    }
}

/// The last word before the device: no buffer is shorter than what the kernel accesses for
/// these parameters.
fn check<T: Element>(
    op: &LinearScan,
    params: &LinearScanParams<T>,
    args: &LinearScanArgs<'_, T>,
) -> Result<()> {
    let required = params.required().ok_or_else(|| too_large(op))?;
    covers("a", args.a, required.elements)?;
    if let Some(b) = args.b {
        covers("b", b, required.elements)?;
    }
    covers("h", args.h, required.elements)?;
    if let Some(h0) = args.h0 {
        covers("h0", h0, required.states)?;
    }
    if let Some(state) = &args.final_state {
        covers("final_state", state, required.states)?;
    }
    match args.offsets {
        Some(offsets) => covers("cu_seqlens", offsets.buffer(), required.offsets),
        None => Ok(()),
    }
}

fn covers<U: Data>(argument: &'static str, buffer: &Buffer<U>, required: u64) -> Result<()> {
    if buffer.len() as u64 >= required {
        return Ok(());
    }
    Err(Error::Length {
        operation: "linear scan",
        argument,
        found: buffer.len(),
        expected: usize::try_from(required).unwrap_or(usize::MAX),
        shape: "what the kernel accesses".to_owned(),
    })
}

fn too_large(op: &LinearScan) -> Error {
    Error::TooLarge {
        operation: "linear scan",
        shape: format!("{op:?}"),
    }
}
