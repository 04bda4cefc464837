//! What `route`, `dispatch` and `combine` share: where their tensors come from, and what
//! they say when they are done.

use super::names::{Names, Rename};
use super::output;
use super::paths::{Named, overwritten};
use super::source::Source;
use super::{Cli, scan};
use anyhow::{Context, anyhow};
use clap::CommandFactory;
use ferroseq::io::{self, SafetensorsFile, Staged, Tensor, TensorData};
use ferroseq::{Buffer, DType, Device, DeviceKind};
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The tensors' own names.
const KEYS: [&str; 8] = [
    "expert_ids",
    "slot_idx",
    "expert_offsets",
    "source_of_row",
    "hidden",
    "packed",
    "weights",
    "out",
];

/// `KEY=NAME` for one of these tensors.
pub fn rename(text: &str) -> Result<Rename, String> {
    Rename::parse(text, &KEYS)
}

/// Where each token's rows lie, for `dispatch` and `combine`.
#[derive(Debug, clap::Args)]
pub struct RoutingArgs {
    /// Expert of each entry, a .npy file of i32 or i64 [T, K], or [T] for K = 1
    #[arg(long, value_name = "FILE")]
    pub expert_ids: Option<PathBuf>,

    /// Place of each entry among its expert's rows, of the same shape; -1 for a dropped one
    #[arg(long, value_name = "FILE")]
    pub slot_idx: Option<PathBuf>,

    /// First row of each expert and the end of the last one's, i32 or i64 [E + 1]
    #[arg(long, value_name = "FILE")]
    pub expert_offsets: Option<PathBuf>,

    #[command(flatten)]
    pub common: CommonArgs,
}

/// What all three take.
#[derive(Debug, clap::Args)]
pub struct CommonArgs {
    /// A .safetensors file with the tensors that no option names a file for
    #[arg(long, value_name = "FILE")]
    pub input: Option<PathBuf>,

    /// Another name for a tensor in a .safetensors file, e.g. expert_ids=topk
    ///
    /// KEY is the name of an input or output as the options have it, with _ for -. May be
    /// repeated.
    #[arg(long, value_name = "KEY=NAME", value_parser = rename)]
    pub name: Vec<Rename>,

    /// auto, cpu, cuda, cuda:N or emulated
    #[arg(long, value_name = "DEVICE", default_value = "auto")]
    pub device: String,

    /// Report as one JSON object on stdout
    #[arg(long)]
    pub json: bool,
}

/// Ends the program with a usage error if an output would replace another file of the call.
pub fn check_outputs(outputs: &[Named<'_>], inputs: &[Named<'_>]) {
    if let Some((output, other)) = overwritten(outputs, inputs) {
        let wrong = format!("{output} and {other} are the same file");
        Cli::command()
            .error(clap::error::ErrorKind::ArgumentConflict, wrong)
            .exit();
    }
}

/// The input tensors: files of their own, or in one `.safetensors` file.
pub struct Inputs {
    file: Option<SafetensorsFile>,
    pub names: Names,
}

impl Inputs {
    pub fn new(common: &CommonArgs) -> io::Result<Self> {
        Ok(Self {
            file: common
                .input
                .as_ref()
                .map(SafetensorsFile::open)
                .transpose()?,
            names: Names::new(common.name.clone()),
        })
    }

    /// The tensor `key`, if it is there.
    pub fn find(&self, key: &'static str, path: Option<&PathBuf>) -> io::Result<Option<Source>> {
        let name = self.names.get(key);
        match (path, &self.file) {
            (Some(path), _) => Source::npy(key, path).map(Some),
            (None, Some(file)) if self.names.is_explicit(key) || file.contains(name) => {
                Source::safetensors(file, name).map(Some)
            }
            _ => Ok(None),
        }
    }

    /// The tensor `key`, which must be there.
    pub fn need(&self, key: &'static str, path: Option<&PathBuf>) -> anyhow::Result<Source> {
        self.find(key, path)?.ok_or_else(|| {
            let option = key.replace('_', "-");
            let name = self.names.get(key);
            anyhow!("no {key}: neither --{option} FILE nor `{name}` in a file --input FILE")
        })
    }
}

/// Sizes T and K of a tensor `[T, K]` or `[T]`.
pub fn entries(source: &Source) -> io::Result<(usize, usize)> {
    match source.shape() {
        [tokens] => Ok((*tokens, 1)),
        _ => source
            .expect_rank::<2>("[T, K], or one [T]")
            .map(|[tokens, top_k]| (tokens, top_k)),
    }
}

/// A routing, checked as far as the headers go, in memory.
pub struct Routing {
    pub tokens: usize,
    pub top_k: usize,
    pub experts: usize,
    pub expert_ids: Vec<i64>,
    pub slot_idx: Vec<i32>,
    pub expert_offsets: Vec<i32>,
    /// The shape of the ids, for tensors that must have the same.
    pub shape: Vec<usize>,
}

impl Routing {
    pub fn load(args: &RoutingArgs, inputs: &Inputs) -> anyhow::Result<Self> {
        const INTEGERS: [DType; 2] = [DType::I32, DType::I64];
        let ids = inputs.need("expert_ids", args.expert_ids.as_ref())?;
        let slots = inputs.need("slot_idx", args.slot_idx.as_ref())?;
        let offsets = inputs.need("expert_offsets", args.expert_offsets.as_ref())?;
        for source in [&ids, &slots, &offsets] {
            source.expect_type(&INTEGERS)?;
        }
        let (tokens, top_k) = entries(&ids)?;
        let shape = ids.shape().to_owned();
        slots.expect_shape(&shape, "as expert_ids has")?;
        let [ends] = offsets.expect_rank("[E + 1]")?;
        let experts = ends
            .checked_sub(1)
            .context("expert_offsets is empty, expected [E + 1]")?;
        Ok(Self {
            tokens,
            top_k,
            experts,
            expert_ids: match ids.load(|_| {})?.data {
                TensorData::I32(ids) => ids.into_iter().map(i64::from).collect(),
                data => typed(data)?,
            },
            slot_idx: narrow("slot_idx", slots)?,
            expert_offsets: narrow("expert_offsets", offsets)?,
            shape,
        })
    }

    /// Entries that have a row.
    pub fn kept(&self) -> usize {
        self.slot_idx.iter().filter(|slot| **slot != -1).count()
    }

    /// Packed rows: the last offset.
    pub fn rows(&self) -> usize {
        let last = self.expert_offsets.last().copied().unwrap_or(0);
        usize::try_from(last).unwrap_or(0)
    }

    pub fn upload(&self, device: &Device) -> ferroseq::Result<OnDevice> {
        Ok(OnDevice {
            expert_ids: device.upload(&self.expert_ids)?,
            slot_idx: device.upload(&self.slot_idx)?,
            expert_offsets: device.upload(&self.expert_offsets)?,
        })
    }
}

/// A [`Routing`] on a device.
pub struct OnDevice {
    expert_ids: Buffer<i64>,
    slot_idx: Buffer<i32>,
    expert_offsets: Buffer<i32>,
}

impl OnDevice {
    pub fn slots(&self) -> ferroseq::ops::Slots<'_, i64> {
        ferroseq::ops::Slots {
            expert_ids: &self.expert_ids,
            slot_idx: &self.slot_idx,
            expert_offsets: &self.expert_offsets,
        }
    }
}

/// Rows and slots as 32 bits, which they must fit.
fn narrow(name: &str, source: Source) -> anyhow::Result<Vec<i32>> {
    let wide: Vec<i64> = match source.load(|_| {})?.data {
        TensorData::I32(values) => return Ok(values),
        data => typed(data)?,
    };
    let narrow = |(at, value): (usize, &i64)| {
        i32::try_from(*value)
            .map_err(|_| anyhow!("{name} is {value} at position {at}: more than 32 bits hold"))
    };
    wide.iter().enumerate().map(narrow).collect()
}

/// The elements, of a type that the header already promised.
pub fn typed<T: ferroseq::dtype::Data>(data: TensorData) -> anyhow::Result<Vec<T>> {
    data.into_vec().context("another type than its header's")
}

/// Runs `body`, and the device to its end; gives the time. A GPU runs it once before,
/// untimed, to load what it needs.
pub fn timed(
    device: &Device,
    mut body: impl FnMut() -> ferroseq::Result<()>,
) -> ferroseq::Result<Duration> {
    if device.kind() == DeviceKind::Cuda {
        body()?;
    }
    device.synchronize()?;
    let start = Instant::now();
    body()?;
    device.synchronize()?;
    Ok(start.elapsed())
}

/// Writes the one output tensor, under `name` if it goes to a `.safetensors` file.
pub fn stage(
    path: &Path,
    name: &str,
    tensor: &Tensor,
    progress: impl FnMut(u64),
) -> io::Result<Staged> {
    if scan::has_extension(path, "npy") {
        scan::stage_npy(path, tensor, progress)
    } else {
        io::stage_safetensors(path, &[(name, tensor)])
    }
}

/// The JSON object of one operation, and the source of the human text.
#[derive(Debug, Serialize)]
pub struct Report {
    pub operation: &'static str,
    pub device: String,
    pub dtype: &'static str,
    pub tokens: usize,
    pub top_k: usize,
    pub experts: usize,
    /// H; nothing for route.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hidden: Option<usize>,
    /// Packed rows.
    pub rows: usize,
    /// Entries without a row.
    pub dropped: usize,
    pub seconds: f64,
    pub bytes: u64,
    pub gbps: f64,
    pub outputs: Vec<PathBuf>,
}

impl Report {
    /// With the rate of `bytes` in `time`.
    pub fn rated(mut self, bytes: u64, time: Duration) -> Self {
        self.seconds = time.as_secs_f64();
        self.bytes = bytes;
        if self.seconds > 0.0 {
            self.gbps = bytes as f64 / self.seconds / 1e9;
        }
        self
    }

    pub fn print(&self, json: bool) -> anyhow::Result<()> {
        if json {
            return output::print(&serde_json::to_string(self)?);
        }
        let hidden = self
            .hidden
            .map_or_else(String::new, |h| format!(", H = {h}"));
        let outputs: Vec<String> = self
            .outputs
            .iter()
            .map(|p| p.display().to_string())
            .collect();
        output::print(&format!(
            "device  {}\n\
             work    {}, T = {}, K = {}, E = {}{hidden}\n\
             rows    {} packed, {} entries dropped\n\
             time    {:.3} ms for {:.1} MB, {:.1} GB/s\n\
             wrote   {}",
            self.device,
            self.dtype,
            self.tokens,
            self.top_k,
            self.experts,
            self.rows,
            self.dropped,
            self.seconds * 1e3,
            self.bytes as f64 / 1e6,
            self.gbps,
            outputs.join(", ")
        ))
    }
}
