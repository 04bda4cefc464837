//! What goes to stdout and stderr.

use std::io::{ErrorKind, Write, stderr, stdout};

/// Prints to stdout. A reader that has gone away (`| head`) is no failure.
pub fn print(text: &str) -> anyhow::Result<()> {
    let mut out = stdout().lock();
    match writeln!(out, "{text}").and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(()),
    }
}

/// Prints an error and its causes to stderr.
pub fn error(error: &anyhow::Error) {
    let mut out = stderr().lock();
    // Where stderr is closed there is nobody to tell.
    let _ = writeln!(out, "error: {error}");
    for cause in error.chain().skip(1) {
        let _ = writeln!(out, "  caused by: {cause}");
    }
}
