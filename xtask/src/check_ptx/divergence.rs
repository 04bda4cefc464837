//! Where threads part: a forward data flow over the registers and blocks of one function.
//!
//! Starts from "the same for all" and grows to a fixed point. A register differs if what
//! it is computed from does (`transfer`), if a branch that differs decides which of several
//! writes is the last, or if it leaves a loop that threads leave at different times.

use super::cfg::Cfg;
use super::ptx::{Function, Instruction, Register};
use super::same::{self, Group};
use super::transfer;
use super::value::{Divergence, Value};
use std::collections::BTreeSet;

/// Which threads reach a block, and the branch that decides it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reach {
    /// Whether some threads of the block, or of a warp, may be elsewhere.
    pub divergence: Divergence,
    /// The block whose last instruction parts them.
    pub branch: Option<usize>,
}

/// The fixed point.
#[derive(Debug)]
pub struct Analysis {
    /// For each register.
    pub values: Vec<Value>,
    /// For each block.
    pub reach: Vec<Reach>,
}

impl Analysis {
    /// Runs the analysis.
    pub fn new(function: &Function, cfg: &Cfg) -> Self {
        let carried = carried(function, cfg);
        let groups = same::groups(function, cfg);
        let mut analysis = Self {
            values: start(function),
            reach: vec![Reach::default(); function.blocks.len()],
        };
        while analysis.step(function, cfg, &carried, &groups) {}
        analysis
    }

    /// One pass over the function; whether anything grew.
    fn step(
        &mut self,
        function: &Function,
        cfg: &Cfg,
        carried: &[Carried],
        groups: &[Vec<Group>],
    ) -> bool {
        let mut grew = false;
        for (at, block) in function.blocks.iter().enumerate() {
            if !cfg.reachable[at] {
                continue;
            }
            for instruction in &block.instructions {
                let result = transfer::result(function, &self.values, instruction);
                let guard = self.guard(instruction);
                for register in instruction.split().0.iter().flat_map(|o| &o.registers) {
                    grew |= self.raise(*register, result.under(guard));
                }
            }
            grew |= self.part(function, cfg, at);
        }
        for (merge, groups) in function.merges.iter().zip(groups) {
            for (at, &(register, block)) in merge.from.iter().enumerate() {
                // Which write is the last differs as the threads that reach it do; of writes
                // of one value, as those that reach the place where their paths meet.
                let mut value = self.values[register.0];
                let mut divergence = self.reach[block].divergence;
                if let Some(group) = groups.iter().find(|group| group.writes.contains(&at)) {
                    let equal = group.writes.iter().map(|&at| merge.from[at].0);
                    let equal = equal.map(|register| self.values[register.0]);
                    value = equal.fold(value, Value::better);
                    divergence = divergence.min(self.reach[group.meeting].divergence);
                }
                let value = value.under(divergence);
                grew |= self.raise(merge.into, value);
            }
        }
        for exit in carried {
            let divergence = self.branch(function, exit.from);
            let divergence = divergence.max(self.reach[exit.from].divergence);
            for register in &exit.registers {
                let value = self.values[register.0].under(divergence);
                grew |= self.raise(*register, value);
            }
        }
        grew
    }

    /// How far threads differ on an instruction's predicate.
    pub fn guard(&self, instruction: &Instruction) -> Divergence {
        instruction
            .guard
            .map_or(Divergence::None, |p| self.values[p.0].divergence())
    }

    /// How far threads differ on where they go from the end of a block.
    fn branch(&self, function: &Function, block: usize) -> Divergence {
        let last = function.blocks[block].instructions.last();
        let Some(last) = last.filter(|i| i.ends_block()) else {
            return Divergence::None;
        };
        let index = match last.root() {
            "brx" => last.operands.first(),
            _ => None,
        };
        let index = index.map(|o| transfer::operand_value(&self.values, o).divergence());
        self.guard(last).max(index.unwrap_or_default())
    }

    /// Marks the blocks that the branch at the end of `block` keeps some threads from.
    fn part(&mut self, function: &Function, cfg: &Cfg, block: usize) -> bool {
        let divergence = self.branch(function, block);
        if divergence == Divergence::None {
            return false;
        }
        let mut grew = false;
        for at in cfg.region(block) {
            if divergence > self.reach[at].divergence {
                self.reach[at] = Reach {
                    divergence,
                    branch: Some(block),
                };
                grew = true;
            }
        }
        grew
    }

    fn raise(&mut self, register: Register, value: Value) -> bool {
        let old = self.values[register.0];
        let new = old.join(value);
        self.values[register.0] = new;
        new != old
    }
}

/// Nothing is known yet, but that a register that nobody writes holds anything.
fn start(function: &Function) -> Vec<Value> {
    let mut values = vec![Value::Lanes; function.registers.len()];
    for instruction in function.blocks.iter().flat_map(|b| &b.instructions) {
        for register in instruction.split().0.iter().flat_map(|o| &o.registers) {
            values[register.0] = Value::Unset;
        }
    }
    for merge in &function.merges {
        values[merge.into.0] = Value::Unset;
    }
    values
}

/// A way out of a loop, and the registers whose value behind it depends on the round in
/// which a thread takes it.
#[derive(Debug)]
struct Carried {
    from: usize,
    registers: BTreeSet<Register>,
}

fn carried(function: &Function, cfg: &Cfg) -> Vec<Carried> {
    let mut all = Vec::new();
    for inside in cfg.loops() {
        let exits: Vec<usize> = inside
            .iter()
            .copied()
            .filter(|&at| cfg.successors(at).any(|to| !inside.contains(&to)))
            .collect();
        if exits.is_empty() {
            continue;
        }
        let mut used_outside = BTreeSet::new();
        let mut written = BTreeSet::new();
        for (at, block) in function.blocks.iter().enumerate() {
            for instruction in &block.instructions {
                let (to, from) = instruction.split();
                if inside.contains(&at) {
                    written.extend(to.iter().flat_map(|o| &o.registers).copied());
                } else {
                    used_outside.extend(from.iter().flat_map(|o| &o.registers).copied());
                    used_outside.extend(instruction.guard);
                }
            }
        }
        let merges = function.merges.iter();
        let inner = merges.filter(|m| m.from.iter().any(|(_, block)| inside.contains(block)));
        written.extend(inner.map(|m| m.into));
        // What reads nothing that the loop writes gives the same in every round.
        for instruction in inside
            .iter()
            .flat_map(|&b| &function.blocks[b].instructions)
        {
            let (to, from) = instruction.split();
            let mut reads = from.iter().flat_map(|o| &o.registers);
            let constant = matches!(instruction.root(), "mov" | "cvt" | "cvta")
                || instruction.opcode.starts_with("ld.param");
            if constant && instruction.guard.is_none() && !reads.any(|r| written.contains(r)) {
                for register in to.iter().flat_map(|o| &o.registers) {
                    used_outside.remove(register);
                }
            }
        }
        let registers: BTreeSet<_> = written.intersection(&used_outside).copied().collect();
        if !registers.is_empty() {
            all.extend(exits.into_iter().map(|from| Carried {
                from,
                registers: registers.clone(),
            }));
        }
    }
    all
}
