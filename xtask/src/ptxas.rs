//! Finding ptxas, NVIDIA's assembler: only `check-ptx` needs it. Looks only; `setup` installs.

use crate::process::Run;
use crate::workspace::{Workspace, path_folders, programs};
use anyhow::{Context, Result};
use std::fs;
use std::path::{Path, PathBuf};

/// The PyPI package that ships it, and the versions that will do.
pub const PACKAGE: &str = "nvidia-cuda-nvcc==13.0.*";

/// A ptxas.
#[derive(Clone, Debug)]
pub struct Ptxas {
    /// The executable.
    pub path: PathBuf,
    /// What it says of its version, e.g. `13.0, V13.0.88`.
    pub version: String,
}

/// Names a ptxas to use before all others.
pub const ENVIRONMENT: &str = "FERROSEQ_PTXAS";

/// The ptxas at this path.
///
/// # Errors
/// There is none, or it does not run.
pub fn at(path: PathBuf) -> Result<Ptxas> {
    let said = Run::new(&path).arg("--version").capture()?;
    let version = version(&said);
    let version = version.with_context(|| format!("{} is no ptxas", path.display()))?;
    Ok(Ptxas { path, version })
}

/// Where `setup` installs it to.
pub fn install_folder(workspace: &Workspace) -> PathBuf {
    workspace.target.join("ptxas")
}

/// The first that runs: on `PATH`, in a CUDA toolkit, where `setup` installs it.
pub fn find(workspace: &Workspace) -> Option<Ptxas> {
    let mut folders = path_folders();
    folders.extend(
        ["CUDA_PATH", "CUDA_HOME"]
            .iter()
            .filter_map(std::env::var_os)
            .map(|home| Path::new(&home).join("bin")),
    );
    folders.extend(toolkits(Path::new("/usr/local")));
    folders.push(install_folder(workspace).join("nvidia/cu13/bin"));
    programs(&folders, "ptxas").find_map(|path| {
        let version = version(&Run::new(&path).arg("--version").capture().ok()?)?;
        Some(Ptxas { path, version })
    })
}

/// The `bin` folders of the toolkits in `/usr/local`: `cuda`, then `cuda-*`, newest first.
fn toolkits(local: &Path) -> Vec<PathBuf> {
    let key = |name: &str| {
        let numbers = name.strip_prefix("cuda-").unwrap_or("999");
        let numbers: Vec<u32> = numbers.split('.').flat_map(str::parse).collect();
        numbers
    };
    let mut names: Vec<String> = fs::read_dir(local)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .filter(|name| name == "cuda" || name.starts_with("cuda-"))
        .collect();
    names.sort_by_key(|name| std::cmp::Reverse(key(name)));
    names
        .iter()
        .map(|name| local.join(name).join("bin"))
        .collect()
}

/// The version in the output of `ptxas --version`.
fn version(output: &str) -> Option<String> {
    let line = output.lines().find(|line| line.contains("release "))?;
    Some(line.split_once("release ")?.1.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions() {
        let output = "ptxas: NVIDIA (R) Ptx optimizing assembler\n\
                      Cuda compilation tools, release 13.0, V13.0.88\nBuild cuda_13.0\n";
        assert_eq!(version(output).as_deref(), Some("13.0, V13.0.88"));
        assert_eq!(version("not a ptxas"), None);
    }

    #[test]
    fn toolkits_newest_first() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["cuda-9.2", "cuda-12.10", "cuda-12.9", "cuda", "other"] {
            fs::create_dir(folder.path().join(name)).unwrap();
        }
        let names: Vec<_> = ["cuda", "cuda-12.10", "cuda-12.9", "cuda-9.2"]
            .map(|name| folder.path().join(name).join("bin"))
            .into();
        assert_eq!(toolkits(folder.path()), names);
        assert!(toolkits(&folder.path().join("none")).is_empty());
    }
}
