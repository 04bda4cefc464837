//! Cuts PTX text into statements: at `;`, labels and scope braces, without comments.
//!
//! The only place that looks at single characters; touches nothing outside.

use anyhow::{Result, bail};

/// What a `{`, `}`, `:` or `;` ends.
#[derive(Debug)]
pub enum Statement {
    /// `{`, with the header in front of it (empty for a scope inside a body).
    Open(String),
    /// `}`
    Close,
    /// `name:`
    Label(String),
    /// A directive or an instruction, without its `;`.
    Plain(String),
}

/// The statements of a file, each with the line it starts on.
///
/// # Errors
/// Text that no `;` ends.
pub fn statements(text: &str) -> Result<Vec<(usize, Statement)>> {
    let mut found = Vec::new();
    let mut buffer = String::new();
    let (mut line, mut start, mut braces) = (1, 1, 0usize);
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        if buffer.trim().is_empty() {
            start = line;
        }
        match c {
            '/' if chars.peek() == Some(&'/') => while chars.next_if(|&c| c != '\n').is_some() {},
            '/' if chars.peek() == Some(&'*') => {
                let mut last = ' ';
                for c in chars.by_ref() {
                    line += usize::from(c == '\n');
                    if last == '*' && c == '/' {
                        break;
                    }
                    last = c;
                }
                buffer.push(' ');
            }
            '"' => {
                buffer.push(c);
                for c in chars.by_ref() {
                    line += usize::from(c == '\n');
                    buffer.push(c);
                    if c == '"' {
                        break;
                    }
                }
            }
            '\n' => {
                line += 1;
                // These directives end with their line.
                let first = buffer.split_whitespace().next().unwrap_or_default();
                if matches!(
                    first,
                    ".version" | ".target" | ".address_size" | ".loc" | ".file"
                ) {
                    take(&mut buffer, |text| {
                        found.push((start, Statement::Plain(text)));
                    });
                }
                buffer.push(' ');
            }
            ';' if braces == 0 => {
                take(&mut buffer, |text| {
                    found.push((start, Statement::Plain(text)))
                });
            }
            ':' if is_label(buffer.trim()) && chars.peek() != Some(&':') => {
                take(&mut buffer, |text| {
                    found.push((start, Statement::Label(text)))
                });
            }
            // Debug information: data, not statements.
            '{' if buffer.trim_start().starts_with(".section") => {
                buffer.clear();
                for c in chars.by_ref().take_while(|&c| c != '}') {
                    line += usize::from(c == '\n');
                }
            }
            '{' if braces == 0 && opens_scope(buffer.trim()) => {
                let header = std::mem::take(&mut buffer).trim().to_owned();
                found.push((start, Statement::Open(header)));
            }
            '}' if braces == 0 => {
                if !buffer.trim().is_empty() {
                    bail!("line {start}: `{}` lacks a `;`", buffer.trim());
                }
                buffer.clear();
                found.push((line, Statement::Close));
            }
            _ => {
                braces += usize::from(c == '{');
                braces -= usize::from(c == '}');
                buffer.push(c);
            }
        }
    }
    if !buffer.trim().is_empty() {
        bail!("line {start}: `{}` has no end", buffer.trim());
    }
    Ok(found)
}

fn take(buffer: &mut String, push: impl FnOnce(String)) {
    let text = std::mem::take(buffer).trim().to_owned();
    if !text.is_empty() {
        push(text);
    }
}

fn is_label(text: &str) -> bool {
    !text.is_empty()
        && text
            .chars()
            .all(|c| c.is_alphanumeric() || "_$%".contains(c))
}

/// Whether a `{` behind this text opens a scope; otherwise it belongs to a vector
/// operand or an initialiser.
fn opens_scope(text: &str) -> bool {
    text.is_empty()
        || (text.starts_with('.')
            && !text.contains('=')
            && (text.contains(".entry") || text.contains(".func")))
}
