//! Values that are equal although they were computed in several places.
//!
//! Optimisers copy a computation into both arms of a branch, and behind `a == b` they write
//! the one for the other. Which of several equal values a thread has tells it nothing.

use super::cfg::Cfg;
use super::ptx::{Function, Instruction, Operand, Register};
use std::collections::{BTreeMap, BTreeSet};

/// An instruction: its block, and its place there.
type Place = (usize, usize);

/// Writes of one value that a merge sees.
#[derive(Debug)]
pub struct Group {
    /// Their numbers among the merge's writes.
    pub writes: Vec<usize>,
    /// The block where the paths from all of them meet.
    pub meeting: usize,
}

/// The groups of each merge of a function.
pub fn groups(function: &Function, cfg: &Cfg) -> Vec<Vec<Group>> {
    let mut finder = Finder::new(function, cfg);
    finder.compare();
    (0..function.merges.len())
        .map(|merge| finder.groups(merge))
        .collect()
}

/// How deep an expression is followed.
const DEPTH: usize = 16;

/// A write: its block, and the instruction that computed what it writes.
#[derive(Clone, Copy)]
struct Write {
    block: usize,
    computed: Place,
}

struct Finder<'a> {
    function: &'a Function,
    cfg: &'a Cfg,
    /// Where each register is written; merges and registers nobody writes have no place.
    writers: BTreeMap<Register, Place>,
    /// The writes of each merge.
    merges: BTreeMap<Register, usize>,
    /// The number of each expression.
    expressions: BTreeMap<String, usize>,
    keys: BTreeMap<Register, usize>,
    /// For each block that only threads enter for which two registers are equal: those, and
    /// the block that ends in the comparison.
    equal: BTreeMap<usize, (Register, Register, usize)>,
}

impl<'a> Finder<'a> {
    fn new(function: &'a Function, cfg: &'a Cfg) -> Self {
        let mut writers = BTreeMap::new();
        for (at, block) in function.blocks.iter().enumerate() {
            for (i, instruction) in block.instructions.iter().enumerate() {
                for register in instruction.split().0.iter().flat_map(|o| &o.registers) {
                    writers.insert(*register, (at, i));
                }
            }
        }
        let merges = function.merges.iter().enumerate();
        Self {
            function,
            cfg,
            writers,
            merges: merges.map(|(at, merge)| (merge.into, at)).collect(),
            expressions: BTreeMap::new(),
            keys: BTreeMap::new(),
            equal: BTreeMap::new(),
        }
    }

    fn instruction(&self, (block, at): Place) -> &'a Instruction {
        &self.function.blocks[block].instructions[at]
    }

    /// A number that two registers share only if they were computed alike from the same
    /// registers, each written in one place.
    fn key(&mut self, register: Register, depth: usize) -> Option<usize> {
        if let Some(key) = self.keys.get(&register) {
            return Some(*key);
        }
        let instruction = self.instruction(*self.writers.get(&register)?);
        let written = self.expression(instruction, depth);
        let text = written.unwrap_or_else(|| format!("register {}", register.0));
        let next = self.expressions.len();
        let key = *self.expressions.entry(text).or_insert(next);
        self.keys.insert(register, key);
        Some(key)
    }

    fn expression(&mut self, instruction: &Instruction, depth: usize) -> Option<String> {
        let (to, from) = instruction.split();
        if depth == DEPTH || !is_plain(instruction) || to.len() != 1 {
            return None;
        }
        let mut text = instruction.opcode.clone();
        for operand in from {
            text += " ";
            match plain_register(operand) {
                Some(register) => text += &format!("#{}", self.key(register, depth + 1)?),
                None if operand.registers.is_empty() => text += &operand.text,
                None => return None,
            }
        }
        Some(text)
    }

    fn compare(&mut self) {
        for block in 0..self.function.blocks.len() {
            if let Some((target, a, b)) = self.equal_behind(block) {
                self.equal.insert(target, (a, b, block));
            }
        }
    }

    /// What a register equals in a block, by the comparisons before it: a register, and the
    /// block at whose end it had that value.
    fn equals(&mut self, register: Register, block: usize) -> Vec<(Register, usize)> {
        let Some(key) = self.key(register, 0) else {
            return Vec::new();
        };
        let above: Vec<usize> = self.cfg.dominators(block).collect();
        let mut found = Vec::new();
        for (a, b, compared) in above
            .iter()
            .filter_map(|at| self.equal.get(at).copied())
            .collect::<Vec<_>>()
        {
            for (one, other) in [(a, b), (b, a)] {
                if other != register && self.key(one, 0) == Some(key) {
                    found.push((other, compared));
                }
            }
        }
        found
    }

    /// The block that only threads enter for which two registers are equal, by the branch
    /// at the end of `block`.
    fn equal_behind(&self, block: usize) -> Option<(usize, Register, Register)> {
        let last = self.function.blocks[block].instructions.last()?;
        let guard = last.guard.filter(|_| last.root() == "bra")?;
        let compare = self.instruction(*self.writers.get(&guard)?);
        let parts: Vec<&str> = compare.parts().collect();
        let (["setp", how @ ("eq" | "ne"), kind], [a, b]) = (parts.as_slice(), compare.split().1)
        else {
            return None;
        };
        if compare.guard.is_some() || kind.starts_with('f') {
            return None;
        }
        let (to, next) = self.cfg.branch(block)?;
        let taken = (*how == "eq") != last.negated;
        let target = if taken { to } else { next };
        let alone = to != next && self.cfg.predecessors(target) == 1;
        alone.then_some((target, plain_register(a)?, plain_register(b)?))
    }

    fn groups(&mut self, merge: usize) -> Vec<Group> {
        let mut shapes: BTreeMap<String, Vec<(usize, Write)>> = BTreeMap::new();
        for (at, (register, _)) in self.function.merges[merge].from.iter().enumerate() {
            if let Some(write) = self.write(*register) {
                let instruction = self.instruction(write.computed);
                let mut shape = instruction.opcode.clone();
                for operand in instruction.split().1 {
                    // Another constant is another value.
                    let constant = operand.registers.is_empty();
                    shape += if constant { &operand.text } else { " register" };
                }
                shapes.entry(shape).or_default().push((at, write));
            }
        }
        let mut found = Vec::new();
        for (writes, places) in shapes
            .into_values()
            .map(|g| g.into_iter().unzip::<_, _, Vec<_>, Vec<_>>())
        {
            let operands = self.instruction(places[0].computed).split().1.len();
            if places.len() < 2 || !(0..operands).all(|at| self.alike(&places, at)) {
                continue;
            }
            let blocks = places.iter().map(|write| write.block);
            if let Some(meeting) = self.cfg.meeting(blocks) {
                found.push(Group { writes, meeting });
            }
        }
        found
    }

    /// Where a register is written, and where what it then holds was computed.
    fn write(&self, register: Register) -> Option<Write> {
        let place = *self.writers.get(&register)?;
        let mut computed = place;
        for _ in 0..DEPTH {
            let instruction = self.instruction(computed);
            if !is_plain(instruction) {
                return None;
            }
            let source = (instruction.root() == "mov").then(|| instruction.split().1);
            let source = source.and_then(|from| plain_register(from.first()?));
            match source.and_then(|source| self.writers.get(&source)) {
                Some(&before) if is_plain(self.instruction(before)) => computed = before,
                _ => break,
            }
        }
        Some(Write {
            block: place.0,
            computed,
        })
    }

    /// Whether several writes were computed from the same value in operand `at`.
    fn alike(&mut self, writes: &[Write], at: usize) -> bool {
        let operand = |write: &Write| &self.instruction(write.computed).split().1[at];
        let operands: Vec<&Operand> = writes.iter().map(operand).collect();
        if operands.iter().all(|o| o.registers.is_empty()) {
            return operands.iter().all(|o| o.text == operands[0].text);
        }
        let registers: Option<Vec<Register>> = operands.iter().map(|o| plain_register(o)).collect();
        let Some(registers) = registers else {
            return false;
        };
        let first = self.key(registers[0], 0);
        if first.is_some() && registers.iter().all(|r| self.key(*r, 0) == first) {
            return true;
        }
        if registers.iter().all(|r| *r == registers[0]) && self.is_final(registers[0], writes) {
            return true;
        }
        let mut equal = Vec::new();
        for (write, register) in writes.iter().zip(&registers) {
            equal.push(self.equals(*register, write.block));
        }
        let candidates: BTreeSet<_> = equal.iter().flatten().copied().collect();
        candidates.into_iter().any(|(other, compared)| {
            let mut all = writes.iter().zip(&registers).zip(&equal);
            all.all(|((write, &register), equal)| {
                equal.contains(&(other, compared))
                    || (register == other && self.still(other, compared, write.computed.0))
            })
        })
    }

    /// Whether a merge is not written again behind any of these writes, so that all of them
    /// saw one value of it.
    fn is_final(&self, register: Register, writes: &[Write]) -> bool {
        let Some(&merge) = self.merges.get(&register) else {
            return false;
        };
        let from = &self.function.merges[merge].from;
        writes.iter().all(|write| {
            // Up to nowhere: all that can still come.
            let behind = self.cfg.between(write.computed.0, usize::MAX);
            !from.iter().any(|(_, block)| behind.contains(block))
        })
    }

    /// Whether a register has in `block` still the value it had at the end of `compared`.
    fn still(&self, register: Register, compared: usize, block: usize) -> bool {
        if !self.cfg.dominators(block).any(|above| above == compared) {
            return false;
        }
        let Some(&merge) = self.merges.get(&register) else {
            return true;
        };
        let written = self.function.merges[merge].from.iter();
        let behind = self.cfg.between(compared, compared);
        let mut written = written
            .map(|(_, block)| *block)
            .filter(|b| behind.contains(b));
        !written.any(|write| self.cfg.between(write, compared).contains(&block))
    }
}

/// Whether an instruction's result depends on its operands alone.
fn is_plain(instruction: &Instruction) -> bool {
    let constant = |name: &String| {
        let family = name.split('.').next().unwrap_or_default();
        ["%tid", "%ntid", "%ctaid", "%nctaid", "%laneid"].contains(&family)
    };
    let parameter = instruction.opcode.starts_with("ld.param");
    let arithmetic = matches!(
        instruction.root(),
        "add"
            | "sub"
            | "mul"
            | "mad"
            | "shl"
            | "shr"
            | "and"
            | "or"
            | "xor"
            | "not"
            | "neg"
            | "min"
            | "max"
            | "setp"
            | "selp"
            | "cvt"
            | "mov"
            | "popc"
            | "clz"
            | "div"
            | "rem"
    );
    let mut special = instruction.operands.iter().flat_map(|o| &o.special);
    instruction.guard.is_none()
        && (arithmetic || parameter)
        && special.all(constant)
        && (instruction.operands.first()).is_some_and(|to| plain_register(to).is_some())
}

/// The register that an operand is, if it is no more than that.
fn plain_register(operand: &Operand) -> Option<Register> {
    let more = operand.text.contains(['{', '[', '|', '!', '-', '+']);
    match operand.registers[..] {
        [register] if !more => Some(register),
        _ => None,
    }
}
