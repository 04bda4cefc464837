//! `ferroseq scan`: the linear scan from file to file.

use super::names::{Names, Rename};
use super::paths::{Named, named, overwritten};
use super::progress::Progress;
use super::report::Report;
use super::source::Source;
use super::{Cli, chunked};
use anyhow::Context;
use clap::{CommandFactory, ValueEnum};
use ferroseq::io::{self, NpyWriter, SafetensorsFile, Staged, Tensor, TensorData};
use ferroseq::ops::{Layout, LinearScan, LinearScanArgs, SequenceOffsets};
use ferroseq::{DType, Device, DeviceKind, Element};
use half::{bf16, f16};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const NAME: &str = "linear_scan";
/// Two reads and one write of every element.
const STREAMS: u64 = 3;

/// Linear scan: h[t] = a[t] * h[t-1] + b[t], channel by channel
///
/// Reads the gates `a` and the inputs `b`, both [B, L, D] (or [B, D, L] with --layout bdl),
/// of element type f32, f16 or bf16, and writes the states `h` of the same shape and type.
/// State and arithmetic are f32: one fused multiply-add a step, in the order of the
/// definition; f16 and bf16 are rounded when stored.
///
/// Inputs are .npy files, one a tensor, or one .safetensors file with the tensors `a`, `b`
/// and, where wanted, `h0` and `cu_seqlens`. The ending of --out says the format of the
/// output: .npy for `h` alone, .safetensors for `h` and `final_state` in one file. numpy has
/// no bf16 of its own: .npy files hold it as the Python package ml_dtypes writes it.
///
/// The time in the report is that of the scan alone, from its start until the device is done,
/// without files, copies or compilation: on a GPU an untimed run goes before it. GB/s counts
/// three passes over the tensor: two reads and one write.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
JSON (--json), one object on stdout:
  operation  \"linear_scan\"
  device     the device that ran it
  dtype      f32, f16 or bf16
  shape      [B, L, D], whatever the layout
  layout     bld or bdl
  seconds    the scan alone
  bytes      3 x elements x element size
  gbps       bytes / seconds / 1e9
  outputs    the files that were written

Examples:
  From two files to a third, on the best device there is:
    ferroseq scan --a a.npy --b b.npy --out h.npy

  Go on from an earlier state and keep the new one:
    ferroseq scan --a a.npy --b b.npy --h0 h0.npy --out h.npy --final-state hT.npy

  Three packed sequences of 3, 7 and 5 steps, B = 1:
    ferroseq scan --a a.npy --b b.npy --lengths 3,7,5 --out h.npy

  Named tensors in, named tensors out:
    ferroseq scan --input x.safetensors --name a=gate --name b=value --out y.safetensors

  Files longer than memory, 65536 steps at a time:
    ferroseq scan --a a.npy --b b.npy --chunk 65536 --out h.npy

  A script that wants the speed:
    ferroseq scan --a a.npy --b b.npy --out h.npy --device cuda --json | jq .gbps")]
pub struct Args {
    /// Gates, a .npy file of shape [B, L, D]
    #[arg(long, value_name = "FILE", required_unless_present = "input")]
    a: Option<PathBuf>,

    /// Inputs, a .npy file of the same shape and type as a
    #[arg(long, value_name = "FILE", required_unless_present = "input")]
    b: Option<PathBuf>,

    /// Initial state, a .npy file of f32 [B, D] ([S, D] for S packed sequences); else zeros
    #[arg(long, value_name = "FILE")]
    h0: Option<PathBuf>,

    /// A .safetensors file with the tensors a, b and, where wanted, h0 and cu_seqlens
    #[arg(long, value_name = "FILE", conflicts_with_all = ["a", "b", "h0", "cu_seqlens"])]
    input: Option<PathBuf>,

    /// Another name for a tensor in a .safetensors file, e.g. a=gate
    ///
    /// KEY is a, b, h0 or cu_seqlens of --input, h or final_state of --out. May be repeated.
    #[arg(long, value_name = "KEY=NAME")]
    name: Vec<Rename>,

    /// Where the states go: a .npy file, or a .safetensors file with the final state in it
    #[arg(long, value_name = "FILE", value_parser = output_path)]
    out: PathBuf,

    /// Where the last state goes: a .npy file of f32 [B, D] ([S, D])
    #[arg(long, value_name = "FILE", value_parser = npy_path)]
    final_state: Option<PathBuf>,

    /// auto, cpu, cuda, cuda:N or emulated
    #[arg(long, value_name = "DEVICE", default_value = "auto")]
    device: String,

    /// Which dimension of the files comes last
    #[arg(long, value_enum, default_value_t = LayoutArg::Bld)]
    layout: LayoutArg,

    /// From the last time step to the first: h[t] = a[t] * h[t+1] + b[t]
    #[arg(long)]
    reverse: bool,

    /// Where packed sequences begin: a .npy file of i32 or i64 [S + 1], from 0 to L; B is 1
    #[arg(long, value_name = "FILE")]
    cu_seqlens: Option<PathBuf>,

    /// The same as a list of lengths, e.g. 3,7,5
    #[arg(
        long,
        value_name = "LENGTHS",
        value_delimiter = ',',
        allow_negative_numbers = true,
        value_parser = clap::value_parser!(i64).range(0..),
        conflicts_with = "cu_seqlens"
    )]
    lengths: Option<Vec<i64>>,

    /// Read, scan and write N time steps at a time, for .npy files larger than memory
    ///
    /// The state is carried from piece to piece, and the output is the same, bit for bit.
    /// A GPU takes whole tiles of a few hundred time steps: there N is rounded up to them.
    #[arg(
        long,
        value_name = "N",
        allow_negative_numbers = true,
        value_parser = clap::value_parser!(u64).range(1..),
        conflicts_with = "input"
    )]
    chunk: Option<u64>,

    /// Report as one JSON object on stdout
    #[arg(long)]
    json: bool,
}

impl Args {
    fn inputs(&self) -> Vec<Named<'_>> {
        let inputs = [
            ("--a", &self.a),
            ("--b", &self.b),
            ("--h0", &self.h0),
            ("--input", &self.input),
            ("--cu-seqlens", &self.cu_seqlens),
        ];
        named(&inputs)
    }

    fn outputs(&self) -> Vec<Named<'_>> {
        let mut outputs = vec![("--out", self.out.as_path())];
        outputs.extend(named(&[("--final-state", &self.final_state)]));
        outputs
    }
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum LayoutArg {
    /// [B, L, D]: the channels of a time step are neighbours
    Bld,
    /// [B, D, L]: the time steps of a channel are neighbours
    Bdl,
}

/// What there is to do, checked as far as the headers go.
pub struct Job {
    pub device: Device,
    pub scan: LinearScan,
    pub dtype: DType,
    pub a: Source,
    pub b: Source,
    pub h0: Option<Source>,
    /// Checked: from 0 to L, B = 1.
    pub offsets: Option<SequenceOffsets>,
    pub out: PathBuf,
    pub final_state: Option<PathBuf>,
    names: Names,
}

pub fn run(args: Args) -> anyhow::Result<()> {
    let (json, chunk) = (args.json, args.chunk);
    check_outputs(&args);
    let job = Job::new(args)?;
    let outputs: Vec<PathBuf> = [Some(job.out.clone()), job.final_state.clone()]
        .into_iter()
        .flatten()
        .collect();
    let outputs = outputs.iter().map(PathBuf::as_path);
    let (device, dtype, scan) = (job.device.clone(), job.dtype, job.scan);
    let chunk = chunk.map(|steps| usize::try_from(steps).unwrap_or(usize::MAX));
    let time = match dtype {
        DType::F16 => job.run::<f16>(chunk),
        DType::Bf16 => job.run::<bf16>(chunk),
        _ => job.run::<f32>(chunk),
    }?;
    let shape = [scan.batch, scan.length, scan.channels];
    let elements = shape.iter().map(|&size| size as u64).product::<u64>();
    let bytes = STREAMS * elements * dtype.size() as u64;
    Report::new(NAME, &device, dtype, shape, scan.layout, (bytes, time))
        .wrote(outputs)
        .print(json)
}

/// Combinations that clap's attributes cannot say: usage errors all the same.
fn check_outputs(args: &Args) {
    let wrong = if args.chunk.is_some() && !has_extension(&args.out, "npy") {
        "--chunk writes .npy files only".to_owned()
    } else if let Some(name) = Names::new(args.name.clone()).clash() {
        format!("--name gives `h` and `final_state` the same name, `{name}`")
    } else if let Some((output, other)) = overwritten(&args.outputs(), &args.inputs()) {
        format!("{output} and {other} are the same file")
    } else {
        return;
    };
    Cli::command()
        .error(clap::error::ErrorKind::ArgumentConflict, wrong)
        .exit();
}

impl Job {
    fn new(args: Args) -> anyhow::Result<Self> {
        let device = Device::from_spec(&args.device)?;
        let names = Names::new(args.name);
        let input = args.input.as_ref().map(SafetensorsFile::open).transpose()?;
        let find = |key: &str, path: Option<&PathBuf>| -> io::Result<Option<Source>> {
            match (path, &input) {
                (Some(path), _) => Source::npy(key, path).map(Some),
                (None, Some(file)) => {
                    let name = names.get(key);
                    let needed = matches!(key, "a" | "b") || names.is_explicit(key);
                    if needed || file.contains(name) {
                        Source::safetensors(file, name).map(Some)
                    } else {
                        Ok(None)
                    }
                }
                (None, None) => Ok(None),
            }
        };
        let a = find("a", args.a.as_ref())?.context("no gates: --a or --input")?;
        let b = find("b", args.b.as_ref())?.context("no inputs: --b or --input")?;
        let h0 = find("h0", args.h0.as_ref())?;
        a.expect_type(&[DType::F32, DType::F16, DType::Bf16])?;
        let dtype = a.dtype();
        b.expect_type(&[dtype])?;
        let (batch, length, channels, layout) = match args.layout {
            LayoutArg::Bld => {
                let [batch, length, channels] = a.expect_rank("[B, L, D]")?;
                (batch, length, channels, Layout::Bld)
            }
            LayoutArg::Bdl => {
                let [batch, channels, length] = a.expect_rank("[B, D, L]")?;
                (batch, length, channels, Layout::Bdl)
            }
        };
        b.expect_shape(a.shape(), "as a has")?;
        let option = args
            .lengths
            .as_ref()
            .map_or("--cu-seqlens", |_| "--lengths");
        let offsets = match args.lengths {
            Some(lengths) => Some(offsets_of(&lengths)?),
            None => find("cu_seqlens", args.cu_seqlens.as_ref())?
                .map(load_offsets)
                .transpose()?,
        };
        let offsets = offsets
            .map(|offsets| SequenceOffsets::new(&device, &offsets))
            .transpose()?;
        let scan = LinearScan::new(batch, length, channels)
            .layout(layout)
            .reverse(args.reverse);
        let checked = scan.check_offsets(offsets.as_ref());
        match offsets {
            Some(_) => checked.context(option)?,
            None => checked?,
        }
        if let Some(h0) = &h0 {
            h0.expect_type(&[DType::F32])?;
            let sequences = offsets.as_ref().map_or(batch, SequenceOffsets::sequences);
            h0.expect_shape(&[sequences, channels], "a state for each sequence")?;
        }
        Ok(Self {
            device,
            scan,
            dtype,
            a,
            b,
            h0,
            offsets,
            out: args.out,
            final_state: args.final_state,
            names,
        })
    }

    fn run<T: Element>(self, chunk: Option<usize>) -> anyhow::Result<Duration>
    where
        TensorData: From<Vec<T>>,
    {
        match chunk {
            Some(steps) => chunked::run::<T>(self, steps),
            None => self.whole::<T>(),
        }
    }

    /// Sequences that are scanned: B, or S packed ones.
    pub fn sequences(&self) -> usize {
        let packed = self.offsets.as_ref().map(SequenceOffsets::sequences);
        packed.unwrap_or(self.scan.batch)
    }

    /// Everything at once; gives the time of the scan.
    fn whole<T: Element>(self) -> anyhow::Result<Duration>
    where
        TensorData: From<Vec<T>>,
    {
        let elements = self.scan.elements()?;
        let (shape, sequences) = (self.a.shape().to_owned(), self.sequences());
        let h_bytes = (elements * size_of::<T>()) as u64;
        let mut progress = Progress::new(self.a.bytes() + self.b.bytes() + h_bytes);
        progress.phase("read");
        let device = &self.device;
        let mut upload = |source: Source| -> anyhow::Result<_> {
            let tensor = source.load(|bytes| progress.add(bytes))?;
            let data = tensor
                .data
                .as_slice::<T>()
                .context("another type than its header's")?;
            Ok(device.upload(data)?)
        };
        let (a, b) = (upload(self.a)?, upload(self.b)?);
        let h0 = self.h0.map(load_state).transpose()?;
        let h0 = h0.map(|h0| device.upload(&h0)).transpose()?;
        let mut h = device.alloc::<T>(elements)?;
        let mut last = device.alloc::<f32>(sequences * self.scan.channels)?;

        progress.phase("scan");
        let mut scan = || -> ferroseq::Result<()> {
            let args = LinearScanArgs {
                a: &a,
                b: Some(&b),
                h: &mut h,
                h0: h0.as_ref(),
                final_state: Some(&mut last),
                offsets: self.offsets.as_ref(),
            };
            self.scan.run_with(device, args)?;
            device.synchronize()
        };
        if device.kind() == DeviceKind::Cuda {
            scan()?;
        }
        let start = Instant::now();
        scan()?;
        let time = start.elapsed();
        drop((a, b));

        progress.phase("write");
        let h = Tensor {
            shape,
            data: h.to_vec()?.into(),
        };
        let last = Tensor {
            shape: vec![sequences, self.scan.channels],
            data: last.to_vec()?.into(),
        };
        let mut staged = Vec::new();
        if has_extension(&self.out, "npy") {
            staged.push(stage_npy(&self.out, &h, |bytes| progress.add(bytes))?);
        } else {
            let (name, last_name) = (self.names.get("h"), self.names.get("final_state"));
            let tensors = [(name, &h), (last_name, &last)];
            staged.push(io::stage_safetensors(&self.out, &tensors)?);
        }
        if let Some(path) = &self.final_state {
            staged.push(stage_npy(path, &last, |_| {})?);
        }
        io::commit_all(staged)?;
        Ok(time)
    }
}

/// The f32 elements of a state tensor.
pub fn load_state(source: Source) -> anyhow::Result<Vec<f32>> {
    let tensor = source.load(|_| {})?;
    tensor
        .data
        .into_vec()
        .context("another type than its header's")
}

pub fn stage_npy(path: &Path, tensor: &Tensor, progress: impl FnMut(u64)) -> io::Result<Staged> {
    let mut writer = NpyWriter::create(path, tensor.data.dtype(), &tensor.shape)?;
    writer.write_all(&tensor.data, progress)?;
    Ok(writer.finish())
}

pub fn load_offsets(source: Source) -> anyhow::Result<Vec<i64>> {
    source.expect_type(&[DType::I32, DType::I64])?;
    source.expect_rank::<1>("[S + 1]")?;
    Ok(match source.load(|_| {})?.data {
        TensorData::I32(offsets) => offsets.into_iter().map(i64::from).collect(),
        data => data.into_vec().context("another type than its header's")?,
    })
}

pub fn offsets_of(lengths: &[i64]) -> anyhow::Result<Vec<i64>> {
    let mut offsets = vec![0i64];
    let mut end = 0i64;
    for length in lengths {
        end = (end.checked_add(*length)).context("--lengths: the sum is more than 64 bits hold")?;
        offsets.push(end);
    }
    Ok(offsets)
}

pub fn has_extension(path: &Path, extension: &str) -> bool {
    path.extension().is_some_and(|found| found == extension)
}

pub fn output_path(text: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(text);
    if has_extension(&path, "npy") || has_extension(&path, "safetensors") {
        return Ok(path);
    }
    Err("the name must end in .npy or .safetensors".to_owned())
}

pub fn npy_path(text: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(text);
    if has_extension(&path, "npy") {
        return Ok(path);
    }
    Err("the name must end in .npy".to_owned())
}
