//! The convergence check: no barrier and no warp operation where a thread may be missing.
//!
//! A block barrier needs all threads of its block, a warp operation those of its warp.

use super::cfg::Cfg;
use super::divergence::Analysis;
use super::ptx::{Function, Instruction, Module};
use super::value::Divergence;
use anyhow::Result;
use serde::Serialize;
use std::collections::BTreeSet;

/// A convergent instruction that not all its threads reach.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Its opcode.
    pub instruction: String,
    /// Its line in the PTX file.
    pub line: usize,
    /// Whether an explained exception may cover it: barriers have none.
    pub excusable: bool,
    /// Why, with the branch that parts the threads.
    pub message: String,
}

/// Who must be there for an instruction.
fn participants(instruction: &Instruction, convergent: &BTreeSet<&str>) -> Option<Divergence> {
    let block = Some(Divergence::None);
    let warp = Some(Divergence::Warps);
    match instruction.root() {
        "bar" if instruction.has("warp") => warp,
        // With a thread count only some warps take part.
        "bar" | "barrier" if instruction.split().1.len() > 1 && !instruction.has("red") => warp,
        "bar" | "barrier" => block,
        "call" if instruction.callee().is_some_and(|c| convergent.contains(c)) => block,
        "mbarrier" | "cp" | "fence" | "st" | "red" => None,
        _ if instruction.has("sync") || instruction.has("aligned") => warp,
        _ => None,
    }
}

/// Checks one function.
///
/// # Errors
/// A branch to nowhere.
pub fn check(module: &Module, function: &Function) -> Result<Vec<Finding>> {
    let convergent = convergent_functions(module);
    let cfg = Cfg::new(module, function)?;
    let analysis = Analysis::new(function, &cfg);
    let mut findings = Vec::new();
    for (at, block) in function.blocks.iter().enumerate() {
        if !cfg.reachable[at] {
            continue;
        }
        let reach = analysis.reach[at];
        for instruction in &block.instructions {
            let Some(allowed) = participants(instruction, &convergent) else {
                continue;
            };
            let guard = analysis.guard(instruction);
            if reach.divergence.max(guard) <= allowed {
                continue;
            }
            let cause = if guard > allowed {
                "its own predicate differs".to_owned()
            } else {
                describe(function, &cfg, reach.branch, at)
            };
            let who = match reach.divergence.max(guard) {
                Divergence::Lanes => "not all threads of the warp",
                _ => "not all warps of the block",
            };
            findings.push(Finding {
                instruction: instruction.opcode.clone(),
                line: instruction.line,
                excusable: allowed == Divergence::Warps,
                message: format!("{who} reach `{}`: {cause}", instruction.text()),
            });
        }
    }
    findings.sort_by_key(|finding| finding.line);
    Ok(findings)
}

fn describe(function: &Function, cfg: &Cfg, branch: Option<usize>, at: usize) -> String {
    let Some(from) = branch else {
        return "a branch before it differs".to_owned();
    };
    let last = function.blocks[from].instructions.last();
    let Some(last) = last else {
        return "a branch before it differs".to_owned();
    };
    let predicate = last.guard.map(|p| function.registers[p.0].as_str());
    let on = predicate.map_or(String::new(), |p| format!(" on {p}"));
    let region = cfg.region(from);
    let same_loop = |l: &&BTreeSet<usize>| l.contains(&from) && l.contains(&at);
    let kind = if region.contains(&from) && cfg.loops().iter().any(|l| same_loop(&l)) {
        "threads leave the loop in different rounds, by the branch"
    } else if matches!(last.root(), "ret" | "exit") {
        "some threads have ended, by the return"
    } else {
        "threads part at the branch"
    };
    format!("{kind}{on} in line {}", last.line)
}

/// Device functions that contain, or call what contains, a convergent instruction.
fn convergent_functions(module: &Module) -> BTreeSet<&str> {
    let mut found = BTreeSet::new();
    loop {
        let before = found.len();
        for function in &module.functions {
            let mut all = function.blocks.iter().flat_map(|b| &b.instructions);
            if all.any(|i| participants(i, &found).is_some()) {
                found.insert(function.name.as_str());
            }
        }
        if found.len() == before {
            return found;
        }
    }
}
