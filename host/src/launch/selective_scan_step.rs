//! One step of the selective scan on a device that runs kernels.

use super::selective_scan::flags;
use super::{Kernels, Launcher, covers, optional, too_large};
use crate::dtype::Element;
use crate::error::Result;
use crate::ops::{SelectiveScanStep, SelectiveScanStepArgs};
use gpu_kernels::selective_scan::{SelectiveScanStepParams, policy};

const NAME: &str = "selective scan step";

pub(crate) fn run<T: Element>(
    op: &SelectiveScanStep,
    device: &impl Launcher,
    args: SelectiveScanStepArgs<'_, T>,
) -> Result<()> {
    if op.batch == 0 || op.channels == 0 {
        return Ok(());
    }
    let too_large = || too_large(NAME, op);
    let (batch, channels) = (op.batch as u64, op.channels as u64);
    let launch = policy::step_launch(batch, channels, op.state as u64).ok_or_else(too_large)?;
    let params = SelectiveScanStepParams {
        state: args.state.global(),
        x: args.x.global(),
        delta: args.delta.global(),
        z: optional(args.z),
        y: args.y.global(),
        b: args.b.global(),
        c: args.c.global(),
        a: args.a.buffer().global(),
        d_skip: optional(args.d_skip),
        delta_bias: optional(args.delta_bias),
        batch,
        group_channels: (op.channels / op.groups) as u64,
        groups: u32::try_from(op.groups).map_err(|_| too_large())?,
        channel_blocks: launch.channel_blocks,
        states: op.state as u32,
        log2_lanes: launch.cut.log2_lanes,
        options: flags(op.softplus, args.a.is_log()),
        padding: 0,
    };
    let required = params.required().ok_or_else(too_large)?;
    covers(NAME, "state", Some(&*args.state), required.states)?;
    covers(NAME, "x", Some(args.x), required.elements)?;
    covers(NAME, "delta", Some(args.delta), required.elements)?;
    covers(NAME, "z", args.z, required.elements)?;
    covers(NAME, "y", Some(&*args.y), required.elements)?;
    covers(NAME, "B", Some(args.b), required.matrices)?;
    covers(NAME, "C", Some(args.c), required.matrices)?;
    covers(NAME, "A", Some(args.a.buffer()), required.parameters)?;
    covers(NAME, "D_skip", args.d_skip, required.channels)?;
    covers(NAME, "delta_bias", args.delta_bias, required.channels)?;
    match launch.cut.lane_states {
        2 => device.launch::<<T as Kernels>::SelectiveStep2>(launch.shape, params),
        4 => device.launch::<<T as Kernels>::SelectiveStep4>(launch.shape, params),
        _ => device.launch::<<T as Kernels>::SelectiveStep8>(launch.shape, params),
    }
}
