//! PTX modules and the functions in them: loaded on first use, kept until the device goes.

use super::device::{CudaDevice, Handle};
use super::error::{Code, check};
use super::properties::Properties;
use crate::codegen::{self, Codegen};
use crate::embedded;
use crate::error::{Error, Result};
use cust::sys::{
    self, CUfunction, CUfunction_attribute as Attribute, CUjit_option as JitOption, CUmodule,
};
use gpu_kernels::simt::EntryInfo;
use std::collections::HashMap;
use std::ffi::{CString, c_void};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::{mem, ptr};

/// What the driver's compiler may say before it is cut off, in bytes.
const LOG_BYTES: usize = 16 * 1024;
/// Codes that mean "not this PTX on this driver and GPU"; an older one may do.
const TRY_OLDER: [i32; 3] = [
    209, // CUDA_ERROR_NO_BINARY_FOR_GPU
    218, // CUDA_ERROR_INVALID_PTX
    222, // CUDA_ERROR_UNSUPPORTED_PTX_VERSION
];
/// What mends a binary without the right PTX.
const REMEDY: &str = "run `cargo xtask build-ptx`, then build again";

/// A kernel that can be launched.
#[derive(Debug)]
pub(super) struct Function {
    raw: Handle<CUfunction>,
    /// Threads of a block, given the registers it needs and its launch bounds.
    pub(super) max_threads: u32,
    /// Dynamic shared memory of a block, given its static shared memory, in bytes.
    pub(super) max_dynamic_shared: u32,
}

impl Function {
    pub(super) fn raw(&self) -> CUfunction {
        self.raw.0
    }

    /// Limits without a kernel.
    #[cfg(test)]
    pub(super) fn for_test(max_threads: u32, max_dynamic_shared: u32) -> Self {
        Self {
            raw: Handle(ptr::null_mut()),
            max_threads,
            max_dynamic_shared,
        }
    }
}

/// A module in a device's context.
#[derive(Debug)]
pub(super) struct Module {
    raw: Handle<CUmodule>,
    /// Of each entry point in its PTX, the size of the parameter.
    params: HashMap<String, usize>,
}

/// Why the driver did not take a module.
#[derive(Debug)]
pub(super) struct Refused {
    code: Code,
    log: String,
}

impl Refused {
    pub(super) fn into_error(self, module: &str, device: &CudaDevice) -> Error {
        Error::Jit {
            module: module.to_owned(),
            device: device.label(),
            message: self.code.to_string(),
            log: self.log,
        }
    }
}

/// What a device has loaded.
#[derive(Debug, Default)]
pub(super) struct Modules {
    loaded: Mutex<HashMap<&'static str, Arc<Module>>>,
    functions: RwLock<HashMap<&'static str, Arc<Function>>>,
}

impl Modules {
    /// The function of an entry point.
    pub(super) fn function(&self, device: &CudaDevice, entry: &EntryInfo) -> Result<Arc<Function>> {
        let functions = self
            .functions
            .read()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(function) = functions.get(entry.name) {
            return Ok(Arc::clone(function));
        }
        drop(functions);
        let module = self.module(device, entry.module)?;
        let function = Arc::new(module.function(device, entry)?);
        let mut functions = self
            .functions
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        functions.insert(entry.name, Arc::clone(&function));
        Ok(function)
    }

    fn module(&self, device: &CudaDevice, name: &'static str) -> Result<Arc<Module>> {
        // Held while the driver compiles, so that each module is compiled once.
        let mut loaded = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(module) = loaded.get(name) {
            return Ok(Arc::clone(module));
        }
        let mut refused = None;
        let codegen = codegen::chosen()?;
        for candidate in candidates(embedded::MODULES, codegen, name, device.properties()) {
            let ptx = candidate.ptx().map_err(|error| Error::NoPtx {
                device: device.label(),
                reason: format!("module `{name}` of this binary is damaged: {error}"),
            })?;
            match Module::load(device, &ptx)? {
                Ok(module) => {
                    let module = Arc::new(module);
                    loaded.insert(name, Arc::clone(&module));
                    return Ok(module);
                }
                Err(why) => {
                    let older = TRY_OLDER.contains(&why.code.0);
                    let label = format!("{name} (sm_{}, {})", candidate.arch, candidate.codegen);
                    // The first refusal is of the PTX that should have worked.
                    refused.get_or_insert_with(|| why.into_error(&label, device));
                    if !older {
                        break;
                    }
                }
            }
        }
        Err(refused.unwrap_or_else(|| none_embedded(embedded::MODULES, codegen, name, device)))
    }

    /// Loads a module that is not embedded.
    #[cfg(test)]
    pub(super) fn preload(&self, device: &CudaDevice, name: &'static str, ptx: &str) {
        let mut loaded = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        loaded.entry(name).or_insert_with(|| {
            let loaded = Module::load(device, ptx).expect("context");
            Arc::new(loaded.expect("the driver takes the PTX"))
        });
    }

    /// Unloads everything. The device's context is current and its stream idle.
    pub(super) fn unload(&self) {
        self.functions
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .clear();
        let mut loaded = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        for module in mem::take(&mut *loaded).into_values() {
            // SAFETY: loaded by `Module::load` in this context; nothing launches from it any more.
            let _ = unsafe { sys::cuModuleUnload(module.raw.0) };
        }
    }
}

/// The embedded modules of that name which the GPU takes, best first.
fn candidates<'a>(
    modules: &'a [embedded::Module],
    codegen: Codegen,
    name: &str,
    properties: &Properties,
) -> Vec<&'a embedded::Module> {
    let (major, minor) = properties.compute_capability;
    embedded::fitting(modules, codegen, name, major * 10 + minor)
}

fn none_embedded(
    modules: &[embedded::Module],
    codegen: Codegen,
    name: &str,
    device: &CudaDevice,
) -> Error {
    let by_chosen = |module: &&embedded::Module| codegen.takes(module.codegen);
    let mut archs: Vec<_> = modules
        .iter()
        .filter(|module| module.name == name)
        .filter(by_chosen)
        .collect();
    archs.sort_by_key(|module| module.arch);
    let archs: Vec<_> = archs
        .iter()
        .map(|module| format!("sm_{}", module.arch))
        .collect();
    let (major, minor) = device.properties().compute_capability;
    let reason = if modules.is_empty() {
        format!("this binary was built before any PTX was; {REMEDY}")
    } else if !modules.iter().any(|module| by_chosen(&module)) {
        format!(
            "this binary carries no PTX by {codegen}; run `cargo xtask build-ptx --codegen \
             {codegen}`, then build again"
        )
    } else if archs.is_empty() {
        format!("this binary carries no module `{name}`; {REMEDY}")
    } else {
        format!(
            "module `{name}` is there for {}, but the device has compute capability \
             {major}.{minor}; run `cargo xtask build-ptx --arch sm_{major}{minor}`, then build again",
            archs.join(", ")
        )
    };
    Error::NoPtx {
        device: device.label(),
        reason,
    }
}

impl Module {
    /// Compiles `ptx` for `device`. The inner error is the compiler's.
    pub(super) fn load(device: &CudaDevice, ptx: &str) -> Result<Result<Self, Refused>> {
        let _entered = device.enter()?;
        let refused = |code: i32, log: String| {
            let code = Code(code);
            Ok(Err(Refused { code, log }))
        };
        let Ok(text) = CString::new(ptx) else {
            return refused(218, "the PTX text contains a zero byte".to_owned());
        };
        let mut log = vec![0u8; LOG_BYTES];
        let mut options = [
            JitOption::CU_JIT_ERROR_LOG_BUFFER,
            JitOption::CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES,
        ];
        // The driver takes the size by value, in the place of a pointer.
        let mut values = [
            log.as_mut_ptr().cast::<c_void>(),
            ptr::without_provenance_mut(LOG_BYTES),
        ];
        let mut raw: CUmodule = ptr::null_mut();
        // SAFETY: `text` ends in a zero byte; the driver writes one handle, and at most
        // `LOG_BYTES` bytes of log; all of it outlives the call. The context is current.
        let result = check(unsafe {
            sys::cuModuleLoadDataEx(
                &mut raw,
                text.as_ptr().cast(),
                options.len() as u32,
                options.as_mut_ptr(),
                values.as_mut_ptr(),
            )
        });
        match result {
            Ok(()) => Ok(Ok(Self {
                raw: Handle(raw),
                params: param_sizes(ptx),
            })),
            Err(Code(code)) => {
                let end = log.iter().position(|byte| *byte == 0).unwrap_or(log.len());
                let log = String::from_utf8_lossy(&log[..end]);
                let log = match log.trim() {
                    "" => "the driver left no log",
                    log => log,
                };
                refused(code, log.to_owned())
            }
        }
    }

    /// The function of an entry point, with as much dynamic shared memory allowed as fits.
    pub(super) fn function(&self, device: &CudaDevice, entry: &EntryInfo) -> Result<Function> {
        // The driver copies as many bytes as the PTX says, whatever struct it is pointed to.
        match self.params.get(entry.name) {
            Some(size) if *size == entry.param_size => {}
            found => {
                let found = found.map_or("none".to_owned(), |size| format!("{size} bytes"));
                return Err(Error::NoPtx {
                    device: device.label(),
                    reason: format!(
                        "the embedded PTX is not of this source: entry `{}` takes {} bytes of \
                         parameters here, {found} there; {REMEDY}",
                        entry.name, entry.param_size
                    ),
                });
            }
        }
        let _entered = device.enter()?;
        let name = CString::new(entry.name).expect("entry names are identifiers");
        let mut raw: CUfunction = ptr::null_mut();
        // SAFETY: the module is loaded; the name ends in a zero byte; one handle is written.
        check(unsafe { sys::cuModuleGetFunction(&mut raw, self.raw.0, name.as_ptr()) })
            .map_err(|code| code.of(format!("cuModuleGetFunction of `{}`", entry.name)))?;
        let attribute = |attribute: Attribute| -> Result<u32> {
            let mut value = 0;
            // SAFETY: the function was just found; the driver writes one integer.
            check(unsafe { sys::cuFuncGetAttribute(&mut value, attribute, raw) })
                .map_err(|code| code.of(format!("cuFuncGetAttribute of `{}`", entry.name)))?;
            Ok(u32::try_from(value).unwrap_or_default())
        };
        let max_threads = attribute(Attribute::CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK)?;
        let static_shared = attribute(Attribute::CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES)?;
        let properties = device.properties();
        let max_dynamic_shared = properties
            .shared_per_block_optin
            .saturating_sub(static_shared);
        // More than the 48 KB that every kernel may use has to be asked for, once.
        if properties.shared_per_block_optin > properties.shared_per_block {
            // SAFETY: the function was just found; the value is within the device's limit.
            check(unsafe {
                sys::cuFuncSetAttribute(
                    raw,
                    Attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                    max_dynamic_shared as i32,
                )
            })
            .map_err(|code| {
                code.of(format!(
                    "cuFuncSetAttribute of `{}` to {max_dynamic_shared} bytes of shared memory",
                    entry.name
                ))
            })?;
        }
        // Kernels here move their tiles through shared memory; the L1 cache only gets in
        // the way of one more block. A hint: where it is refused, nothing is lost.
        let _ =
            // SAFETY: the function was just found; the value is a percentage.
            unsafe {
                sys::cuFuncSetAttribute(
                    raw,
                    Attribute::CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT,
                    100,
                )
            };
        Ok(Function {
            raw: Handle(raw),
            max_threads,
            max_dynamic_shared,
        })
    }
}

/// Of each entry point of a PTX text, the size of its one parameter, in bytes:
/// `.entry name( .param .align 8 .b8 name_param_0[104] )`. An entry point with another
/// number or kind of parameters is left out.
fn param_sizes(ptx: &str) -> HashMap<String, usize> {
    ptx.split(".entry")
        .skip(1)
        .filter_map(|rest| {
            let (name, rest) = rest.split_once('(')?;
            let (params, _) = rest.split_once(')')?;
            let (declaration, size) = params.trim().strip_suffix(']')?.split_once('[')?;
            if declaration.matches(".param").count() != 1 || !declaration.contains(".b8") {
                return None;
            }
            Some((name.trim().to_owned(), size.trim().parse().ok()?))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn properties(compute_capability: (u32, u32)) -> Properties {
        Properties {
            compute_capability,
            ..super::super::launch::tests::h200()
        }
    }

    fn module(name: &'static str, arch: u32) -> embedded::Module {
        embedded::Module {
            codegen: "nvptx",
            arch,
            name,
            zlib: &[],
        }
    }

    #[test]
    fn the_highest_architecture_the_device_takes_comes_first() {
        let modules = [module("scan", 80), module("scan", 100), module("scan", 90)];
        let archs = |capability| -> Vec<u32> {
            let found = candidates(&modules, Codegen::Auto, "scan", &properties(capability));
            found.iter().map(|module| module.arch).collect()
        };
        assert_eq!(archs((9, 0)), [90, 80]);
        assert_eq!(archs((8, 9)), [80]);
        assert_eq!(archs((12, 0)), [100, 90, 80]);
        assert!(archs((7, 5)).is_empty());
        assert!(candidates(&modules, Codegen::Auto, "other", &properties((9, 0))).is_empty());
        assert!(candidates(&modules, Codegen::Nvvm, "scan", &properties((9, 0))).is_empty());
    }

    #[test]
    fn parameter_sizes_are_read_from_the_ptx() {
        let ptx = "\
            .visible .entry scan_f32(\n\t.param .align 8 .b8 scan_f32_param_0[104]\n)\n{ ret; }\n\
            .visible .entry two(\n\t.param .u64 a,\n\t.param .align 8 .b8 b[8]\n)\n{ ret; }\n\
            .entry scan_f16(.param .align 8 .b8 p[96])\n.maxntid 128\n{ ret; }";
        let sizes = param_sizes(ptx);
        assert_eq!(sizes.get("scan_f32"), Some(&104));
        assert_eq!(sizes.get("scan_f16"), Some(&96));
        assert_eq!(sizes.get("two"), None);
    }
}
