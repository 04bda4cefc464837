//! Running other programs, and saying plainly what failed.

use anyhow::{Context, Result, bail};
use std::ffi::OsStr;
use std::path::Path;
use std::process::{Command, Stdio};

/// One run of a program.
#[derive(Debug)]
pub struct Run(Command);

impl Run {
    /// A program, by name or path.
    pub fn new(program: impl AsRef<OsStr>) -> Self {
        Self(Command::new(program))
    }

    /// The cargo that runs xtask.
    pub fn cargo() -> Self {
        Self::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
    }

    /// Adds an argument.
    pub fn arg(mut self, arg: impl AsRef<OsStr>) -> Self {
        self.0.arg(arg);
        self
    }

    /// Adds arguments.
    pub fn args<S: AsRef<OsStr>>(mut self, args: impl IntoIterator<Item = S>) -> Self {
        self.0.args(args);
        self
    }

    /// Sets an environment variable.
    pub fn env(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        self.0.env(name, value);
        self
    }

    /// Hides an environment variable.
    pub fn without_env(mut self, name: impl AsRef<OsStr>) -> Self {
        self.0.env_remove(name);
        self
    }

    /// Runs in that folder.
    pub fn dir(mut self, directory: &Path) -> Self {
        self.0.current_dir(directory);
        self
    }

    /// The command line, as a person would type it.
    pub fn line(&self) -> String {
        let quote = |text: &OsStr| {
            let text = text.to_string_lossy();
            let plain = |c: char| c.is_ascii_alphanumeric() || "-_=/.,:+@%".contains(c);
            if !text.is_empty() && text.chars().all(plain) {
                text.into_owned()
            } else {
                format!("'{text}'")
            }
        };
        let mut words = vec![quote(self.0.get_program())];
        words.extend(self.0.get_args().map(quote));
        words.join(" ")
    }

    /// Runs it in sight of the user.
    pub fn show(mut self) -> Result<()> {
        let status = self.0.status().with_context(|| self.no_start())?;
        if !status.success() {
            bail!("`{}` failed ({status})", self.line());
        }
        Ok(())
    }

    /// Runs it out of sight; gives what it wrote to its standard output. If it fails, the
    /// error carries what it wrote to its standard error.
    pub fn capture(self) -> Result<String> {
        self.capture_both().map(|(stdout, _)| stdout)
    }

    /// [`capture`](Self::capture), with what it wrote to its standard error beside it.
    pub fn capture_both(mut self) -> Result<(String, String)> {
        let output = self
            .0
            .stdin(Stdio::null())
            .output()
            .with_context(|| self.no_start())?;
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        if !output.status.success() {
            bail!(
                "`{}` failed ({})\n{}",
                self.line(),
                output.status,
                stderr.trim_end()
            );
        }
        Ok((String::from_utf8_lossy(&output.stdout).into_owned(), stderr))
    }

    /// Runs it in sight of the user, but for its standard output, which is returned.
    pub fn capture_stdout(mut self) -> Result<String> {
        let output = self
            .0
            .stderr(Stdio::inherit())
            .output()
            .with_context(|| self.no_start())?;
        if !output.status.success() {
            bail!("`{}` failed ({})", self.line(), output.status);
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    fn no_start(&self) -> String {
        format!("could not start `{}`", self.line())
    }
}

/// Says what begins now. To standard error: standard output is for results.
pub fn step(text: impl std::fmt::Display) {
    eprintln!("==> {text}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_name_the_command_and_carry_its_words() {
        let error = Run::new("sh")
            .args(["-c", "echo no such thing >&2; exit 3"])
            .capture()
            .unwrap_err()
            .to_string();
        assert!(error.contains("`sh -c 'echo no such thing"), "{error}");
        assert!(error.contains("exit status: 3"), "{error}");
        assert!(error.ends_with("no such thing"), "{error}");
    }

    #[test]
    fn a_missing_program_is_named() {
        let error = Run::new("no-such-program").arg("x").show().unwrap_err();
        assert_eq!(error.to_string(), "could not start `no-such-program x`");
    }

    #[test]
    fn the_environment_can_be_hidden() {
        let run = Run::new("sh")
            .args(["-c", "echo ${FIRST-none} ${SECOND-none}"])
            .env("FIRST", "1")
            .env("SECOND", "2")
            .without_env("SECOND");
        assert_eq!(run.capture().unwrap(), "1 none\n");
    }
}
