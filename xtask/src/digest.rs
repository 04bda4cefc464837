//! What the PTX is built from, as one number: the sources and manifest of gpu-kernels,
//! the profile, and the versions of the crates it uses.

use crate::workspace::Workspace;
use anyhow::{Context, Result};
use sha2::{Digest, Sha256};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Counted up when `build-ptx` writes other text for the same sources.
const PIPELINE: u32 = 1;

/// `sha256:` and the digest, in hex.
pub fn sha256(bytes: &[u8]) -> String {
    format!("sha256:{:x}", Sha256::digest(bytes))
}

/// The digest of the device crate in this workspace.
pub fn sources(workspace: &Workspace) -> Result<String> {
    let krate = workspace.root.join("gpu-kernels");
    let read = |path: &Path| {
        fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
    };
    let mut files = vec![krate.join("Cargo.toml")];
    collect(&krate.join("src"), &mut files)?;
    files.sort();
    let mut hash = Sha256::new();
    let mut part = |name: &str, bytes: &[u8]| {
        // Lengths first: no two sets of files give the same stream.
        hash.update((name.len() as u64).to_le_bytes());
        hash.update((bytes.len() as u64).to_le_bytes());
        hash.update(name);
        hash.update(bytes);
    };
    part("pipeline", &PIPELINE.to_le_bytes());
    for file in &files {
        let name = file.strip_prefix(&krate).unwrap_or(file).to_string_lossy();
        let bytes = fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
        part(&name, &bytes);
    }
    let manifest = read(&workspace.root.join("Cargo.toml"))?;
    part("profiles", profiles(&manifest).as_bytes());
    let lock = read(&workspace.root.join("Cargo.lock"))?;
    part("lock", locked(&lock, "gpu-kernels").as_bytes());
    Ok(format!("sha256:{:x}", hash.finalize()))
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    let entries =
        fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    for entry in entries {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, files)?;
        } else {
            files.push(path);
        }
    }
    Ok(())
}

/// The profiles that the PTX build uses: `ptx`, and `release`, which it inherits from.
fn profiles(manifest: &str) -> String {
    let mut wanted = false;
    let mut text = String::new();
    for line in manifest.lines().map(str::trim) {
        if line.starts_with('[') {
            wanted = ["[profile.ptx", "[profile.release"]
                .iter()
                .any(|name| line.starts_with(name));
        }
        if wanted && !line.is_empty() && !line.starts_with('#') {
            text += line;
            text.push('\n');
        }
    }
    text
}

/// The lock file's entries of all that this package is built from, sorted.
fn locked(lock: &str, package: &str) -> String {
    let blocks: Vec<&str> = lock.split("[[package]]").skip(1).map(str::trim).collect();
    let name = |block: &str| {
        let rest = block.strip_prefix("name = \"")?;
        Some(rest.split('"').next()?.to_owned())
    };
    let mut wanted = vec![package.to_owned()];
    let mut seen = BTreeSet::new();
    while let Some(next) = wanted.pop() {
        for block in &blocks {
            if name(block).as_deref() != Some(&next) || !seen.insert(*block) {
                continue;
            }
            let Some((_, dependencies)) = block.split_once("dependencies = [") else {
                continue;
            };
            // A line is ` "name",` or ` "name version",`.
            let names = dependencies.split('"').skip(1).step_by(2);
            wanted.extend(names.filter_map(|text| Some(text.split(' ').next()?.to_owned())));
        }
    }
    seen.into_iter().collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    const MANIFEST: &str = "[workspace]\nmembers = []\n\n[profile.release]\ndebug = 1\n\n\
                            [profile.dev]\nopt-level = 1\n# why\n[profile.ptx]\nlto = \"fat\"\n";
    const LOCK: &str = "version = 4\n\n\
        [[package]]\nname = \"gpu-kernels\"\nversion = \"0.1.0\"\ndependencies = [\n \"half\",\n]\n\n\
        [[package]]\nname = \"half\"\nversion = \"2.7.1\"\ndependencies = [\n \"zerocopy 0.8.0\",\n]\n\n\
        [[package]]\nname = \"rayon\"\nversion = \"1.12.0\"\n\n\
        [[package]]\nname = \"zerocopy\"\nversion = \"0.8.0\"\n";

    /// A workspace with one source file, and its digest.
    struct Tree(tempfile::TempDir);

    impl Tree {
        fn new() -> Self {
            let tree = Self(tempfile::tempdir().unwrap());
            tree.write("Cargo.toml", MANIFEST);
            tree.write("Cargo.lock", LOCK);
            tree.write("gpu-kernels/Cargo.toml", "[package]\n");
            tree.write("gpu-kernels/src/lib.rs", "mod a;\n");
            tree.write("gpu-kernels/src/a/mod.rs", "// a\n");
            tree
        }

        fn write(&self, path: &str, text: &str) {
            let path = self.0.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }

        fn digest(&self) -> String {
            let root = self.0.path().to_owned();
            let target = root.join("target");
            sources(&Workspace { root, target }).unwrap()
        }
    }

    #[test]
    fn every_input_counts() {
        let tree = Tree::new();
        let mut seen = vec![tree.digest()];
        assert_eq!(seen[0], tree.digest());
        for (path, text) in [
            ("gpu-kernels/src/lib.rs", "mod a; \n"),
            ("gpu-kernels/src/a/mod.rs", "// b\n"),
            ("gpu-kernels/src/a/b.rs", ""),
            ("gpu-kernels/Cargo.toml", "[package]\nname = \"x\"\n"),
            ("Cargo.toml", &MANIFEST.replace("fat", "thin")),
            ("Cargo.lock", &LOCK.replace("0.8.0", "0.8.1")),
        ] {
            tree.write(path, text);
            let digest = tree.digest();
            assert!(!seen.contains(&digest), "{path} does not count");
            seen.push(digest);
        }
    }

    #[test]
    fn what_the_host_alone_uses_does_not_count() {
        let tree = Tree::new();
        let digest = tree.digest();
        tree.write("Cargo.lock", &LOCK.replace("1.12.0", "1.13.0"));
        tree.write(
            "Cargo.toml",
            &MANIFEST.replace("members = []", "members = [1]"),
        );
        assert_eq!(tree.digest(), digest);
        tree.write(
            "Cargo.toml",
            &MANIFEST.replace("opt-level = 1", "opt-level = 2"),
        );
        assert_eq!(tree.digest(), digest);
    }

    #[test]
    fn a_missing_crate_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().to_owned();
        let target = root.join("target");
        let error = sources(&Workspace { root, target }).unwrap_err();
        assert!(error.to_string().contains("gpu-kernels"), "{error}");
    }
}
