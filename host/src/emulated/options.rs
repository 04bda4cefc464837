//! How the emulator runs, and the environment variables that say so.

use crate::error::{Error, Result};

/// How an emulated device runs kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// The schedule: order of threads and blocks, how many run at once, where they switch.
    /// 0 is the plain one. `FERROSEQ_EMU_SEED`.
    pub seed: u64,
    /// What [`Device::alloc`](crate::Device::alloc) returns counts as unwritten: a kernel
    /// that reads it before anything was written there fails, and so does reading a buffer
    /// of which only a part was written. Finds outputs that are read, or written in part;
    /// off by default, because the buffer's owner may rely on its zeros.
    /// `FERROSEQ_EMU_POISON`, 0 or 1.
    pub poison: bool,
    /// Look for data races. `FERROSEQ_EMU_RACES`, 0 or 1.
    pub races: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            seed: 0,
            poison: false,
            races: true,
        }
    }
}

impl Options {
    /// The defaults, changed by the environment variables named above.
    ///
    /// # Errors
    /// [`Error::Argument`] naming a variable whose value makes no sense.
    pub fn from_env() -> Result<Self> {
        read().map_err(error)
    }
}

/// Variable, what it holds, what it should.
pub(super) type Wrong = (&'static str, String, &'static str);

pub(super) fn error((argument, found, expected): Wrong) -> Error {
    Error::Argument {
        operation: "emulator",
        argument,
        found: format!("{found:?}"),
        expected: expected.to_owned(),
    }
}

pub(super) fn read() -> Result<Options, Wrong> {
    parse(|name| std::env::var_os(name).map(|value| value.to_string_lossy().into_owned()))
}

pub(super) fn parse(get: impl Fn(&str) -> Option<String>) -> Result<Options, Wrong> {
    let flag = |name: &'static str, default: bool| match get(name).as_deref() {
        None | Some("") => Ok(default),
        Some("0") => Ok(false),
        Some("1") => Ok(true),
        Some(found) => Err((name, found.to_owned(), "0 or 1")),
    };
    const SEED: &str = "FERROSEQ_EMU_SEED";
    let default = Options::default();
    let seed = match get(SEED) {
        None => default.seed,
        Some(text) if text.is_empty() => default.seed,
        Some(text) => text
            .parse()
            .map_err(|_| (SEED, text, "a number from 0 to 18446744073709551615"))?,
    };
    Ok(Options {
        seed,
        poison: flag("FERROSEQ_EMU_POISON", default.poison)?,
        races: flag("FERROSEQ_EMU_RACES", default.races)?,
    })
}
