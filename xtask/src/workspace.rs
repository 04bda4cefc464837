//! Where things lie: the workspace, cargo's target folder, the PTX. Writes files whole.

use crate::process::Run;
use anyhow::{Context, Result};
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

/// Says where the PTX is written to and embedded from, instead of `target/ptx`.
pub const PTX_DIR: &str = "FERROSEQ_PTX_DIR";

/// The folders of this checkout.
#[derive(Clone, Debug)]
pub struct Workspace {
    /// The folder of the workspace's `Cargo.toml`.
    pub root: PathBuf,
    /// Cargo's target folder, wherever its configuration puts that.
    pub target: PathBuf,
}

impl Workspace {
    /// Asks cargo.
    pub fn locate() -> Result<Self> {
        let manifest = std::env::var_os("CARGO_MANIFEST_DIR")
            .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
        let root = manifest
            .parent()
            .context("xtask's folder has no parent")?
            .to_owned();
        let metadata = Run::cargo()
            .args(["metadata", "--no-deps", "--format-version", "1"])
            .dir(&root)
            .capture()?;
        let metadata: serde_json::Value =
            serde_json::from_str(&metadata).context("cargo metadata printed no JSON")?;
        let target = metadata["target_directory"]
            .as_str()
            .context("cargo metadata names no target_directory")?;
        Ok(Self {
            target: PathBuf::from(target),
            root,
        })
    }

    /// Where the PTX is: one folder per code generator.
    pub fn ptx(&self) -> PathBuf {
        match std::env::var_os(PTX_DIR) {
            Some(directory) if !directory.is_empty() => self.root.join(directory),
            _ => self.target.join("ptx"),
        }
    }

    /// A cargo command that embeds the PTX from [`ptx`](Self::ptx).
    pub fn cargo(&self) -> Run {
        let run = Run::cargo().dir(&self.root);
        // host/build.rs looks there by itself; naming the folder all the same would
        // rebuild the host whenever the user goes from plain cargo to xtask and back.
        if self.ptx() == self.root.join("target").join("ptx") {
            return run;
        }
        run.env(PTX_DIR, self.ptx())
    }
}

/// Writes a file so that nobody ever sees half of it: a temporary beside it, then a rename.
pub fn replace(path: &Path, contents: &[u8]) -> Result<()> {
    let directory = path.parent().context("the file has no folder")?;
    fs::create_dir_all(directory)
        .with_context(|| format!("cannot create {}", directory.display()))?;
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.tmp", std::process::id()));
    let temporary = path.with_file_name(name);
    fs::write(&temporary, contents)
        .and_then(|()| fs::rename(&temporary, path))
        .with_context(|| format!("cannot write {}", path.display()))
        .inspect_err(|_| drop(fs::remove_file(&temporary)))
}

/// The programs of that name in these folders, in order.
pub fn programs<'a>(path: &'a [PathBuf], name: &'a str) -> impl Iterator<Item = PathBuf> + 'a {
    path.iter()
        .map(move |folder| folder.join(name))
        .filter(|file| file.is_file())
}

/// The first program of that name on `PATH`.
pub fn on_path(name: &str) -> Option<PathBuf> {
    programs(&path_folders(), name).next()
}

/// The folders of `PATH`, each once.
pub fn path_folders() -> Vec<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut folders: Vec<PathBuf> = Vec::new();
    for folder in std::env::split_paths::<OsStr>(&path) {
        if !folders.contains(&folder) {
            folders.push(folder);
        }
    }
    folders
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replace_leaves_one_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("deep/file.ptx");
        replace(&path, b"one").unwrap();
        replace(&path, b"two").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"two");
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
    }

    #[test]
    fn replace_says_where_it_failed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("taken");
        fs::create_dir(&path).unwrap();
        let error = replace(&path, b"x").unwrap_err().to_string();
        assert!(error.contains("taken"), "{error}");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn programs_come_in_the_order_of_the_path() {
        let folder = tempfile::tempdir().unwrap();
        let folders: Vec<_> = ["a", "b", "c"].map(|name| folder.path().join(name)).into();
        for at in [1, 2] {
            fs::create_dir_all(&folders[at]).unwrap();
            fs::write(folders[at].join("tool"), "").unwrap();
        }
        let found: Vec<_> = programs(&folders, "tool").collect();
        assert_eq!(found, [folders[1].join("tool"), folders[2].join("tool")]);
    }
}
