//! `ferroseq layer`: the selective scan layer, projections and scan, from files to files.

use super::report::Report;
use super::selective::{Job, Loader, SelectiveArgs};
use super::selective_scan::offsets;
use super::source::Source;
use ferroseq::io::TensorData;
use ferroseq::ops::{Layout, SelectiveScanLayer, SelectiveScanLayerArgs, SequenceOffsets};
use ferroseq::{DType, Element};
use half::{bf16, f16};

/// The tensors of a config.
const KEYS: [&str; 11] = [
    "x",
    "W_delta",
    "W_B",
    "W_C",
    "A_log",
    "A",
    "D_skip",
    "delta_bias",
    "z",
    "h0",
    "cu_seqlens",
];

/// Selective scan layer: the projections of x, then the selective scan
///
///   delta = softplus(x W_delta^T + delta_bias)
///   B     = x W_B^T
///   C     = x W_C^T
///   y     = selective scan of x, delta, A, B, C (see `ferroseq help selective-scan`)
///
/// Weights are in the convention of PyTorch's Linear, [out, in]. Reads the tensors from .npy
/// and .safetensors files, wherever --tensor, --config or --input says they are, and writes
/// `y`, like `x`, and on demand the last state. x, z and the weights are f32, f16 or bf16, all
/// of one type; sums, state, parameters and the scan's arithmetic are f32.
///
/// The time in the report is that of the layer alone, from its start until the device is done,
/// without files, copies or compilation: on a GPU an untimed run goes before it.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Tensors (KEY, type, shape):
  x           sequence   [B, L, D]
  W_delta     sequence   [D, D]
  W_B, W_C    sequence   [N, D] or, for G groups, [G * N, D]: row g * N + n is state n of group g
  A_log       parameter  [D, N], A = -exp(A_log); or A itself under the key A
  D_skip      parameter  [D], optional
  delta_bias  parameter  [D], optional
  z           sequence   like x: gate, optional
  h0          f32        [B, D, N] ([S, D, N] for S packed sequences), optional
  cu_seqlens  i32, i64   [S + 1], from 0 to L: where packed sequences begin; B is 1; optional
Parameters are f32, f16 or bf16 and used as f32. G follows from the rows of W_B.
--out FILE.safetensors holds `y` and `final_state`.

JSON (--json), one object on stdout, as `ferroseq help selective-scan` describes it:
  operation  \"selective_scan_layer\"
  seconds    the layer alone
  bytes      of x, z, weights and y: what goes from one part to the other is not counted

Examples:
  All tensors under their own names in one file:
    ferroseq layer --input layer.safetensors --out y.npy

  Activations from a file, weights from a model:
    ferroseq layer --config model.json --tensor x=x.npy --out y.safetensors
  where model.json is, for example:
    {\"W_delta\": \"model.safetensors#layers.0.dt_proj.weight\",
     \"delta_bias\": \"model.safetensors#layers.0.dt_proj.bias\",
     \"W_B\": \"model.safetensors#layers.0.B_proj.weight\",
     \"W_C\": \"model.safetensors#layers.0.C_proj.weight\",
     \"A_log\": \"model.safetensors#layers.0.A_log\",
     \"D_skip\": \"model.safetensors#layers.0.D\"}")]
pub struct Args {
    #[command(flatten)]
    shared: SelectiveArgs,

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
        DType::F16 => run_as::<f16>(job, x, args.lengths),
        DType::Bf16 => run_as::<bf16>(job, x, args.lengths),
        _ => run_as::<f32>(job, x, args.lengths),
    }
}

fn run_as<T: Element>(mut job: Job, x: Source, lengths: Option<Vec<i64>>) -> anyhow::Result<()>
where
    TensorData: From<Vec<T>>,
{
    let [batch, length, channels] = x.expect_rank("[B, L, D]")?;
    let z = job.like_if_any("z", &x)?;
    let parameters = job.parameters(channels)?;
    let state = parameters.state;
    let w_delta = job.tensors.need("W_delta")?;
    w_delta.expect_type(&[x.dtype()])?;
    w_delta.expect_shape(&[channels, channels], "[D, D] with x's D")?;
    let w_b = job.tensors.need("W_B")?;
    w_b.expect_type(&[x.dtype()])?;
    let [rows, columns] = w_b.expect_rank("[G * N, D]")?;
    let groups = rows.checked_div(state).unwrap_or(0).max(1);
    if [rows, columns] != [groups * state, channels] {
        let why = "[G * N, D] with x's D and A's N";
        w_b.expect_shape(&[groups * state, channels], why)?;
    }
    let w_c = job.tensors.need("W_C")?;
    w_c.expect_type(&[x.dtype()])?;
    w_c.expect_shape(w_b.shape(), "as W_B has")?;
    let offsets = offsets(&mut job, lengths)?;
    let sequences = offsets.as_ref().map_or(batch, SequenceOffsets::sequences);
    let states = vec![sequences, channels, state];
    let h0 = job.state("h0", &states)?;
    let layer = SelectiveScanLayer::new(batch, length, channels, state)
        .groups(groups)
        .softplus(job.softplus);
    layer.scan().check_sizes(offsets.as_ref())?;

    let device = job.device.clone();
    let shape = x.shape().to_owned();
    let mut loader = Loader::new(&device, 2 * x.bytes());
    let x = loader.sequence::<T>(x)?;
    let z = z.map(|z| loader.sequence::<T>(z)).transpose()?;
    let [w_delta, w_b, w_c] = [w_delta, w_b, w_c].map(|source| loader.sequence::<T>(source));
    let (w_delta, w_b, w_c) = (w_delta?, w_b?, w_c?);
    let parameters = loader.parameters(parameters)?;
    let h0 = loader.optional(h0)?;
    let mut y = device.alloc::<T>(x.len())?;
    let mut last = device.alloc::<f32>(states.iter().product())?;
    let mut workspace = layer.workspace::<T>(&device)?;
    let time = loader.time(|_| {
        let weights = [&w_delta, &w_b, &w_c];
        layer.run_with(
            &device,
            SelectiveScanLayerArgs {
                d_skip: parameters.d_skip.as_ref(),
                delta_bias: parameters.delta_bias.as_ref(),
                z: z.as_ref(),
                h0: h0.as_ref(),
                final_state: Some(&mut last),
                offsets: offsets.as_ref(),
                workspace: Some(&mut workspace),
                ..SelectiveScanLayerArgs::new(&x, weights, parameters.matrix(), &mut y)
            },
        )
    })?;
    let bytes = loader.bytes + (y.len() * size_of::<T>()) as u64;
    let (sizes, layout) = ([batch, length, channels], Layout::Bld);
    let operation = "selective_scan_layer";
    let report = Report::new(operation, &device, T::DTYPE, sizes, layout, (bytes, time));
    let y = (y.to_vec()?.into(), shape);
    let last = ("final_state", last, states);
    job.finish(loader.progress, y, last, report.state(state))
}
