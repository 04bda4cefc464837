//! The ceiling kernels on a device that runs kernels.

use super::Launcher;
use crate::buffer::Buffer;
use crate::error::{Error, Result};
use gpu_kernels::ceilings::{
    ArithmeticParams, Copy, CopyStaged, Empty, EmptyParams, Exp2, Fma, StreamParams, Triad,
    TriadStaged, Write, WriteOnce, policy,
};
use gpu_kernels::simt::{Global, LaunchShape};

/// How a streaming kernel is launched.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pass {
    /// One of [`policy::stream_launches`].
    pub shape: LaunchShape,
    /// Groups of four elements in each array.
    pub groups: u64,
    /// Whether reads are asynchronous copies, and written lines the first to leave the L2.
    pub staged: bool,
}

impl Pass {
    fn params(&self, out: &mut Buffer<f32>, scale: f32) -> Result<StreamParams> {
        Ok(StreamParams {
            a: Global::null(),
            b: Global::null(),
            out: self.view("out", out)?,
            groups: self.groups,
            scale,
            padding: 0,
        })
    }

    fn view(&self, argument: &'static str, buffer: &Buffer<f32>) -> Result<Global<f32>> {
        covers(argument, buffer, self.groups.saturating_mul(4))
    }
}

/// Starts `out = a`.
pub(crate) fn copy(
    device: &impl Launcher,
    pass: Pass,
    a: &Buffer<f32>,
    out: &mut Buffer<f32>,
) -> Result<()> {
    let params = StreamParams {
        a: pass.view("a", a)?,
        ..pass.params(out, 0.0)?
    };
    match pass.staged {
        true => device.launch::<CopyStaged>(pass.shape, params),
        false => device.launch::<Copy>(pass.shape, params),
    }
}

/// Starts `out = scale * a + b`.
pub(crate) fn triad(
    device: &impl Launcher,
    pass: Pass,
    scale: f32,
    a: &Buffer<f32>,
    b: &Buffer<f32>,
    out: &mut Buffer<f32>,
) -> Result<()> {
    let params = StreamParams {
        a: pass.view("a", a)?,
        b: pass.view("b", b)?,
        ..pass.params(out, scale)?
    };
    match pass.staged {
        true => device.launch::<TriadStaged>(pass.shape, params),
        false => device.launch::<Triad>(pass.shape, params),
    }
}

/// Starts `out = value`.
pub(crate) fn write(
    device: &impl Launcher,
    pass: Pass,
    value: f32,
    out: &mut Buffer<f32>,
) -> Result<()> {
    let params = pass.params(out, value)?;
    match pass.staged {
        true => device.launch::<WriteOnce>(pass.shape, params),
        false => device.launch::<Write>(pass.shape, params),
    }
}

/// Starts the chains of `exp2` and returns how many there are in all.
pub(crate) fn exp2(
    device: &impl Launcher,
    shape: LaunchShape,
    out: &mut Buffer<f32>,
) -> Result<u64> {
    let params = chains(shape, policy::EXP2_TURNS, out)?;
    device.launch::<Exp2>(shape, params)?;
    Ok(operations(shape, &params))
}

/// Starts the chains of fused multiply-adds and returns how many there are in all.
pub(crate) fn fma(
    device: &impl Launcher,
    shape: LaunchShape,
    out: &mut Buffer<f32>,
) -> Result<u64> {
    let params = chains(shape, policy::FMA_TURNS, out)?;
    device.launch::<Fma>(shape, params)?;
    Ok(operations(shape, &params))
}

/// Starts the kernel that does nothing.
pub(crate) fn empty(device: &impl Launcher) -> Result<()> {
    device.launch::<Empty>(policy::empty_launch(), EmptyParams::default())
}

/// Threads of a launch, each of which writes one element.
pub(crate) fn threads(shape: LaunchShape) -> u64 {
    let blocks: u64 = shape.grid.iter().map(|&blocks| u64::from(blocks)).product();
    blocks * u64::from(shape.threads())
}

fn operations(shape: LaunchShape, params: &ArithmeticParams) -> u64 {
    threads(shape) * u64::from(params.turns) * policy::OPERATIONS_PER_TURN
}

fn chains(shape: LaunchShape, turns: u32, out: &mut Buffer<f32>) -> Result<ArithmeticParams> {
    Ok(ArithmeticParams {
        out: covers("out", out, threads(shape))?,
        turns,
        seed: 0.25,
        // x = x / 2 + 1 goes to 2: no overflow, no denormals.
        scale: 0.5,
        offset: 1.0,
    })
}

/// The kernel's view of a buffer that has at least `required` elements.
fn covers(argument: &'static str, buffer: &Buffer<f32>, required: u64) -> Result<Global<f32>> {
    if buffer.len() as u64 >= required {
        return Ok(buffer.global());
    }
    Err(Error::Length {
        operation: "ceiling",
        argument,
        found: buffer.len(),
        expected: usize::try_from(required).unwrap_or(usize::MAX),
        shape: "what the kernel accesses".to_owned(),
    })
}
