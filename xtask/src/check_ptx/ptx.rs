//! What a PTX file says: functions, basic blocks, instructions, operands.
//!
//! Plain data and questions about it; `parse` makes it, everything else here reads it.

use std::collections::{BTreeMap, BTreeSet};

/// One PTX file.
#[derive(Debug, Default)]
pub struct Module {
    /// The `.target`, for example `sm_90`.
    pub target: String,
    /// Entry points and device functions that have a body.
    pub functions: Vec<Function>,
    /// Names of the functions, with or without a body, that never return.
    pub noreturn: BTreeSet<String>,
}

/// An entry point or a device function.
#[derive(Debug, Default)]
pub struct Function {
    /// Its symbol.
    pub name: String,
    /// A kernel, not a device function.
    pub entry: bool,
    /// Names of its own parameters.
    pub params: BTreeSet<String>,
    /// Bytes of `.local` arrays it declares: what LLVM could not keep in registers.
    pub local_bytes: u64,
    /// The first block is where it starts.
    pub blocks: Vec<Block>,
    /// Names of its registers; a [`Register`] is an index here.
    pub registers: Vec<String>,
    /// Registers that stand for whichever of several was written last.
    pub merges: Vec<Merge>,
    /// The targets of each `brx.idx` table, by the table's label.
    pub tables: BTreeMap<String, Vec<String>>,
}

/// Instructions that run one after the other; only the last can branch.
#[derive(Debug, Default)]
pub struct Block {
    /// Labels at its start.
    pub labels: Vec<String>,
    /// In order.
    pub instructions: Vec<Instruction>,
}

/// An index into [`Function::registers`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Register(pub usize);

/// What a read sees that several writes reach. Every other register is written once.
#[derive(Clone, Debug)]
pub struct Merge {
    /// The register that is read.
    pub into: Register,
    /// The registers that were written, each with the block of the write.
    pub from: Vec<(Register, usize)>,
}

/// `@%p1 add.s32 %r1, %r2, 3;`
#[derive(Clone, Debug)]
pub struct Instruction {
    /// Where it stands in the file, from 1.
    pub line: usize,
    /// The predicate in front of it.
    pub guard: Option<Register>,
    /// Whether it runs where that predicate is false.
    pub negated: bool,
    /// With its modifiers, `add.s32`.
    pub opcode: String,
    /// In order.
    pub operands: Vec<Operand>,
}

/// One operand, as written, with the registers in it.
#[derive(Clone, Debug, Default)]
pub struct Operand {
    /// As written, without spaces around it.
    pub text: String,
    /// Registers, in order.
    pub registers: Vec<Register>,
    /// Special registers (`%tid.x`), in order.
    pub special: Vec<String>,
}

impl Instruction {
    /// The parts between the opcode's dots.
    pub fn parts(&self) -> impl Iterator<Item = &str> {
        self.opcode.split('.')
    }

    /// The first part: `ld` of `ld.global.u32`.
    pub fn root(&self) -> &str {
        self.opcode.split('.').next().unwrap_or_default()
    }

    /// Whether one of the parts behind the first is `part`.
    pub fn has(&self, part: &str) -> bool {
        self.parts().skip(1).any(|p| p == part)
    }

    /// The operands it writes: the first or none.
    pub fn split(&self) -> (&[Operand], &[Operand]) {
        let none = matches!(
            self.root(),
            "st" | "red"
                | "bra"
                | "brx"
                | "ret"
                | "exit"
                | "trap"
                | "brkpt"
                | "call"
                | "membar"
                | "fence"
                | "nanosleep"
                | "prefetch"
                | "prefetchu"
                | "cp"
                | "stmatrix"
                | "wgmma"
                | "setmaxnreg"
                | "griddepcontrol"
                | "discard"
                | "applypriority"
                | "pmevent"
        ) || (matches!(self.root(), "bar" | "barrier") && !self.has("red"))
            || self
                .operands
                .first()
                .is_none_or(|o| o.text.starts_with('['));
        self.operands.split_at(usize::from(!none))
    }

    /// Whether control may leave the line of instructions here.
    pub fn ends_block(&self) -> bool {
        matches!(self.root(), "bra" | "brx" | "ret" | "exit")
    }

    /// The function that a `call` names, if it names one.
    pub fn callee(&self) -> Option<&str> {
        if self.root() != "call" {
            return None;
        }
        self.operands
            .iter()
            .find(|o| !o.text.starts_with('('))
            .map(|o| o.text.as_str())
    }

    /// As written, for messages.
    pub fn text(&self) -> String {
        let operands: Vec<_> = self.operands.iter().map(|o| o.text.as_str()).collect();
        format!("{} {}", self.opcode, operands.join(", "))
            .trim_end()
            .to_owned()
    }
}

impl Operand {
    /// Its value, if it is an integer constant.
    pub fn immediate(&self) -> Option<i64> {
        let text = self.text.trim_end_matches('U');
        let (negative, digits) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let value = match digits.strip_prefix("0x").or(digits.strip_prefix("0X")) {
            Some(hex) => u64::from_str_radix(hex, 16).ok()? as i64,
            None => digits.parse::<u64>().ok()? as i64,
        };
        Some(if negative {
            value.wrapping_neg()
        } else {
            value
        })
    }
}
