//! The manifest beside the PTX: what it was built from, by what, and what is in it.

use crate::digest::sha256;
use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::fs;
use std::path::Path;
use std::str::FromStr;

/// Its file name.
pub const FILE: &str = "manifest.json";

/// A GPU architecture, `sm_90`. PTX for it runs on every later one too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Arch(pub u32);

impl fmt::Display for Arch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sm_{}", self.0)
    }
}

impl FromStr for Arch {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let digits = text.strip_prefix("sm_").unwrap_or_default();
        if digits.ends_with(['a', 'f']) && digits[..digits.len() - 1].parse::<u32>().is_ok() {
            return Err(format!(
                "{text} runs on that architecture alone; expected one without the letter, like sm_90"
            ));
        }
        match digits.parse() {
            Ok(number) if number >= 80 && !digits.starts_with(['0', '+']) => Ok(Self(number)),
            Ok(_) => Err(format!("{text} is too old; expected sm_80 or later")),
            Err(_) => Err(format!(
                "expected sm_ and a number, like sm_90; found {text:?}"
            )),
        }
    }
}

impl TryFrom<String> for Arch {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Arch> for String {
    fn from(arch: Arch) -> Self {
        arch.to_string()
    }
}

/// Optimised for running, or with source lines for a profiler.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Profile {
    /// Nothing but the code.
    #[default]
    Release,
    /// The same code, with the source line of every instruction.
    Debug,
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Release => "release",
            Self::Debug => "debug",
        })
    }
}

/// All that decides what the PTX says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Inputs {
    /// The code generator: `nvptx` or `nvvm`.
    pub codegen: String,
    /// The compiler's version line.
    pub compiler: String,
    /// Its LLVM.
    pub llvm: String,
    /// Its flags, but for the architecture.
    pub flags: Vec<String>,
    /// What else takes part, with its version.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<String>,
    /// The profile.
    pub profile: Profile,
    /// [`digest::sources`](crate::digest::sources).
    pub source_digest: String,
}

impl Inputs {
    /// In words, the first thing that `other` has otherwise.
    fn difference(&self, other: &Self) -> Option<String> {
        let from_to = |what: &str, from: &str, to: &str| {
            (from != to).then(|| format!("the {what} changed from {from} to {to}"))
        };
        let flags = |inputs: &Self| inputs.flags.join(" ");
        let tools = |inputs: &Self| inputs.tools.join(", ");
        from_to("code generator", &self.codegen, &other.codegen)
            .or_else(|| from_to("compiler", &self.compiler, &other.compiler))
            .or_else(|| from_to("LLVM", &self.llvm, &other.llvm))
            .or_else(|| from_to("flags", &flags(self), &flags(other)))
            .or_else(|| from_to("tools", &tools(self), &tools(other)))
            .or_else(|| {
                let profiles = (self.profile.to_string(), other.profile.to_string());
                from_to("profile", &profiles.0, &profiles.1)
            })
            .or_else(|| {
                (self.source_digest != other.source_digest)
                    .then(|| "the sources of gpu-kernels changed".to_owned())
            })
    }
}

/// The manifest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// What it was built from.
    #[serde(flatten)]
    pub inputs: Inputs,
    /// The PTX files.
    pub modules: Vec<Module>,
}

/// One PTX file: one family for one architecture.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Module {
    /// The family's module, `linear_scan`.
    pub module: String,
    /// The architecture it was compiled for.
    pub arch: Arch,
    /// The file, from the manifest's folder: `sm_90/linear_scan.ptx`.
    pub file: String,
    /// Its digest.
    pub digest: String,
    /// Its `.version`.
    pub ptx_version: String,
    /// Its entry points.
    pub entries: Vec<Entry>,
}

/// One entry point.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Its symbol.
    pub name: String,
    /// Bytes of its parameter struct.
    pub param_size: usize,
    /// `.maxntid`.
    pub max_threads: u32,
    /// `.minnctapersm`; 0 for none.
    pub min_blocks: u32,
}

/// Whether PTX can be used as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// It can.
    Fresh,
    /// Nothing was built yet.
    Missing,
    /// It cannot, for this reason.
    Stale(String),
}

impl Manifest {
    /// Reads the manifest of a folder; `None` if there is none.
    pub fn read(folder: &Path) -> Result<Option<Self>> {
        let path = folder.join(FILE);
        match fs::read(&path) {
            Ok(bytes) => serde_json::from_slice(&bytes)
                .map(Some)
                .with_context(|| format!("{} is no manifest of this version", path.display())),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => bail!("cannot read {}: {error}", path.display()),
        }
    }

    /// Compares what is in a folder with what it would be built from now. `modules` are the
    /// families, `archs` the architectures that must be there.
    pub fn state(folder: &Path, inputs: &Inputs, modules: &[&str], archs: &[Arch]) -> State {
        let manifest = match Self::read(folder) {
            Ok(Some(manifest)) => manifest,
            Ok(None) => return State::Missing,
            Err(error) => return State::Stale(format!("{error:#}")),
        };
        if let Some(difference) = manifest.inputs.difference(inputs) {
            return State::Stale(difference);
        }
        for &arch in archs {
            for &name in modules {
                if manifest.module(name, arch).is_none() {
                    return State::Stale(format!("{name} was not built for {arch}"));
                }
            }
        }
        for module in &manifest.modules {
            match fs::read(folder.join(&module.file)) {
                Err(_) => return State::Stale(format!("{} is not there", module.file)),
                Ok(bytes) if sha256(&bytes) != module.digest => {
                    return State::Stale(format!("{} was changed by hand", module.file));
                }
                Ok(_) => {}
            }
        }
        State::Fresh
    }

    /// The entry of a module for an architecture.
    pub fn module(&self, name: &str, arch: Arch) -> Option<&Module> {
        self.modules
            .iter()
            .find(|module| module.module == name && module.arch == arch)
    }

    /// The architectures it has, each once, oldest first.
    pub fn archs(&self) -> Vec<Arch> {
        let mut archs: Vec<_> = self.modules.iter().map(|module| module.arch).collect();
        archs.sort();
        archs.dedup();
        archs
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SM_80: Arch = Arch(80);
    const SM_90: Arch = Arch(90);

    fn inputs() -> Inputs {
        Inputs {
            codegen: "nvptx".into(),
            compiler: "rustc 1.96.0".into(),
            llvm: "22.1".into(),
            flags: vec!["-Zx".into()],
            tools: vec!["libNVVM".into()],
            profile: Profile::Release,
            source_digest: "sha256:1".into(),
        }
    }

    /// A folder with one module for two architectures.
    fn built() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let modules = [SM_80, SM_90].map(|arch| {
            let text = format!("// {arch}");
            fs::create_dir(folder.path().join(arch.to_string())).unwrap();
            fs::write(folder.path().join(format!("{arch}/scan.ptx")), &text).unwrap();
            Module {
                module: "scan".into(),
                arch,
                file: format!("{arch}/scan.ptx"),
                digest: sha256(text.as_bytes()),
                ptx_version: "7.8".into(),
                entries: vec![Entry {
                    name: "scan_f32".into(),
                    param_size: 8,
                    max_threads: 128,
                    min_blocks: 0,
                }],
            }
        });
        let manifest = Manifest {
            inputs: inputs(),
            modules: modules.into(),
        };
        let text = serde_json::to_vec_pretty(&manifest).unwrap();
        fs::write(folder.path().join(FILE), text).unwrap();
        assert_eq!(Manifest::read(folder.path()).unwrap(), Some(manifest));
        folder
    }

    fn state(folder: &Path, inputs: &Inputs) -> State {
        Manifest::state(folder, inputs, &["scan"], &[SM_80, SM_90])
    }

    #[test]
    fn fresh_until_an_input_changes() {
        let folder = built();
        assert_eq!(state(folder.path(), &inputs()), State::Fresh);
        type Change = (fn(&mut Inputs), &'static str);
        let changes: [Change; 7] = [
            (
                |i| i.codegen = "nvvm".into(),
                "code generator changed from nvptx to nvvm",
            ),
            (
                |i| i.compiler = "rustc 1.97.0".into(),
                "compiler changed from rustc 1.96.0 to",
            ),
            (|i| i.llvm = "23".into(), "LLVM changed"),
            (
                |i| i.flags.push("-Zy".into()),
                "flags changed from -Zx to -Zx -Zy",
            ),
            (
                |i| i.tools[0].push_str(" 2"),
                "tools changed from libNVVM to libNVVM 2",
            ),
            (
                |i| i.profile = Profile::Debug,
                "profile changed from release to debug",
            ),
            (
                |i| i.source_digest.push('2'),
                "sources of gpu-kernels changed",
            ),
        ];
        for (change, words) in changes {
            let mut inputs = inputs();
            change(&mut inputs);
            match state(folder.path(), &inputs) {
                State::Stale(reason) => assert!(reason.contains(words), "{reason}"),
                other => panic!("{words}: {other:?}"),
            }
        }
    }

    #[test]
    fn missing() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(state(folder.path(), &inputs()), State::Missing);
        assert_eq!(
            state(&folder.path().join("none"), &inputs()),
            State::Missing
        );
    }

    #[test]
    fn stale_when_a_file_is_gone_or_changed() {
        let folder = built();
        let file = folder.path().join("sm_90/scan.ptx");
        fs::write(&file, "other").unwrap();
        let stale = |reason: &str| State::Stale(reason.into());
        assert_eq!(
            state(folder.path(), &inputs()),
            stale("sm_90/scan.ptx was changed by hand")
        );
        fs::remove_file(&file).unwrap();
        assert_eq!(
            state(folder.path(), &inputs()),
            stale("sm_90/scan.ptx is not there")
        );
    }

    #[test]
    fn stale_when_an_architecture_or_a_module_is_wanted_that_is_not_there() {
        let folder = built();
        let state = |modules: &[&str], archs: &[Arch]| {
            Manifest::state(folder.path(), &inputs(), modules, archs)
        };
        assert_eq!(state(&["scan"], &[SM_90]), State::Fresh);
        assert_eq!(
            state(&["scan"], &[Arch(100)]),
            State::Stale("scan was not built for sm_100".into())
        );
        assert_eq!(
            state(&["scan", "moe"], &[SM_80]),
            State::Stale("moe was not built for sm_80".into())
        );
    }

    #[test]
    fn stale_when_the_manifest_cannot_be_read() {
        let folder = built();
        fs::write(folder.path().join(FILE), "{\"codegen\": 3}").unwrap();
        match state(folder.path(), &inputs()) {
            State::Stale(reason) => assert!(reason.contains("no manifest"), "{reason}"),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn architectures() {
        assert_eq!("sm_90".parse(), Ok(SM_90));
        assert_eq!("sm_120".parse(), Ok(Arch(120)));
        for (text, words) in [
            ("sm_90a", "that architecture alone"),
            ("sm_100f", "that architecture alone"),
            ("sm_75", "too old"),
            ("sm_090", "too old"),
            ("90", "expected sm_"),
            ("sm_", "expected sm_"),
            ("sm_é", "expected sm_"),
            ("", "expected sm_"),
        ] {
            let error = text.parse::<Arch>().unwrap_err();
            assert!(error.contains(words), "{text}: {error}");
        }
    }
}
