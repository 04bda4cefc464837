//! Selective scan on a device that runs kernels.

use super::{Kernels, Launcher, covers, optional, too_large};
use crate::dtype::Element;
use crate::error::Result;
use crate::ops::{Layout, SelectiveScan, SelectiveScanArgs};
use gpu_kernels::selective_scan::policy::{self, Kernel};
use gpu_kernels::selective_scan::segments::Scan;
use gpu_kernels::selective_scan::{MODULE, SelectiveScanParams, options};
use gpu_kernels::simt::Global;
use std::sync::atomic::{AtomicU64, Ordering};

const NAME: &str = "selective scan";
/// The next call's number: launches of several threads may come between the two of a call.
static CALLS: AtomicU64 = AtomicU64::new(1);
/// The scratch memory of states between segments.
const BETWEEN: &str = "selective_scan between segments";

pub(crate) fn run<T: Element>(
    op: &SelectiveScan,
    device: &impl Launcher,
    args: SelectiveScanArgs<'_, T>,
) -> Result<()> {
    let sequences = op.sequences(args.offsets);
    if sequences == 0 || op.channels == 0 {
        return Ok(());
    }
    let too_large = || too_large(NAME, op);
    let launch = policy::launch(
        sequences as u64,
        op.length as u64,
        op.groups as u64,
        (op.channels / op.groups) as u64,
        op.state as u64,
        T::DTYPE.size() as u32,
    )
    .ok_or_else(too_large)?;
    let params = params(op, &args, sequences, &launch).ok_or_else(too_large)?;
    check(op, &params, &args)?;
    let call = CALLS.fetch_add(1, Ordering::Relaxed);
    let params = SelectiveScanParams { call, ..params };
    let counters = split(op, device, params)?;
    run_kernel(
        op,
        device,
        &launch,
        SelectiveScanParams { counters, ..params },
    )
}

/// Scans sequences in segments where that keeps more of the device busy, and gives what the
/// launch behind it, which scans the rest, needs for it; null if there was none.
fn split<T: Element>(
    op: &SelectiveScan,
    device: &impl Launcher,
    params: SelectiveScanParams<T>,
) -> Result<Global<u64>> {
    if !params.offsets.is_null() {
        return Ok(Global::null());
    }
    let scan = Scan {
        sequences: u64::from(params.sequences),
        length: params.length,
        groups: u64::from(params.groups),
        group_channels: params.group_channels,
        states: u64::from(params.states),
        size: T::DTYPE.size() as u32,
    };
    let Some(split) = scan.best_split(device.multiprocessors()) else {
        return Ok(Global::null());
    };
    let bytes = |words: u64, size: u64| {
        usize::try_from(words.saturating_mul(size)).map_err(|_| too_large(NAME, op))
    };
    // Counters have memory of their own: they must still be zero for the next launch, which may
    // be one of another shape.
    let counters = device.scratch(MODULE, bytes(split.counter_words, 8)?);
    let between = device.scratch(BETWEEN, bytes(split.state_words, 4)?);
    let (Ok(counters), Ok(between)) = (counters, between) else {
        // No memory: as a whole it takes none.
        return Ok(Global::null());
    };
    let (counters, between) = (counters.cast(), between.cast());
    let params = SelectiveScanParams {
        counters,
        between,
        ..split.params(params)
    };
    run_kernel(op, device, &split.launch, params)?;
    Ok(counters)
}

fn run_kernel<T: Element>(
    op: &SelectiveScan,
    device: &impl Launcher,
    launch: &policy::Launch,
    params: SelectiveScanParams<T>,
) -> Result<()> {
    let shape = launch.shape;
    match (op.layout, launch.cut.kernel) {
        (Layout::Bld, Kernel::Narrow) => {
            device.launch::<<T as Kernels>::SelectiveRowsNarrow>(shape, params)
        }
        (Layout::Bld, Kernel::Alone) => {
            device.launch::<<T as Kernels>::SelectiveRowsAlone>(shape, params)
        }
        (Layout::Bld, Kernel::Merged) => {
            device.launch::<<T as Kernels>::SelectiveRowsMerged>(shape, params)
        }
        (Layout::Bld, Kernel::Wide) => {
            device.launch::<<T as Kernels>::SelectiveRowsWide>(shape, params)
        }
        (Layout::Bdl, Kernel::Narrow) => {
            device.launch::<<T as Kernels>::SelectiveColumnsNarrow>(shape, params)
        }
        (Layout::Bdl, Kernel::Alone) => {
            device.launch::<<T as Kernels>::SelectiveColumnsAlone>(shape, params)
        }
        (Layout::Bdl, Kernel::Merged) => {
            device.launch::<<T as Kernels>::SelectiveColumnsMerged>(shape, params)
        }
        (Layout::Bdl, Kernel::Wide) => {
            device.launch::<<T as Kernels>::SelectiveColumnsWide>(shape, params)
        }
    }
}

/// The parameters; `None` if there are too many sequences.
fn params<T: Element>(
    op: &SelectiveScan,
    args: &SelectiveScanArgs<'_, T>,
    sequences: usize,
    launch: &policy::Launch,
) -> Option<SelectiveScanParams<T>> {
    Some(SelectiveScanParams {
        x: args.x.global(),
        delta: args.delta.global(),
        z: optional(args.z),
        y: args.y.global(),
        b: args.b.global(),
        c: args.c.global(),
        a: args.a.buffer().global(),
        d_skip: optional(args.d_skip),
        delta_bias: optional(args.delta_bias),
        h0: optional(args.h0),
        final_state: optional(args.final_state.as_deref()),
        offsets: optional(args.offsets.map(|offsets| offsets.buffer())),
        length: op.length as u64,
        group_channels: (op.channels / op.groups) as u64,
        sequences: u32::try_from(sequences).ok()?,
        groups: u32::try_from(op.groups).ok()?,
        channel_blocks: launch.channel_blocks,
        states: op.state as u32,
        log2_lanes: launch.cut.log2_lanes,
        log2_channels: launch.cut.log2_channels(),
        counters: Global::null(),
        call: 0,
        between: Global::null(),
        segments: 1,
        segment_tiles: 0,
        padding: 0,
        options: flags(op.softplus, args.a.is_log()),
    })
}

/// The bits of [`options`].
pub(super) fn flags(softplus: bool, log: bool) -> u32 {
    let bit = |on, bit| if on { bit } else { 0 };
    bit(softplus, options::SOFTPLUS) | bit(log, options::LOG)
}

/// The last word before the device: no buffer is shorter than what the kernel accesses for
/// these parameters.
fn check<T: Element>(
    op: &SelectiveScan,
    params: &SelectiveScanParams<T>,
    args: &SelectiveScanArgs<'_, T>,
) -> Result<()> {
    let required = params.required().ok_or_else(|| too_large(NAME, op))?;
    covers(NAME, "x", Some(args.x), required.elements)?;
    covers(NAME, "delta", Some(args.delta), required.elements)?;
    covers(NAME, "z", args.z, required.elements)?;
    covers(NAME, "y", Some(&*args.y), required.elements)?;
    covers(NAME, "B", Some(args.b), required.matrices)?;
    covers(NAME, "C", Some(args.c), required.matrices)?;
    covers(NAME, "A", Some(args.a.buffer()), required.parameters)?;
    covers(NAME, "D_skip", args.d_skip, required.channels)?;
    covers(NAME, "delta_bias", args.delta_bias, required.channels)?;
    covers(NAME, "h0", args.h0, required.states)?;
    let last = args.final_state.as_deref();
    covers(NAME, "final_state", last, required.states)?;
    let offsets = args.offsets.map(|offsets| offsets.buffer());
    covers(NAME, "cu_seqlens", offsets, required.offsets)
}
