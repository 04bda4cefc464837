//! `ferroseq route`: from expert ids to the packed order.

use super::moe::{CommonArgs, Inputs, Report, check_outputs, entries, timed, typed};
use super::paths::named;
use super::scan::{npy_path, stage_npy};
use clap::ValueEnum;
use ferroseq::io::{self, Tensor};
use ferroseq::ops::{Index, InvalidIds, Route, RouteArgs, RoutePlan, Status};
use ferroseq::{DType, Device};
use std::path::PathBuf;
use std::time::Duration;

/// Mixture of experts: which packed row each token's copies get
///
/// Reads the experts that each token chose, `expert_ids` [T, K] of i32 or i64, and writes
/// where the copies go when each expert's rows lie together: `expert_offsets` [E + 1], the
/// first row of each expert and the end of the last; `slot_idx` [T, K], the place of each
/// entry among its expert's rows; and `source_of_row` [R], the entry (t * K + k) of each row.
/// All three are i32. Entries keep their order within an expert.
///
/// With --capacity, an expert's entries past it are dropped: their slot is -1. With --align,
/// each expert's rows are rounded up to a multiple; rows without an entry have the source -1.
#[derive(Debug, clap::Args)]
#[command(
    override_usage = "ferroseq route [OPTIONS] --expert-ids <FILE> --experts <E> --out <FILE>",
    group = clap::ArgGroup::new("outputs").required(true).multiple(true)
        .args(["out", "expert_offsets", "slot_idx", "source_of_row"]),
    after_long_help = "\
JSON (--json), one object on stdout:
  operation  \"route\"
  device     the device that ran it
  dtype      i32 or i64, that of the ids
  tokens, top_k, experts, rows
             T, K, E and the last offset
  dropped    entries without a row
  seconds    the routing alone
  bytes      ids read once, offsets, slots and sources written once
  gbps       bytes / seconds / 1e9
  outputs    the files that were written

Examples:
  From the ids to one file with all three tensors:
    ferroseq route --expert-ids ids.npy --experts 64 --out plan.safetensors

  Only what a grouped product needs:
    ferroseq route --expert-ids ids.npy --experts 64 --align 128 \\
        --expert-offsets offsets.npy --source-of-row rows.npy

  At most 512 tokens an expert, and no complaint about ids that are none:
    ferroseq route --expert-ids ids.npy --experts 64 --capacity 512 --invalid drop \\
        --out plan.safetensors

  How many entries were dropped:
    ferroseq route --input router.safetensors --name expert_ids=topk --experts 8 \\
        --capacity 100 --out plan.safetensors --json | jq .dropped"
)]
pub struct Args {
    /// Expert of each entry, a .npy file of i32 or i64 [T, K], or [T] for K = 1
    #[arg(long, value_name = "FILE", required_unless_present = "input")]
    expert_ids: Option<PathBuf>,

    /// Number of experts E, 1 to 1024
    #[arg(long, value_name = "E")]
    experts: usize,

    /// The most entries that an expert keeps; the later ones are dropped
    #[arg(long, value_name = "N")]
    capacity: Option<usize>,

    /// Round each expert's rows up to a multiple of N
    #[arg(long, value_name = "N", default_value_t = 1)]
    align: usize,

    /// What an id outside 0 to E - 1 does
    #[arg(long, value_enum, default_value_t = InvalidArg::Error)]
    invalid: InvalidArg,

    /// Where all three go: a .safetensors file
    #[arg(long, value_name = "FILE", value_parser = safetensors_path)]
    out: Option<PathBuf>,

    /// Where the offsets go: a .npy file of i32 [E + 1]
    #[arg(long, value_name = "FILE", value_parser = npy_path)]
    expert_offsets: Option<PathBuf>,

    /// Where the slots go: a .npy file of i32, shaped like the ids
    #[arg(long, value_name = "FILE", value_parser = npy_path)]
    slot_idx: Option<PathBuf>,

    /// Where the sources go: a .npy file of i32 [R]
    #[arg(long, value_name = "FILE", value_parser = npy_path)]
    source_of_row: Option<PathBuf>,

    #[command(flatten)]
    common: CommonArgs,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum InvalidArg {
    /// It is an error that names the first such token and its id
    Error,
    /// Its entry is dropped
    Drop,
}

pub fn run(args: Args) -> anyhow::Result<()> {
    let outputs = [
        ("--out", &args.out),
        ("--expert-offsets", &args.expert_offsets),
        ("--slot-idx", &args.slot_idx),
        ("--source-of-row", &args.source_of_row),
    ];
    let outputs = named(&outputs);
    let inputs = [
        ("--expert-ids", &args.expert_ids),
        ("--input", &args.common.input),
    ];
    check_outputs(&outputs, &named(&inputs));
    let device = Device::from_spec(&args.common.device)?;
    let inputs = Inputs::new(&args.common)?;
    let ids = inputs.need("expert_ids", args.expert_ids.as_ref())?;
    ids.expect_type(&[DType::I32, DType::I64])?;
    let (dtype, shape) = (ids.dtype(), ids.shape().to_owned());
    let (tokens, top_k) = entries(&ids)?;
    let op = Route::new(tokens, top_k, args.experts)
        .capacity(args.capacity)
        .alignment(args.align)
        .invalid(match args.invalid {
            InvalidArg::Error => InvalidIds::Error,
            InvalidArg::Drop => InvalidIds::Drop,
        });
    op.rows()?;
    let ids = ids.load(|_| {})?.data;
    let (plan, time) = match dtype {
        DType::I32 => route::<i32>(op, &device, &typed(ids)?),
        _ => route::<i64>(op, &device, &typed(ids)?),
    }?;

    let expert_offsets = plan.expert_offsets().to_vec()?;
    let rows = plan.rows()?;
    let slot_idx = plan.slot_idx().to_vec()?;
    let dropped = slot_idx.iter().filter(|slot| **slot == -1).count();
    let mut source_of_row = plan.source_of_row().to_vec()?;
    source_of_row.truncate(rows);
    let tensor = |shape: &[usize], data: Vec<i32>| Tensor {
        shape: shape.to_owned(),
        data: data.into(),
    };
    let tensors = [
        (
            "expert_offsets",
            tensor(&[args.experts + 1], expert_offsets),
            &args.expert_offsets,
        ),
        ("slot_idx", tensor(&shape, slot_idx), &args.slot_idx),
        (
            "source_of_row",
            tensor(&[rows], source_of_row),
            &args.source_of_row,
        ),
    ];
    let mut staged = Vec::new();
    if let Some(path) = &args.out {
        let named: Vec<_> = tensors
            .iter()
            .map(|(key, tensor, _)| (inputs.names.get(key), tensor))
            .collect();
        staged.push(io::stage_safetensors(path, &named)?);
    }
    for (_, tensor, path) in &tensors {
        if let Some(path) = path {
            staged.push(stage_npy(path, tensor, |_| {})?);
        }
    }
    io::commit_all(staged)?;

    let entries = (tokens * top_k) as u64;
    let bytes = entries * (dtype.size() as u64 + 4) + (args.experts + 1 + rows) as u64 * 4;
    Report {
        operation: "route",
        device: device.to_string(),
        dtype: dtype.name(),
        tokens,
        top_k,
        experts: args.experts,
        hidden: None,
        rows,
        dropped,
        seconds: 0.0,
        bytes: 0,
        gbps: 0.0,
        outputs: outputs.iter().map(|(_, path)| (*path).to_owned()).collect(),
    }
    .rated(bytes, time)
    .print(args.common.json)
}

fn route<I: Index>(
    op: Route,
    device: &Device,
    ids: &[I],
) -> ferroseq::Result<(RoutePlan, Duration)> {
    let expert_ids = device.upload(ids)?;
    let mut plan = op.plan(device)?;
    let mut status = Status::new(device)?;
    let mut workspace = device.alloc(op.workspace_bytes(device)?)?;
    let time = timed(device, || {
        op.run_with(
            device,
            RouteArgs {
                expert_ids: &expert_ids,
                plan: &mut plan,
                status: &mut status,
                workspace: Some(&mut workspace),
            },
        )
    })?;
    status.finish()?;
    Ok((plan, time))
}

fn safetensors_path(text: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(text);
    if super::scan::has_extension(&path, "safetensors") {
        return Ok(path);
    }
    Err("the name must end in .safetensors".to_owned())
}
