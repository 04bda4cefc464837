//! `cargo xtask build-ptx`: from the device crate to one PTX file per family and
//! architecture under `target/ptx`, with a manifest. Writes nothing where nothing changed.

pub mod compile;
pub mod ptx;

use crate::digest;
use crate::manifest::{self, Arch, Inputs, Manifest, Profile, State};
use crate::process::step;
use crate::setup;
use crate::toolchain::Compiler;
use crate::workspace::{Workspace, replace};
use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use gpu_kernels::{FAMILIES, Family};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

/// Arguments of the command.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Architectures to compile for. A GPU runs the PTX of the highest that is not above
    /// its own compute capability.
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        default_value = "sm_80,sm_90"
    )]
    arch: Vec<Arch>,
    /// Code generator. auto takes nvptx, which needs no more than a rustc with its library
    /// sources; nvvm (rust-cuda) is not built yet.
    #[arg(long, value_enum, default_value_t)]
    codegen: Codegen,
    /// Nothing but the code (the default).
    #[arg(long, conflicts_with = "debug")]
    release: bool,
    /// The same code with source lines, so that profilers and compute-sanitizer show
    /// them.
    #[arg(long)]
    debug: bool,
}

/// Which compiler backend writes the PTX.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Codegen {
    /// The best there is.
    #[default]
    Auto,
    /// Stock rustc's own LLVM backend.
    Nvptx,
    /// The rust-cuda toolchain, on libNVVM.
    Nvvm,
}

/// What to build.
#[derive(Clone, Debug)]
pub struct Options {
    /// The architectures that must be there afterwards.
    pub archs: Vec<Arch>,
    /// The code generator.
    pub codegen: Codegen,
    /// With source lines or without.
    pub profile: Profile,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            archs: vec![Arch(80), Arch(90)],
            codegen: Codegen::default(),
            profile: Profile::default(),
        }
    }
}

/// PTX that is up to date.
#[derive(Clone, Debug)]
pub struct PtxSet {
    /// The folder of one code generator: `target/ptx/nvptx`.
    pub folder: PathBuf,
    /// Its manifest.
    pub manifest: Manifest,
}

impl PtxSet {
    /// The modules and their files.
    pub fn files(&self) -> impl Iterator<Item = (&manifest::Module, PathBuf)> {
        self.manifest
            .modules
            .iter()
            .map(|module| (module, self.folder.join(&module.file)))
    }
}

/// Runs the command.
pub fn run(args: Args) -> Result<()> {
    let profile = if args.debug {
        Profile::Debug
    } else {
        Profile::Release
    };
    let set = ensure(&Options {
        archs: args.arch,
        codegen: args.codegen,
        profile,
    })?;
    for (module, path) in set.files() {
        println!(
            "{} {} {} ({} entry points)",
            module.arch,
            module.module,
            path.display(),
            module.entries.len()
        );
    }
    Ok(())
}

/// Makes sure that the PTX is there and up to date, with the compiler that `setup` finds
/// or installs.
pub fn ensure(options: &Options) -> Result<PtxSet> {
    if options.codegen == Codegen::Nvvm {
        bail!("--codegen nvvm is not built yet; use --codegen nvptx");
    }
    let workspace = Workspace::locate()?;
    let compiler = setup::device_compiler()?;
    let inputs = inputs(&workspace, &compiler, options.profile)?;
    let folder = workspace.ptx().join(&inputs.codegen);
    step(format_args!(
        "PTX by {} ({}): {}, {}",
        inputs.codegen,
        match options.codegen {
            Codegen::Auto => "auto: the one code generator that is built so far",
            _ => "as asked",
        },
        compiler.version.text,
        compiler.origin
    ));
    let state = Manifest::state(&folder, &inputs, &modules(), &options.archs);
    match &state {
        State::Fresh => step(format_args!("PTX is up to date in {}", folder.display())),
        State::Missing => step("no PTX yet"),
        State::Stale(reason) => step(format_args!("PTX is out of date: {reason}")),
    }
    if state != State::Fresh {
        build(&workspace, &compiler, inputs, &folder, options)?;
    }
    let manifest = Manifest::read(&folder)?.context("the manifest is gone")?;
    Ok(PtxSet { folder, manifest })
}

/// What the PTX would be built from now.
pub fn inputs(workspace: &Workspace, compiler: &Compiler, profile: Profile) -> Result<Inputs> {
    Ok(Inputs {
        codegen: "nvptx".to_owned(),
        compiler: compiler.version.text.clone(),
        llvm: compiler.version.llvm.clone(),
        flags: compile::flags(),
        profile,
        source_digest: digest::sources(workspace)?,
    })
}

/// The names of the families.
pub fn modules() -> Vec<&'static str> {
    FAMILIES.iter().map(|family| family.module).collect()
}

/// One finished module: its description and its text.
type Built = (manifest::Module, String);

fn build(
    workspace: &Workspace,
    compiler: &Compiler,
    inputs: Inputs,
    folder: &Path,
    options: &Options,
) -> Result<()> {
    let mut archs = options.archs.clone();
    // Architectures asked for earlier stay, as long as nothing else changed.
    if let Ok(Some(old)) = Manifest::read(folder)
        && old.inputs == inputs
    {
        archs.extend(old.archs());
    }
    archs.sort();
    archs.dedup();
    let started = Instant::now();
    let mut built = compile_all(workspace, compiler, &archs, options.profile)?;
    built.sort_by_key(|(module, _)| (module.arch, module.module.clone()));
    for (module, text) in &built {
        replace(&folder.join(&module.file), text.as_bytes())?;
    }
    let manifest = Manifest {
        inputs,
        modules: built.into_iter().map(|(module, _)| module).collect(),
    };
    let mut text = serde_json::to_string_pretty(&manifest)?;
    text.push('\n');
    replace(&folder.join(manifest::FILE), text.as_bytes())?;
    remove_others(folder, &manifest)?;
    step(format_args!(
        "PTX for {} families and {} architectures in {:.0} s",
        FAMILIES.len(),
        archs.len(),
        started.elapsed().as_secs_f32()
    ));
    Ok(())
}

/// Compiles every family for every architecture, architectures side by side: most of the
/// time goes into the core library, which keeps one processor busy.
fn compile_all(
    workspace: &Workspace,
    compiler: &Compiler,
    archs: &[Arch],
    profile: Profile,
) -> Result<Vec<Built>> {
    let width = thread::available_parallelism().map_or(1, usize::from);
    let mut built = Vec::new();
    for group in archs.chunks(width) {
        for &arch in group {
            let first = !compile::is_warm(workspace, arch);
            step(format_args!(
                "compiling {} for {arch}{}",
                modules().join(", "),
                if first {
                    "; its core library first, once: about a minute"
                } else {
                    ""
                }
            ));
        }
        let started = Instant::now();
        let results = thread::scope(|scope| {
            let (sender, receiver) = channel();
            for &arch in group {
                let sender = sender.clone();
                scope.spawn(move || {
                    let families = FAMILIES.iter();
                    let result: Result<Vec<Built>> = families
                        .map(|family| compile_one(workspace, compiler, family, arch, profile))
                        .collect();
                    // The receiver outlives every sender.
                    drop(sender.send((arch, result)));
                });
            }
            drop(sender);
            let mut results = Vec::new();
            loop {
                match receiver.recv_timeout(Duration::from_secs(15)) {
                    Ok((arch, result)) => {
                        if result.is_ok() {
                            step(format_args!("{arch} done"));
                        }
                        results.push(result);
                    }
                    Err(RecvTimeoutError::Timeout) => {
                        let seconds = started.elapsed().as_secs();
                        step(format_args!("still compiling ({seconds} s)"));
                    }
                    Err(RecvTimeoutError::Disconnected) => break results,
                }
            }
        });
        for result in results {
            built.extend(result?);
        }
    }
    Ok(built)
}

fn compile_one(
    workspace: &Workspace,
    compiler: &Compiler,
    family: &Family,
    arch: Arch,
    profile: Profile,
) -> Result<Built> {
    let unit = compile::Unit {
        manifest: &workspace.root.join("Cargo.toml"),
        package: compile::PACKAGE,
        features: family.feature,
        module: family.module,
        arch,
        profile,
    };
    let raw = compile::compile(workspace, compiler, &unit)?;
    let text = ptx::finish(&raw, family.entries)
        .with_context(|| format!("module {} for {arch}", family.module))?;
    let entries = family.entries.iter().map(|entry| manifest::Entry {
        name: entry.name.to_owned(),
        param_size: entry.param_size,
        max_threads: entry.bounds.max_threads,
        min_blocks: entry.bounds.min_blocks,
    });
    let module = manifest::Module {
        module: family.module.to_owned(),
        arch,
        file: format!("{arch}/{}.ptx", family.module),
        digest: digest::sha256(text.as_bytes()),
        ptx_version: ptx::version(&text)?.to_owned(),
        entries: entries.collect(),
    };
    Ok((module, text))
}

/// Removes the PTX that the manifest does not list: the host embeds what lies there.
fn remove_others(folder: &Path, manifest: &Manifest) -> Result<()> {
    let list = |folder: &Path| -> Result<Vec<PathBuf>> {
        fs::read_dir(folder)?
            .map(|entry| Ok(entry?.path()))
            .collect()
    };
    for arch in list(folder)?.into_iter().filter(|path| path.is_dir()) {
        let mut left = 0;
        for file in list(&arch)? {
            let known = manifest.modules.iter();
            if known
                .map(|module| folder.join(&module.file))
                .any(|path| path == file)
            {
                left += 1;
            } else {
                fs::remove_file(&file)
                    .with_context(|| format!("cannot remove {}", file.display()))?;
            }
        }
        if left == 0 {
            fs::remove_dir(&arch).with_context(|| format!("cannot remove {}", arch.display()))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_manifest_does_not_list_goes() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        for name in [
            "sm_80/a.ptx",
            "sm_90/a.ptx",
            "sm_90/old.ptx",
            manifest::FILE,
        ] {
            replace(&path(name), b"x").unwrap();
        }
        let manifest = Manifest {
            inputs: Inputs {
                codegen: "nvptx".into(),
                compiler: String::new(),
                llvm: String::new(),
                flags: Vec::new(),
                profile: Profile::Release,
                source_digest: String::new(),
            },
            modules: vec![manifest::Module {
                module: "a".into(),
                arch: Arch(90),
                file: "sm_90/a.ptx".into(),
                digest: String::new(),
                ptx_version: String::new(),
                entries: Vec::new(),
            }],
        };
        remove_others(folder.path(), &manifest).unwrap();
        assert!(path("sm_90/a.ptx").is_file() && path(manifest::FILE).is_file());
        assert!(!path("sm_90/old.ptx").exists() && !path("sm_80").exists());
    }

    #[test]
    fn nvvm_is_refused_in_words() {
        let options = Options {
            codegen: Codegen::Nvvm,
            ..Options::default()
        };
        let error = ensure(&options).unwrap_err().to_string();
        assert!(error.contains("not built yet"), "{error}");
    }
}
