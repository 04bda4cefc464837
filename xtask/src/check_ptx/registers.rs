//! From PTX's registers, which are variables, to values written once.
//!
//! The compiler uses one register for values that have nothing to do with each other, such
//! as a constant in one place and a sum in another. What is known of the one must not
//! spoil the other.

use super::cfg;
use super::ptx::{Function, Merge, Operand, Register};
use anyhow::Result;
use std::collections::{BTreeMap, BTreeSet};

/// Gives every write a register of its own and every read that may see several writes a
/// [`Merge`] of them, then puts constants in place of the registers that hold them.
///
/// # Errors
/// A branch to a label that the function does not have.
pub fn tidy(function: &mut Function) -> Result<()> {
    let successors = cfg::successors(function)?;
    let mut writers: Vec<Vec<Place>> = vec![Vec::new(); function.registers.len()];
    for (at, block) in function.blocks.iter().enumerate() {
        for (i, instruction) in block.instructions.iter().enumerate() {
            for register in instruction.split().0.iter().flat_map(|o| &o.registers) {
                writers[register.0].push((at, i));
            }
        }
    }
    for (at, writers) in writers.into_iter().enumerate() {
        if writers.len() > 1 {
            split(function, &successors, Register(at), &writers);
        }
    }
    fold_constants(function);
    Ok(())
}

/// Where an instruction stands: block, place in the block.
type Place = (usize, usize);

/// Splits one register. The register itself stays for reads that no write reaches.
fn split(
    function: &mut Function,
    successors: &[Vec<usize>],
    register: Register,
    writers: &[Place],
) {
    let name = function.registers[register.0].clone();
    let fresh = |registers: &mut Vec<String>| {
        registers.push(name.clone());
        Register(registers.len() - 1)
    };
    let entering = reaching(function, successors, writers);
    let registers = &mut function.registers;
    let own: BTreeMap<Place, Register> = writers.iter().map(|&w| (w, fresh(registers))).collect();
    let mut merged: BTreeMap<BTreeSet<Place>, Register> = BTreeMap::new();
    for (at, block) in function.blocks.iter_mut().enumerate() {
        let mut seen = entering[at].clone();
        for (i, instruction) in block.instructions.iter_mut().enumerate() {
            let written = instruction.split().0.len();
            let guarded = instruction.guard.is_some();
            let (to, from) = instruction.operands.split_at_mut(written);
            let reads = mentions(from, register) || instruction.guard == Some(register);
            if reads && !seen.is_empty() {
                let value = match seen.iter().next() {
                    Some(only) if seen.len() == 1 => own[only],
                    _ => *merged
                        .entry(seen.clone())
                        .or_insert_with(|| fresh(registers)),
                };
                rename(from, register, value);
                if instruction.guard == Some(register) {
                    instruction.guard = Some(value);
                }
            }
            if mentions(to, register) {
                rename(to, register, own[&(at, i)]);
                if !guarded {
                    seen.clear(); // else the old value may stay
                }
                seen.insert((at, i));
            }
        }
    }
    function
        .merges
        .extend(merged.into_iter().map(|(from, into)| Merge {
            into,
            from: from.iter().map(|place| (own[place], place.0)).collect(),
        }));
}

fn mentions(operands: &[Operand], register: Register) -> bool {
    operands.iter().any(|o| o.registers.contains(&register))
}

fn rename(operands: &mut [Operand], old: Register, new: Register) {
    let all = operands.iter_mut().flat_map(|o| &mut o.registers);
    all.filter(|r| **r == old).for_each(|r| *r = new);
}

/// The writers whose value a block may find in the register when it starts.
fn reaching(
    function: &Function,
    successors: &[Vec<usize>],
    writers: &[Place],
) -> Vec<BTreeSet<Place>> {
    let count = function.blocks.len();
    let mut entering = vec![BTreeSet::new(); count];
    let mut open: Vec<usize> = writers.iter().map(|&(at, _)| at).collect();
    while let Some(at) = open.pop() {
        let mut leaving: BTreeSet<Place> = entering[at].clone();
        for &(block, i) in writers.iter().filter(|&&(block, _)| block == at) {
            if function.blocks[block].instructions[i].guard.is_none() {
                leaving.clear();
            }
            leaving.insert((block, i));
        }
        for &to in successors[at].iter().filter(|&&to| to < count) {
            let before = entering[to].len();
            entering[to].extend(leaving.iter().copied());
            if entering[to].len() > before {
                open.push(to);
            }
        }
    }
    entering
}

/// Writes a constant in place of a register that holds it: some instructions take their
/// mask from a register only.
fn fold_constants(function: &mut Function) {
    let mut constants: BTreeMap<Register, Operand> = BTreeMap::new();
    for instruction in function.blocks.iter().flat_map(|b| &b.instructions) {
        if let ([to], [from]) = instruction.split()
            && instruction.root() == "mov"
            && instruction.guard.is_none()
            && from.immediate().is_some()
        {
            constants.extend(to.registers.iter().map(|r| (*r, from.clone())));
        }
    }
    for instruction in function.blocks.iter_mut().flat_map(|b| &mut b.instructions) {
        let written = instruction.split().0.len();
        for operand in &mut instruction.operands[written..] {
            if let [register] = operand.registers[..]
                && operand.text == function.registers[register.0]
                && let Some(constant) = constants.get(&register)
            {
                *operand = constant.clone();
            }
        }
    }
}
