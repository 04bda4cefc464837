//! Finding the device compiler: a rustc with its own library sources, which turns
//! gpu-kernels into PTX. Looks only; `setup` installs.

use crate::process::Run;
use crate::version::{Release, RustcVersion};
use crate::workspace::{path_folders, programs};
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

/// Names a rustc to use before all others.
pub const ENVIRONMENT: &str = "FERROSEQ_DEVICE_RUSTC";

/// The rustup toolchain that is used where there is one, and no other nightly: language
/// features of the device crate change from one to the next.
pub const NIGHTLY: &str = "nightly-2026-04-02";

/// The oldest compiler the kernels were built with and run.
pub const MINIMUM: Release = Release(1, 96, 0);

/// Which of the three places a compiler was found in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Named by the environment variable.
    Environment,
    /// The pinned rustup nightly.
    Nightly,
    /// Installed by the system.
    Distribution,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Environment => write!(f, "named by {ENVIRONMENT}"),
            Self::Nightly => write!(f, "rustup's {NIGHTLY}"),
            Self::Distribution => f.write_str("the system's"),
        }
    }
}

/// A compiler that can build the kernels.
#[derive(Clone, Debug)]
pub struct Compiler {
    /// The executable.
    pub rustc: PathBuf,
    /// Its version.
    pub version: RustcVersion,
    /// The sources of its library.
    pub library: PathBuf,
    /// Where it was found.
    pub origin: Origin,
}

/// A compiler that cannot, and why.
#[derive(Clone, Debug)]
pub struct Rejected {
    /// The executable, or where it should be.
    pub rustc: PathBuf,
    /// Where it was found.
    pub origin: Origin,
    /// Why it will not do.
    pub reason: String,
}

/// Where to look.
#[derive(Clone, Debug)]
pub struct Places {
    /// The value of the environment variable.
    pub explicit: Option<PathBuf>,
    /// Rustup's folder of toolchains.
    pub rustup_toolchains: Option<PathBuf>,
    /// The folders that may hold the system's rustc.
    pub path: Vec<PathBuf>,
}

impl Places {
    /// Those of this process.
    pub fn here() -> Self {
        let variable = |name: &str| {
            let value = std::env::var_os(name)?;
            (!value.is_empty()).then(|| PathBuf::from(value))
        };
        let rustup = variable("RUSTUP_HOME").or_else(|| Some(variable("HOME")?.join(".rustup")));
        let mut path = path_folders();
        path.push("/usr/bin".into());
        Self {
            explicit: variable(ENVIRONMENT),
            rustup_toolchains: rustup.map(|home| home.join("toolchains")),
            path,
        }
    }
}

/// What a search came to.
#[derive(Clone, Debug, Default)]
pub struct Search {
    /// The compiler to use.
    pub compiler: Option<Compiler>,
    /// Those that were passed over.
    pub rejected: Vec<Rejected>,
}

/// Looks in the three places, in order. A compiler named by the environment variable is
/// the only one looked at: it is never replaced by another without a word.
pub fn find(places: &Places) -> Search {
    let mut search = Search::default();
    for (rustc, origin) in candidates(places) {
        match probe(&rustc, origin) {
            Ok(compiler) => {
                search.compiler = Some(compiler);
                break;
            }
            Err(reason) => search.rejected.push(Rejected {
                rustc,
                origin,
                reason,
            }),
        }
    }
    search
}

fn candidates(places: &Places) -> Vec<(PathBuf, Origin)> {
    if let Some(rustc) = &places.explicit {
        return vec![(rustc.clone(), Origin::Environment)];
    }
    let mut found = Vec::new();
    let toolchains = places.rustup_toolchains.as_deref();
    if let Some(folder) = toolchains.and_then(|toolchains| named(toolchains, NIGHTLY)) {
        found.push((folder.join("bin").join("rustc"), Origin::Nightly));
    }
    let mut seen = Vec::new();
    for rustc in programs(&places.path, "rustc").filter(|rustc| !is_rustup_proxy(rustc)) {
        // /bin is /usr/bin on most systems.
        let real = fs::canonicalize(&rustc).unwrap_or_else(|_| rustc.clone());
        if !seen.contains(&real) {
            seen.push(real);
            found.push((rustc, Origin::Distribution));
        }
    }
    found
}

/// The folder of a toolchain of rustup's, which carries the host's triple after its name.
pub fn named(toolchains: &Path, name: &str) -> Option<PathBuf> {
    let prefix = format!("{name}-");
    let folder = fs::read_dir(toolchains)
        .ok()?
        .filter_map(Result::ok)
        .find(|entry| entry.file_name().to_string_lossy().starts_with(&prefix))?;
    Some(folder.path())
}

/// The channel in a `rust-toolchain.toml`.
pub fn pinned_channel(text: &str) -> Option<String> {
    let line = text
        .lines()
        .find(|line| line.trim().starts_with("channel"))?;
    Some(line.split('"').nth(1)?.to_owned())
}

/// Rustup puts itself, linked or copied, under the names of the tools it stands for.
fn is_rustup_proxy(rustc: &Path) -> bool {
    let rustup = rustc.with_file_name("rustup");
    match (fs::canonicalize(rustc), fs::canonicalize(&rustup)) {
        (Ok(rustc), Ok(rustup)) if rustc == rustup => true,
        (Ok(rustc), Ok(rustup)) => {
            let size = |path: &Path| fs::metadata(path).map(|data| data.len()).ok();
            size(&rustc).is_some() && size(&rustc) == size(&rustup)
        }
        (Ok(rustc), Err(_)) => rustc.file_name().is_some_and(|name| name == "rustup"),
        _ => false,
    }
}

/// Asks a rustc all that matters; the error says why it will not do.
fn probe(rustc: &Path, origin: Origin) -> Result<Compiler, String> {
    if !rustc.is_file() {
        return Err("there is no such file".to_owned());
    }
    let ask = |args: &[&str]| {
        let run = Run::new(rustc).args(args).without_env("RUSTUP_TOOLCHAIN");
        run.capture().map_err(|error| format!("{error:#}"))
    };
    let said = ask(&["-vV"])?;
    let version = RustcVersion::parse(&said)
        .ok_or_else(|| format!("`rustc -vV` printed no version: {:?}", said.trim()))?;
    if version.release < MINIMUM {
        return Err(format!(
            "it is {}; the kernels need features of {MINIMUM}, the oldest they were built with and run",
            version.release
        ));
    }
    let sysroot = PathBuf::from(ask(&["--print", "sysroot"])?.trim());
    let sources = sysroot.join("lib/rustlib/src/rust");
    let library = sources.join("library");
    if !library.join("core/src/lib.rs").is_file() {
        return Err(format!(
            "its library sources are not installed (no {})",
            library.display()
        ));
    }
    if let Ok(text) = fs::read_to_string(sources.join("src/version"))
        && Release::parse(&text) != Some(version.release)
    {
        return Err(format!(
            "its library sources are those of {}, but it is {}",
            text.trim(),
            version.release
        ));
    }
    let cpus = ask(&["--print", "target-cpus", "--target", "nvptx64-nvidia-cuda"])?;
    if !cpus.split_whitespace().any(|word| word == "sm_80") {
        return Err(format!(
            "its LLVM {} cannot write PTX for sm_80",
            version.llvm
        ));
    }
    Ok(Compiler {
        rustc: rustc.to_owned(),
        version,
        library,
        origin,
    })
}

#[cfg(test)]
#[path = "toolchain_tests.rs"]
mod tests;
