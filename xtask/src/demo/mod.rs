//! `cargo xtask demo`: a linear scan from file to file with the real binary, checked
//! against the definition.

mod data;

use crate::build_ptx::{self, Options};
use crate::process::{Run, step};
use crate::workspace::Workspace;
use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// The largest |h - oracle| / max(1, |oracle|) that passes. A step rounds to 2^-24 of a
/// state of a few units, and a gate below 1 forgets: ten steps' worth at most come
/// together, some more where a GPU cuts the sequence into pieces.
const TOLERANCE: f64 = 1e-5;

/// Arguments of the command.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Where to run: auto, cpu, cuda or cuda:N. auto takes the first GPU that works, else
    /// the CPU.
    #[arg(long, default_value = "auto")]
    device: String,
    /// Batch, length and channels.
    #[arg(long, value_name = "B,L,D", default_value = "32,4096,256")]
    shape: Shape,
    /// Folder for a.npy, b.npy and h.npy, which stay there.
    #[arg(long, value_name = "FOLDER")]
    dir: Option<PathBuf>,
    /// Keep the files, in target/demo.
    #[arg(long, conflicts_with = "dir")]
    keep: bool,
    /// Seed of the random inputs.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// `[B, L, D]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape(pub [usize; 3]);

impl Shape {
    fn elements(self) -> usize {
        self.0.iter().product()
    }
}

impl FromStr for Shape {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("expected three numbers B,L,D like 32,4096,256; found {text:?}");
        let numbers: Option<Vec<usize>> = text
            .split(',')
            .map(|number| number.trim().parse().ok())
            .collect();
        let shape: [usize; 3] = numbers
            .and_then(|numbers| numbers.try_into().ok())
            .ok_or_else(wrong)?;
        shape
            .iter()
            .try_fold(4usize, |bytes, &size| bytes.checked_mul(size))
            .filter(|bytes| isize::try_from(*bytes).is_ok())
            .ok_or_else(|| format!("{text} has more elements than can be addressed"))?;
        Ok(Self(shape))
    }
}

/// What `ferroseq scan --json` prints, as far as the demo reads it.
#[derive(Debug, Deserialize)]
struct Report {
    device: String,
    dtype: String,
    seconds: f64,
    bytes: f64,
    gbps: f64,
}

/// Runs the command.
pub fn run(args: Args) -> Result<()> {
    let workspace = Workspace::locate()?;
    build_ptx::ensure(&Options::default())?;
    let build = workspace
        .cargo()
        .args(["build", "--release", "--package", "ferroseq"]);
    step(build.line());
    build.show()?;
    let binary = workspace.target.join("release").join("ferroseq");

    let (folder, temporary) = folder(&args, &workspace)?;
    let [a, b, h] = ["a.npy", "b.npy", "h.npy"].map(|name| folder.join(name));
    step(format_args!(
        "writing a.npy and b.npy ({:.0} MB each) to {}",
        args.shape.elements() as f64 * 4e-6,
        folder.display()
    ));
    data::write_inputs(args.shape.0, args.seed, &a, &b)?;
    let report = scan(&binary, &args.device, [&a, &b, &h])?;
    step("comparing with the definition in float64");
    let error = data::largest_error(args.shape.0, &a, &b, &h)?;
    let passed = error <= TOLERANCE;
    print!("{}", summary(&report, args.shape, error));
    if temporary.is_none() {
        println!("files    {}", folder.display());
    }
    ensure!(
        passed,
        "the error {error:.2e} is above the tolerance {TOLERANCE:.0e}"
    );
    Ok(())
}

/// Where the files go; and what removes them at the end, if they are not kept.
fn folder(args: &Args, workspace: &Workspace) -> Result<(PathBuf, Option<tempfile::TempDir>)> {
    let kept = match &args.dir {
        Some(folder) => Some(folder.clone()),
        None => args.keep.then(|| workspace.target.join("demo")),
    };
    if let Some(folder) = kept {
        fs::create_dir_all(&folder)
            .with_context(|| format!("cannot create {}", folder.display()))?;
        let folder = fs::canonicalize(folder)?;
        return Ok((folder, None));
    }
    let temporary = tempfile::Builder::new()
        .prefix("demo-")
        .tempdir_in(&workspace.target)
        .context("cannot create a folder for the files")?;
    Ok((temporary.path().to_owned(), Some(temporary)))
}

fn scan(binary: &Path, device: &str, [a, b, h]: [&Path; 3]) -> Result<Report> {
    let scan = Run::new(binary)
        .arg("scan")
        .args([
            Path::new("--a"),
            a,
            Path::new("--b"),
            b,
            Path::new("--out"),
            h,
        ])
        .args(["--device", device, "--json"]);
    step(scan.line());
    let text = scan.capture_stdout()?;
    serde_json::from_str(text.trim())
        .with_context(|| format!("`ferroseq scan --json` printed {text:?}"))
}

fn summary(report: &Report, shape: Shape, error: f64) -> String {
    let [batch, length, channels] = shape.0;
    let verdict = if error <= TOLERANCE {
        "passed"
    } else {
        "FAILED"
    };
    let no_gpu = if report.device.starts_with("cpu") {
        ", the CPU backend: no GPU was used"
    } else {
        ""
    };
    format!(
        "device   {}{no_gpu}\n\
         scan     [B, L, D] = [{batch}, {length}, {channels}] {}\n\
         time     {} (the scan alone, without files and copies)\n\
         speed    {:.1} GB/s ({:.1} MB read and written)\n\
         error    {error:.2e} of at most {TOLERANCE:.0e} (max |h - oracle| / max(1, |oracle|)): {verdict}\n",
        report.device,
        report.dtype,
        time(report.seconds),
        report.gbps,
        report.bytes / 1e6,
    )
}

fn time(seconds: f64) -> String {
    if seconds < 1e-3 {
        format!("{:.1} us", seconds * 1e6)
    } else if seconds < 1.0 {
        format!("{:.2} ms", seconds * 1e3)
    } else {
        format!("{seconds:.2} s")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes() {
        assert_eq!("32,4096,256".parse(), Ok(Shape([32, 4096, 256])));
        assert_eq!("0, 1, 2".parse(), Ok(Shape([0, 1, 2])));
        for text in ["", "1,2", "1,2,3,4", "1,-2,3", "a,b,c"] {
            let error = text.parse::<Shape>().unwrap_err();
            assert!(error.contains("B,L,D"), "{text}: {error}");
        }
        let huge = "4294967296,4294967296,4";
        assert!(huge.parse::<Shape>().unwrap_err().contains("addressed"));
    }

    const SCAN: &str = r#"{"operation":"linear_scan","device":"cpu (2 threads)","dtype":"f32",
        "shape":[2,3,4],"layout":"bld","seconds":0.0025,"bytes":288,"gbps":1.25,"outputs":["h.npy"]}"#;

    #[test]
    fn the_summary_says_pass_or_fail_and_where() {
        let report: Report = serde_json::from_str(SCAN).unwrap();
        let shape = Shape([2, 3, 4]);
        let text = summary(&report, shape, 1e-7);
        assert!(text.contains("cpu (2 threads), the CPU backend"), "{text}");
        assert!(
            text.contains("2.50 ms") && text.contains("1.2 GB/s"),
            "{text}"
        );
        assert!(text.trim_end().ends_with("passed"), "{text}");
        for error in [2e-5, f64::INFINITY, f64::NAN] {
            assert!(summary(&report, shape, error).contains("FAILED"));
        }
    }

    #[test]
    fn what_is_no_report_is_shown() {
        let folder = tempfile::tempdir().unwrap();
        let binary = folder.path().join("ferroseq");
        fs::write(&binary, "#!/bin/sh\necho no json\n").unwrap();
        use std::os::unix::fs::PermissionsExt;
        fs::set_permissions(&binary, fs::Permissions::from_mode(0o755)).unwrap();
        let file = Path::new("x.npy");
        let error = scan(&binary, "cpu", [file, file, file]).unwrap_err();
        assert!(error.to_string().contains("no json"), "{error}");
    }
}
