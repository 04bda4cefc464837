//! `ferroseq bench`: measures, prints the table, writes JSON and picture.

use super::output;
use super::paths::{named, overwritten};
use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use clap::builder::{PossibleValue, PossibleValuesParser};
use ferroseq::bench::compare::Peers;
use ferroseq::bench::row::{Report, Status};
use ferroseq::bench::{self, Options, Progress, Selection, plot, table};
use ferroseq::io::{Staged, commit_all};
use ferroseq::ops::Layout;
use ferroseq::{DType, Device};
use indicatif::{ProgressBar, ProgressStyle};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Measure operations beside what the device could do at best
///
/// Prints a table: the median time with a flushed cache, its spread (p10, p90), the time
/// with a warm cache, bytes, GB/s, percent of the ceiling, which floor binds (bytes,
/// operations or the launch) and how many times that floor the time is, the error
/// against a float64 oracle. The ceilings (copy, triad, write, exp2, fma) are measured in
/// the same run on the same device.
///
/// A row whose result is wrong is marked FAILED; one whose time is below that of an
/// empty launch is marked as a measurement fault. Either makes the exit code 1.
///
/// The method is explained in docs/performance.md.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "Examples:
  ferroseq bench
      every operation at its preset sizes, on a GPU if there is one
  ferroseq bench linear-scan --shape 32,4096,256 --dtype f32,bf16 --layout bld,bdl
      four rows at one size
  ferroseq bench --device cuda:0 --json bench.json --plot bench.svg
      the table, and the same as JSON and as a picture
  ferroseq bench --compare peers.json
      adds the fastest peer of each row and how many times faster we are")]
pub struct Args {
    /// What to measure
    #[arg(value_name = "OPERATION", default_value = "all", value_parser = operations())]
    operations: Vec<String>,

    /// Sizes in place of the presets, in the operation's order, e.g. 32,4096,256 (B,L,D)
    #[arg(long, value_name = "SIZES", value_delimiter = ',')]
    shape: Option<Vec<usize>>,

    /// Element types [default: those of the presets; f32 with --shape]
    #[arg(long, value_enum, value_name = "TYPES", value_delimiter = ',')]
    dtype: Vec<DTypeArg>,

    /// Memory layouts [default: those of the presets; bld with --shape]
    #[arg(long, value_enum, value_name = "LAYOUTS", value_delimiter = ',')]
    layout: Vec<LayoutArg>,

    /// Where to run: auto, cpu, cuda or cuda:N
    #[arg(long, default_value = "auto", value_name = "DEVICE")]
    device: String,

    /// Samples of each time, at least 30
    #[arg(long, default_value_t = Options::default().samples, value_name = "N",
          value_parser = samples)]
    samples: usize,

    /// Write the report as JSON to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,

    /// Draw a roofline and the percents of floor, as SVG, to this file
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,

    /// Compare with other implementations' times in this file (docs/performance.md has
    /// the format)
    #[arg(long, value_name = "FILE")]
    compare: Option<PathBuf>,

    /// For tests: gives the operations a wrong input, so that every row must come out
    /// FAILED
    #[arg(long, hide = true)]
    plant_fault: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum DTypeArg {
    F32,
    F16,
    Bf16,
}

impl From<DTypeArg> for DType {
    fn from(arg: DTypeArg) -> Self {
        match arg {
            DTypeArg::F32 => Self::F32,
            DTypeArg::F16 => Self::F16,
            DTypeArg::Bf16 => Self::Bf16,
        }
    }
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum LayoutArg {
    /// [B, L, D]: channels are neighbours
    Bld,
    /// [B, D, L]: time steps are neighbours
    Bdl,
}

impl From<LayoutArg> for Layout {
    fn from(arg: LayoutArg) -> Self {
        match arg {
            LayoutArg::Bld => Self::Bld,
            LayoutArg::Bdl => Self::Bdl,
        }
    }
}

fn operations() -> PossibleValuesParser {
    let all = PossibleValue::new("all").help("everything below");
    let each = bench::OPERATIONS
        .iter()
        .map(|op| PossibleValue::new(op.name).help(format!("{}; sizes {}", op.about, op.sizes)));
    std::iter::once(all).chain(each).collect::<Vec<_>>().into()
}

/// More would measure the machine's weather.
const MOST_SAMPLES: usize = 100_000;

fn samples(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(n) if (bench::MIN_SAMPLES..=MOST_SAMPLES).contains(&n) => Ok(n),
        Ok(_) => Err(format!("expected {} to {MOST_SAMPLES}", bench::MIN_SAMPLES)),
        Err(_) => Err("expected a whole number".to_owned()),
    }
}

/// Runs the command.
pub fn run(args: Args) -> Result<()> {
    // What can be wrong without measuring is found before minutes of it.
    let outputs = named(&[("--json", &args.json), ("--plot", &args.plot)]);
    let inputs = named(&[("--compare", &args.compare)]);
    if let Some((output, other)) = overwritten(&outputs, &inputs) {
        bail!("{output} and {other} are the same file");
    }
    let peers = args.compare.as_deref().map(read_peers).transpose()?;
    let stage = |path: &Option<PathBuf>| path.as_deref().map(Staged::create).transpose();
    let (json, picture) = (stage(&args.json)?, stage(&args.plot)?);
    let device = Device::from_spec(&args.device)?;
    let selection = Selection {
        operations: args.operations,
        shape: args.shape,
        dtypes: args.dtype.into_iter().map(DType::from).collect(),
        layouts: args.layout.into_iter().map(Layout::from).collect(),
    };
    let options = Options {
        samples: args.samples,
        plant_fault: args.plant_fault,
        ..Options::default()
    };
    let mut report = measure(&device, &selection, &options)?;
    if let Some(peers) = peers {
        peers.apply(&mut report);
    }
    output::print(table::render(&report).trim_end())?;
    let mut files = Vec::new();
    if let Some(mut file) = json {
        file.write_all(bench::to_json(&report)?.as_bytes())?;
        files.push(file);
    }
    if let Some(mut file) = picture {
        file.write_all(plot::render(&report).as_bytes())?;
        files.push(file);
    }
    commit_all(files)?;
    let rows = &report.rows;
    let bad = rows.iter().filter(|row| row.status != Status::Ok).count();
    if bad > 0 {
        bail!(
            "{bad} of {} rows failed or cannot be true; the lines below the table say why",
            rows.len()
        );
    }
    Ok(())
}

/// Measures, with a progress bar where someone watches.
fn measure(device: &Device, selection: &Selection, options: &Options) -> Result<Report> {
    let bar = ProgressBar::new(0).with_style(
        ProgressStyle::with_template("{spinner} {pos}/{len} {wide_msg} {elapsed}")
            .context("the progress bar's template")?,
    );
    bar.enable_steady_tick(Duration::from_millis(200));
    let report = bench::measure(device, selection, options, &mut |progress| match progress {
        Progress::Ceilings => bar.set_message(format!("{device}: ceilings")),
        Progress::Row { index, of, label } => {
            bar.set_length(of as u64);
            bar.set_position(index as u64);
            bar.set_message(label.to_owned());
        }
    });
    bar.finish_and_clear();
    Ok(report?)
}

fn read_peers(path: &Path) -> Result<Peers> {
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("--compare: cannot read {}", path.display()))?;
    Peers::parse(&text).with_context(|| path.display().to_string())
}
