//! `cargo xtask check-ptx`: what the compiler made of the kernels.
//!
//! ptxas accepts miscompiled barriers and shuffles, and no GPU is at hand in CI, so the
//! PTX itself is read. `docs/check-ptx.md` says what is checked and what cannot be.

mod cfg;
mod converge;
mod count;
mod divergence;
mod parse;
mod ptx;
mod ptxas;
mod registers;
mod report;
mod same;
mod snapshot;
mod statements;
mod transfer;
mod value;

#[cfg(test)]
mod tests;

use crate::build_ptx::{self, Codegen, Options};
use crate::manifest::{self, Manifest};
use crate::process::step;
use crate::setup;
use crate::workspace::Workspace;
use anyhow::{Context, Result, anyhow, bail, ensure};
use rayon::prelude::*;
use report::{AssembledRow, EntryRow, Report};
use snapshot::{Found, Snapshot};
use std::path::{Path, PathBuf};

/// The snapshot, from the workspace's folder.
const SNAPSHOT: &str = "gpu-kernels/ptx-snapshot.json";

/// Arguments of the command.
#[derive(Debug, Default, clap::Args)]
pub struct Args {
    /// Check the files DIR/sm_NN/NAME.ptx instead of building the kernels.
    #[arg(long, value_name = "DIR")]
    ptx_dir: Option<PathBuf>,
    /// Code generator, as in build-ptx; each has its part of the snapshot.
    #[arg(long, value_enum, default_value_t)]
    codegen: Codegen,
    #[command(flatten)]
    named: crate::rust_cuda::Named,
    /// Check only this module (family); may be given more than once.
    #[arg(long, value_name = "NAME")]
    module: Vec<String>,
    /// Write what was found to the snapshot. REASON says why the change is right; it is
    /// kept in the snapshot.
    #[arg(long, value_name = "REASON")]
    accept: Option<String>,
    /// Another snapshot than gpu-kernels/ptx-snapshot.json.
    #[arg(long, value_name = "FILE")]
    snapshot: Option<PathBuf>,
    /// The ptxas to use. Without this: $FERROSEQ_PTXAS, PATH, a CUDA toolkit,
    /// target/ptxas, and if there is none, setup installs one there.
    #[arg(long, value_name = "FILE", conflicts_with = "no_ptxas")]
    ptxas: Option<PathBuf>,
    /// Read the PTX only; do not assemble it.
    #[arg(long)]
    no_ptxas: bool,
    /// Assemble each file for its own architecture only, not for all later ones, too: some
    /// eight times faster.
    #[arg(long, conflicts_with = "no_ptxas")]
    own_architecture: bool,
    /// Print the report as JSON.
    #[arg(long)]
    json: bool,
}

impl Args {
    /// Everything, each file assembled for its own architecture.
    pub fn own_architecture() -> Self {
        Self {
            own_architecture: true,
            ..Self::default()
        }
    }
}

/// Where the PTX is and who made it.
struct Source {
    directory: PathBuf,
    /// The architectures to look at; empty for all.
    folders: Vec<String>,
    codegen: String,
    compiler: String,
}

/// One PTX file.
struct File {
    module: String,
    path: PathBuf,
    ptx: ptx::Module,
}

/// Runs the command.
///
/// # Errors
/// A check failed, or could not be made.
pub fn run(args: Args) -> Result<()> {
    if let Some(reason) = &args.accept {
        ensure!(
            !reason.trim().is_empty(),
            "--accept: the reason is empty; say why the change is right"
        );
    }
    let workspace = Workspace::locate()?;
    let source = source(&args)?;
    let files = read(&source, &args.module)?;
    let path = args
        .snapshot
        .unwrap_or_else(|| workspace.root.join(SNAPSHOT));
    let mut snapshot = Snapshot::load(&path)?;
    let part = snapshot.0.entry(source.codegen.clone()).or_default();
    let mut report = Report {
        codegen: source.codegen.clone(),
        compiler: source.compiler.clone(),
        ..Report::default()
    };
    let found = inspect(&files, part, &mut report)?;
    let complete = args.module.is_empty();
    let mut hint = "";
    match &args.accept {
        Some(reason) => part.accept(&found, complete, &source.compiler, reason),
        None => {
            let comparison = part.compare(&found, complete, &source.compiler);
            if !comparison.errors.is_empty() {
                hint = "; a change of counts that is meant is accepted with --accept REASON";
            }
            report.errors.extend(comparison.errors);
            report.warnings.extend(comparison.warnings);
        }
    }
    if args.ptx_dir.is_none() && complete {
        report.errors.extend(missing_entries(&found));
    }
    if !args.no_ptxas {
        assemble(
            &find_ptxas(&workspace, args.ptxas)?,
            &files,
            args.own_architecture,
            part,
            &mut report,
        )?;
    }
    if args.json {
        println!("{}", serde_json::to_string_pretty(&report)?);
    } else {
        print!("{report}");
    }
    if args.accept.is_some() {
        snapshot.save(&path)?;
        step(format_args!("wrote {}", path.display()));
    }
    match report.errors.len() {
        0 => Ok(()),
        1 => bail!("1 check failed{hint}"),
        n => bail!("{n} checks failed{hint}"),
    }
}

/// The PTX of --ptx-dir, else that of the kernels, built if need be.
fn source(args: &Args) -> Result<Source> {
    let named = |manifest: &Manifest| {
        let inputs = &manifest.inputs;
        format!("{}, LLVM {}", inputs.compiler, inputs.llvm)
    };
    if let Some(directory) = &args.ptx_dir {
        let manifest = Manifest::read(directory)?;
        let codegen = match args.codegen {
            Codegen::Nvvm => "nvvm",
            Codegen::Auto | Codegen::Nvptx => "nvptx",
        };
        return Ok(Source {
            directory: directory.clone(),
            folders: Vec::new(),
            codegen: codegen.to_owned(),
            compiler: manifest.map_or_else(
                || format!("an unknown compiler (no {})", manifest::FILE),
                |manifest| named(&manifest),
            ),
        });
    }
    let options = Options {
        codegen: args.codegen,
        named: args.named.clone(),
        ..Options::default()
    };
    let set = build_ptx::ensure(&options)?;
    Ok(Source {
        directory: set.folder,
        folders: options.archs.iter().map(ToString::to_string).collect(),
        codegen: set.manifest.inputs.codegen.clone(),
        compiler: named(&set.manifest),
    })
}

/// Reads and parses `DIR/<arch>/<module>.ptx`, sorted by module and architecture.
fn read(source: &Source, modules: &[String]) -> Result<Vec<File>> {
    let directory = &source.directory;
    let listed = |folder: &Path| {
        let name = folder.file_name().unwrap_or_default().to_string_lossy();
        source.folders.is_empty() || source.folders.iter().any(|f| *f == name)
    };
    let list = |folder: &Path| -> Result<Vec<PathBuf>> {
        let entries = std::fs::read_dir(folder);
        let entries = entries.with_context(|| format!("cannot read {}", folder.display()))?;
        let mut paths = Vec::new();
        for entry in entries {
            paths.push(entry?.path());
        }
        paths.sort();
        Ok(paths)
    };
    let mut files = Vec::new();
    for folder in list(directory)?
        .into_iter()
        .filter(|p| p.is_dir() && listed(p))
    {
        for path in list(&folder)? {
            let stem = path.file_stem().unwrap_or_default().to_string_lossy();
            let wanted = modules.is_empty() || modules.iter().any(|m| *m == stem);
            if path.extension().is_none_or(|e| e != "ptx") || !wanted {
                continue;
            }
            let text = std::fs::read_to_string(&path);
            let text = text.with_context(|| format!("cannot read {}", path.display()))?;
            let ptx = parse::module(&text);
            files.push(File {
                module: stem.into_owned(),
                ptx: ptx.with_context(|| format!("cannot parse {}", path.display()))?,
                path,
            });
        }
    }
    for module in modules {
        ensure!(
            files.iter().any(|f| f.module == *module),
            "--module: no `{module}.ptx` in the folders of {}",
            directory.display()
        );
    }
    ensure!(
        !files.is_empty(),
        "no <arch>/<module>.ptx in {}",
        directory.display()
    );
    files.sort_by(|a, b| (&a.module, &a.ptx.target).cmp(&(&b.module, &b.ptx.target)));
    Ok(files)
}

/// Counts and convergence; gives the counts by entry point and architecture.
fn inspect(files: &[File], part: &snapshot::Part, report: &mut Report) -> Result<Found> {
    let mut found = Found::new();
    for file in files {
        for function in &file.ptx.functions {
            let findings = converge::check(&file.ptx, function)
                .with_context(|| format!("cannot follow {}", file.path.display()))?;
            let exceptions = part.entries.get(&function.name);
            let exceptions = exceptions.map_or(&[][..], |e| &e.divergent_ok);
            let (divergent, complaints) = snapshot::excuse(exceptions, findings);
            let place = format!("{} ({})", function.name, file.ptx.target);
            let tell = |text: &String| format!("{place}: {text}");
            report.errors.extend(complaints.iter().map(tell));
            let described = divergent.iter().map(|finding| {
                format!(
                    "{}:{}: {place}: {}",
                    file.path.display(),
                    finding.line,
                    finding.message
                )
            });
            report.errors.extend(described);
            if !function.entry {
                continue;
            }
            let counts = count::function(&file.ptx, function);
            let architectures = found.entry(function.name.clone()).or_default();
            let twice = architectures.insert(file.ptx.target.clone(), counts.clone());
            ensure!(twice.is_none(), "{place} is in two files");
            report.entries.push(EntryRow {
                module: file.module.clone(),
                entry: function.name.clone(),
                ptx: file.ptx.target.clone(),
                counts,
                divergent,
            });
        }
    }
    Ok(found)
}

/// The entry points of gpu-kernels that no PTX file has.
fn missing_entries(found: &Found) -> Vec<String> {
    let entries = gpu_kernels::FAMILIES.iter().flat_map(|f| f.entries);
    entries
        .filter(|entry| !found.contains_key(entry.name))
        .map(|entry| {
            format!(
                "{}: an entry point of gpu-kernels, but in no PTX file",
                entry.name
            )
        })
        .collect()
}

fn find_ptxas(workspace: &Workspace, given: Option<PathBuf>) -> Result<ptxas::Assembler> {
    let named = std::env::var_os(crate::ptxas::ENVIRONMENT).filter(|value| !value.is_empty());
    let program = match given.or(named.map(PathBuf::from)) {
        Some(path) => crate::ptxas::at(path)?,
        None => setup::ptxas(workspace)
            .map_err(|reason| anyhow!("no ptxas: {reason}\nWithout it: --no-ptxas"))?,
    };
    ptxas::Assembler::new(program)
}

/// Assembles every file for every architecture that can run it, or only for its `own`.
fn assemble(
    ptxas: &ptxas::Assembler,
    files: &[File],
    own: bool,
    part: &snapshot::Part,
    report: &mut Report,
) -> Result<()> {
    let mut work = Vec::new();
    for file in files {
        let number = file.ptx.target.strip_prefix("sm_");
        let oldest: u32 = number.and_then(|n| n.parse().ok()).with_context(|| {
            format!(
                "{}: cannot order `.target {}`",
                file.path.display(),
                file.ptx.target
            )
        })?;
        let architectures = ptxas.architectures.iter();
        let architectures = architectures.filter(|&&a| if own { a == oldest } else { a >= oldest });
        work.extend(architectures.map(|&architecture| (file, architecture)));
    }
    step(format_args!(
        "ptxas {}: {} runs, one for each file and architecture",
        ptxas.program.version,
        work.len()
    ));
    let done: Vec<_> = work
        .par_iter()
        .map(|&(file, architecture)| ptxas.assemble(&file.path, architecture))
        .collect();
    for ((file, architecture), usages) in work.into_iter().zip(done) {
        let usages = match usages {
            Ok(usages) => usages,
            Err(refusal) => {
                let file = file.path.display();
                let text = format!("ptxas refuses {file} for sm_{architecture}: {refusal:#}");
                report.errors.push(text);
                continue;
            }
        };
        for (entry, usage) in usages {
            let known = gpu_kernels::FAMILIES.iter().flat_map(|f| f.entries);
            let bounds = known.filter(|e| e.name == entry).map(|e| e.bounds).next();
            let row = AssembledRow {
                spills_ok: part.spills_ok(&entry),
                module: file.module.clone(),
                entry,
                ptx: file.ptx.target.clone(),
                architecture,
                usage,
                register_budget: bounds
                    .map(|b| ptxas::register_budget(b.max_threads, b.min_blocks)),
            };
            report.errors.extend(row.fault());
            report.assembled.push(row);
        }
    }
    report.ptxas = Some(ptxas.program.version.clone());
    Ok(())
}
