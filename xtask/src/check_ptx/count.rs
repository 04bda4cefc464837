//! What each function contains: instructions by kind.

use super::ptx::{Function, Instruction, Module};
use std::collections::BTreeMap;

/// Instructions by kind; a kind that does not occur has no entry.
///
/// Memory accesses are named `load.global`, `store.shared.v4` and so on; one without a
/// state space is `generic`.
pub type Counts = BTreeMap<String, u64>;

/// Kinds that must not change from one compiler version to the next: a barrier or shuffle
/// more or less is a miscompile or an edit, never an optimisation.
const FIRM: &[&str] = &[
    "atomic",
    "barrier",
    "fence",
    "load.local",
    "local_bytes",
    "match",
    "redux",
    "shuffle",
    "store.local",
    "vote",
    "warp_sync",
];

/// Whether a kind must be equal under every compiler version.
pub fn is_firm(kind: &str) -> bool {
    let base = kind.trim_end_matches(|c: char| c.is_ascii_digit());
    FIRM.contains(&base.strip_suffix(".v").unwrap_or(kind))
}

/// The counts of a function and, for each of its calls, those of what it calls.
pub fn function(module: &Module, function: &Function) -> Counts {
    let mut counts = Counts::new();
    add(module, function, &mut counts, &mut Vec::new());
    counts
}

fn add<'a>(
    module: &'a Module,
    function: &'a Function,
    counts: &mut Counts,
    callers: &mut Vec<&'a str>,
) {
    if callers.contains(&function.name.as_str()) {
        return; // recursion: counted once
    }
    callers.push(&function.name);
    if function.local_bytes > 0 {
        *counts.entry("local_bytes".to_owned()).or_default() += function.local_bytes;
    }
    for instruction in function.blocks.iter().flat_map(|b| &b.instructions) {
        if let Some(kind) = kind(instruction) {
            *counts.entry(kind).or_default() += 1;
        }
        let callee = instruction.callee();
        if let Some(callee) = module
            .functions
            .iter()
            .find(|f| Some(f.name.as_str()) == callee)
        {
            add(module, callee, counts, callers);
        }
    }
    callers.pop();
}

/// The kind an instruction is counted under, if any.
pub fn kind(instruction: &Instruction) -> Option<String> {
    let name = match instruction.root() {
        "bar" if instruction.has("warp") => "warp_sync",
        "bar" | "barrier" => "barrier",
        "shfl" => "shuffle",
        "vote" => "vote",
        "activemask" => "activemask",
        "match" => "match",
        "redux" => "redux",
        "atom" | "red" => "atomic",
        "fence" | "membar" => "fence",
        "mbarrier" => "mbarrier",
        "cp" if instruction.has("mbarrier") => "mbarrier",
        "cp" if instruction.parts().any(is_group) => "async_group",
        "cp" if instruction.has("async") => "async_copy",
        "nanosleep" => "nanosleep",
        "ex2" => "ex2",
        "call" => "call",
        "div" | "rem" if instruction.has("u64") || instruction.has("s64") => "div64",
        "ld" | "ldu" => return access("load", instruction),
        "st" => return access("store", instruction),
        _ => return None,
    };
    Some(name.to_owned())
}

fn is_group(part: &str) -> bool {
    matches!(part, "commit_group" | "wait_group" | "wait_all")
}

fn access(verb: &str, instruction: &Instruction) -> Option<String> {
    let space = space(instruction);
    if space == "param" {
        return None;
    }
    let vector = ["v2", "v4", "v8"].into_iter().find(|v| instruction.has(v));
    Some(match vector {
        Some(vector) => format!("{verb}.{space}.{vector}"),
        None => format!("{verb}.{space}"),
    })
}

/// The state space of a load or store: `global`, `shared`, `local`, `const`, `param`, or
/// `generic` where the instruction names none.
pub fn space(instruction: &Instruction) -> &'static str {
    // `shared::cta` is written for `shared` too.
    let named = |name: &str| {
        let mut parts = instruction.parts().skip(1);
        parts.any(|p| p.split("::").next() == Some(name))
    };
    let spaces = ["global", "shared", "local", "const", "param"];
    spaces.into_iter().find(|s| named(s)).unwrap_or("generic")
}
