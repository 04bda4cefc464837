//! `cargo xtask bundle`: `dist/` with the binary, the compiled tests, the PTX and the
//! script that runs the tests on a machine without Rust.

use crate::build_ptx::{self, Codegen, Options};
use crate::process::{Run, step};
use crate::rust_cuda;
use crate::workspace::{Workspace, on_path};
use anyhow::{Context, Result, bail, ensure};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// What all files together may weigh, and how much more with a second set of PTX, which is in the
/// executables, too.
const LIMIT: u64 = 60_000_000;
const SECOND_SET: u64 = 40_000_000;

/// Runs the tests over there. A file of its own, so that a shell's linter can read it.
const SCRIPT: &str = include_str!("run-tests.sh");

/// Arguments of the command.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Whose PTX to pack: auto takes nvptx's, and nvvm's beside it if all that rust-cuda
    /// needs is here. With both, `ferroseq --codegen` and FERROSEQ_CODEGEN choose over there.
    #[arg(long, value_enum, default_value_t)]
    codegen: Codegen,
    #[command(flatten)]
    named: rust_cuda::Named,
}

/// Runs the command.
pub fn run(args: Args) -> Result<()> {
    let workspace = Workspace::locate()?;
    let sets = build(&args)?;
    // So that a benchmark's report says what it measured.
    let commit = Run::new("git")
        .args(["rev-parse", "--short", "HEAD"])
        .capture_stdout();
    let commit = commit.unwrap_or_default();
    let build = workspace
        .cargo()
        .env("FERROSEQ_COMMIT", commit.trim())
        .args([
            "build",
            "--release",
            "--package",
            "ferroseq",
            "--bin",
            "ferroseq",
        ]);
    step(build.line());
    build.show()?;
    let build = workspace
        .cargo()
        .env("FERROSEQ_COMMIT", commit.trim())
        .args([
            "test",
            "--no-run",
            "--release",
            "--message-format=json-render-diagnostics",
        ])
        .args(["--package", "ferroseq", "--package", "ferroseq-tests"])
        .args(["--lib", "--test", "*"]);
    step(build.line());
    let tests = test_executables(&build.capture_stdout()?)?;
    ensure!(!tests.is_empty(), "cargo built no test executables");

    // Made beside its place and moved there whole.
    let dist = workspace.root.join("dist");
    let fresh = workspace.target.join("dist.new");
    remove(&fresh)?;
    let folder = fresh.join("tests");
    fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    pack(
        &workspace.target.join("release").join("ferroseq"),
        &fresh.join("ferroseq"),
    )?;
    for test in &tests {
        pack(&test.path, &folder.join(&test.name))?;
    }
    // Some tests read the PTX itself.
    for set in &sets {
        copy_folder(&workspace.ptx().join(set), &fresh.join("ptx").join(set))
            .context("cannot copy the PTX")?;
    }
    let script = fresh.join("run-tests.sh");
    fs::write(&script, SCRIPT)?;
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755))?;
    let bytes = size(&fresh)?;
    // The executables embed what has been built, packed or not.
    let both = ["nvptx", "nvvm"].map(|set| workspace.ptx().join(set).is_dir()) == [true; 2];
    let limit = LIMIT + if both { SECOND_SET } else { 0 };
    ensure!(
        bytes <= limit,
        "the bundle has {:.1} MB, more than the {:.0} MB it may have; it is in {}",
        bytes as f64 / 1e6,
        limit as f64 / 1e6,
        fresh.display()
    );
    remove(&dist)?;
    move_folder(&fresh, &dist)?;
    println!(
        "{}: ferroseq, {} test executables, the PTX by {}, run-tests.sh; {:.1} MB",
        dist.display(),
        tests.len(),
        sets.join(" and "),
        bytes as f64 / 1e6
    );
    Ok(())
}

/// Builds the PTX that is packed; names its code generators.
fn build(args: &Args) -> Result<Vec<&'static str>> {
    let wanted = match args.codegen {
        Codegen::Nvptx => vec![Codegen::Nvptx],
        Codegen::Nvvm => vec![Codegen::Nvvm],
        Codegen::Auto => {
            let search = rust_cuda::find(&rust_cuda::Places::here(&args.named));
            let nvvm = search.found.map(|_| Codegen::Nvvm);
            [Codegen::Nvptx].into_iter().chain(nvvm).collect::<Vec<_>>()
        }
    };
    let mut sets = Vec::new();
    for codegen in wanted {
        build_ptx::ensure(&Options {
            codegen,
            named: args.named.clone(),
            ..Options::default()
        })?;
        sets.push(if codegen == Codegen::Nvvm {
            "nvvm"
        } else {
            "nvptx"
        });
    }
    Ok(sets)
}

/// A compiled test executable.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Test {
    name: String,
    path: PathBuf,
}

/// The test executables in cargo's messages, named `package` or `package-target`.
fn test_executables(messages: &str) -> Result<Vec<Test>> {
    let mut tests = Vec::new();
    for line in messages.lines().filter(|line| line.starts_with('{')) {
        let message: serde_json::Value =
            serde_json::from_str(line).context("cargo printed a message that is no JSON")?;
        let is_test = message["profile"]["test"].as_bool() == Some(true);
        let (Some(path), true) = (message["executable"].as_str(), is_test) else {
            continue;
        };
        let target = &message["target"];
        let name = target["name"].as_str().context("a test has no name")?;
        let is_lib = target["kind"][0].as_str() == Some("lib");
        let name = if is_lib {
            name.to_owned()
        } else {
            format!("test-{name}")
        };
        tests.push(Test {
            name,
            path: path.into(),
        });
    }
    tests.sort_by(|a, b| a.name.cmp(&b.name));
    if let Some(pair) = tests.windows(2).find(|pair| pair[0].name == pair[1].name) {
        bail!("two test executables are called {}", pair[0].name);
    }
    Ok(tests)
}

/// Copies an executable without its debug information.
fn pack(from: &Path, to: &Path) -> Result<()> {
    let copy = || format!("cannot copy {} to {}", from.display(), to.display());
    match on_path("strip") {
        Some(strip) => Run::new(strip)
            .args(["--strip-debug", "-o"])
            .args([to, from])
            .capture()
            .map(drop)
            .with_context(copy),
        None => {
            eprintln!(
                "no `strip` on PATH: {} keeps its debug information",
                to.display()
            );
            fs::copy(from, to).map(drop).with_context(copy)
        }
    }
}

fn remove(folder: &Path) -> Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            bail!("cannot remove {}: {error}", folder.display())
        }
        _ => Ok(()),
    }
}

/// Renames; copies where the target folder is on another disk.
fn move_folder(from: &Path, to: &Path) -> Result<()> {
    if fs::rename(from, to).is_ok() {
        return Ok(());
    }
    copy_folder(from, to).with_context(|| format!("cannot write {}", to.display()))?;
    remove(from)
}

fn copy_folder(from: &Path, to: &Path) -> std::io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let to = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_folder(&entry.path(), &to)?;
        } else {
            fs::copy(entry.path(), to)?;
        }
    }
    Ok(())
}

fn size(folder: &Path) -> Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        bytes += if entry.file_type()?.is_dir() {
            size(&entry.path())?
        } else {
            entry.metadata()?.len()
        };
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn executable(path: &Path, script: &str) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// A bundle whose tests are these scripts; returns the exit code and the output.
    fn run_script(tests: &[(&str, &str)], args: &str) -> (i32, String) {
        let folder = tempfile::tempdir().unwrap();
        executable(&folder.path().join("ferroseq"), "echo \"info: $1\"");
        fs::create_dir_all(folder.path().join("tests")).unwrap();
        for (name, script) in tests {
            executable(&folder.path().join("tests").join(name), script);
        }
        fs::write(folder.path().join("run-tests.sh"), SCRIPT).unwrap();
        let line = format!("sh run-tests.sh {args}; echo \"exit=$?\"");
        let output = Run::new("sh").args(["-c", &line]).dir(folder.path());
        let text = output
            .without_env("FERROSEQ_REQUIRE_CUDA")
            .capture()
            .unwrap();
        let code = text.rsplit_once("exit=").unwrap().1.trim().parse().unwrap();
        (code, text)
    }

    const GOOD: &str = "echo 'test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s'";
    const BAD: &str = "echo 'test result: FAILED. 1 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out'; exit 101";

    #[test]
    fn the_script_adds_up() {
        let (code, text) = run_script(&[("a", GOOD), ("b", GOOD)], "");
        assert!(text.contains("\n6 passed, 0 failed, 2 skipped\n"), "{text}");
        assert!(text.contains("\ninfo: info\n") && code == 0, "{text}");
        let (code, text) = run_script(&[("a", GOOD), ("b", BAD)], "");
        assert!(text.contains("\n4 passed, 2 failed, 1 skipped\n"), "{text}");
        assert_eq!(code, 1);
    }

    #[test]
    fn a_test_that_dies_counts_as_failed() {
        let (code, text) = run_script(&[("a", "kill -9 $$"), ("b", GOOD)], "");
        assert!(text.contains("\n3 passed, 1 failed, 1 skipped\n"), "{text}");
        assert!(
            text.contains("broken: a (no result, exit code 137)"),
            "{text}"
        );
        assert_eq!(code, 1);
        let late = format!("{GOOD}; exit 3");
        let (code, text) = run_script(&[("a", &late)], "");
        assert!(text.contains("exit code 3"), "{text}");
        assert_eq!(code, 1);
    }

    #[test]
    fn the_tests_get_their_environment_and_arguments() {
        let script = format!(
            "echo \"$FERROSEQ_REQUIRE_CUDA <$1> <$2>\"; \"$FERROSEQ_BIN\" \"${{FERROSEQ_PTX_DIR##*/}}\"; {GOOD}"
        );
        let (code, text) = run_script(&[("a", &script)], "'one two' three");
        assert!(text.contains("1 <one two> <three>\ninfo: ptx\n"), "{text}");
        assert_eq!(code, 0);
    }

    #[test]
    fn no_tests_are_no_success() {
        let (code, text) = run_script(&[], "");
        assert!(text.contains("\n0 passed, 0 failed, 0 skipped\n"), "{text}");
        assert_eq!(code, 1);
    }

    #[test]
    fn executables_in_cargos_messages() {
        let message = |kind: &str, name: &str, test: bool, path: &str| {
            serde_json::json!({
                "reason": "compiler-artifact",
                "target": {"kind": [kind], "name": name},
                "profile": {"test": test},
                "executable": path,
            })
            .to_string()
        };
        let messages = [
            message("test", "it", true, "/t/it-1"),
            message("lib", "ferroseq", true, "/t/ferroseq-2"),
            message("bin", "ferroseq", false, "/t/ferroseq"),
            r#"{"reason":"build-finished","success":true}"#.to_owned(),
        ]
        .join("\n");
        let found = test_executables(&messages).unwrap();
        let found: Vec<_> = found
            .iter()
            .map(|test| (test.name.as_str(), test.path.to_str().unwrap()))
            .collect();
        assert_eq!(
            found,
            [("ferroseq", "/t/ferroseq-2"), ("test-it", "/t/it-1")]
        );
        let twice = [&messages, &messages].map(String::as_str).join("\n");
        assert!(test_executables(&twice).is_err());
    }
}
