//! `ferroseq combine`: packed rows back to their tokens.

use super::moe::{Inputs, Report, Routing, RoutingArgs, check_outputs, stage, timed, typed};
use super::paths::named;
use super::progress::Progress;
use super::scan::output_path;
use ferroseq::io::{self, Tensor, TensorData};
use ferroseq::ops::{Combine, CombineArgs, Status};
use ferroseq::{DType, Device, Element};
use half::{bf16, f16};
use std::path::PathBuf;
use std::time::Duration;

/// Mixture of experts: add up each token's packed rows, weighted
///
/// Reads `packed` [R, H] of f32, f16 or bf16, optional `weights` [T, K] of f32, and where
/// each token's rows lie: entry (t, k) at row `expert_offsets[expert_ids[t, k]] +
/// slot_idx[t, k]`, as for `ferroseq dispatch`. Writes `out` [T, H]: the sum over k of
/// weight times row, dropped entries (slot -1) left out. Products and sums are f32, k
/// ascending, rounded once when stored.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
JSON (--json), one object on stdout:
  operation  \"combine\"
  device     the device that ran it
  dtype      f32, f16 or bf16
  tokens, top_k, experts, hidden, rows
             T, K, E, H and R
  dropped    entries without a row
  seconds    the sums alone
  bytes      (kept entries + T) x H x element size: rows read once, tokens written once
  gbps       bytes / seconds / 1e9
  outputs    the file that was written

Examples:
  With what route wrote:
    ferroseq combine --packed y.npy --weights w.npy --expert-ids ids.npy \\
        --input plan.safetensors --out out.npy

  The gradient of a dispatch is a combine without weights:
    ferroseq combine --packed grad.npy --expert-ids ids.npy --input plan.safetensors \\
        --out grad_hidden.npy")]
pub struct Args {
    /// Packed rows, a .npy file of f32, f16 or bf16 [R, H]
    #[arg(long, value_name = "FILE", required_unless_present = "input")]
    packed: Option<PathBuf>,

    /// Weights, a .npy file of f32, shaped like the ids; else ones
    #[arg(long, value_name = "FILE")]
    weights: Option<PathBuf>,

    /// Where the tokens go: a .npy or .safetensors file
    #[arg(long, value_name = "FILE", value_parser = output_path)]
    out: PathBuf,

    #[command(flatten)]
    routing: RoutingArgs,
}

pub fn run(args: Args) -> anyhow::Result<()> {
    let inputs = [
        ("--packed", &args.packed),
        ("--weights", &args.weights),
        ("--expert-ids", &args.routing.expert_ids),
        ("--slot-idx", &args.routing.slot_idx),
        ("--expert-offsets", &args.routing.expert_offsets),
        ("--input", &args.routing.common.input),
    ];
    check_outputs(&[("--out", &args.out)], &named(&inputs));
    let device = Device::from_spec(&args.routing.common.device)?;
    let inputs = Inputs::new(&args.routing.common)?;
    let packed = inputs.need("packed", args.packed.as_ref())?;
    packed.expect_type(&[DType::F32, DType::F16, DType::Bf16])?;
    let [rows, width] = packed.expect_rank("[R, H]")?;
    let routing = Routing::load(&args.routing, &inputs)?;
    let weights = match inputs.find("weights", args.weights.as_ref())? {
        Some(weights) => {
            weights.expect_type(&[DType::F32])?;
            weights.expect_shape(&routing.shape, "as expert_ids has")?;
            Some(typed::<f32>(weights.load(|_| {})?.data)?)
        }
        None => None,
    };
    let op = Combine {
        tokens: routing.tokens,
        top_k: routing.top_k,
        experts: routing.experts,
        hidden: width,
        rows,
    };
    let dtype = packed.dtype();
    let (kept, size) = (routing.kept(), width as u64 * dtype.size() as u64);
    let mut progress = Progress::new((rows + op.tokens) as u64 * size);
    progress.phase("read");
    let packed = packed.load(|bytes| progress.add(bytes))?.data;
    progress.phase("sum");
    let weights = weights.as_deref();
    let (out, time) = match dtype {
        DType::F16 => combine::<f16>(&op, &device, packed, &routing, weights),
        DType::Bf16 => combine::<bf16>(&op, &device, packed, &routing, weights),
        _ => combine::<f32>(&op, &device, packed, &routing, weights),
    }?;
    progress.phase("write");
    let out = Tensor {
        shape: vec![op.tokens, width],
        data: out,
    };
    let name = inputs.names.get("out");
    let staged = stage(&args.out, name, &out, |bytes| progress.add(bytes))?;
    io::commit_all(vec![staged])?;
    drop(progress);
    Report {
        operation: "combine",
        device: device.to_string(),
        dtype: dtype.name(),
        tokens: op.tokens,
        top_k: op.top_k,
        experts: op.experts,
        hidden: Some(width),
        rows,
        dropped: routing.slot_idx.len() - kept,
        seconds: 0.0,
        bytes: 0,
        gbps: 0.0,
        outputs: vec![args.out],
    }
    .rated((kept + op.tokens) as u64 * size, time)
    .print(args.routing.common.json)
}

fn combine<T: Element>(
    op: &Combine,
    device: &Device,
    packed: TensorData,
    routing: &Routing,
    weights: Option<&[f32]>,
) -> anyhow::Result<(TensorData, Duration)>
where
    TensorData: From<Vec<T>>,
{
    let packed = device.upload(&typed::<T>(packed)?)?;
    let weights = weights.map(|weights| device.upload(weights)).transpose()?;
    let routing = routing.upload(device)?;
    let mut out = device.alloc::<T>(op.tokens.saturating_mul(op.hidden))?;
    let mut status = Status::new(device)?;
    let time = timed(device, || {
        op.run_with(
            device,
            CombineArgs {
                packed: &packed,
                routing: routing.slots().into(),
                weights: weights.as_ref(),
                out: &mut out,
                status: &mut status,
            },
        )
    })?;
    status.finish()?;
    Ok((out.to_vec()?.into(), time))
}
