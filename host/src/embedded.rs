//! The PTX that this binary carries. Filled from what `cargo xtask build-ptx` wrote.

/// One PTX module for one architecture.
#[derive(Debug)]
pub struct Module {
    /// The code generator: `nvptx` or `nvvm`.
    pub codegen: &'static str,
    /// The architecture's number: 90 for `sm_90`.
    pub arch: u32,
    /// The family's name.
    pub name: &'static str,
    /// The text.
    pub ptx: &'static str,
}

/// How the PTX was built.
#[derive(Debug)]
pub struct Manifest {
    /// The code generator.
    pub codegen: &'static str,
    /// The compiler and its version.
    pub compiler: &'static str,
}

/// Every module, for every architecture.
pub static MODULES: &[Module] = &[];

/// How they were built; `None` before any was.
pub static MANIFEST: Option<Manifest> = None;

/// The module `name` for the highest architecture that a device of compute capability
/// `major.minor` takes.
pub fn best(name: &str, major: u32, minor: u32) -> Option<&'static Module> {
    MODULES
        .iter()
        .filter(|module| module.name == name && module.arch <= major * 10 + minor)
        .max_by_key(|module| module.arch)
}
