//! Linear scan on a device that runs kernels.

use super::{Kernels, Launcher, covers, optional, too_large};
use crate::dtype::Element;
use crate::error::Result;
use crate::ops::{Layout, LinearScan, LinearScanArgs, SequenceOffsets};
use gpu_kernels::linear_scan::policy::{self, Orientation, Work};
use gpu_kernels::linear_scan::{LinearScanParams, MODULE};
use gpu_kernels::simt::{Global, Plain};

const NAME: &str = "linear scan";

pub(crate) fn run<T: Element>(
    op: &LinearScan,
    device: &impl Launcher,
    args: LinearScanArgs<'_, T>,
) -> Result<()> {
    let sequences = op.sequences(args.offsets);
    if sequences == 0 || op.channels == 0 {
        return Ok(());
    }
    let work = work::<T>(op, sequences, args.offsets.is_some());
    let launch =
        policy::launch(&work, device.multiprocessors()).ok_or_else(|| too_large(NAME, op))?;
    let params = params(op, &args, sequences, &launch).ok_or_else(|| too_large(NAME, op))?;
    check(op, &params, &args)?;
    let scratch = scratch(op, device, MODULE, &launch)?;
    let params = LinearScanParams { scratch, ..params };
    let full = launch.tiling.is_full(work.size, work.orientation);
    let shape = launch.shape;
    match (work.orientation, full) {
        (Orientation::Rows, true) => device.launch::<<T as Kernels>::RowsFull>(shape, params),
        (Orientation::Rows, false) => device.launch::<<T as Kernels>::Rows>(shape, params),
        (Orientation::Columns, true) => device.launch::<<T as Kernels>::ColumnsFull>(shape, params),
        (Orientation::Columns, false) => device.launch::<<T as Kernels>::Columns>(shape, params),
    }
}

/// What is to be launched, as the policy takes it.
pub(super) fn work<T: Element>(op: &LinearScan, sequences: usize, packed: bool) -> Work {
    Work {
        sequences: sequences as u64,
        length: op.length as u64,
        channels: op.channels as u64,
        size: T::DTYPE.size() as u32,
        orientation: orientation(op.layout),
        packed,
        backward: false,
    }
}

/// The look-back's memory.
pub(super) fn scratch(
    op: &LinearScan,
    device: &impl Launcher,
    module: &'static str,
    launch: &policy::Launch,
) -> Result<Global<u64>> {
    let bytes = usize::try_from(launch.scratch_words.saturating_mul(8));
    match bytes.map_err(|_| too_large(NAME, op))? {
        0 => Ok(Global::null()),
        bytes => Ok(device.scratch(module, bytes)?.cast()),
    }
}

pub(super) fn orientation(layout: Layout) -> Orientation {
    match layout {
        Layout::Bld => Orientation::Rows,
        Layout::Bdl => Orientation::Columns,
    }
}

/// Time steps of a tile of long sequences of this kind, whatever `op`'s own length is.
pub(crate) fn tile_steps<T: Element>(op: &LinearScan) -> usize {
    let (channels, size) = (op.channels as u64, T::DTYPE.size() as u32);
    let tiling = policy::Tiling::new(u64::MAX >> 1, channels, size, orientation(op.layout));
    tiling.steps() as usize
}

/// The parameters, but for the scratch memory; `None` if there are too many sequences.
fn params<T: Element>(
    op: &LinearScan,
    args: &LinearScanArgs<'_, T>,
    sequences: usize,
    launch: &policy::Launch,
) -> Option<LinearScanParams<T>> {
    Some(LinearScanParams {
        a: args.a.global(),
        b: args.b.unwrap_or(&*args.h).global(),
        h: args.h.global(),
        h0: optional(args.h0),
        final_state: optional(args.final_state.as_deref()),
        offsets: optional(args.offsets.map(SequenceOffsets::buffer)),
        ..sizes(op, sequences, launch)?
    })
}

/// The sizes, and no array; `None` if there are too many sequences.
pub(super) fn sizes<T: Plain>(
    op: &LinearScan,
    sequences: usize,
    launch: &policy::Launch,
) -> Option<LinearScanParams<T>> {
    Some(LinearScanParams {
        a: Global::null(),
        b: Global::null(),
        h: Global::null(),
        h0: Global::null(),
        final_state: Global::null(),
        offsets: Global::null(),
        scratch: Global::null(),
        length: op.length as u64,
        channels: op.channels as u64,
        sequences: u32::try_from(sequences).ok()?,
        groups: launch.groups,
        tiles: launch.tiles,
        tiles_per_sequence: launch.tiles_per_sequence,
        log2_steps: launch.tiling.log2_steps,
        log2_lanes: launch.tiling.log2_lanes,
        window: launch.window,
        reverse: op.reverse.into(),
    })
}

/// The last word before the device: no buffer is shorter than what the kernel accesses for
/// these parameters.
fn check<T: Element>(
    op: &LinearScan,
    params: &LinearScanParams<T>,
    args: &LinearScanArgs<'_, T>,
) -> Result<()> {
    let required = params.required().ok_or_else(|| too_large(NAME, op))?;
    covers(NAME, "a", Some(args.a), required.elements)?;
    covers(NAME, "b", args.b, required.elements)?;
    covers(NAME, "h", Some(&*args.h), required.elements)?;
    covers(NAME, "h0", args.h0, required.states)?;
    covers(
        NAME,
        "final_state",
        args.final_state.as_deref(),
        required.states,
    )?;
    let offsets = args.offsets.map(SequenceOffsets::buffer);
    covers(NAME, "cu_seqlens", offsets, required.offsets)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Device;
    use crate::launch::recorder::{Launch, Recorder};
    use half::{bf16, f16};

    fn record<T: Element>(op: LinearScan, offsets: Option<&[i64]>) -> Vec<Launch> {
        let device = Device::cpu();
        let buffer = || {
            let elements = op.elements().expect("fits");
            device.alloc::<T>(elements).expect("memory")
        };
        let offsets =
            offsets.map(|offsets| SequenceOffsets::new(&device, offsets).expect("offsets"));
        let recorder = Recorder::default();
        let args = LinearScanArgs {
            a: &buffer(),
            b: Some(&buffer()),
            h: &mut buffer(),
            h0: None,
            final_state: None,
            offsets: offsets.as_ref(),
        };
        run(&op, &recorder, args).expect("launch");
        recorder.0.into_inner()
    }

    #[test]
    fn element_type_layout_and_size_pick_the_kernel() {
        let small = LinearScan::new(2, 3, 4);
        assert_eq!(record::<f32>(small, None)[0].0, "linear_scan_f32_rows");
        assert_eq!(record::<f16>(small, None)[0].0, "linear_scan_f16_rows");
        assert_eq!(record::<bf16>(small, None)[0].0, "linear_scan_bf16_rows");
        let columns = small.layout(Layout::Bdl);
        assert_eq!(record::<f32>(columns, None)[0].0, "linear_scan_f32_columns");
        let large = LinearScan::new(1, 1024, 64);
        assert_eq!(record::<f32>(large, None)[0].0, "linear_scan_f32_rows_full");
        let columns = large.layout(Layout::Bdl);
        assert_eq!(
            record::<f32>(columns, None)[0].0,
            "linear_scan_f32_columns_full"
        );
    }

    #[test]
    fn scratch_memory_is_for_sequences_of_several_tiles() {
        let scratch = |length| {
            let launches = record::<f32>(LinearScan::new(1, length, 32), None);
            let params: &LinearScanParams<f32> =
                launches[0].2.downcast_ref().expect("f32 parameters");
            !params.scratch.is_null()
        };
        assert!(!scratch(256));
        assert!(scratch(257));
    }

    #[test]
    fn nothing_is_launched_where_there_is_no_channel() {
        for (batch, channels) in [(0, 4), (2, 0), (0, 0)] {
            assert!(record::<f32>(LinearScan::new(batch, 3, channels), None).is_empty());
        }
        // With no time step there are still final states to write.
        assert_eq!(record::<f32>(LinearScan::new(2, 0, 4), None).len(), 1);
        let packed = LinearScan::new(1, 0, 4);
        assert_eq!(record::<f32>(packed, Some(&[0, 0, 0])).len(), 1);
    }

    #[test]
    fn a_buffer_the_kernel_would_leave_is_refused() {
        let device = Device::cpu();
        let (short, full) = (device.alloc::<f32>(23), device.alloc::<f32>(24));
        let (short, mut full) = (short.expect("memory"), full.expect("memory"));
        let args = LinearScanArgs {
            a: &short,
            b: None,
            h: &mut full,
            h0: None,
            final_state: None,
            offsets: None,
        };
        let recorder = Recorder::default();
        let error = run(&LinearScan::new(2, 3, 4), &recorder, args).expect_err("too short");
        let text = error.to_string();
        assert!(
            text.contains("`a` holds 23 elements, expected 24"),
            "{text}"
        );
        assert!(recorder.0.borrow().is_empty());
    }
}
