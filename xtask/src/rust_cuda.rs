//! Finding rust-cuda, the second code generator: a checkout of it with its backend built,
//! the toolchain that the backend was built for, and libNVVM. Looks only: its user builds
//! it, by rust-cuda's own guide. docs/rust-cuda.md says how to get there.

use crate::process::Run;
use crate::toolchain;
use crate::version::RustcVersion;
use anyhow::Result;
use std::env;
use std::ffi::OsString;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

/// Names the checkout.
pub const CHECKOUT: &str = "FERROSEQ_RUST_CUDA";

/// Names the toolchain: a rustup name, or the path of a sysroot.
pub const TOOLCHAIN: &str = "FERROSEQ_RUST_CUDA_TOOLCHAIN";

/// Where rust-cuda itself looks for CUDA.
const CUDA: [&str; 3] = ["CUDA_PATH", "CUDA_ROOT", "CUDA_TOOLKIT_ROOT_DIR"];

/// And where nobody names it.
const CUDA_FOLDERS: [&str; 3] = ["/usr/lib/cuda", "/usr/local/cuda", "/opt/cuda"];

/// The file that the backend is.
const BACKEND: &str = "librustc_codegen_nvvm.so";

/// What a build with rust-cuda needs.
#[derive(Clone, Debug)]
pub struct RustCuda {
    /// The checkout.
    pub checkout: PathBuf,
    /// Its commit, if git can tell.
    pub commit: Option<String>,
    /// The toolchain that the backend was built for.
    pub sysroot: PathBuf,
    /// Its compiler.
    pub version: RustcVersion,
    /// The backend's library.
    pub backend: PathBuf,
    /// The CUDA folder.
    pub cuda: PathBuf,
    /// libNVVM.
    pub libnvvm: PathBuf,
    /// Its version, e.g. `13.0.88`.
    pub nvvm_version: String,
}

impl RustCuda {
    /// Where the loader must look to start the backend and the programs that use libNVVM.
    pub fn library_path(&self) -> OsString {
        let folders = [Some(self.backend.as_path()), Some(self.libnvvm.as_path())];
        let mut folders: Vec<PathBuf> = folders
            .into_iter()
            .flatten()
            .filter_map(Path::parent)
            .map(Path::to_owned)
            .collect();
        folders.push(self.sysroot.join("lib"));
        folders.extend(
            env::var_os("LD_LIBRARY_PATH")
                .iter()
                .flat_map(env::split_paths),
        );
        env::join_paths(folders).unwrap_or_default()
    }
}

/// One of the parts, as it was found.
#[derive(Clone, Debug)]
pub struct Part {
    /// Its name.
    pub name: &'static str,
    /// What is there, or what is wrong and what mends it.
    pub state: Result<String, Missing>,
}

/// Why a part will not do.
#[derive(Clone, Debug)]
pub struct Missing {
    /// What was found.
    pub found: String,
    /// What to do about it.
    pub remedy: String,
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\n    -> {}", self.found, self.remedy)
    }
}

fn missing(found: impl Into<String>, remedy: impl Into<String>) -> Missing {
    Missing {
        found: found.into(),
        remedy: remedy.into(),
    }
}

/// What the user may say on the command line.
#[derive(Clone, Debug, Default, PartialEq, Eq, clap::Args)]
pub struct Named {
    /// A checkout of rust-cuda with its backend built, for --codegen nvvm. Without this:
    /// $FERROSEQ_RUST_CUDA.
    #[arg(long, value_name = "DIR")]
    pub rust_cuda: Option<PathBuf>,
    /// The toolchain that backend was built for: a rustup name, or the path of a sysroot.
    /// Without this: $FERROSEQ_RUST_CUDA_TOOLCHAIN, else the channel that the checkout's
    /// rust-toolchain.toml names.
    #[arg(long, value_name = "NAME|DIR")]
    pub rust_cuda_toolchain: Option<OsString>,
}

/// Where to look.
#[derive(Clone, Debug, Default)]
pub struct Places {
    /// The checkout.
    pub checkout: Option<PathBuf>,
    /// The toolchain.
    pub toolchain: Option<OsString>,
    /// Rustup's folder of toolchains.
    pub rustup_toolchains: Option<PathBuf>,
    /// Folders that may be CUDA's, in order.
    pub cuda: Vec<PathBuf>,
    /// Folders that may hold the backend, after the checkout's own.
    pub libraries: Vec<PathBuf>,
}

impl Places {
    /// Those of this process, but for what the user named.
    pub fn here(named: &Named) -> Self {
        let variable = |name: &str| env::var_os(name).filter(|value| !value.is_empty());
        let mut cuda: Vec<PathBuf> = CUDA
            .iter()
            .filter_map(|name| variable(name).map(PathBuf::from))
            .collect();
        cuda.extend(CUDA_FOLDERS.map(PathBuf::from));
        let libraries = variable("LD_LIBRARY_PATH");
        Self {
            checkout: (named.rust_cuda.clone()).or_else(|| variable(CHECKOUT).map(PathBuf::from)),
            toolchain: (named.rust_cuda_toolchain.clone()).or_else(|| variable(TOOLCHAIN)),
            rustup_toolchains: toolchain::Places::here().rustup_toolchains,
            cuda,
            libraries: libraries.iter().flat_map(env::split_paths).collect(),
        }
    }
}

/// What a search came to.
#[derive(Clone, Debug)]
pub struct Search {
    /// All of it, if nothing is missing.
    pub found: Option<RustCuda>,
    /// The parts, each with its state; those after a missing one that they hang on are
    /// left out.
    pub parts: Vec<Part>,
}

impl Search {
    /// The parts that are missing, each with what mends it.
    pub fn describe(&self) -> String {
        let mut text = "rust-cuda is not complete".to_owned();
        for part in &self.parts {
            if let Err(missing) = &part.state {
                text += &format!("\n  {}: {missing}", part.name);
            }
        }
        text
    }
}

/// Looks at one part after another. All that can be looked at is, so that one run tells
/// all that is missing.
pub fn find(places: &Places) -> Search {
    let checkout = checkout(places);
    let sysroot = sysroot(places, checkout.as_ref().ok());
    let cuda = cuda(places);
    let mut parts = vec![
        part("rust-cuda", &checkout, |path| path.display().to_string()),
        part("its toolchain", &sysroot, |(path, version)| {
            format!("{} ({})", version.text, path.display())
        }),
        part("CUDA for it", &cuda, |(folder, _, version)| {
            format!("libNVVM {version} ({})", folder.display())
        }),
    ];
    let (Ok(checkout), Ok((sysroot, version)), Ok((cuda, libnvvm, nvvm_version))) =
        (checkout, sysroot, cuda)
    else {
        return Search { found: None, parts };
    };
    let mut rust_cuda = RustCuda {
        commit: commit(&checkout),
        checkout,
        sysroot,
        version,
        backend: PathBuf::new(),
        cuda,
        libnvvm,
        nvvm_version,
    };
    let backend = backend(places, &mut rust_cuda);
    let found = backend.is_ok();
    parts.push(part("its backend", &backend, |()| {
        rust_cuda.backend.display().to_string()
    }));
    Search {
        found: found.then_some(rust_cuda),
        parts,
    }
}

fn part<T>(
    name: &'static str,
    found: &Result<T, Missing>,
    tell: impl FnOnce(&T) -> String,
) -> Part {
    Part {
        name,
        state: found.as_ref().map(tell).map_err(Clone::clone),
    }
}

fn checkout(places: &Places) -> Result<PathBuf, Missing> {
    let remedy = format!(
        "clone github.com/Rust-GPU/rust-cuda, build its backend by its guide, then \
         --rust-cuda DIR or export {CHECKOUT}=DIR (docs/rust-cuda.md)"
    );
    let Some(checkout) = &places.checkout else {
        return Err(missing("no checkout is named", remedy));
    };
    for needed in ["crates/cuda_builder", "crates/cuda_std"] {
        if !checkout.join(needed).join("Cargo.toml").is_file() {
            let found = format!(
                "{} is no checkout of rust-cuda (no {needed})",
                checkout.display()
            );
            return Err(missing(found, remedy));
        }
    }
    fs::canonicalize(checkout)
        .map_err(|error| missing(format!("{}: {error}", checkout.display()), remedy))
}

/// The commit, with `-dirty` if files were changed.
fn commit(checkout: &Path) -> Option<String> {
    let git = Run::new("git").arg("-C").arg(checkout);
    let said = git.args(["describe", "--always", "--dirty", "--exclude", "*"]);
    Some(said.capture().ok()?.trim().to_owned())
}

fn sysroot(
    places: &Places,
    checkout: Option<&PathBuf>,
) -> Result<(PathBuf, RustcVersion), Missing> {
    let name = match (&places.toolchain, checkout) {
        (Some(name), _) => name.clone(),
        (None, Some(checkout)) => {
            let file = checkout.join("rust-toolchain.toml");
            let text = fs::read_to_string(&file).unwrap_or_default();
            let channel = toolchain::pinned_channel(&text).ok_or_else(|| {
                missing(
                    format!("{} names no channel", file.display()),
                    format!("--rust-cuda-toolchain NAME, or export {TOOLCHAIN}=NAME"),
                )
            })?;
            channel.into()
        }
        (None, None) => {
            let remedy = format!("--rust-cuda-toolchain NAME, or export {TOOLCHAIN}=NAME");
            return Err(missing("not named, and no checkout that names it", remedy));
        }
    };
    let text = name.to_string_lossy().into_owned();
    let install = format!(
        "rustup toolchain install {text} --component rustc-dev,rust-src,llvm-tools-preview, or \
         name the sysroot of one you built: export {TOOLCHAIN}=DIR"
    );
    let sysroot = if Path::new(&name).components().count() > 1 {
        PathBuf::from(&name)
    } else {
        rustup(places, &text).ok_or_else(|| {
            let found = format!("rustup has no toolchain {text}");
            missing(found, install.as_str())
        })?
    };
    let rustc = sysroot.join("bin/rustc");
    if !rustc.is_file() {
        return Err(missing(format!("no {}", rustc.display()), install));
    }
    let said = Run::new(&rustc).arg("-vV").without_env("RUSTUP_TOOLCHAIN");
    let said = said
        .capture()
        .map_err(|error| missing(format!("{error:#}"), install.as_str()))?;
    let version = RustcVersion::parse(&said).ok_or_else(|| {
        missing(
            format!("{} printed no version", rustc.display()),
            install.as_str(),
        )
    })?;
    let library = sysroot.join("lib/rustlib/src/rust/library");
    if !library.join("core/src/lib.rs").is_file() {
        let found = format!(
            "its library sources are not installed (no {})",
            library.display()
        );
        return Err(missing(found, install));
    }
    Ok((sysroot, version))
}

/// The folder of a rustup toolchain: its name, or that with the host's triple.
fn rustup(places: &Places, name: &str) -> Option<PathBuf> {
    let toolchains = places.rustup_toolchains.as_deref()?;
    let exact = toolchains.join(name);
    if exact.is_dir() {
        return Some(exact);
    }
    toolchain::named(toolchains, name)
}

/// The CUDA folder, libNVVM in it, and that one's version.
fn cuda(places: &Places) -> Result<(PathBuf, PathBuf, String), Missing> {
    let remedy = "export CUDA_PATH=DIR, a CUDA toolkit of 12.0 or newer, or a folder put together \
                  from the PyPI packages nvidia-nvvm, nvidia-cuda-nvcc, nvidia-cuda-runtime and \
                  nvidia-cuda-crt (docs/rust-cuda.md)";
    let header = |folder: &&PathBuf| folder.join("include/cuda.h").is_file();
    let Some(folder) = places.cuda.iter().find(header) else {
        let looked: Vec<_> = places
            .cuda
            .iter()
            .map(|folder| folder.display().to_string())
            .collect();
        let found = format!("no include/cuda.h in {}", looked.join(", "));
        return Err(missing(found, remedy));
    };
    let libnvvm = folder.join("nvvm/lib64/libnvvm.so");
    for needed in [
        &libnvvm,
        &folder.join("nvvm/include/nvvm.h"),
        &folder.join("nvvm/libdevice/libdevice.10.bc"),
    ] {
        if !needed.is_file() {
            return Err(missing(format!("no {}", needed.display()), remedy));
        }
    }
    let bytes = fs::read(&libnvvm)
        .map_err(|error| missing(format!("{}: {error}", libnvvm.display()), remedy))?;
    Ok((folder.clone(), libnvvm, nvvm_version(&bytes)))
}

/// The version that libNVVM writes into its PTX, as it stands in the library.
fn nvvm_version(library: &[u8]) -> String {
    const BEFORE: &[u8] = b"Cuda compilation tools, release ";
    let at = library
        .windows(BEFORE.len())
        .position(|window| window == BEFORE);
    let rest = at
        .map(|at| &library[at + BEFORE.len()..])
        .unwrap_or_default();
    let end = rest.iter().position(|byte| *byte == 0 || *byte == b'\n');
    let text = String::from_utf8_lossy(&rest[..end.unwrap_or(0)]);
    match text.split_once(", V") {
        Some((_, version)) => version.to_owned(),
        None => "of unknown version".to_owned(),
    }
}

/// Finds the backend and has the compiler load it.
fn backend(places: &Places, rust_cuda: &mut RustCuda) -> Result<(), Missing> {
    let checkout = &rust_cuda.checkout;
    let build = format!(
        "in {}: cargo build --release -p rustc_codegen_nvvm, with the toolchain {} and \
         LLVM_CONFIG naming an llvm-config of LLVM 7 (rust-cuda's guide)",
        checkout.display(),
        rust_cuda.version.text
    );
    let mut folders = vec![
        checkout.join("target/release"),
        checkout.join("target/debug"),
        checkout.join("target/cuda-builder-codegen/release"),
        checkout.join("target/cuda-builder-codegen/debug"),
    ];
    folders.extend(places.libraries.iter().cloned());
    let mut files = folders.iter().map(|folder| folder.join(BACKEND));
    let Some(backend) = files.find(|file| file.is_file()) else {
        let found = format!("no {BACKEND} in {}/target", checkout.display());
        return Err(missing(found, build));
    };
    rust_cuda.backend = backend;
    let mut flag = OsString::from("-Zcodegen-backend=");
    flag.push(&rust_cuda.backend);
    let rustc = Run::new(rust_cuda.sysroot.join("bin/rustc"))
        .arg(flag)
        .args(["--print", "cfg", "--target", "nvptx64-nvidia-cuda"])
        .env("RUSTC_BOOTSTRAP", "1")
        .env("LD_LIBRARY_PATH", rust_cuda.library_path());
    rustc.capture().map(drop).map_err(|error| {
        let found = format!(
            "{} does not load into {}: {error:#}",
            rust_cuda.backend.display(),
            rust_cuda.version.text
        );
        missing(found, build)
    })
}

#[cfg(test)]
#[path = "rust_cuda_tests.rs"]
mod tests;
