//! Runs ptxas and reads what it says of each kernel: registers, spills, stack, shared memory.

use crate::process::Run;
use crate::ptxas::Ptxas;
use anyhow::{Context, Result, bail};
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::Path;

/// What one kernel takes on one architecture.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Usage {
    /// Registers of a thread.
    pub registers: u32,
    /// Bytes written when registers run out.
    pub spill_stores: u32,
    /// Bytes read back.
    pub spill_loads: u32,
    /// Bytes of stack.
    pub stack: u32,
    /// Bytes of static shared memory.
    pub shared: u32,
    /// Named barriers.
    pub barriers: u32,
}

/// The oldest architecture the kernels are built for.
pub const OLDEST: u32 = 80;

/// A ptxas and what it can assemble for.
#[derive(Clone, Debug)]
pub struct Assembler {
    /// The program.
    pub program: Ptxas,
    /// Architectures from `sm_80` up, without variants (`sm_90a`).
    pub architectures: Vec<u32>,
}

impl Assembler {
    /// Asks a ptxas for its architectures.
    ///
    /// # Errors
    /// It does not run, or is too old to know one.
    pub fn new(program: Ptxas) -> Result<Self> {
        let help = Run::new(&program.path).arg("--help").capture()?;
        let architectures = architectures(&help);
        if architectures.is_empty() {
            bail!(
                "ptxas {} ({}) knows no architecture from sm_{OLDEST} on; install a newer one",
                program.version,
                program.path.display()
            );
        }
        Ok(Self {
            program,
            architectures,
        })
    }

    /// Assembles one file for one architecture and throws the result away; gives what each
    /// kernel takes, by name.
    ///
    /// # Errors
    /// What ptxas says when it refuses the file.
    pub fn assemble(&self, file: &Path, architecture: u32) -> Result<BTreeMap<String, Usage>> {
        let output = tempfile::NamedTempFile::new().context("cannot create a temporary file")?;
        let run = Run::new(&self.program.path)
            .arg("-v")
            .arg(format!("-arch=sm_{architecture}"))
            .arg("-o")
            .arg(output.path())
            .arg(file);
        let (stdout, stderr) = run.capture_both()?;
        usage(&(stdout + &stderr))
    }
}

/// The `sm_NN` in the output of `ptxas --help` from [`OLDEST`] up, sorted.
pub(super) fn architectures(help: &str) -> Vec<u32> {
    let words = help.split(|c: char| !(c.is_alphanumeric() || c == '_'));
    let mut found: Vec<u32> = words
        .filter_map(|word| word.strip_prefix("sm_")?.parse().ok())
        .filter(|&number| number >= OLDEST)
        .collect();
    found.sort_unstable();
    found.dedup();
    found
}

/// Reads the output of `ptxas -v`.
pub(super) fn usage(text: &str) -> Result<BTreeMap<String, Usage>> {
    let mut all: BTreeMap<String, Usage> = BTreeMap::new();
    let (mut entry, mut own) = (None, false);
    for line in text.lines() {
        if let Some((_, rest)) = line.split_once("Compiling entry function '") {
            let name = rest.split('\'').next().unwrap_or_default().to_owned();
            all.insert(name.clone(), Usage::default());
            entry = Some(name);
            continue;
        }
        let Some(name) = &entry else { continue };
        if let Some((_, rest)) = line.split_once("Function properties for ") {
            own = rest.trim() == name;
            continue;
        }
        let Some(usage) = all.get_mut(name) else {
            continue;
        };
        let line = line.rsplit_once(" : ").map_or(line, |(_, facts)| facts);
        for fact in line.trim().trim_start_matches("Used ").split(", ") {
            let mut words = fact.trim_start_matches("used ").splitn(2, ' ');
            let number = words.next().and_then(|w| w.parse::<u32>().ok());
            let (Some(number), Some(what)) = (number, words.next()) else {
                continue;
            };
            match what {
                "registers" => usage.registers = number,
                "barriers" => usage.barriers = number,
                "bytes smem" => usage.shared = number,
                // Not those of the functions it calls: they are panics.
                "bytes stack frame" if own => usage.stack = number,
                "bytes spill stores" if own => usage.spill_stores = number,
                "bytes spill loads" if own => usage.spill_loads = number,
                _ => {}
            }
        }
    }
    for (name, usage) in &all {
        if usage.registers == 0 {
            bail!("ptxas -v does not say how many registers `{name}` takes");
        }
    }
    Ok(all)
}

/// The registers a thread may take so that the blocks the policy asks for fit on a
/// multiprocessor with 65536 of them.
pub fn register_budget(max_threads: u32, min_blocks: u32) -> u32 {
    let threads = max_threads.max(1).saturating_mul(min_blocks.max(1));
    (65536 / threads / 8 * 8).min(255)
}
