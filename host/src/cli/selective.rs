//! What `selective-scan`, `layer` and `step` share: options, header checks, uploads, outputs.

use super::Cli;
use super::paths::{named, overwritten};
use super::progress::Progress;
use super::report::Report;
use super::scan::{has_extension, npy_path, output_path, stage_npy};
use super::source::Source;
use super::tensors::{TensorArgs, Tensors};
use anyhow::{Context, bail};
use clap::CommandFactory;
use ferroseq::io::{self, Tensor, TensorData};
use ferroseq::ops::StateMatrix;
use ferroseq::{Buffer, DType, Device, DeviceKind, Element};
use half::{bf16, f16};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// The options of all three.
#[derive(Debug, clap::Args)]
pub struct SelectiveArgs {
    #[command(flatten)]
    tensors: TensorArgs,

    /// Where y goes: a .npy file, or a .safetensors file with the final state in it
    #[arg(long, value_name = "FILE", value_parser = output_path)]
    out: PathBuf,

    /// Where the last state goes: a .npy file of f32 [B, D, N] ([S, D, N])
    #[arg(long, value_name = "FILE", value_parser = npy_path)]
    final_state: Option<PathBuf>,

    /// Take delta as it is (after its bias), without softplus
    #[arg(long)]
    no_softplus: bool,

    /// auto, cpu, cuda, cuda:N or emulated
    #[arg(long, value_name = "DEVICE", default_value = "auto")]
    device: String,

    /// Report as one JSON object on stdout
    #[arg(long)]
    json: bool,
}

/// The command, its options checked.
pub struct Job {
    pub device: Device,
    pub tensors: Tensors,
    pub softplus: bool,
    out: PathBuf,
    final_state: Option<PathBuf>,
    json: bool,
}

impl Job {
    /// A usage error where an output would replace an input or another output.
    pub fn new(args: SelectiveArgs, keys: &[&str]) -> anyhow::Result<Self> {
        let tensors = Tensors::new(args.tensors, keys)?;
        let mut outputs = vec![("--out", args.out.as_path())];
        outputs.extend(named(&[("--final-state", &args.final_state)]));
        if let Some((output, other)) = overwritten(&outputs, &tensors.files()) {
            let wrong = format!("{output} and {other} are the same file");
            Cli::command()
                .error(clap::error::ErrorKind::ArgumentConflict, wrong)
                .exit();
        }
        Ok(Self {
            device: Device::from_spec(&args.device)?,
            tensors,
            softplus: !args.no_softplus,
            out: args.out,
            final_state: args.final_state,
            json: args.json,
        })
    }

    /// `x`, whose element type is that of all sequences.
    pub fn x(&mut self) -> anyhow::Result<Source> {
        let x = self.tensors.need("x")?;
        x.expect_type(&[DType::F32, DType::F16, DType::Bf16])?;
        Ok(x)
    }

    /// A sequence of x's type and this shape.
    pub fn like(&mut self, key: &str, x: &Source) -> anyhow::Result<Source> {
        let source = self.tensors.need(key)?;
        source.expect_type(&[x.dtype()])?;
        source.expect_shape(x.shape(), "as x has")?;
        Ok(source)
    }

    /// The same for one that may be absent.
    pub fn like_if_any(&mut self, key: &str, x: &Source) -> anyhow::Result<Option<Source>> {
        let source = self.tensors.find(key)?;
        if let Some(source) = &source {
            source.expect_type(&[x.dtype()])?;
            source.expect_shape(x.shape(), "as x has")?;
        }
        Ok(source)
    }

    /// A_log or A, and `[D]` parameters.
    pub fn parameters(&mut self, channels: usize) -> anyhow::Result<Parameters> {
        let (a, log) = match (self.tensors.find("A_log")?, self.tensors.find("A")?) {
            (Some(_), Some(_)) => bail!("both `A_log` and `A` are there, expected one of them"),
            (Some(a), None) => (a, true),
            (None, Some(a)) => (a, false),
            (None, None) => (self.tensors.need("A_log")?, true),
        };
        a.expect_type(&PARAMETERS)?;
        let [d, state] = a.expect_rank("[D, N]")?;
        if d != channels {
            a.expect_shape(&[channels, state], "a row for each channel")?;
        }
        let mut parameter = |key: &str| -> anyhow::Result<Option<Source>> {
            let source = self.tensors.find(key)?;
            if let Some(source) = &source {
                source.expect_type(&PARAMETERS)?;
                source.expect_shape(&[channels], "one for each channel")?;
            }
            Ok(source)
        };
        Ok(Parameters {
            d_skip: parameter("D_skip")?,
            delta_bias: parameter("delta_bias")?,
            a,
            log,
            state,
        })
    }

    /// A state tensor.
    pub fn state(&mut self, key: &str, shape: &[usize]) -> anyhow::Result<Option<Source>> {
        let source = self.tensors.find(key)?;
        if let Some(source) = &source {
            source.expect_type(&[DType::F32])?;
            source.expect_shape(shape, "N states for each sequence and channel")?;
        }
        Ok(source)
    }

    /// Writes both outputs or none, and reports.
    pub fn finish(
        self,
        mut progress: Progress,
        (y, y_shape): (TensorData, Vec<usize>),
        (state, last, last_shape): (&'static str, Buffer<f32>, Vec<usize>),
        report: Report,
    ) -> anyhow::Result<()> {
        progress.phase("write");
        let y = Tensor {
            shape: y_shape,
            data: y,
        };
        let last = Tensor {
            shape: last_shape,
            data: last.to_vec()?.into(),
        };
        let mut staged = Vec::new();
        if has_extension(&self.out, "npy") {
            staged.push(stage_npy(&self.out, &y, |bytes| progress.add(bytes))?);
        } else {
            let tensors = [("y", &y), (state, &last)];
            staged.push(io::stage_safetensors(&self.out, &tensors)?);
        }
        if let Some(path) = &self.final_state {
            staged.push(stage_npy(path, &last, |_| {})?);
        }
        io::commit_all(staged)?;
        drop(progress);
        let outputs = [Some(&self.out), self.final_state.as_ref()];
        let outputs = outputs.into_iter().flatten().map(PathBuf::as_path);
        report.wrote(outputs).print(self.json)
    }
}

/// What parameters may be stored as; all of it is exact in f32.
const PARAMETERS: [DType; 3] = [DType::F32, DType::F16, DType::Bf16];

/// The parameters' files.
pub struct Parameters {
    a: Source,
    log: bool,
    d_skip: Option<Source>,
    delta_bias: Option<Source>,
    /// N.
    pub state: usize,
}

/// The parameters on the device.
pub struct Loaded {
    a: Buffer<f32>,
    log: bool,
    pub d_skip: Option<Buffer<f32>>,
    pub delta_bias: Option<Buffer<f32>>,
}

impl Loaded {
    pub fn matrix(&self) -> StateMatrix<'_> {
        match self.log {
            true => StateMatrix::Log(&self.a),
            false => StateMatrix::Plain(&self.a),
        }
    }
}

/// Reads files to a device.
pub struct Loader<'a> {
    pub device: &'a Device,
    pub progress: Progress,
    /// Of all sequences and weights that were read.
    pub bytes: u64,
}

impl<'a> Loader<'a> {
    pub fn new(device: &'a Device, bytes: u64) -> Self {
        let progress = Progress::new(bytes);
        progress.phase("read");
        Self {
            device,
            progress,
            bytes: 0,
        }
    }

    /// A sequence or a weight.
    pub fn sequence<T: Element>(&mut self, source: Source) -> anyhow::Result<Buffer<T>> {
        let tensor = source.load(|bytes| self.progress.add(bytes))?;
        self.bytes += tensor.data.bytes().len() as u64;
        let data = tensor
            .data
            .as_slice::<T>()
            .context("another type than its header's")?;
        Ok(self.device.upload(data)?)
    }

    /// A parameter or a state, widened to f32.
    pub fn wide(&mut self, source: Source) -> anyhow::Result<Buffer<f32>> {
        let values: Vec<f32> = match source.load(|_| {})?.data {
            TensorData::F16(values) => values.into_iter().map(f16::to_f32).collect(),
            TensorData::Bf16(values) => values.into_iter().map(bf16::to_f32).collect(),
            data => data.into_vec().context("another type than its header's")?,
        };
        Ok(self.device.upload(&values)?)
    }

    pub fn optional(&mut self, source: Option<Source>) -> anyhow::Result<Option<Buffer<f32>>> {
        source.map(|source| self.wide(source)).transpose()
    }

    pub fn parameters(&mut self, parameters: Parameters) -> anyhow::Result<Loaded> {
        Ok(Loaded {
            a: self.wide(parameters.a)?,
            log: parameters.log,
            d_skip: self.optional(parameters.d_skip)?,
            delta_bias: self.optional(parameters.delta_bias)?,
        })
    }

    /// Runs the operation, and on a GPU once before that; gives the time until it is done.
    pub fn time(
        &self,
        mut run: impl FnMut(bool) -> ferroseq::Result<()>,
    ) -> anyhow::Result<Duration> {
        self.progress.phase("scan");
        if self.device.kind() == DeviceKind::Cuda {
            run(true)?;
            self.device.synchronize()?;
        }
        let start = Instant::now();
        run(false)?;
        self.device.synchronize()?;
        Ok(start.elapsed())
    }
}
