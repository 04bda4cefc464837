//! `ferroseq dispatch`: tokens to the packed rows of their experts.

use super::moe::{Inputs, Report, Routing, RoutingArgs, check_outputs, stage, timed, typed};
use super::paths::named;
use super::progress::Progress;
use super::scan::output_path;
use ferroseq::io::{self, Tensor, TensorData};
use ferroseq::ops::{self, Dispatch, DispatchArgs, Payload, Status};
use ferroseq::{DType, Device};
use half::{bf16, f16};
use std::path::PathBuf;
use std::time::Duration;

/// Mixture of experts: copy each token's row to the packed rows of its experts
///
/// Reads `hidden` [T, H] of f32, f16, bf16 or opaque bytes (u8), and where each copy goes:
/// entry (t, k) to row `expert_offsets[expert_ids[t, k]] + slot_idx[t, k]`, as `ferroseq
/// route` writes them or as a router of your own does. Writes `packed` [R, H] of the same
/// type, R the last offset. Rows that nobody claims are zero; of two entries that claim one
/// row the later one stays.
///
/// Offsets that decrease, slots outside their expert and ids out of range are errors that
/// name the token; nothing is written then.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
JSON (--json), one object on stdout:
  operation  \"dispatch\"
  device     the device that ran it
  dtype      f32, f16, bf16 or u8
  tokens, top_k, experts, hidden, rows
             T, K, E, H and R
  dropped    entries without a row
  seconds    the copying alone
  bytes      (T + R) x H x element size: tokens read once, rows written once
  gbps       bytes / seconds / 1e9
  outputs    the file that was written

Examples:
  With what route wrote:
    ferroseq route --expert-ids ids.npy --experts 64 --out plan.safetensors
    ferroseq dispatch --hidden x.npy --expert-ids ids.npy --input plan.safetensors \\
        --out packed.npy

  Everything in files of its own:
    ferroseq dispatch --hidden x.npy --expert-ids ids.npy --slot-idx slots.npy \\
        --expert-offsets offsets.npy --out packed.npy

  Everything in one file:
    ferroseq dispatch --input layer.safetensors --name hidden=x --out packed.safetensors")]
pub struct Args {
    /// Tokens, a .npy file of f32, f16, bf16 or u8 [T, H]
    #[arg(long, value_name = "FILE", required_unless_present = "input")]
    hidden: Option<PathBuf>,

    /// Where the packed rows go: a .npy or .safetensors file
    #[arg(long, value_name = "FILE", value_parser = output_path)]
    out: PathBuf,

    #[command(flatten)]
    routing: RoutingArgs,
}

pub fn run(args: Args) -> anyhow::Result<()> {
    let inputs = [
        ("--hidden", &args.hidden),
        ("--expert-ids", &args.routing.expert_ids),
        ("--slot-idx", &args.routing.slot_idx),
        ("--expert-offsets", &args.routing.expert_offsets),
        ("--input", &args.routing.common.input),
    ];
    check_outputs(&[("--out", &args.out)], &named(&inputs));
    let device = Device::from_spec(&args.routing.common.device)?;
    let inputs = Inputs::new(&args.routing.common)?;
    let hidden = inputs.need("hidden", args.hidden.as_ref())?;
    hidden.expect_type(&[DType::F32, DType::F16, DType::Bf16, DType::U8])?;
    let [tokens, width] = hidden.expect_rank("[T, H]")?;
    let routing = Routing::load(&args.routing, &inputs)?;
    hidden.expect_shape(&[routing.tokens, width], "as many rows as expert_ids has")?;
    let op = Dispatch {
        tokens,
        top_k: routing.top_k,
        experts: routing.experts,
        hidden: width,
        rows: routing.rows(),
    };
    let dtype = hidden.dtype();
    let bytes = (tokens + op.rows) as u64 * width as u64 * dtype.size() as u64;
    let mut progress = Progress::new(bytes);
    progress.phase("read");
    let hidden = hidden.load(|bytes| progress.add(bytes))?.data;
    progress.phase("copy");
    let (packed, time) = match dtype {
        DType::F16 => dispatch::<f16>(&op, &device, hidden, &routing),
        DType::Bf16 => dispatch::<bf16>(&op, &device, hidden, &routing),
        DType::U8 => dispatch::<u8>(&op, &device, hidden, &routing),
        _ => dispatch::<f32>(&op, &device, hidden, &routing),
    }?;
    progress.phase("write");
    let packed = Tensor {
        shape: vec![op.rows, width],
        data: packed,
    };
    let name = inputs.names.get("packed");
    let staged = stage(&args.out, name, &packed, |bytes| progress.add(bytes))?;
    io::commit_all(vec![staged])?;
    drop(progress);
    Report {
        operation: "dispatch",
        device: device.to_string(),
        dtype: dtype.name(),
        tokens,
        top_k: op.top_k,
        experts: op.experts,
        hidden: Some(width),
        rows: op.rows,
        dropped: routing.slot_idx.len() - routing.kept(),
        seconds: 0.0,
        bytes: 0,
        gbps: 0.0,
        outputs: vec![args.out],
    }
    .rated(bytes, time)
    .print(args.routing.common.json)
}

fn dispatch<T: Payload>(
    op: &Dispatch,
    device: &Device,
    hidden: TensorData,
    routing: &Routing,
) -> anyhow::Result<(TensorData, Duration)>
where
    TensorData: From<Vec<T>>,
{
    let hidden = device.upload(&typed::<T>(hidden)?)?;
    let routing = routing.upload(device)?;
    let routing = ops::Routing::from(routing.slots());
    let mut workspace = device.alloc(op.workspace_bytes(device, &routing)?)?;
    let mut packed = device.alloc::<T>(op.rows.saturating_mul(op.hidden))?;
    let mut status = Status::new(device)?;
    let time = timed(device, || {
        op.run_with(
            device,
            DispatchArgs {
                hidden: &hidden,
                routing,
                packed: &mut packed,
                status: &mut status,
                workspace: Some(&mut workspace),
            },
        )
    })?;
    status.finish()?;
    Ok((packed.to_vec()?.into(), time))
}
