//! `ferroseq step`: one time step of the selective scan from files to files.

use super::report::Report;
use super::selective::{Job, Loader, SelectiveArgs};
use super::source::Source;
use anyhow::Context;
use ferroseq::io::TensorData;
use ferroseq::ops::{Layout, SelectiveScanStep, SelectiveScanStepArgs};
use ferroseq::{DType, Element};
use half::{bf16, f16};

/// The tensors of a config.
const KEYS: [&str; 10] = [
    "state",
    "x",
    "delta",
    "A_log",
    "A",
    "B",
    "C",
    "D_skip",
    "delta_bias",
    "z",
];

/// One step of the selective scan: the next token of every sequence of a batch
///
/// The definition is that of `ferroseq selective-scan` with L = 1, from the state in the
/// tensor `state`. Reads the tensors from .npy and .safetensors files, wherever --tensor,
/// --config or --input says they are, and writes `y`, like `x`, and the new state, which is
/// the next step's `state`.
///
/// The time in the report is that of the step alone, from its start until the device is done,
/// without files, copies or compilation: on a GPU an untimed run goes before it.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Tensors (KEY, type, shape):
  state       f32        [B, D, N]; absent, zeros
  x           sequence   [B, D]
  delta       sequence   like x: step sizes before bias and softplus
  A_log       parameter  [D, N], A = -exp(A_log); or A itself under the key A
  B, C        sequence   [B, N] or, for G groups, [B, G, N]
  D_skip      parameter  [D], optional
  delta_bias  parameter  [D], optional
  z           sequence   like x: gate, optional
Parameters are f32, f16 or bf16 and used as f32. --out FILE.safetensors holds `y` and `state`.

JSON (--json), one object on stdout, as `ferroseq help selective-scan` describes it:
  operation  \"selective_scan_step\"
  shape      [B, 1, D]
  seconds    the step alone
  bytes      of the sequences read and written, and of the state, read and written

Examples:
  One step, the state from one file to another:
    ferroseq step --config step.json --tensor state=h0.npy --out y.npy --final-state h1.npy

  Everything in one file, and everything to one file:
    ferroseq step --input token.safetensors --out next.safetensors")]
pub struct Args {
    #[command(flatten)]
    shared: SelectiveArgs,
}

pub fn run(args: Args) -> anyhow::Result<()> {
    let mut job = Job::new(args.shared, &KEYS)?;
    let x = job.x()?;
    match x.dtype() {
        DType::F16 => run_as::<f16>(job, x),
        DType::Bf16 => run_as::<bf16>(job, x),
        _ => run_as::<f32>(job, x),
    }
}

fn run_as<T: Element>(mut job: Job, x: Source) -> anyhow::Result<()>
where
    TensorData: From<Vec<T>>,
{
    let [batch, channels] = x.expect_rank("[B, D]")?;
    let delta = job.like("delta", &x)?;
    let z = job.like_if_any("z", &x)?;
    let parameters = job.parameters(channels)?;
    let n = parameters.state;
    let b = job.tensors.need("B")?;
    b.expect_type(&[x.dtype()])?;
    let why = "[B, N] or [B, G, N] with x's B and A's N";
    let groups = match *b.shape() {
        [_, groups, _] => {
            b.expect_shape(&[batch, groups, n], why)?;
            groups
        }
        _ => {
            b.expect_shape(&[batch, n], why)?;
            1
        }
    };
    let c = job.tensors.need("C")?;
    c.expect_type(&[x.dtype()])?;
    c.expect_shape(b.shape(), "as B has")?;
    let states = vec![batch, channels, n];
    let state = job.state("state", &states)?;
    let step = SelectiveScanStep::new(batch, channels, n)
        .groups(groups)
        .softplus(job.softplus);

    let device = job.device.clone();
    let shape = x.shape().to_owned();
    let mut loader = Loader::new(&device, 3 * x.bytes());
    let [x, delta, b, c] = [x, delta, b, c].map(|source| loader.sequence::<T>(source));
    let (x, delta, b, c) = (x?, delta?, b?, c?);
    let z = z.map(|z| loader.sequence::<T>(z)).transpose()?;
    let parameters = loader.parameters(parameters)?;
    let mut state = match state {
        Some(state) => loader.wide(state)?,
        None => {
            let elements = states
                .iter()
                .try_fold(1usize, |n, &size| n.checked_mul(size));
            device.upload(&vec![0.0; elements.context("the state is too large")?])?
        }
    };
    let mut rehearsal = device.upload(&state.to_vec()?)?;
    let mut y = device.alloc::<T>(x.len())?;
    let time = loader.time(|rehearse| {
        step.run_with(
            &device,
            SelectiveScanStepArgs {
                state: if rehearse { &mut rehearsal } else { &mut state },
                x: &x,
                delta: &delta,
                a: parameters.matrix(),
                b: &b,
                c: &c,
                y: &mut y,
                d_skip: parameters.d_skip.as_ref(),
                delta_bias: parameters.delta_bias.as_ref(),
                z: z.as_ref(),
            },
        )
    })?;
    let written = y.len() * size_of::<T>() + 2 * state.len() * size_of::<f32>();
    let bytes = loader.bytes + written as u64;
    let (sizes, layout) = ([batch, 1, channels], Layout::Bld);
    let operation = "selective_scan_step";
    let report = Report::new(operation, &device, T::DTYPE, sizes, layout, (bytes, time));
    let y = (y.to_vec()?.into(), shape);
    let last = ("state", state, states);
    job.finish(loader.progress, y, last, report.state(n))
}
