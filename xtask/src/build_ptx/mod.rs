//! `cargo xtask build-ptx`: from the device crate to one PTX file per family and
//! architecture under `target/ptx`, with a manifest. Writes nothing where nothing changed.

pub mod compile;
mod nvvm;
pub mod ptx;

use crate::digest;
use crate::manifest::{self, Arch, Inputs, Manifest, Profile, State};
use crate::process::step;
use crate::ptxas;
use crate::rust_cuda::{self, RustCuda};
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
    /// Code generator. auto takes nvvm if all that it needs is here, else nvptx, which
    /// needs no more than a rustc with its library sources; it says which.
    #[arg(long, value_enum, default_value_t)]
    codegen: Codegen,
    #[command(flatten)]
    named: rust_cuda::Named,
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
    /// Where rust-cuda is.
    pub named: rust_cuda::Named,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            archs: vec![Arch(80), Arch(90)],
            codegen: Codegen::default(),
            profile: Profile::default(),
            named: rust_cuda::Named::default(),
        }
    }
}

/// A code generator that is here.
#[derive(Clone, Debug)]
pub enum Generator {
    /// Stock rustc.
    Nvptx(Compiler),
    /// rust-cuda.
    Nvvm(Box<RustCuda>),
}

impl Generator {
    /// Its name, and that of its folder.
    fn name(&self) -> &'static str {
        match self {
            Self::Nvptx(_) => "nvptx",
            Self::Nvvm(_) => "nvvm",
        }
    }

    /// It in words.
    fn describe(&self) -> String {
        match self {
            Self::Nvptx(compiler) => format!("{}, {}", compiler.version.text, compiler.origin),
            Self::Nvvm(rust_cuda) => format!(
                "{} with {}, libNVVM {}",
                rust_cuda.version.text,
                rust_cuda.backend.display(),
                rust_cuda.nvvm_version
            ),
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
        named: args.named,
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
    let workspace = Workspace::locate()?;
    let (generator, why) = choose(options)?;
    let inputs = inputs(&workspace, &generator, options.profile)?;
    let folder = workspace.ptx().join(&inputs.codegen);
    step(format_args!(
        "PTX by {} ({why}): {}",
        inputs.codegen,
        generator.describe()
    ));
    withdraw_stale(&workspace.ptx(), &inputs)?;
    let state = Manifest::state(&folder, &inputs, &modules(), &options.archs);
    match &state {
        State::Fresh => step(format_args!("PTX is up to date in {}", folder.display())),
        State::Missing => step("no PTX yet"),
        State::Stale(reason) => step(format_args!("PTX is out of date: {reason}")),
    }
    if state != State::Fresh {
        build(&workspace, &generator, inputs, &folder, options)?;
    }
    let manifest = Manifest::read(&folder)?.context("the manifest is gone")?;
    Ok(PtxSet { folder, manifest })
}

/// The code generator, and why it is this one.
fn choose(options: &Options) -> Result<(Generator, String)> {
    let nvptx = || Ok::<_, anyhow::Error>(Generator::Nvptx(setup::device_compiler()?));
    if options.codegen == Codegen::Nvptx {
        return Ok((nvptx()?, "as asked".to_owned()));
    }
    let places = rust_cuda::Places::here(&options.named);
    if options.codegen == Codegen::Auto && places.checkout.is_none() {
        return Ok((nvptx()?, "auto: no rust-cuda is named".to_owned()));
    }
    let mut search = rust_cuda::find(&places);
    match (options.codegen, search.found.take()) {
        (Codegen::Auto, None) => {
            let why = format!("auto: {}", search.describe());
            Ok((nvptx()?, why))
        }
        (_, None) => bail!("{}\nWithout it: --codegen nvptx", search.describe()),
        (codegen, Some(rust_cuda)) => {
            let why = match codegen {
                Codegen::Auto => "auto: all that it needs is here",
                _ => "as asked",
            };
            Ok((Generator::Nvvm(Box::new(rust_cuda)), why.to_owned()))
        }
    }
}

/// What the PTX would be built from now.
pub fn inputs(workspace: &Workspace, generator: &Generator, profile: Profile) -> Result<Inputs> {
    let source_digest = digest::sources(workspace)?;
    let codegen = generator.name().to_owned();
    Ok(match generator {
        Generator::Nvptx(compiler) => Inputs {
            codegen,
            compiler: compiler.version.text.clone(),
            llvm: compiler.version.llvm.clone(),
            flags: compile::flags(),
            tools: Vec::new(),
            profile,
            source_digest,
        },
        Generator::Nvvm(rust_cuda) => Inputs {
            codegen,
            compiler: rust_cuda.version.text.clone(),
            llvm: format!("7, libNVVM {}", rust_cuda.nvvm_version),
            flags: nvvm::flags(),
            tools: nvvm::tools(rust_cuda)?,
            profile,
            source_digest,
        },
    })
}

/// Takes the manifest of another code generator's PTX away if it was built from other
/// sources than these: the host embeds what has a manifest, and would have kernels of two
/// states.
fn withdraw_stale(ptx: &Path, inputs: &Inputs) -> Result<()> {
    for codegen in ["nvptx", "nvvm"] {
        let folder = ptx.join(codegen);
        if codegen == inputs.codegen || !folder.join(manifest::FILE).exists() {
            continue;
        }
        let other = Manifest::read(&folder);
        if let Ok(Some(other)) = &other
            && other.inputs.source_digest == inputs.source_digest
        {
            continue;
        }
        step(format_args!(
            "the PTX by {codegen} is of other sources: withdrawn until it is built again"
        ));
        fs::remove_file(folder.join(manifest::FILE))
            .with_context(|| format!("cannot remove the manifest in {}", folder.display()))?;
    }
    Ok(())
}

/// The names of the families.
pub fn modules() -> Vec<&'static str> {
    FAMILIES.iter().map(|family| family.module).collect()
}

/// One finished module: its description and its text.
type Built = (manifest::Module, String);

fn build(
    workspace: &Workspace,
    generator: &Generator,
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
    let back_end = match generator {
        Generator::Nvptx(compiler) => BackEnd::Nvptx(compiler),
        Generator::Nvvm(rust_cuda) => BackEnd::Nvvm {
            builder: nvvm::Builder::prepare(workspace, rust_cuda)?,
            ptxas: ptxas::find(workspace),
        },
    };
    let mut built = compile_all(workspace, &back_end, &archs, options.profile)?;
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

/// A code generator, ready to compile.
enum BackEnd<'a> {
    Nvptx(&'a Compiler),
    Nvvm {
        builder: nvvm::Builder<'a>,
        /// Says whether the PTX may claim to be of an older version.
        ptxas: Option<ptxas::Ptxas>,
    },
}

/// Compiles every family for every architecture, architectures side by side: most of the
/// time goes into the core library, which keeps one processor busy.
fn compile_all(
    workspace: &Workspace,
    back_end: &BackEnd<'_>,
    archs: &[Arch],
    profile: Profile,
) -> Result<Vec<Built>> {
    let width = thread::available_parallelism().map_or(1, usize::from);
    let mut built = Vec::new();
    for group in archs.chunks(width) {
        for &arch in group {
            let first = match back_end {
                BackEnd::Nvptx(_) => !compile::is_warm(workspace, arch),
                BackEnd::Nvvm { builder, .. } => !builder.is_warm(arch),
            };
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
                        .map(|family| compile_one(workspace, back_end, family, arch, profile))
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
    back_end: &BackEnd<'_>,
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
    let finish = |raw: &str| {
        ptx::finish(raw, family.entries)
            .with_context(|| format!("module {} for {arch}", family.module))
    };
    let text = match back_end {
        BackEnd::Nvptx(compiler) => finish(&compile::compile(workspace, compiler, &unit)?)?,
        BackEnd::Nvvm { builder, ptxas } => {
            let text = finish(&builder.compile(&unit)?)?;
            builder.lower(text, &unit, ptxas.as_ref())?
        }
    };
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
                tools: Vec::new(),
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
    fn without_rust_cuda_nvvm_is_refused_in_words() {
        let options = Options {
            codegen: Codegen::Nvvm,
            named: rust_cuda::Named {
                rust_cuda: Some("/nowhere".into()),
                rust_cuda_toolchain: Some("/nowhere/sysroot".into()),
            },
            ..Options::default()
        };
        let error = choose(&options).unwrap_err().to_string();
        for words in [
            "rust-cuda is not complete",
            "/nowhere is no checkout of rust-cuda",
            "no /nowhere/sysroot/bin/rustc",
            "Without it: --codegen nvptx",
        ] {
            assert!(error.contains(words), "{error}");
        }
    }

    #[test]
    fn ptx_of_other_sources_is_withdrawn() {
        let folder = tempfile::tempdir().unwrap();
        let inputs = |codegen: &str, digest: &str| Inputs {
            codegen: codegen.into(),
            compiler: String::new(),
            llvm: String::new(),
            flags: Vec::new(),
            tools: Vec::new(),
            profile: Profile::Release,
            source_digest: digest.into(),
        };
        let file = folder.path().join("nvvm").join(manifest::FILE);
        let manifest = Manifest {
            inputs: inputs("nvvm", "1"),
            modules: Vec::new(),
        };
        replace(&file, &serde_json::to_vec(&manifest).unwrap()).unwrap();
        withdraw_stale(folder.path(), &inputs("nvptx", "1")).unwrap();
        withdraw_stale(folder.path(), &inputs("nvvm", "2")).unwrap();
        assert!(file.exists());
        withdraw_stale(folder.path(), &inputs("nvptx", "2")).unwrap();
        assert!(!file.exists());
    }
}
