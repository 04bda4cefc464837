//! What one instruction's result is, given what is known of its operands.
//!
//! An instruction that is not listed differs wherever one of its operands does.

use super::count::space;
use super::ptx::{Function, Instruction, Operand};
use super::value::Value;

/// The value that an instruction writes; `known` says what is known of each register.
pub fn result(function: &Function, known: &[Value], instruction: &Instruction) -> Value {
    let (_, from) = instruction.split();
    let operand = |at: usize| {
        let given = from.get(at);
        given.map_or(Value::BLOCK, |o| operand_value(known, o))
    };
    let immediate = |at: usize| from.get(at).and_then(Operand::immediate);
    let any = || {
        let operands = from.iter().map(|o| operand_value(known, o));
        operands.fold(Value::BLOCK, Value::mix)
    };
    if let Some(value) = across_lanes(instruction, from, &operand) {
        return value;
    }
    let (a, b) = (operand(0), operand(1));
    match instruction.root() {
        "ld" | "ldu" => load(function, instruction, from, a),
        "selp" => a.join(b).under(operand(2).divergence()),
        "setp" => compare(instruction, from, &operand).mix(operand_or_none(from, 2, &operand)),
        _ if !is_integer(instruction) => any(),
        // Into a vector, the value goes in pieces.
        "mov" if instruction.operands[0].text.starts_with('{') => any(),
        "mov" => a,
        "cvt" if is_cvt_of_integers(instruction) => a,
        "add" => a.add(b, false),
        "sub" => a.add(b, true),
        "mul" if !instruction.has("hi") => product(&operand, &immediate),
        "mad" if !instruction.has("hi") => product(&operand, &immediate).add(operand(2), false),
        "shl" => a.shl(b, immediate(1)),
        "shr" => a.shr(b, immediate(1)),
        "bfe" if is_unsigned(instruction) && immediate(2).is_some() => a.shr(b, immediate(1)),
        "and" => match immediate(0) {
            Some(mask) => b.and(a, Some(mask)),
            None => a.and(b, immediate(1)),
        },
        "or" | "xor" => a.or(b),
        "min" | "max" => a.min_max(b),
        "div" if is_unsigned(instruction) => a.div(b),
        "rem" if is_unsigned(instruction) => a.rem(b),
        _ => any(),
    }
}

/// Instructions that look at other lanes, and atomics.
fn across_lanes(
    instruction: &Instruction,
    from: &[Operand],
    operand: &impl Fn(usize) -> Value,
) -> Option<Value> {
    let full = |at: usize| from.get(at).is_some_and(is_full_mask);
    let warp_if = |yes: bool| if yes { Value::WARP } else { Value::Lanes };
    Some(match instruction.root() {
        // Operands: value, source lane, clamp, mask.
        "shfl" => {
            let whole = instruction.has("idx")
                && full(3)
                && from.get(2).and_then(Operand::immediate) == Some(31);
            match operand(1) {
                Value::Unset => Value::Unset,
                Value::Uniform { .. } => warp_if(whole),
                _ => Value::Lanes,
            }
        }
        "vote" => warp_if(full(1)),
        "match" => warp_if(instruction.has("all") && full(1)),
        "redux" => warp_if(full(1)),
        // The reduction of a block barrier: every thread gets the same.
        "bar" | "barrier" => Value::BLOCK,
        "atom" | "activemask" | "elect" | "mbarrier" => Value::Lanes,
        // They read a carry that no operand names.
        "addc" | "subc" | "madc" => Value::Lanes,
        _ => return None,
    })
}

/// What a load gives. Read at one address by all, plain global and shared memory is taken
/// to hold one value: anything else is a data race. Loads made for races (relaxed,
/// acquire, volatile) may see different values; so may generic and local ones, because
/// local memory is each thread's own.
fn load(function: &Function, instruction: &Instruction, from: &[Operand], at: Value) -> Value {
    let racing = ["relaxed", "acquire", "volatile", "mmio"];
    match space(instruction) {
        "param" if !function.entry => Value::Lanes,
        "param" => {
            let name = from.first().map_or("", |o| o.text.as_str());
            let name = name.trim_matches(['[', ']']).split('+').next();
            let own = name.is_some_and(|name| function.params.contains(name.trim()));
            let by_register = from.first().is_some_and(|o| !o.registers.is_empty());
            // Any other name is what a call returned.
            if own || by_register {
                at.opaque()
            } else {
                Value::Lanes
            }
        }
        "global" | "shared" | "const" if !racing.iter().any(|r| instruction.has(r)) => at.opaque(),
        _ => Value::Lanes,
    }
}

fn product(operand: &impl Fn(usize) -> Value, immediate: &impl Fn(usize) -> Option<i64>) -> Value {
    match immediate(0) {
        Some(factor) => operand(1).mul(operand(0), Some(factor)),
        None => operand(0).mul(operand(1), immediate(1)),
    }
}

fn compare(
    instruction: &Instruction,
    from: &[Operand],
    operand: &impl Fn(usize) -> Value,
) -> Value {
    let (mut a, mut b, mut bound) = (operand(0), operand(1), from.get(1));
    let mut how = instruction.parts().nth(1).unwrap_or_default();
    if !is_integer(instruction) {
        return a.mix(b);
    }
    if matches!(a, Value::Uniform { .. }) {
        (a, b, bound) = (b, a, from.first());
        how = match how {
            "lt" | "lo" => "gt",
            "le" | "ls" => "ge",
            "gt" | "hi" => "lt",
            "ge" | "hs" => "le",
            other => other,
        };
    }
    match how {
        "lt" | "lo" | "ge" | "hs" => a.compare(b, None),
        "le" | "ls" | "gt" | "hi" => match bound.and_then(Operand::immediate) {
            Some(bound) => a.compare(b, Some(bound)),
            None => a.compare(b.opaque(), None),
        },
        _ => a.mix(b),
    }
}

fn operand_or_none(from: &[Operand], at: usize, operand: &impl Fn(usize) -> Value) -> Value {
    if at < from.len() {
        operand(at)
    } else {
        Value::BLOCK
    }
}

/// What is known of an operand.
pub fn operand_value(known: &[Value], operand: &Operand) -> Value {
    if let Some(value) = operand.immediate() {
        return Value::constant(value);
    }
    match (operand.registers.as_slice(), operand.special.as_slice()) {
        ([register], []) if !operand.text.contains(['{', '[']) => known[register.0],
        (registers, special) => {
            let registers = registers.iter().map(|r| known[r.0]);
            let special = special.iter().map(|name| special_register(name));
            let mut all = registers.chain(special);
            match (all.next(), operand.text.starts_with('%')) {
                (Some(only), true) => only,
                (first, _) => first.into_iter().chain(all).fold(Value::BLOCK, Value::mix),
            }
        }
    }
}

/// Threads of a block are numbered along x, so 32 neighbours in x are a warp.
fn special_register(name: &str) -> Value {
    let warp_lanes = 5;
    match name.trim_end_matches(".x") {
        "%tid" | "%laneid" => Value::Aligned(warp_lanes),
        "%warpid" => Value::WARP,
        "%ntid" | "%nctaid" | "%ctaid" | "%nwarpid" | "%gridid" | "%smid" | "%nsmid"
        | "%dynamic_smem_size" | "%total_smem_size" => Value::BLOCK,
        other => {
            let block_wide = ["%ntid.", "%nctaid.", "%ctaid.", "%cluster", "%ncluster"];
            if block_wide.iter().any(|prefix| other.starts_with(prefix)) {
                Value::BLOCK
            } else {
                Value::Lanes
            }
        }
    }
}

/// Whether an operand is the constant mask of all 32 lanes.
pub fn is_full_mask(operand: &Operand) -> bool {
    operand
        .immediate()
        .is_some_and(|mask| mask as u32 == u32::MAX)
}

fn last_type(instruction: &Instruction) -> &str {
    instruction.parts().last().unwrap_or_default()
}

fn is_integer(instruction: &Instruction) -> bool {
    let last = last_type(instruction);
    last.starts_with(['u', 's'])
        || (last.starts_with('b') && last[1..].parse::<u32>().is_ok())
        || last == "pred"
}

fn is_unsigned(instruction: &Instruction) -> bool {
    last_type(instruction).starts_with('u')
}

fn is_cvt_of_integers(instruction: &Instruction) -> bool {
    instruction
        .parts()
        .skip(1)
        .all(|p| p.len() <= 3 && p.starts_with(['u', 's', 'b']) && p != "sat")
}
