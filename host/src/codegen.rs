//! Which code generator's PTX a GPU runs, where this binary carries that of more than one.

use crate::error::{Error, Result};
use std::fmt;
use std::str::FromStr;
use std::sync::{Mutex, PoisonError};

/// Chooses for a process that does not call [`choose`].
pub const ENVIRONMENT: &str = "FERROSEQ_CODEGEN";

/// A code generator, or the choice between them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Codegen {
    /// The PTX of the highest architecture that the device takes; of equals, `nvptx`.
    #[default]
    Auto,
    /// Stock rustc's own LLVM backend.
    Nvptx,
    /// The rust-cuda toolchain, on libNVVM.
    Nvvm,
}

impl Codegen {
    /// Whether PTX by the code generator of that name will do.
    pub(crate) fn takes(self, name: &str) -> bool {
        self == Self::Auto || self.name() == name
    }

    fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Nvptx => "nvptx",
            Self::Nvvm => "nvvm",
        }
    }
}

impl fmt::Display for Codegen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What a code generator can be called.
const EXPECTED: &str = "auto, nvptx or nvvm";

impl FromStr for Codegen {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        [Self::Auto, Self::Nvptx, Self::Nvvm]
            .into_iter()
            .find(|codegen| codegen.name() == text)
            .ok_or_else(|| format!("expected {EXPECTED}"))
    }
}

static CHOSEN: Mutex<Option<Codegen>> = Mutex::new(None);

/// Chooses for this process, whatever [`ENVIRONMENT`] says. What a device has loaded
/// already stays loaded.
pub fn choose(codegen: Codegen) {
    *CHOSEN.lock().unwrap_or_else(PoisonError::into_inner) = Some(codegen);
}

/// What was chosen.
///
/// # Errors
/// [`Error::Argument`] if nobody called [`choose`] and [`ENVIRONMENT`] names none.
pub fn chosen() -> Result<Codegen> {
    let chosen = *CHOSEN.lock().unwrap_or_else(PoisonError::into_inner);
    match chosen {
        Some(codegen) => Ok(codegen),
        None => {
            parse(std::env::var_os(ENVIRONMENT).map(|text| text.to_string_lossy().into_owned()))
        }
    }
}

fn parse(text: Option<String>) -> Result<Codegen> {
    match text {
        None => Ok(Codegen::default()),
        Some(text) if text.is_empty() => Ok(Codegen::default()),
        Some(text) => text.parse().map_err(|_| Error::Argument {
            operation: "device",
            argument: ENVIRONMENT,
            found: format!("{text:?}"),
            expected: EXPECTED.to_owned(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written() {
        for codegen in [Codegen::Auto, Codegen::Nvptx, Codegen::Nvvm] {
            assert_eq!(codegen.to_string().parse(), Ok(codegen));
            assert_eq!(parse(Some(codegen.to_string())).ok(), Some(codegen));
        }
        assert_eq!(parse(None).ok(), Some(Codegen::Auto));
        assert_eq!(parse(Some(String::new())).ok(), Some(Codegen::Auto));
        let error = parse(Some("llvm".to_owned())).unwrap_err().to_string();
        assert_eq!(
            error,
            "device: `FERROSEQ_CODEGEN` is \"llvm\", expected auto, nvptx or nvvm"
        );
    }

    #[test]
    fn auto_takes_all_and_the_others_their_own() {
        assert!(Codegen::Auto.takes("nvptx") && Codegen::Auto.takes("nvvm"));
        assert!(Codegen::Nvvm.takes("nvvm") && !Codegen::Nvvm.takes("nvptx"));
        assert!(Codegen::Nvptx.takes("nvptx") && !Codegen::Nvptx.takes("nvvm"));
    }
}
