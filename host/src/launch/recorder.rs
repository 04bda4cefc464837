//! A device for tests of launches: it notes them instead of running them.

use super::Launcher;
use crate::error::Result;
use gpu_kernels::simt::{Entry, Global, LaunchShape, Multiprocessors};
use std::any::Any;
use std::cell::RefCell;

/// Kernel, shape, parameters.
pub(super) type Launch = (&'static str, LaunchShape, Box<dyn Any>);

/// Notes launches.
#[derive(Default)]
pub(super) struct Recorder(pub(super) RefCell<Vec<Launch>>);

impl Launcher for Recorder {
    fn launch<K: Entry>(&self, shape: LaunchShape, params: K::Params) -> Result<()> {
        let launch = (K::INFO.name, shape, Box::new(params) as Box<dyn Any>);
        self.0.borrow_mut().push(launch);
        Ok(())
    }

    /// An address that tells how much was asked for.
    fn scratch(&self, _: &'static str, bytes: usize) -> Result<Global<u32>> {
        Ok(Global::from_address(bytes as u64))
    }

    /// An H200's.
    fn multiprocessors(&self) -> Multiprocessors {
        Multiprocessors {
            count: 132,
            shared_bytes: 228 << 10,
        }
    }
}
