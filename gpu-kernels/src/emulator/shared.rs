//! One block's dynamic shared memory: poisoned when the block starts, with a mark on what
//! an asynchronous copy is still writing.

use super::fault::{FaultKind, Place};
use super::shadow::{Access, Shadow};

/// Where the launch's dynamic shared memory starts in the shared window: not at 0, so
/// that a forgotten base shows, and aligned to 16 bytes but not more.
pub(super) const BASE: u32 = 0x410;

const WRITTEN: u8 = 1;
const PENDING: u8 = 2;

#[derive(Debug)]
pub(super) struct SharedMemory {
    pub(super) data: Vec<u8>,
    state: Vec<u8>,
    pub(super) shadow: Shadow,
}

/// A copy under way.
#[derive(Clone, Copy, Debug)]
pub(super) struct AsyncCopy {
    pub(super) offset: usize,
    pub(super) size: usize,
    pub(super) data: [u8; 16],
}

impl SharedMemory {
    pub(super) fn new(bytes: usize) -> Self {
        Self {
            data: vec![0xFF; bytes],
            state: vec![0; bytes],
            shadow: Shadow::new(bytes),
        }
    }

    /// For the next block.
    pub(super) fn reset(&mut self) {
        self.data.fill(0xFF);
        self.state.fill(0);
        self.shadow.clear();
    }

    pub(super) fn place(offset: usize) -> Place {
        Place::Shared {
            byte: offset as i64,
        }
    }

    /// The offset of an access, checked for bounds and alignment.
    #[inline]
    pub(super) fn locate(
        &self,
        address: u32,
        size: usize,
        access: Access,
    ) -> Result<usize, FaultKind> {
        let byte = i64::from(address) - i64::from(BASE);
        if byte < 0 || byte as usize + size > self.data.len() {
            return Err(FaultKind::OutOfBounds {
                access,
                place: Place::Shared { byte },
                size,
                length: self.data.len(),
            });
        }
        if !address.is_multiple_of(size as u32) {
            return Err(FaultKind::Misaligned {
                access,
                place: Place::Shared { byte },
                alignment: size,
            });
        }
        Ok(byte as usize)
    }

    /// Whether an asynchronous copy is still writing any of these bytes.
    #[inline]
    pub(super) fn is_pending(&self, offset: usize, size: usize) -> bool {
        self.state[offset..offset + size]
            .iter()
            .any(|state| state & PENDING != 0)
    }

    #[inline]
    pub(super) fn is_written(&self, offset: usize, size: usize) -> bool {
        self.state[offset..offset + size]
            .iter()
            .all(|state| state & WRITTEN != 0)
    }

    #[inline]
    pub(super) fn mark_written(&mut self, offset: usize, size: usize) {
        self.state[offset..offset + size].fill(WRITTEN);
    }

    pub(super) fn mark_pending(&mut self, offset: usize, size: usize) {
        self.state[offset..offset + size].fill(PENDING);
    }

    pub(super) fn land(&mut self, copy: &AsyncCopy) {
        let (offset, size) = (copy.offset, copy.size);
        self.data[offset..offset + size].copy_from_slice(&copy.data[..size]);
        self.mark_written(offset, size);
    }
}
