//! The PTX in this binary, put there by `build.rs` from what `cargo xtask build-ptx` made.
//! Data only: who loads it is `cuda`, who lists it is `ferroseq info`.

use crate::codegen::{self, Codegen};
use flate2::read::ZlibDecoder;
use serde::Deserialize;
use std::io::{self, Read};

/// One PTX module: one family of kernels for one architecture.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Module {
    /// The code generator that wrote it: `nvptx` or `nvvm`.
    pub(crate) codegen: &'static str,
    /// The architecture: 90 for `sm_90`.
    pub(crate) arch: u32,
    /// The family: `linear_scan`.
    pub(crate) name: &'static str,
    /// The text, compressed.
    pub(crate) zlib: &'static [u8],
}

impl Module {
    /// The text. An error says that the binary is damaged.
    pub(crate) fn ptx(&self) -> io::Result<String> {
        let mut text = String::new();
        ZlibDecoder::new(self.zlib).read_to_string(&mut text)?;
        Ok(text)
    }
}

// MODULES: &[Module] and MANIFESTS: &[(code generator, manifest)]; both empty in a binary
// that was built before any PTX.
include!(concat!(env!("OUT_DIR"), "/embedded.rs"));

/// The module for a device of compute capability `major.minor`: PTX runs on its own
/// architecture and every later one, so the highest that is not above the device's; by the
/// code generator that was chosen. `None` if there is none.
pub(crate) fn best(name: &str, major: u32, minor: u32) -> Option<&'static Module> {
    // Who loads it reports a choice that makes no sense.
    let codegen = codegen::chosen().unwrap_or_default();
    fitting(MODULES, codegen, name, major * 10 + minor)
        .into_iter()
        .next()
}

/// Of `modules`, by that code generator, those that a device takes, best first.
pub(crate) fn fitting<'a>(
    modules: &'a [Module],
    codegen: Codegen,
    name: &str,
    device: u32,
) -> Vec<&'a Module> {
    let mut fitting: Vec<_> = modules
        .iter()
        .filter(|module| module.name == name && module.arch <= device)
        .filter(|module| codegen.takes(module.codegen))
        .collect();
    // Of equals the first stays first: `nvptx` comes before `nvvm` in the list.
    fitting.sort_by_key(|module| std::cmp::Reverse(module.arch));
    fitting
}

/// How the embedded PTX was built.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
pub(crate) struct Origin {
    /// The code generator: `nvptx` or `nvvm`.
    pub(crate) codegen: String,
    /// The compiler's version line.
    pub(crate) compiler: String,
    /// Its LLVM.
    pub(crate) llvm: String,
    /// `release`, or `debug` with source lines.
    pub(crate) profile: String,
}

/// Where the embedded PTX comes from: one for each code generator.
pub(crate) fn origins() -> Vec<Origin> {
    let parse = |(codegen, manifest): &(&str, &str)| {
        serde_json::from_str(manifest).unwrap_or_else(|error| Origin {
            codegen: (*codegen).to_owned(),
            compiler: format!("unknown (its manifest cannot be read: {error})"),
            llvm: "unknown".to_owned(),
            profile: "unknown".to_owned(),
        })
    };
    MANIFESTS.iter().map(parse).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn module(codegen: &'static str, arch: u32, name: &'static str) -> Module {
        Module {
            codegen,
            arch,
            name,
            zlib: &[],
        }
    }

    #[test]
    fn the_highest_architecture_that_the_device_takes() {
        let modules = [
            module("nvptx", 100, "scan"),
            module("nvptx", 80, "scan"),
            module("nvptx", 90, "scan"),
            module("nvptx", 90, "moe"),
            module("nvvm", 90, "scan"),
            module("nvvm", 80, "moe"),
        ];
        let best_by = |codegen, name, device| {
            let fitting = fitting(&modules, codegen, name, device);
            fitting.first().map(|module| (module.codegen, module.arch))
        };
        let best = |name, device| best_by(Codegen::Auto, name, device);
        assert_eq!(best("scan", 75), None);
        assert_eq!(best("scan", 80), Some(("nvptx", 80)));
        assert_eq!(best("scan", 89), Some(("nvptx", 80)));
        assert_eq!(best("scan", 90), Some(("nvptx", 90)));
        assert_eq!(best("scan", 120), Some(("nvptx", 100)));
        assert_eq!(best("moe", 89), Some(("nvvm", 80)));
        assert_eq!(best("none", 90), None);
        let nvvm = |name, device| best_by(Codegen::Nvvm, name, device);
        assert_eq!(nvvm("scan", 120), Some(("nvvm", 90)));
        assert_eq!(nvvm("scan", 89), None);
        assert_eq!(best_by(Codegen::Nvptx, "moe", 89), None);
    }

    #[test]
    fn every_embedded_module_is_whole() {
        assert!(module("nvptx", 90, "scan").ptx().is_err());
        for module in MODULES {
            let target = format!(".target sm_{}", module.arch);
            let ptx = module.ptx().expect("what was compressed");
            assert!(ptx.contains(&target), "{} {target}", module.name);
            let family = gpu_kernels::FAMILIES
                .iter()
                .find(|family| family.module == module.name)
                .expect("an embedded module is a family's");
            for entry in family.entries {
                let symbol = format!(".entry {}(", entry.name);
                assert!(ptx.contains(&symbol), "{symbol}");
            }
            let loaded = best(module.name, module.arch / 10, module.arch % 10);
            assert_eq!(loaded.map(|best| best.arch), Some(module.arch));
        }
    }

    #[test]
    fn every_code_generator_has_its_manifest() {
        let origins = origins();
        assert_eq!(origins.len(), MANIFESTS.len());
        for module in MODULES {
            let mut known = origins.iter();
            let origin = known.find(|origin| origin.codegen == module.codegen);
            let origin = origin.expect("a module's code generator has a manifest");
            assert!(origin.compiler.starts_with("rustc "), "{origin:?}");
        }
    }
}
