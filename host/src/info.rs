//! What this build and this machine have.

use serde::Serialize;
use std::fmt;

/// What [`collect`] found.
#[derive(Clone, Debug, Serialize)]
pub struct Info {
    /// The library's version.
    pub version: String,
    /// Threads of the CPU backend.
    pub threads: usize,
}

/// Looks at the machine. A machine without a GPU is not an error.
pub fn collect() -> Info {
    Info {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        threads: rayon::current_num_threads(),
    }
}

impl fmt::Display for Info {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "ferroseq {}", self.version)?;
        write!(f, "cpu      {} threads", self.threads)
    }
}
