//! One set of features, one architecture: from Rust source to PTX text, by rust-cuda. Owns
//! the folders under `target/ptx-build/nvvm`: a program that calls the checkout's
//! `cuda_builder`, and a crate that is nothing but gpu-kernels with the checkout's
//! `cuda_std`. Each has a lock file of its own, so that the repository's stays as it is.

use super::compile::Unit;
use super::ptx;
use crate::digest::sha256;
use crate::manifest::{Arch, Profile};
use crate::process::{Run, step};
use crate::ptxas::Ptxas;
use crate::rust_cuda::RustCuda;
use crate::workspace::{Workspace, replace};
use anyhow::{Context, Result, ensure};
use gpu_kernels::FAMILIES;
use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

/// The program that calls `cuda_builder`.
const PROGRAM: &str = include_str!("nvvm-builder.rs");

/// The same as for nvptx, and that no product is fused with a sum.
pub fn flags() -> Vec<String> {
    let mut flags = super::compile::flags();
    flags.push("-fma=0".to_owned());
    flags
}

/// What takes part besides the compiler, by its version and by its bytes: a backend built
/// again is another.
pub fn tools(rust_cuda: &RustCuda) -> Result<Vec<String>> {
    let digest = |path: &Path| -> Result<String> {
        let bytes = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
        Ok(sha256(&bytes)[..23].to_owned())
    };
    Ok(vec![
        format!(
            "rust-cuda {}",
            rust_cuda.commit.as_deref().unwrap_or("of unknown commit")
        ),
        format!("rustc_codegen_nvvm {}", digest(&rust_cuda.backend)?),
        format!(
            "libNVVM {} {}",
            rust_cuda.nvvm_version,
            digest(&rust_cuda.libnvvm)?
        ),
    ])
}

/// What is ready to compile with.
#[derive(Debug)]
pub struct Builder<'a> {
    rust_cuda: &'a RustCuda,
    /// `target/ptx-build/nvvm`.
    folder: PathBuf,
    program: PathBuf,
}

impl<'a> Builder<'a> {
    /// Writes the crate and the program, and compiles the program.
    ///
    /// # Errors
    /// Cargo's.
    pub fn prepare(workspace: &Workspace, rust_cuda: &'a RustCuda) -> Result<Self> {
        let folder = workspace.target.join("ptx-build").join("nvvm");
        let program = folder.join("builder");
        write(
            &program.join("Cargo.toml"),
            &program_manifest(&rust_cuda.checkout)?,
        )?;
        write(&program.join("src/main.rs"), PROGRAM)?;
        let kernels = folder.join("kernels");
        write(
            &kernels.join("Cargo.toml"),
            &kernels_manifest(&workspace.root, &rust_cuda.checkout)?,
        )?;
        write(&kernels.join("src/lib.rs"), KERNELS)?;
        let builder = Self {
            rust_cuda,
            program: program.join("target/release/builder"),
            folder,
        };
        let mut cargo = builder.clean(Run::cargo());
        // The toolchain that runs xtask builds the program: in the checkout's folders, where
        // cargo compiles its crates, rustup would take the one of its `rust-toolchain.toml`.
        if let Some(toolchain) = env::var_os("RUSTUP_TOOLCHAIN") {
            cargo = cargo.env("RUSTUP_TOOLCHAIN", toolchain);
        }
        cargo
            .args(["build", "--quiet", "--release", "--target-dir"])
            .arg(program.join("target"))
            .dir(&program)
            .capture()
            .context("cannot compile the program that calls rust-cuda's cuda_builder")?;
        builder.lock(workspace, &kernels)?;
        Ok(builder)
    }

    /// The crate's lock file: of the dependencies that the repository has, its versions; of
    /// `glam`, which compiles for this target in few versions, the checkout's. Asks the
    /// registry only when one of the two lock files changed.
    fn lock(&self, workspace: &Workspace, kernels: &Path) -> Result<()> {
        let ours = workspace.root.join("Cargo.lock");
        let read = |path: &Path| {
            fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
        };
        let ours = read(&ours)?;
        let theirs = read(&self.rust_cuda.checkout.join("Cargo.lock"))?;
        let glam = locked_version(&theirs, "glam");
        let made_of = format!(
            "glam {}\n{}\n{ours}",
            glam.unwrap_or("of any version"),
            read(&kernels.join("Cargo.toml"))?
        );
        let (lock, source) = (kernels.join("Cargo.lock"), kernels.join("Cargo.lock.from"));
        if lock.is_file() && fs::read_to_string(&source).is_ok_and(|old| old == made_of) {
            return Ok(());
        }
        write(&lock, &ours)?;
        let update = |arguments: &[&str]| {
            self.clean(Run::cargo())
                .args(["update", "--quiet"])
                .args(arguments)
                // The manifest asks for `profile-rustflags`.
                .env("RUSTC_BOOTSTRAP", "1")
                .dir(kernels)
                .capture()
                .map(drop)
        };
        // Two commands: as long as the lock file names the published cuda_std, cargo
        // resolves glam anew, whatever it is told.
        update(&["--workspace"]).context("cannot lock the versions of the device crate")?;
        if let Some(version) = glam {
            update(&["glam", "--precise", version]).with_context(|| {
                format!("cannot pin glam to {version}, rust-cuda's version of it")
            })?;
        }
        write(&source, &made_of)
    }

    /// Compiles, and returns the PTX as libNVVM wrote it. Prints the compiler's warnings.
    ///
    /// # Errors
    /// The compiler's.
    pub fn compile(&self, unit: &Unit<'_>) -> Result<String> {
        let outputs = self.folder.join("out").join(unit.arch.to_string());
        fs::create_dir_all(&outputs)
            .with_context(|| format!("cannot create {}", outputs.display()))?;
        let ptx = outputs.join(format!("{}-{}.ptx", unit.module, unit.profile));
        // So that a file of an earlier build is not taken for this one's.
        if ptx.exists() {
            fs::remove_file(&ptx).with_context(|| format!("cannot remove {}", ptx.display()))?;
        }
        let profile = match unit.profile {
            Profile::Release => "release",
            Profile::Debug => "debug",
        };
        let run = self
            .clean(Run::new(&self.program))
            // Cargo finds the compiler by this, cuda_builder by the path.
            .env("RUSTC", self.rust_cuda.sysroot.join("bin/rustc"))
            .env("PATH", self.path())
            .env("LD_LIBRARY_PATH", self.rust_cuda.library_path())
            .env("RUSTC_BOOTSTRAP", "1")
            .arg(self.folder.join("kernels"))
            .arg(unit.features)
            .arg(format!("compute_{}", unit.arch.0))
            .arg(profile)
            .arg(self.target(unit.arch))
            .arg(&ptx);
        let (_, warnings) = run.capture_both().with_context(|| {
            format!(
                "cannot compile {} ({}) for {} with rust-cuda",
                unit.package, unit.features, unit.arch
            )
        })?;
        eprint!("{warnings}");
        let text = fs::read_to_string(&ptx)
            .with_context(|| format!("rust-cuda left no PTX in {}", ptx.display()))?;
        ensure!(text.contains(".target "), "{} is no PTX", ptx.display());
        Ok(text)
    }

    /// Whether the core library was compiled for that architecture before.
    pub fn is_warm(&self, arch: Arch) -> bool {
        self.target(arch).is_dir()
    }

    /// Cargo's target folder.
    fn target(&self, arch: Arch) -> PathBuf {
        self.folder.join(arch.to_string())
    }

    /// libNVVM names its own version of PTX, which an older driver refuses whatever the text
    /// says. Gives the text the version that nvptx writes, if ptxas takes it so; else, and
    /// without a ptxas, leaves it.
    ///
    /// # Errors
    /// The text could not be written for ptxas to read.
    pub fn lower(&self, text: String, unit: &Unit<'_>, ptxas: Option<&Ptxas>) -> Result<String> {
        let version = ptx::version(&text)?.to_owned();
        let Some(lowered) = ptx::lower_version(&text) else {
            return Ok(text);
        };
        let keeps = |why: &str| {
            step(format_args!(
                "{} for {} stays PTX {version}, which older drivers refuse: {why}",
                unit.module, unit.arch
            ));
        };
        let Some(ptxas) = ptxas else {
            keeps("no ptxas to say whether it could be less (cargo xtask setup)");
            return Ok(text);
        };
        let name = format!("{}-{}-lowered.ptx", unit.module, unit.profile);
        let file = self
            .folder
            .join("out")
            .join(unit.arch.to_string())
            .join(name);
        replace(&file, lowered.as_bytes())?;
        let run = Run::new(&ptxas.path)
            // Whether it is PTX of that version, no more.
            .args(["-O0", "-arch"])
            .arg(unit.arch.to_string())
            .args(["-o", "/dev/null"])
            .arg(&file);
        match run.capture() {
            Ok(_) => Ok(lowered),
            Err(error) => {
                keeps(&format!("{error:#}"));
                Ok(text)
            }
        }
    }

    /// The toolchain's programs before all others.
    fn path(&self) -> OsString {
        let mut folders = vec![self.rust_cuda.sysroot.join("bin")];
        folders.extend(env::var_os("PATH").iter().flat_map(env::split_paths));
        env::join_paths(folders).unwrap_or_default()
    }

    /// With nothing of the cargo that runs xtask, nor of the user's flags; CUDA named.
    fn clean(&self, run: Run) -> Run {
        super::compile::clean(run)
            .without_env("CARGO_TARGET_DIR")
            .without_env("RUSTUP_TOOLCHAIN")
            .without_env("CUDA_LIBRARY_PATH")
            .env("CUDA_PATH", &self.rust_cuda.cuda)
    }
}

/// The crate that is compiled: gpu-kernels, under another root.
const KERNELS: &str = "\
//! Written by `cargo xtask build-ptx --codegen nvvm`.
#![allow(unused_extern_crates)]
extern crate gpu_kernels;
";

/// Fat LTO is not something that the backend can do: it hands libNVVM all crates at once.
fn kernels_manifest(root: &Path, checkout: &Path) -> Result<String> {
    let mut features = String::new();
    for family in FAMILIES {
        let feature = family.feature;
        features += &format!("{feature} = [\"gpu-kernels/{feature}\"]\n");
    }
    let flags: Vec<_> = super::compile::flags()
        .iter()
        .map(|flag| format!("{flag:?}"))
        .collect();
    Ok(format!(
        "# Written by `cargo xtask build-ptx --codegen nvvm`.\n\
         cargo-features = [\"profile-rustflags\"]\n\n\
         [package]\nname = \"kernels\"\nedition = \"2024\"\n\n\
         [lib]\ncrate-type = [\"cdylib\"]\n\n\
         [workspace]\n\n\
         [features]\n{features}\n\
         [dependencies]\n\
         gpu-kernels = {{ path = {}, default-features = false, features = [\"nvvm\"] }}\n\n\
         [patch.crates-io]\ncuda_std = {{ path = {} }}\n\n\
         [profile.release]\ncodegen-units = 1\npanic = \"abort\"\nrustflags = [{}]\n",
        quoted(&root.join("gpu-kernels"))?,
        quoted(&checkout.join("crates/cuda_std"))?,
        flags.join(", "),
    ))
}

fn program_manifest(checkout: &Path) -> Result<String> {
    Ok(format!(
        "# Written by `cargo xtask build-ptx --codegen nvvm`.\n\
         [package]\nname = \"builder\"\nedition = \"2024\"\n\n\
         [workspace]\n\n\
         [dependencies]\ncuda_builder = {{ path = {} }}\n",
        quoted(&checkout.join("crates/cuda_builder"))?,
    ))
}

/// A path as a TOML string.
fn quoted(path: &Path) -> Result<String> {
    let text = path
        .to_str()
        .with_context(|| format!("{} is not Unicode, which cargo needs", path.display()))?;
    Ok(format!(
        "\"{}\"",
        text.replace('\\', "\\\\").replace('"', "\\\"")
    ))
}

/// The version of a package in a lock file, if it is there once.
fn locked_version<'a>(lock: &'a str, package: &str) -> Option<&'a str> {
    let start = format!("name = \"{package}\"\nversion = \"");
    let mut found = lock.split(&start).skip(1);
    let version = found.next()?.split('"').next();
    found.next().is_none().then_some(version)?
}

/// Writes a file that is not so already: cargo goes by the time of the last change.
fn write(path: &Path, text: &str) -> Result<()> {
    if fs::read_to_string(path).is_ok_and(|old| old == text) {
        return Ok(());
    }
    replace(path, text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_crate_takes_cuda_std_from_the_checkout_and_has_every_family() {
        let text = kernels_manifest(Path::new("/here"), Path::new("/there/a \"b\"")).unwrap();
        assert!(
            text.contains("gpu-kernels = { path = \"/here/gpu-kernels\", default-features = false"),
            "{text}"
        );
        assert!(
            text.contains("cuda_std = { path = \"/there/a \\\"b\\\"/crates/cuda_std\" }"),
            "{text}"
        );
        for family in FAMILIES {
            let feature = family.feature;
            assert!(
                text.contains(&format!("\n{feature} = [\"gpu-kernels/{feature}\"]\n")),
                "{text}"
            );
        }
        assert!(
            text.contains("rustflags = [\"-Zmir-enable-passes=-JumpThreading\"]"),
            "{text}"
        );
    }

    #[test]
    fn a_version_in_a_lock_file() {
        let lock = "[[package]]\nname = \"glam\"\nversion = \"0.30.9\"\n\n\
                    [[package]]\nname = \"half\"\nversion = \"1.8.3\"\n\n\
                    [[package]]\nname = \"half\"\nversion = \"2.7.1\"\n";
        assert_eq!(locked_version(lock, "glam"), Some("0.30.9"));
        assert_eq!(locked_version(lock, "half"), None);
        assert_eq!(locked_version(lock, "vek"), None);
    }

    #[test]
    fn a_file_that_is_so_already_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("deep/a.toml");
        write(&path, "one").unwrap();
        let time = fs::metadata(&path).unwrap().modified().unwrap();
        write(&path, "one").unwrap();
        assert_eq!(fs::metadata(&path).unwrap().modified().unwrap(), time);
        write(&path, "two").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "two");
    }
}
