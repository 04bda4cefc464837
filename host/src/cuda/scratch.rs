//! Scratch memory: what kernels need for a moment (counters, flags, carried states).
//!
//! All zero when the kernels of a purpose first see it; what they leave there stays, so a
//! launch neither allocates nor clears. A purpose's launches share one piece, because they
//! follow each other on one stream. When it must grow, the older and smaller pieces stay
//! until the device goes: a launch under way or a captured graph may hold their address,
//! and together they are no larger than the newest.

use super::buffer::{allocate, release, set_bytes};
use super::device::CudaDevice;
use crate::error::Result;
use cust::sys::CUdeviceptr;
use gpu_kernels::simt::Global;
use std::mem;
use std::sync::{Mutex, PoisonError};

/// The first piece; smaller ones would not save anything.
const SMALLEST: usize = 64 * 1024;

#[derive(Debug, Default)]
pub(super) struct Scratch {
    /// Purpose, address and bytes; a purpose's pieces each twice the one before or more.
    pieces: Mutex<Vec<(&'static str, CUdeviceptr, usize)>>,
}

impl Scratch {
    /// At least `bytes` bytes, aligned to 256, for the next launch on `device`.
    pub(super) fn get(
        &self,
        device: &CudaDevice,
        purpose: &'static str,
        bytes: usize,
    ) -> Result<Global<u32>> {
        let mut pieces = self.pieces.lock().unwrap_or_else(PoisonError::into_inner);
        let newest = pieces.iter().rev().find(|piece| piece.0 == purpose);
        if let Some((_, address, _)) = newest.filter(|(_, _, size)| *size >= bytes) {
            return Ok(Global::from_address(*address));
        }
        let size = bytes
            .max(SMALLEST)
            .checked_next_power_of_two()
            .unwrap_or(bytes);
        let address = allocate(device, size)?;
        // On the device's stream even while this thread captures a graph: the graph runs
        // later on that stream, and must not clear the piece each time.
        if let Err(error) = set_bytes(device, address, size, 0, device.stream()) {
            release(device, address);
            return Err(error);
        }
        pieces.push((purpose, address, size));
        Ok(Global::from_address(address))
    }

    /// Frees it, when `device` goes.
    pub(super) fn free(&self, device: &CudaDevice) {
        let mut pieces = self.pieces.lock().unwrap_or_else(PoisonError::into_inner);
        for (_, address, _) in mem::take(&mut *pieces) {
            release(device, address);
        }
    }
}
