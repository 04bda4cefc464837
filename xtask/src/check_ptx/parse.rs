//! PTX text to functions, basic blocks and instructions.
//!
//! Knows the grammar of statements, labels, scopes and operands, not what instructions
//! do; an unknown instruction parses like any other. Touches nothing outside.

use super::ptx::{Block, Function, Instruction, Module, Operand, Register};
use super::registers;
use super::statements::{Statement, statements};
use anyhow::{Context, Result, bail};
use std::collections::{BTreeMap, BTreeSet};

/// Parses one file.
///
/// # Errors
/// The line at which the text is not PTX.
pub fn module(text: &str) -> Result<Module> {
    let mut module = Module::default();
    let mut body: Option<Body> = None;
    for (line, statement) in statements(text)? {
        parse_statement(&mut module, &mut body, line, statement)
            .with_context(|| format!("line {line}"))?;
    }
    if body.is_some() {
        bail!("the file ends inside a body");
    }
    if module.target.is_empty() {
        bail!("no .target: not a PTX file");
    }
    for function in &mut module.functions {
        registers::tidy(function)?;
    }
    Ok(module)
}

fn parse_statement(
    module: &mut Module,
    body: &mut Option<Body>,
    line: usize,
    statement: Statement,
) -> Result<()> {
    match statement {
        Statement::Open(header) => match body {
            Some(open) => open.scopes.push(Scope::default()),
            None => {
                let function = header_of(&header).context("a `{` outside a function")?;
                if header.contains(".noreturn") {
                    module.noreturn.insert(function.name.clone());
                }
                *body = Some(Body::new(function));
            }
        },
        Statement::Close => {
            let open = body.as_mut().context("a `}` with nothing open")?;
            open.scopes.pop();
            if open.scopes.is_empty() {
                module.functions.extend(body.take().map(Body::finish));
            }
        }
        Statement::Label(label) => {
            let open = body.as_mut().context("a label outside a function")?;
            open.label(label);
        }
        Statement::Plain(text) => match body {
            Some(open) => open.statement(line, &text)?,
            None => {
                if let Some(target) = text.strip_prefix(".target") {
                    let first = target.split(',').next().unwrap_or_default();
                    module.target = first.trim().to_owned();
                } else if text.contains(".noreturn") {
                    let declared = header_of(&text).map(|f| f.name);
                    module.noreturn.extend(declared);
                }
            }
        },
    }
    Ok(())
}

/// Name and parameters from `.visible .entry name(...)` or `.func (...) name(...)`.
fn header_of(text: &str) -> Option<Function> {
    let entry = text.contains(".entry ");
    let (_, rest) = text.split_once(if entry { ".entry" } else { ".func" })?;
    let mut rest = rest.trim_start();
    if let Some(returned) = rest.strip_prefix('(') {
        rest = returned.split_once(')')?.1.trim_start();
    }
    let end = rest.find(|c: char| c == '(' || c.is_whitespace());
    let (name, rest) = rest.split_at(end.unwrap_or(rest.len()));
    let list = rest.trim_start().strip_prefix('(').unwrap_or_default();
    let list = list.split(')').next().unwrap_or_default();
    let params = list
        .split(',')
        .filter_map(|p| p.split_whitespace().next_back())
        .map(|p| p.split('[').next().unwrap_or(p).to_owned())
        .collect();
    Some(Function {
        name: name.to_owned(),
        entry,
        params,
        ..Function::default()
    })
}

/// Registers declared between two braces: by name, or `%r<9>` as a prefix.
#[derive(Debug, Default)]
struct Scope {
    names: BTreeSet<String>,
    prefixes: BTreeSet<String>,
    serial: usize,
}

/// A function being read.
struct Body {
    function: Function,
    block: Block,
    scopes: Vec<Scope>,
    serial: usize,
    ids: BTreeMap<(usize, String), Register>,
}

impl Body {
    fn new(function: Function) -> Self {
        Self {
            function,
            block: Block::default(),
            scopes: vec![Scope::default()],
            serial: 0,
            ids: BTreeMap::new(),
        }
    }

    fn finish(mut self) -> Function {
        self.cut();
        self.function
    }

    fn cut(&mut self) {
        if !self.block.labels.is_empty() || !self.block.instructions.is_empty() {
            self.function.blocks.push(std::mem::take(&mut self.block));
        }
    }

    fn label(&mut self, label: String) {
        if !self.block.instructions.is_empty() {
            self.cut();
        }
        self.block.labels.push(label);
    }

    fn statement(&mut self, line: usize, text: &str) -> Result<()> {
        if let Some(names) = text.strip_prefix(".reg") {
            self.declare(names);
        } else if let Some(targets) = text.strip_prefix(".branchtargets") {
            let targets = targets.split(',').map(|t| t.trim().to_owned()).collect();
            let label = self.block.labels.last();
            let label = label.context("`.branchtargets` without a label")?.clone();
            self.function.tables.insert(label, targets);
        } else if text.starts_with(".local") {
            self.function.local_bytes += array_bytes(text)?;
        } else if !text.starts_with('.') {
            let instruction = self.instruction(line, text)?;
            let ends = instruction.ends_block();
            self.block.instructions.push(instruction);
            if ends {
                self.cut();
            }
        }
        Ok(())
    }

    fn declare(&mut self, names: &str) {
        self.serial += 1;
        let serial = self.serial;
        let Some(scope) = self.scopes.last_mut() else {
            return;
        };
        if scope.serial == 0 {
            scope.serial = serial;
        }
        // Behind the type (`.b32`, `.v2 .f32`) stand the names.
        let names = names
            .trim_start()
            .split_once(char::is_whitespace)
            .map_or("", |(_, names)| names);
        for name in names.split(',').map(str::trim) {
            match name.split_once('<') {
                Some((prefix, _)) => scope.prefixes.insert(prefix.to_owned()),
                None => scope.names.insert(name.to_owned()),
            };
        }
    }

    fn instruction(&mut self, line: usize, text: &str) -> Result<Instruction> {
        let negated = text.starts_with("@!");
        let (guard, text) = match text.strip_prefix('@') {
            Some(rest) => {
                let (name, rest) = rest
                    .split_once(char::is_whitespace)
                    .context("a predicate without an instruction")?;
                let name = name.trim_start_matches('!');
                let register = self.register(name);
                let register = register.with_context(|| format!("`{name}` is not declared"))?;
                (Some(register), rest.trim_start())
            }
            None => (None, text),
        };
        let end = text.find(char::is_whitespace).unwrap_or(text.len());
        let (opcode, rest) = text.split_at(end);
        let operands = split_operands(rest).into_iter();
        Ok(Instruction {
            line,
            guard,
            negated,
            opcode: opcode.to_owned(),
            operands: operands.map(|text| self.operand(text)).collect(),
        })
    }

    fn operand(&mut self, text: &str) -> Operand {
        let mut operand = Operand {
            text: text.to_owned(),
            ..Operand::default()
        };
        for word in text.split(|c: char| !(c.is_alphanumeric() || "_$%.".contains(c))) {
            if word.starts_with(|c: char| c.is_ascii_digit()) || word.is_empty() {
                continue;
            }
            // `%v.x` is an element of a vector register, `%tid.x` a special register.
            let name = word.split('.').next().unwrap_or(word);
            if let Some(register) = self.register(name) {
                operand.registers.push(register);
            } else if word.starts_with('%') {
                operand.special.push(word.to_owned());
            }
        }
        operand
    }

    /// The register that a name means here, innermost scope first.
    fn register(&mut self, name: &str) -> Option<Register> {
        let family = name.trim_end_matches(|c: char| c.is_ascii_digit());
        let declares = |s: &&Scope| s.names.contains(name) || s.prefixes.contains(family);
        let serial = self.scopes.iter().rev().find(declares)?.serial;
        let registers = &mut self.function.registers;
        let id = self
            .ids
            .entry((serial, name.to_owned()))
            .or_insert_with(|| {
                registers.push(name.to_owned());
                Register(registers.len() - 1)
            });
        Some(*id)
    }
}

/// Cuts at the commas outside brackets.
fn split_operands(text: &str) -> Vec<&str> {
    let (mut depth, mut start, mut found) = (0i32, 0, Vec::new());
    for (at, c) in text.char_indices() {
        match c {
            '{' | '[' | '(' => depth += 1,
            '}' | ']' | ')' => depth -= 1,
            ',' if depth == 0 => {
                found.push(text[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    found.push(text[start..].trim());
    found.retain(|operand| !operand.is_empty());
    found
}

/// Bytes of `.local .align 8 .b8 name[24]`.
fn array_bytes(text: &str) -> Result<u64> {
    let mut bits = 0;
    for word in text.split_whitespace() {
        if let Some(digits) = word.strip_prefix(['.']).and_then(|w| w.get(1..)) {
            bits = digits.parse().unwrap_or(bits);
        }
    }
    let mut bytes = bits / 8;
    for dimension in text.split('[').skip(1) {
        let digits = dimension.split(']').next().unwrap_or_default();
        let length: u64 = digits
            .parse()
            .with_context(|| format!("the length of `{text}`"))?;
        bytes *= length;
    }
    Ok(bytes)
}
