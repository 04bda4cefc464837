//! The counts that were accepted, and the exceptions to the convergence check.
//!
//! One JSON file in the repository, sorted, one number a line, so that a change reads well
//! in review. Counts depend on the compiler, so each code generator's part names its own.

use super::converge::Finding;
use super::count::{Counts, is_firm};
use crate::workspace::replace;
use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::path::Path;

/// By entry point, then architecture.
pub type Found = BTreeMap<String, BTreeMap<String, Counts>>;

/// The file: a part for each code generator.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Snapshot(pub BTreeMap<String, Part>);

/// What one code generator's output contained when it was last accepted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Part {
    /// The compiler that made the PTX.
    pub compiler: String,
    /// Why the last change was right.
    pub reason: String,
    /// By entry point.
    pub entries: BTreeMap<String, Entry>,
}

/// One entry point.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// Warp operations that are right although lanes are missing. Written by hand.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub divergent_ok: Vec<Exception>,
    /// What ptxas may spill. Written by hand.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spills_ok: Option<Spills>,
    /// By architecture.
    pub counts: BTreeMap<String, Counts>,
}

/// Spills that do no harm.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spills {
    /// The most bytes of stores, of loads and of the stack, each, on any architecture.
    pub bytes: u32,
    /// Why they do no harm.
    pub why: String,
}

/// A warp operation whose mask names the lanes that are there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Exception {
    /// The opcode or the beginning of it, `shfl.sync.idx`.
    pub instruction: String,
    /// How many of them, at most.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub count: usize,
    /// Why it is right.
    pub why: String,
}

fn one() -> usize {
    1
}

fn is_one(count: &usize) -> bool {
    *count == 1
}

/// What a comparison came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Comparison {
    /// Differences that fail the check.
    pub errors: Vec<String>,
    /// Differences that another compiler version may make.
    pub warnings: Vec<String>,
}

impl Snapshot {
    /// Reads the file; one that does not exist is empty.
    ///
    /// # Errors
    /// It cannot be read, or is not a snapshot.
    pub fn load(path: &Path) -> Result<Self> {
        let text = match std::fs::read_to_string(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Self::default()),
            text => text.with_context(|| format!("cannot read {}", path.display()))?,
        };
        serde_json::from_str(&text).with_context(|| format!("{} is no snapshot", path.display()))
    }

    /// Writes the file, whole or not at all.
    ///
    /// # Errors
    /// The folder cannot be written to.
    pub fn save(&self, path: &Path) -> Result<()> {
        let mut text = serde_json::to_string_pretty(self)?;
        text.push('\n');
        replace(path, text.as_bytes())
    }
}

impl Part {
    /// Bytes that an entry point may spill.
    pub fn spills_ok(&self, entry: &str) -> u32 {
        let spills = self.entries.get(entry).and_then(|e| e.spills_ok.as_ref());
        spills.map_or(0, |spills| spills.bytes)
    }

    /// Takes over what was found. Entry points that no longer exist go if `complete`;
    /// exceptions stay.
    pub fn accept(&mut self, found: &Found, complete: bool, compiler: &str, reason: &str) {
        if complete {
            self.entries.retain(|name, _| found.contains_key(name));
        }
        for (name, counts) in found {
            self.entries.entry(name.clone()).or_default().counts = counts.clone();
        }
        self.compiler = compiler.to_owned();
        self.reason = reason.to_owned();
    }

    /// Compares what was found. Under another compiler only the firm kinds must agree.
    /// Entry points that were not looked at are missing only if `complete`.
    pub fn compare(&self, found: &Found, complete: bool, compiler: &str) -> Comparison {
        let mut comparison = Comparison::default();
        let same_compiler = self.compiler == compiler;
        if !same_compiler && !self.compiler.is_empty() {
            comparison.warnings.push(format!(
                "the snapshot was made with {}, this PTX with {compiler}: only barriers, warp \
                 operations, atomics, fences and local memory must agree",
                self.compiler
            ));
        }
        for (name, architectures) in found {
            let Some(entry) = self.entries.get(name) else {
                let text = format!("{name}: not in the snapshot");
                comparison.errors.push(text);
                continue;
            };
            let known: BTreeSet<_> = entry.counts.keys().chain(architectures.keys()).collect();
            for architecture in known {
                let place = format!("{name} ({architecture})");
                let old = entry.counts.get(architecture);
                let new = architectures.get(architecture);
                match (old, new) {
                    (None, _) => comparison
                        .errors
                        .push(format!("{place}: not in the snapshot")),
                    (_, None) if complete => comparison.errors.push(format!("{place}: no PTX")),
                    _ => {}
                }
                if let (Some(old), Some(new)) = (old, new) {
                    let kinds: BTreeSet<_> = old.keys().chain(new.keys()).collect();
                    for kind in kinds {
                        let count = |of: &Counts| of.get(kind).copied().unwrap_or(0);
                        let (old, new) = (count(old), count(new));
                        if old != new {
                            let text = format!("{place}: {kind} {old} -> {new}");
                            if same_compiler || is_firm(kind) {
                                comparison.errors.push(text);
                            } else {
                                comparison.warnings.push(text);
                            }
                        }
                    }
                }
            }
        }
        if complete {
            let gone = self.entries.keys().filter(|n| !found.contains_key(*n));
            let gone = gone.map(|name| format!("{name}: in the snapshot, but no entry point"));
            comparison.errors.extend(gone);
        }
        comparison
    }
}

/// Takes out the findings that an exception covers; gives those that stay, and a complaint
/// for every exception that covers nothing or explains nothing.
pub fn excuse(exceptions: &[Exception], findings: Vec<Finding>) -> (Vec<Finding>, Vec<String>) {
    let mut left: Vec<usize> = exceptions.iter().map(|e| e.count).collect();
    let mut complaints: Vec<String> = Vec::new();
    for exception in exceptions.iter().filter(|e| e.why.trim().is_empty()) {
        complaints.push(format!(
            "the exception for `{}` does not say why",
            exception.instruction
        ));
    }
    let mut stay = findings;
    stay.retain(|finding| {
        let covering = exceptions.iter().zip(&mut left).find(|(exception, left)| {
            finding.excusable
                && **left > 0
                && finding.instruction.starts_with(&exception.instruction)
        });
        match covering {
            Some((_, left)) => {
                *left -= 1;
                false
            }
            None => true,
        }
    });
    for (exception, _) in exceptions
        .iter()
        .zip(left)
        .filter(|(e, left)| *left == e.count)
    {
        complaints.push(format!(
            "the exception for `{}` covers nothing; take it out",
            exception.instruction
        ));
    }
    (stay, complaints)
}
