//! Emulated global memory: arrays at addresses that are handed out once and never again,
//! far apart, so that whatever runs over an array's end or outlives it hits nothing.

use super::fault::{FaultKind, Place};
use super::shadow::{Access, Shadow};
use std::collections::VecDeque;
use std::fmt;

/// Alignment of an array, as the CUDA driver's; and no more than that.
const ALIGNMENT: u64 = 256;
/// Least distance from one array to the next.
const GAP: u64 = 1 << 20;
const FIRST: u64 = 1 << 44;
/// Freed arrays that are remembered, to tell use after free from a wild address.
const GRAVES: usize = 1 << 16;

pub(super) struct Array {
    pub(super) base: u64,
    pub(super) data: Vec<u8>,
    pub(super) shadow: Shadow,
    /// One bit per byte, set once written; absent if all count as written.
    written: Option<Box<[u64]>>,
}

/// All arrays, sorted by address.
pub(super) struct Memory {
    arrays: Vec<Array>,
    freed: VecDeque<(u64, u64)>,
    next: u64,
    /// The array of the last access.
    recent: usize,
}

/// What can go wrong between the host and emulated memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MemoryError {
    /// The host has no memory for an array.
    OutOfMemory {
        /// Its size.
        bytes: usize,
        /// What the allocator said.
        reason: String,
    },
    /// No live array covers these bytes.
    NotAllocated {
        /// Their address.
        address: u64,
        /// Their number.
        bytes: usize,
    },
    /// Some of the bytes have been written, and this one has not.
    Unwritten {
        /// Byte of the array.
        byte: usize,
    },
}

impl fmt::Display for MemoryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OutOfMemory { bytes, reason } => {
                write!(f, "no memory for {bytes} bytes: {reason}")
            }
            Self::NotAllocated { address, bytes } => {
                write!(f, "no live array holds the {bytes} bytes at {address:#x}")
            }
            Self::Unwritten { byte } => write!(
                f,
                "byte {byte} of the array has never been written, though others have"
            ),
        }
    }
}

impl std::error::Error for MemoryError {}

impl Memory {
    pub(super) fn new() -> Self {
        Self {
            arrays: Vec::new(),
            freed: VecDeque::new(),
            next: FIRST,
            recent: 0,
        }
    }

    /// A new array filled with `fill`; `poison`: it counts as unwritten.
    pub(super) fn alloc(
        &mut self,
        bytes: usize,
        fill: u8,
        poison: bool,
    ) -> Result<u64, MemoryError> {
        let fail = |error: std::collections::TryReserveError| MemoryError::OutOfMemory {
            bytes,
            reason: error.to_string(),
        };
        let mut data = Vec::new();
        data.try_reserve_exact(bytes).map_err(fail)?;
        data.resize(bytes, fill);
        let written = if poison {
            let mut bits = Vec::new();
            bits.try_reserve_exact(bytes.div_ceil(64)).map_err(fail)?;
            bits.resize(bytes.div_ceil(64), 0);
            Some(bits.into_boxed_slice())
        } else {
            None
        };
        let base = self.next;
        // An odd multiple of ALIGNMENT follows an even one: nobody gets used to more.
        self.next =
            (base + (bytes as u64).max(GAP) * 2).next_multiple_of(2 * ALIGNMENT) + ALIGNMENT;
        self.arrays.push(Array {
            base,
            data,
            shadow: Shadow::new(bytes),
            written,
        });
        Ok(base)
    }

    pub(super) fn free(&mut self, address: u64) -> Result<(), MemoryError> {
        let index = self
            .arrays
            .binary_search_by_key(&address, |array| array.base)
            .map_err(|_| MemoryError::NotAllocated { address, bytes: 0 })?;
        let array = self.arrays.remove(index);
        self.freed
            .push_back((address, address + array.data.len() as u64));
        if self.freed.len() > GRAVES {
            self.freed.pop_front();
        }
        self.recent = 0;
        Ok(())
    }

    pub(super) fn write(&mut self, address: u64, bytes: &[u8]) -> Result<(), MemoryError> {
        let (array, offset) = self.host(address, bytes.len())?;
        array.data[offset..offset + bytes.len()].copy_from_slice(bytes);
        if offset == 0 && bytes.len() == array.data.len() {
            array.written = None;
        } else {
            array.mark(offset, bytes.len());
        }
        Ok(())
    }

    /// An array of which nobody has written anything reads as it was filled.
    pub(super) fn read(&mut self, address: u64, out: &mut [u8]) -> Result<(), MemoryError> {
        let (array, offset) = self.host(address, out.len())?;
        if let Some(bits) = &array.written
            && bits.iter().any(|word| *word != 0)
            && let Some(byte) =
                (offset..offset + out.len()).find(|byte| !array.is_written(*byte, 1))
        {
            return Err(MemoryError::Unwritten { byte });
        }
        out.copy_from_slice(&array.data[offset..offset + out.len()]);
        Ok(())
    }

    fn host(&mut self, address: u64, bytes: usize) -> Result<(&mut Array, usize), MemoryError> {
        self.find(address, bytes)
            .map(|index| {
                let array = &mut self.arrays[index];
                let offset = (address - array.base) as usize;
                (array, offset)
            })
            .ok_or(MemoryError::NotAllocated { address, bytes })
    }

    /// Forgets who accessed what.
    pub(super) fn forget_accesses(&mut self) {
        for array in &mut self.arrays {
            array.shadow.clear();
        }
    }

    fn find(&self, address: u64, bytes: usize) -> Option<usize> {
        let holds = |array: &Array| {
            let offset = address.wrapping_sub(array.base);
            offset <= array.data.len() as u64 && array.data.len() as u64 - offset >= bytes as u64
        };
        if self.arrays.get(self.recent).is_some_and(holds) {
            return Some(self.recent);
        }
        let index = self
            .arrays
            .partition_point(|array| array.base <= address)
            .checked_sub(1)?;
        holds(&self.arrays[index]).then_some(index)
    }

    /// The array and offset of a kernel's access, checked for bounds and alignment.
    #[inline]
    pub(super) fn access(
        &mut self,
        address: u64,
        size: usize,
        access: Access,
    ) -> Result<(&mut Array, usize), FaultKind> {
        let Some(index) = self.find(address, size) else {
            return Err(self.outside(address, size, access));
        };
        self.recent = index;
        let array = &mut self.arrays[index];
        if !address.is_multiple_of(size as u64) {
            return Err(FaultKind::Misaligned {
                access,
                place: Place::Global {
                    address,
                    array: Some(array.base),
                },
                alignment: size,
            });
        }
        let offset = (address - array.base) as usize;
        if access.reads() && !array.is_written(offset, size) {
            return Err(FaultKind::Unwritten {
                place: Place::Global {
                    address,
                    array: Some(array.base),
                },
            });
        }
        Ok((array, offset))
    }

    #[cold]
    fn outside(&self, address: u64, size: usize, access: Access) -> FaultKind {
        let grave = self
            .freed
            .iter()
            .find(|(start, end)| (*start..*end).contains(&address));
        if let Some((start, _)) = grave {
            return FaultKind::UseAfterFree {
                access,
                place: Place::Global {
                    address,
                    array: Some(*start),
                },
            };
        }
        // The array that was meant: the nearest one, if it is not farther than a gap away.
        let distance = |array: &Array| {
            let end = array.base + array.data.len() as u64;
            array
                .base
                .saturating_sub(address)
                .max(address.saturating_sub(end))
        };
        let near = self.arrays.iter().min_by_key(|array| distance(array));
        let near = near.filter(|array| distance(array) <= GAP.max(array.data.len() as u64));
        FaultKind::OutOfBounds {
            access,
            place: Place::Global {
                address,
                array: near.map(|array| array.base),
            },
            size,
            length: near.map_or(0, |array| array.data.len()),
        }
    }
}

impl Array {
    /// Whether all of these bytes were written. `size` divides `offset` and is at most 16,
    /// unless it is 1.
    #[inline]
    fn is_written(&self, offset: usize, size: usize) -> bool {
        match &self.written {
            None => true,
            Some(bits) => {
                let mask = ((1u64 << size) - 1) << (offset % 64);
                bits[offset / 64] & mask == mask
            }
        }
    }

    #[inline]
    pub(super) fn mark(&mut self, offset: usize, size: usize) {
        if let Some(bits) = &mut self.written {
            for byte in offset..offset + size {
                bits[byte / 64] |= 1 << (byte % 64);
            }
        }
    }
}
