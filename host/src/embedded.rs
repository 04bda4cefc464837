//! The PTX in this binary. Data only: who loads it is `cuda`, who lists it is `ferroseq info`.

/// One PTX module: one family of kernels for one architecture.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Module {
    /// The code generator that wrote it: `nvptx` or `nvvm`.
    pub(crate) codegen: &'static str,
    /// The architecture: 90 for `sm_90`.
    pub(crate) arch: u32,
    /// The family: `linear_scan`.
    pub(crate) name: &'static str,
    /// The text.
    pub(crate) ptx: &'static str,
}

/// Nothing is embedded yet.
pub(crate) static MODULES: &[Module] = &[];

/// The module for a device of compute capability `major.minor`; `None` if there is none.
pub(crate) fn best(name: &str, major: u32, minor: u32) -> Option<&'static Module> {
    MODULES
        .iter()
        .rev()
        .filter(|module| module.name == name && module.arch <= major * 10 + minor)
        .max_by_key(|module| module.arch)
}

/// How the embedded PTX was built.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Origin {
    /// The code generator: `nvptx` or `nvvm`.
    pub(crate) codegen: String,
    /// The compiler's version line.
    pub(crate) compiler: String,
    /// Its LLVM.
    pub(crate) llvm: String,
    /// `release`, or `debug` with line tables.
    pub(crate) profile: String,
}

/// Where the embedded PTX comes from: one for each code generator.
pub(crate) fn origins() -> Vec<Origin> {
    Vec::new()
}
