//! The emulated device: runs the kernels on the CPU and checks every access they make.
//! What it finds and what it cannot is described in [`gpu_kernels::emulator`].
//!
//! Launches are synchronous and start in the same typed launcher as on a GPU.

mod buffer;
mod options;

pub(crate) use buffer::EmulatedBuffer;
pub use options::Options;

use crate::error::{Error, Result};
use crate::launch::Launcher;
use gpu_kernels::emulator::{Config, Machine, MemoryError};
use gpu_kernels::simt::{Entry, Global, LaunchShape, Multiprocessors};
use std::sync::{Arc, Mutex, PoisonError};

/// An emulated GPU, with memory of its own.
#[derive(Debug)]
pub struct EmulatedDevice {
    machine: Machine,
    options: Options,
    /// Purpose, address and bytes of the scratch memory that launches use.
    scratch: Mutex<Vec<(&'static str, u64, usize)>>,
    /// What is wrong with the environment: reported by the first launch.
    unusable: Option<(&'static str, String, &'static str)>,
}

impl EmulatedDevice {
    pub(crate) fn new(options: Options) -> Arc<Self> {
        Arc::new(Self {
            machine: Machine::new(Config {
                seed: options.seed,
                races: options.races,
                ..Config::default()
            }),
            options,
            scratch: Mutex::default(),
            unusable: None,
        })
    }

    /// As the environment says; what is wrong there is an error of the first launch.
    pub(crate) fn from_env() -> Arc<Self> {
        match options::read() {
            Ok(options) => Self::new(options),
            Err(wrong) => Arc::new(Self {
                machine: Machine::new(Config::default()),
                options: Options::default(),
                scratch: Mutex::default(),
                unusable: Some(wrong),
            }),
        }
    }

    /// How it runs kernels.
    pub fn options(&self) -> Options {
        self.options
    }

    fn memory_error(&self, error: MemoryError) -> Error {
        match error {
            MemoryError::OutOfMemory { bytes, reason } => Error::OutOfMemory {
                bytes,
                device: self.to_string(),
                reason,
            },
            other => Error::Emulation {
                kernel: "memory".to_owned(),
                message: other.to_string(),
            },
        }
    }
}

impl std::fmt::Display for EmulatedDevice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "emulated (seed {})", self.options.seed)
    }
}

impl Launcher for EmulatedDevice {
    fn launch<K: Entry>(&self, shape: LaunchShape, params: K::Params) -> Result<()> {
        if let Some(wrong) = &self.unusable {
            return Err(options::error(wrong.clone()));
        }
        self.machine.launch::<K>(shape, params).map_err(|fault| {
            // What a stopped kernel left there is of no use to the next one.
            let mut scratch = self.scratch.lock().unwrap_or_else(PoisonError::into_inner);
            scratch.clear();
            Error::Emulation {
                kernel: fault.kernel.to_owned(),
                message: fault.message(),
            }
        })?;
        Ok(())
    }

    /// As on a GPU: what a launch left there, the next of the same purpose finds, and a
    /// smaller launch uses a larger one's memory.
    fn scratch(&self, purpose: &'static str, bytes: usize) -> Result<Global<u32>> {
        let mut scratch = self.scratch.lock().unwrap_or_else(PoisonError::into_inner);
        let piece = scratch.iter().rev().find(|piece| piece.0 == purpose);
        if let Some((_, address, _)) = piece.filter(|(_, _, size)| *size >= bytes) {
            return Ok(Global::from_address(*address));
        }
        let address = self
            .machine
            .alloc_zeroed(bytes, false)
            .map_err(|error| self.memory_error(error))?;
        scratch.push((purpose, address, bytes));
        Ok(Global::from_address(address))
    }

    /// A small GPU: blocks that fill it have several tiles to work on even in a test.
    fn multiprocessors(&self) -> Multiprocessors {
        Multiprocessors {
            count: 2,
            shared_bytes: 228 << 10,
        }
    }
}

#[cfg(test)]
mod tests;
