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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Device;
    use crate::ops::SequenceOffsets;
    use gpu_kernels::simt::{Entry, LaunchShape};
    use half::{bf16, f16};
    use std::any::Any;
    use std::cell::RefCell;

    type Launch = (&'static str, LaunchShape, Box<dyn Any>);

    /// Notes launches instead of running them.
    #[derive(Default)]
    struct Recorder(RefCell<Vec<Launch>>);

    impl Launcher for Recorder {
        fn launch<K: Entry>(&self, shape: LaunchShape, params: K::Params) -> Result<()> {
            let launch = (K::INFO.name, shape, Box::new(params) as Box<dyn Any>);
            self.0.borrow_mut().push(launch);
            Ok(())
        }
        fn scratch(&self, _: usize) -> Result<Global<u32>> {
            unreachable!("the linear scan asks for none")
        }
    }

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

    fn strides(launches: &[Launch]) -> [u64; 4] {
        let [(_, _, params)] = launches else {
            panic!("one launch")
        };
        let params: &LinearScanParams<f32> = params.downcast_ref().expect("f32 parameters");
        [
            params.sequences,
            params.sequence_stride,
            params.time_stride,
            params.channel_stride,
        ]
    }

    #[test]
    fn the_element_type_picks_the_kernel() {
        let op = LinearScan::new(2, 3, 4);
        assert_eq!(record::<f32>(op, None)[0].0, "linear_scan_f32");
        assert_eq!(record::<f16>(op, None)[0].0, "linear_scan_f16");
        assert_eq!(record::<bf16>(op, None)[0].0, "linear_scan_bf16");
    }

    #[test]
    fn strides_follow_the_layout() {
        let op = LinearScan::new(2, 3, 4);
        assert_eq!(strides(&record::<f32>(op, None)), [2, 12, 4, 1]);
        let bdl = op.layout(Layout::Bdl);
        assert_eq!(strides(&record::<f32>(bdl, None)), [2, 12, 1, 3]);
        let packed = LinearScan::new(1, 6, 4);
        let offsets: &[i64] = &[0, 2, 2, 6];
        assert_eq!(strides(&record::<f32>(packed, Some(offsets))), [3, 0, 4, 1]);
    }

    #[test]
    fn nothing_is_launched_where_there_is_no_channel() {
        for (batch, channels) in [(0, 4), (2, 0), (0, 0)] {
            assert!(record::<f32>(LinearScan::new(batch, 3, channels), None).is_empty());
        }
        // With no time step there are still final states to write.
        assert_eq!(record::<f32>(LinearScan::new(2, 0, 4), None).len(), 1);
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
