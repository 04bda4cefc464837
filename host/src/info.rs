//! What `ferroseq info` shows: this binary, the driver, the GPUs, the embedded PTX.

use crate::cuda::{Properties, properties};
use crate::embedded;
use serde::Serialize;
use std::fmt;

/// Everything about the machine and the binary that decides where and how kernels run.
#[derive(Clone, Debug, Serialize)]
pub struct Info {
    /// Ferroseq's version.
    pub version: &'static str,
    /// Threads of the CPU backend.
    pub cpu_threads: usize,
    /// The NVIDIA driver.
    pub driver: Driver,
    /// The GPUs it sees, in its order.
    pub gpus: Vec<Gpu>,
    /// The PTX in this binary.
    pub ptx: Ptx,
}

/// The NVIDIA driver.
#[derive(Clone, Debug, Serialize)]
pub struct Driver {
    /// The library it was loaded from; `None` without a driver.
    pub library: Option<String>,
    /// Its own version, e.g. `580.82.07`, where the kernel module tells it.
    pub version: Option<String>,
    /// The highest CUDA version it serves, e.g. `13.0`.
    pub cuda_version: Option<String>,
    /// Why it cannot be used; `None` if it can.
    pub problem: Option<String>,
}

/// A GPU and the PTX it would run.
#[derive(Clone, Debug, Serialize)]
pub struct Gpu {
    /// What the driver says of it.
    #[serde(flatten)]
    pub properties: Properties,
    /// Of each embedded module, the architecture that would be loaded.
    pub chosen: Vec<Chosen>,
}

/// The architecture chosen for one module.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Chosen {
    /// The module.
    pub module: &'static str,
    /// E.g. `sm_90`; `None` if the GPU takes none of those embedded.
    pub arch: Option<String>,
    /// Its code generator.
    pub codegen: Option<&'static str>,
}

/// The PTX in this binary.
#[derive(Clone, Debug, Serialize)]
pub struct Ptx {
    /// Who compiled it: one entry for each code generator; none without PTX.
    pub origins: Vec<Origin>,
    /// The modules.
    pub modules: Vec<PtxModule>,
}

/// A code generator and the compiler behind it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Origin {
    /// `nvptx` or `nvvm`.
    pub codegen: String,
    /// The compiler's version line.
    pub compiler: String,
    /// Its LLVM.
    pub llvm: String,
    /// `release` or `debug`.
    pub profile: String,
}

/// One embedded module.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PtxModule {
    /// Its name.
    pub name: &'static str,
    /// The architectures it was built for, lowest first, e.g. `sm_80`.
    pub archs: Vec<String>,
}

/// Looks at the machine. Never fails: what is missing is part of the answer. Opens no
/// context on any GPU.
pub fn collect() -> Info {
    let modules = modules(embedded::MODULES);
    let (driver, gpus) = driver(&modules);
    Info {
        version: env!("CARGO_PKG_VERSION"),
        cpu_threads: rayon::current_num_threads(),
        driver,
        gpus,
        ptx: Ptx {
            origins: origins(),
            modules,
        },
    }
}

fn origins() -> Vec<Origin> {
    let origins = embedded::origins().into_iter();
    origins
        .map(|origin| Origin {
            codegen: origin.codegen,
            compiler: origin.compiler,
            llvm: origin.llvm,
            profile: origin.profile,
        })
        .collect()
}

fn driver(modules: &[PtxModule]) -> (Driver, Vec<Gpu>) {
    let mut driver = Driver {
        library: ferroseq_driver::status().ok().map(|info| info.library),
        version: driver_version(),
        cuda_version: None,
        problem: None,
    };
    let count = match properties::count() {
        Ok(count) => count,
        Err(problem) => {
            driver.problem = Some(problem);
            return (driver, Vec::new());
        }
    };
    match properties::cuda_version() {
        Ok((major, minor)) => driver.cuda_version = Some(format!("{major}.{minor}")),
        Err(error) => driver.problem = Some(error.to_string()),
    }
    let mut gpus = Vec::new();
    for ordinal in 0..count {
        match Properties::query(ordinal) {
            Ok(properties) => gpus.push(Gpu {
                chosen: chosen(modules, properties.compute_capability),
                properties,
            }),
            Err(error) => driver.problem = Some(error.to_string()),
        }
    }
    (driver, gpus)
}

/// The version of NVIDIA's kernel module. The driver's library does not tell it.
fn driver_version() -> Option<String> {
    let text = std::fs::read_to_string("/sys/module/nvidia/version").ok()?;
    let version = text.trim();
    (!version.is_empty()).then(|| version.to_owned())
}

fn modules(embedded: &'static [embedded::Module]) -> Vec<PtxModule> {
    let mut names: Vec<_> = embedded.iter().map(|module| module.name).collect();
    names.sort_unstable();
    names.dedup();
    let archs = |name: &str| -> Vec<String> {
        let modules = embedded.iter().filter(|module| module.name == name);
        let mut archs: Vec<_> = modules.map(|module| module.arch).collect();
        archs.sort_unstable();
        archs.dedup();
        archs.into_iter().map(arch_name).collect()
    };
    names
        .into_iter()
        .map(|name| PtxModule {
            name,
            archs: archs(name),
        })
        .collect()
}

fn chosen(modules: &[PtxModule], (major, minor): (u32, u32)) -> Vec<Chosen> {
    let choose = |module: &PtxModule| {
        let best = embedded::best(module.name, major, minor);
        Chosen {
            module: module.name,
            arch: best.map(|best| arch_name(best.arch)),
            codegen: best.map(|best| best.codegen),
        }
    };
    modules.iter().map(choose).collect()
}

fn arch_name(arch: u32) -> String {
    format!("sm_{arch}")
}

impl fmt::Display for Info {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "ferroseq {}", self.version)?;
        writeln!(f, "CPU: {} threads", self.cpu_threads)?;
        writeln!(f, "{}", self.driver)?;
        for gpu in &self.gpus {
            writeln!(f, "{gpu}")?;
        }
        if self.gpus.is_empty() {
            writeln!(f, "GPUs: none")?;
        }
        write!(f, "{}", self.ptx)
    }
}

impl fmt::Display for Ptx {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.modules.is_empty() {
            return f
                .write_str("embedded PTX: none; run `cargo xtask build-ptx`, then build again");
        }
        f.write_str("embedded PTX:")?;
        for module in &self.modules {
            write!(f, "\n  {}: {}", module.name, module.archs.join(", "))?;
        }
        for origin in &self.origins {
            write!(
                f,
                "\n  code generator {}: {}, LLVM {}, {}",
                origin.codegen, origin.compiler, origin.llvm, origin.profile
            )?;
        }
        Ok(())
    }
}

impl fmt::Display for Driver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.library {
            None => f.write_str("NVIDIA driver: none")?,
            Some(library) => {
                let version = self.version.as_deref().unwrap_or("version unknown");
                write!(f, "NVIDIA driver: {version} ({library})")?;
            }
        }
        if let Some(version) = &self.cuda_version {
            write!(f, ", CUDA {version}")?;
        }
        if let Some(problem) = &self.problem {
            write!(f, "\n  {problem}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Gpu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const MIB: f64 = 1024.0 * 1024.0;
        let gpu = &self.properties;
        let (major, minor) = gpu.compute_capability;
        write!(
            f,
            "cuda:{}: {}, compute capability {major}.{minor}, {} multiprocessors, \
             {:.1} GiB memory, {:.0} MiB L2, {} KiB shared memory per block",
            gpu.ordinal,
            gpu.name,
            gpu.multiprocessors,
            gpu.memory_bytes as f64 / (1024.0 * MIB),
            gpu.l2_bytes as f64 / MIB,
            gpu.shared_per_block_optin / 1024,
        )?;
        for chosen in &self.chosen {
            match (&chosen.arch, chosen.codegen) {
                (Some(arch), Some(codegen)) => {
                    write!(f, "\n  {}: {arch} ({codegen})", chosen.module)?;
                }
                _ => write!(f, "\n  {}: no embedded PTX fits", chosen.module)?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use embedded::Module;

    static MODULES: [Module; 3] = {
        const fn module(name: &'static str, arch: u32) -> Module {
            Module {
                codegen: "nvptx",
                arch,
                name,
                zlib: &[],
            }
        }
        [module("scan", 90), module("moe", 80), module("scan", 80)]
    };

    #[test]
    fn modules_are_listed_once_with_their_architectures() {
        let listed: Vec<_> = modules(&MODULES)
            .into_iter()
            .map(|module| (module.name, module.archs.join(" ")))
            .collect();
        assert_eq!(
            listed,
            [
                ("moe", "sm_80".to_owned()),
                ("scan", "sm_80 sm_90".to_owned())
            ]
        );
    }

    #[test]
    fn the_text_and_the_json_say_whether_there_is_a_driver() {
        let info = collect();
        let text = info.to_string();
        let json = serde_json::to_value(&info).expect("plain data");
        let there = ferroseq_driver::status().is_ok();
        assert_eq!(text.contains("NVIDIA driver: none"), !there, "{text}");
        assert_eq!(json["driver"]["library"].is_null(), !there, "{json}");
        if !there {
            assert!(
                text.contains("no NVIDIA driver library was found"),
                "{text}"
            );
            assert!(info.gpus.is_empty());
        }
    }

    #[test]
    fn a_gpu_without_fitting_ptx_says_so() {
        let gpu = Gpu {
            properties: Properties {
                ordinal: 1,
                name: "Test".to_owned(),
                compute_capability: (7, 5),
                multiprocessors: 40,
                memory_bytes: 16 << 30,
                l2_bytes: 4 << 20,
                shared_per_block: 48 << 10,
                shared_per_block_optin: 64 << 10,
                shared_per_multiprocessor: 64 << 10,
                max_threads: 1024,
                max_block: [1024, 1024, 64],
                max_grid: [2_147_483_647, 65_535, 65_535],
            },
            chosen: vec![Chosen {
                module: "scan",
                arch: None,
                codegen: None,
            }],
        };
        assert_eq!(
            gpu.to_string(),
            "cuda:1: Test, compute capability 7.5, 40 multiprocessors, 16.0 GiB memory, \
             4 MiB L2, 64 KiB shared memory per block\n  scan: no embedded PTX fits"
        );
    }
}
