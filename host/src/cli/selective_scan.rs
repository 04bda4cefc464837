//! `ferroseq selective-scan`: the core of the Mamba S6 layer from files to files.

use super::report::Report;
use super::scan::{LayoutArg, load_offsets, offsets_of};
use super::selective::{Job, Loader, SelectiveArgs};
use super::source::Source;
use anyhow::Context;
use ferroseq::io::TensorData;
use ferroseq::ops::{Layout, SelectiveScan, SelectiveScanArgs, SequenceOffsets};
use ferroseq::{DType, Device, Element};
use half::{bf16, f16};

/// The tensors of a config.
const KEYS: [&str; 11] = [
    "x",
    "delta",
    "A_log",
    "A",
    "B",
    "C",
    "D_skip",
    "delta_bias",
    "z",
    "h0",
    "cu_seqlens",
];

/// Selective scan: the core of the Mamba S6 layer, channel by channel
///
/// With delta' = softplus(delta + delta_bias) and A = -exp(A_log), for each channel and each
/// of its N states:
///
///   h[t,n] = exp(delta'[t] * A[n]) * h[t-1,n] + delta'[t] * x[t] * B[t,n]
///   y[t]   = (sum over n of C[t,n] * h[t,n] + D_skip * x[t]) * silu(z[t])
///
/// Reads the tensors from .npy and .safetensors files, wherever --tensor, --config or --input
/// says they are, and writes `y`, like `x`, and on demand the last state. Sequences are f32,
/// f16 or bf16, all of one type; state, parameters and arithmetic are f32.
///
/// The time in the report is that of the scan alone, from its start until the device is done,
/// without files, copies or compilation: on a GPU an untimed run goes before it.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Tensors (KEY, type, shape; with --layout bdl the shape behind the slash):
  x           sequence   [B, L, D] / [B, D, L]
  delta       sequence   like x: step sizes before bias and softplus
  A_log       parameter  [D, N], A = -exp(A_log); or A itself under the key A
  B, C        sequence   [B, L, N] or, for G groups, [B, L, G, N] / [B, N, L], [B, G, N, L]
  D_skip      parameter  [D], optional
  delta_bias  parameter  [D], optional
  z           sequence   like x: gate, optional
  h0          f32        [B, D, N] ([S, D, N] for S packed sequences), optional
  cu_seqlens  i32, i64   [S + 1], from 0 to L: where packed sequences begin; B is 1; optional
Parameters are f32, f16 or bf16 and used as f32. N is 1 to 256; channels g * D/G and on, D/G
of them, share the B and C of group g. --out FILE.safetensors holds `y` and `final_state`.

JSON (--json), one object on stdout:
  operation  \"selective_scan\"
  device     the device that ran it
  dtype      f32, f16 or bf16
  shape      [B, L, D], whatever the layout
  state      N
  layout     bld or bdl
  seconds    the scan alone
  bytes      of the sequences read and written
  gbps       bytes / seconds / 1e9
  outputs    the files that were written

Examples:
  All tensors under their own names in one file:
    ferroseq selective-scan --input mamba.safetensors --out y.npy

  Activations in files of their own, parameters from a model:
    ferroseq selective-scan --tensor x=x.npy --tensor delta=delta.npy \\
      --tensor B=B.npy --tensor C=C.npy \\
      --tensor A_log=model.safetensors#layers.0.mixer.A_log --out y.npy

  The same said once, in a file config.json, beside the files it names:
    {\"x\": \"x.npy\", \"delta\": \"delta.npy\", \"B\": \"B.npy\", \"C\": \"C.npy\",
     \"A_log\": \"model.safetensors#layers.0.mixer.A_log\"}
    ferroseq selective-scan --config config.json --out y.npy

  Go on from an earlier state and keep the new one:
    ferroseq selective-scan --config config.json --tensor h0=h0.npy --out y.npy \\
      --final-state hT.npy")]
pub struct Args {
    #[command(flatten)]
    shared: SelectiveArgs,

    /// Which dimension of the files comes last
    #[arg(long, value_enum, default_value_t = LayoutArg::Bld)]
    layout: LayoutArg,

    /// Lengths of packed sequences, e.g. 3,7,5, instead of cu_seqlens
    #[arg(
        long,
        value_name = "LENGTHS",
        value_delimiter = ',',
        allow_negative_numbers = true,
        value_parser = clap::value_parser!(i64).range(0..)
    )]
    lengths: Option<Vec<i64>>,
}

pub fn run(args: Args) -> anyhow::Result<()> {
    let mut job = Job::new(args.shared, &KEYS)?;
    let x = job.x()?;
    match x.dtype() {
        DType::F16 => run_as::<f16>(job, x, args.layout, args.lengths),
        DType::Bf16 => run_as::<bf16>(job, x, args.layout, args.lengths),
        _ => run_as::<f32>(job, x, args.layout, args.lengths),
    }
}

fn run_as<T: Element>(
    mut job: Job,
    x: Source,
    layout: LayoutArg,
    lengths: Option<Vec<i64>>,
) -> anyhow::Result<()>
where
    TensorData: From<Vec<T>>,
{
    let (batch, length, channels, layout) = match layout {
        LayoutArg::Bld => {
            let [batch, length, channels] = x.expect_rank("[B, L, D]")?;
            (batch, length, channels, Layout::Bld)
        }
        LayoutArg::Bdl => {
            let [batch, channels, length] = x.expect_rank("[B, D, L]")?;
            (batch, length, channels, Layout::Bdl)
        }
    };
    let delta = job.like("delta", &x)?;
    let z = job.like_if_any("z", &x)?;
    let parameters = job.parameters(channels)?;
    let state = parameters.state;
    let b = job.tensors.need("B")?;
    b.expect_type(&[x.dtype()])?;
    let groups = groups(&b, layout, [batch, length, state])?;
    let c = job.tensors.need("C")?;
    c.expect_type(&[x.dtype()])?;
    c.expect_shape(b.shape(), "as B has")?;
    let offsets = offsets(&mut job, lengths)?;
    let sequences = offsets.as_ref().map_or(batch, SequenceOffsets::sequences);
    let states = vec![sequences, channels, state];
    let h0 = job.state("h0", &states)?;
    let scan = SelectiveScan::new(batch, length, channels, state)
        .groups(groups)
        .layout(layout)
        .softplus(job.softplus);
    scan.check_sizes(offsets.as_ref())?;

    let device = job.device.clone();
    let shape = x.shape().to_owned();
    let mut loader = Loader::new(&device, 4 * x.bytes());
    let [x, delta] = [x, delta].map(|source| loader.sequence::<T>(source));
    let (x, delta) = (x?, delta?);
    let z = z.map(|z| loader.sequence::<T>(z)).transpose()?;
    let [b, c] = [b, c].map(|source| loader.sequence::<T>(source));
    let (b, c) = (b?, c?);
    let parameters = loader.parameters(parameters)?;
    let h0 = loader.optional(h0)?;
    let mut y = device.alloc::<T>(x.len())?;
    let mut last = device.alloc::<f32>(states.iter().product())?;
    let time = loader.time(|_| {
        scan.run_with(
            &device,
            SelectiveScanArgs {
                d_skip: parameters.d_skip.as_ref(),
                delta_bias: parameters.delta_bias.as_ref(),
                z: z.as_ref(),
                h0: h0.as_ref(),
                final_state: Some(&mut last),
                offsets: offsets.as_ref(),
                ..SelectiveScanArgs::new(&x, &delta, parameters.matrix(), &b, &c, &mut y)
            },
        )
    })?;
    let bytes = loader.bytes + (y.len() * size_of::<T>()) as u64;
    let sizes = [batch, length, channels];
    let report = Report::new(
        "selective_scan",
        &device,
        T::DTYPE,
        sizes,
        layout,
        (bytes, time),
    );
    let y = (y.to_vec()?.into(), shape);
    let last = ("final_state", last, states);
    job.finish(loader.progress, y, last, report.state(state))
}

/// G, from the shape of B.
fn groups(b: &Source, layout: Layout, [batch, length, n]: [usize; 3]) -> anyhow::Result<usize> {
    let groups = match (b.shape().len(), layout) {
        (4, Layout::Bld) => b.shape()[2],
        (4, Layout::Bdl) => b.shape()[1],
        _ => 1,
    };
    let (three, four, why) = match layout {
        Layout::Bld => (
            [batch, length, n],
            [batch, length, groups, n],
            "[B, L, N] or [B, L, G, N] with x's B and L and A's N",
        ),
        Layout::Bdl => (
            [batch, n, length],
            [batch, groups, n, length],
            "[B, N, L] or [B, G, N, L] with x's B and L and A's N",
        ),
    };
    match b.shape().len() {
        4 => b.expect_shape(&four, why)?,
        _ => b.expect_shape(&three, why)?,
    }
    Ok(groups)
}

/// Packed sequences, from the tensor or the list.
pub fn offsets(
    job: &mut Job,
    lengths: Option<Vec<i64>>,
) -> anyhow::Result<Option<SequenceOffsets>> {
    let on = |device: &Device, offsets: Vec<i64>| SequenceOffsets::new(device, &offsets);
    match (job.tensors.find("cu_seqlens")?, lengths) {
        (Some(_), Some(_)) => anyhow::bail!("both --lengths and `cu_seqlens` are there"),
        (Some(source), None) => {
            let offsets = on(&job.device, load_offsets(source)?);
            Ok(Some(offsets.context("cu_seqlens")?))
        }
        (None, Some(lengths)) => {
            let offsets = on(&job.device, offsets_of(&lengths)?);
            Ok(Some(offsets.context("--lengths")?))
        }
        (None, None) => Ok(None),
    }
}
