//! A kernel's accesses to memory: each is located, checked, recorded, and only then made.

use super::block::Line;
use super::engine::Engine;
use super::fault::{FaultKind, Place};
use super::lane::{fail, switch_point, with};
use super::shadow::{Access, Conflict, Shadow};
use super::shared::{self, AsyncCopy, SharedMemory};
use crate::simt::Plain;

impl Engine<'_> {
    fn race(&self, access: Access, conflict: Conflict, place: Place) -> FaultKind {
        let order = &self.blocks[self.current.0].order;
        let (block, thread) = order.whose(conflict.key);
        let (other_block, other_thread) = (self.block_index(block), self.thread_index(thread));
        FaultKind::Race {
            access,
            place,
            other_wrote: conflict.wrote,
            other_block,
            other_thread,
        }
    }

    /// Checks an access to global memory; where its bytes are.
    #[inline]
    fn global(&mut self, address: u64, size: usize, access: Access) -> Result<*mut u8, FaultKind> {
        let (block, thread) = self.current;
        let (array, offset) = self.memory.access(address, size, access)?;
        if self.config.races {
            let order = &self.blocks[block].order;
            if let Some(conflict) = array.shadow.access(order, thread, offset, size, access) {
                let place = Place::Global {
                    address: array.base + conflict.offset as u64,
                    array: Some(array.base),
                };
                return Err(self.race(access, conflict, place));
            }
        }
        if access.writes() {
            array.mark(offset, size);
        }
        Ok(&raw mut array.data[offset])
    }

    /// Checks an access to shared memory; its offset.
    #[inline]
    fn shared(&mut self, address: u32, size: usize, access: Access) -> Result<usize, FaultKind> {
        let (block, thread) = self.current;
        let state = &mut self.blocks[block];
        let offset = state.shared.locate(address, size, access)?;
        if access.reads() && !state.shared.is_written(offset, size) || access.writes() {
            let pending = (offset..offset + size).find(|byte| state.shared.is_pending(*byte, 1));
            if let Some(byte) = pending {
                return Err(FaultKind::AsyncPending {
                    access,
                    place: SharedMemory::place(byte),
                    owner: {
                        let owner = state.copy_owner(byte);
                        self.thread_index(owner as u32)
                    },
                });
            }
            if access.reads() && !state.shared.is_written(offset, size) {
                return Err(FaultKind::Unwritten {
                    place: SharedMemory::place(offset),
                });
            }
        }
        if self.config.races {
            let shadow: &mut Shadow = &mut state.shared.shadow;
            if let Some(conflict) = shadow.access(&state.order, thread, offset, size, access) {
                let place = SharedMemory::place(conflict.offset);
                return Err(self.race(access, conflict, place));
            }
        }
        Ok(offset)
    }

    /// Writes and notes whether that changed anything.
    ///
    /// # Safety
    /// `target` is valid for `bytes.len()` bytes.
    unsafe fn put(&mut self, target: *mut u8, bytes: &[u8]) {
        // SAFETY: the caller's promise; nothing else refers to emulated memory now.
        let target = unsafe { std::slice::from_raw_parts_mut(target, bytes.len()) };
        if target != bytes {
            target.copy_from_slice(bytes);
            self.change_global();
        }
    }
}

#[inline]
pub(crate) fn load_global<T: Plain>(address: u64, access: Access, line: Line) -> T {
    switch_point(line);
    let loaded = with(|engine| {
        let source = engine.global(address, size_of::<T>(), access)?;
        // SAFETY: `global` found `size_of::<T>()` bytes there; T is plain bits.
        Ok(unsafe { source.cast::<T>().read_unaligned() })
    });
    loaded.unwrap_or_else(|kind| fail(kind, line))
}

#[inline]
pub(crate) fn store_global<T: Plain>(address: u64, value: T, access: Access, line: Line) {
    switch_point(line);
    let stored = with(|engine| {
        let target = engine.global(address, size_of::<T>(), access)?;
        // SAFETY: `global` found that many bytes there.
        unsafe { engine.put(target, bytemuck::bytes_of(&value)) };
        Ok(())
    });
    stored.unwrap_or_else(|kind| fail(kind, line));
}

#[inline]
pub(crate) fn load4_global(address: u64, access: Access, line: Line) -> [u32; 4] {
    switch_point(line);
    let loaded = with(|engine| {
        let source = engine.global(address, 16, access)?;
        // SAFETY: `global` found 16 bytes there.
        Ok(unsafe { source.cast::<[u32; 4]>().read_unaligned() })
    });
    loaded.unwrap_or_else(|kind| fail(kind, line))
}

#[inline]
pub(crate) fn store4_global(address: u64, value: [u32; 4], line: Line) {
    switch_point(line);
    let stored = with(|engine| {
        let target = engine.global(address, 16, Access::Store)?;
        // SAFETY: `global` found 16 bytes there.
        unsafe { engine.put(target, bytemuck::bytes_of(&value)) };
        Ok(())
    });
    stored.unwrap_or_else(|kind| fail(kind, line));
}

pub(crate) fn shared_base() -> u32 {
    shared::BASE
}

#[inline]
pub(crate) fn load_shared<const N: usize>(address: u32, line: Line) -> [u8; N] {
    switch_point(line);
    let loaded = with(|engine| {
        let offset = engine.shared(address, N, Access::Load)?;
        let data = &engine.blocks[engine.current.0].shared.data;
        let mut bytes = [0; N];
        bytes.copy_from_slice(&data[offset..offset + N]);
        Ok(bytes)
    });
    loaded.unwrap_or_else(|kind| fail(kind, line))
}

#[inline]
pub(crate) fn store_shared(address: u32, bytes: &[u8], line: Line) {
    switch_point(line);
    let stored = with(|engine| {
        let offset = engine.shared(address, bytes.len(), Access::Store)?;
        let shared = &mut engine.blocks[engine.current.0].shared;
        let target = &mut shared.data[offset..offset + bytes.len()];
        engine.changes += u64::from(target != bytes);
        target.copy_from_slice(bytes);
        shared.mark_written(offset, bytes.len());
        Ok(())
    });
    stored.unwrap_or_else(|kind| fail(kind, line));
}

/// An atomic read-modify-write of a word of shared memory. Relaxed: it orders nothing.
pub(crate) fn update_shared(address: u32, line: Line, update: impl FnOnce(u32) -> u32) -> u32 {
    switch_point(line);
    let updated = with(|engine| {
        let offset = engine.shared(address, 4, Access::AtomicUpdate)?;
        let shared = &mut engine.blocks[engine.current.0].shared;
        let word = &mut shared.data[offset..offset + 4];
        let old: u32 = bytemuck::pod_read_unaligned(word);
        let new = update(old);
        word.copy_from_slice(bytemuck::bytes_of(&new));
        engine.changes += u64::from(old != new);
        Ok(old)
    });
    updated.unwrap_or_else(|kind| fail(kind, line))
}

/// Starts copying `size` bytes. They are read now and land at the wait: in between the
/// kernel may rely on neither the old nor the new contents of the target.
pub(crate) fn copy_async(target: u32, source: u64, size: usize, line: Line) {
    switch_point(line);
    let started = with(|engine| {
        let from = engine.global(source, size, Access::Load)?;
        let offset = engine.shared(target, size, Access::AsyncCopy)?;
        let mut data = [0; 16];
        // SAFETY: `global` found `size` bytes there, and `size` is 4 or 16.
        data[..size].copy_from_slice(unsafe { std::slice::from_raw_parts(from, size) });
        let (block, thread) = engine.current;
        engine.blocks[block].start_copy(thread, AsyncCopy { offset, size, data });
        Ok(())
    });
    started.unwrap_or_else(|kind| fail(kind, line));
}

pub(crate) fn commit_async() {
    with(|engine| {
        let (block, thread) = engine.current;
        engine.blocks[block].commit_copies(thread);
    });
}

pub(crate) fn wait_async(pending: usize) {
    with(|engine| {
        let (block, thread) = engine.current;
        let races = engine.config.races;
        engine.blocks[block].wait_copies(thread, pending, races);
        engine.changes += 1;
    });
}

/// An atomic read-modify-write: `update` gives what to write, if anything. Relaxed.
pub(crate) fn update_atomic<T: Plain>(
    address: u64,
    line: Line,
    update: impl FnOnce(T) -> Option<T>,
) -> T {
    switch_point(line);
    let updated = with(|engine| {
        let target = engine.global(address, size_of::<T>(), Access::AtomicUpdate)?;
        // SAFETY: `global` found that many bytes there.
        let old = unsafe { target.cast::<T>().read_unaligned() };
        let (block, thread) = engine.current;
        let order = &mut engine.blocks[block].order;
        if let Some(carried) = engine.released.get(&address) {
            order.read(thread, carried);
        }
        if let Some(new) = update(old) {
            // An update continues the release sequence of whoever stored before it.
            let fenced = order.fenced(thread);
            if !fenced.is_empty() {
                engine.released.entry(address).or_default().join(&fenced);
            }
            // SAFETY: as above.
            unsafe { engine.put(target, bytemuck::bytes_of(&new)) };
        }
        Ok(old)
    });
    updated.unwrap_or_else(|kind| fail(kind, line))
}

pub(crate) fn load_atomic<T: Plain>(address: u64, acquire: bool, line: Line) -> T {
    let value = load_global(address, Access::AtomicLoad, line);
    with(|engine| {
        let (block, thread) = engine.current;
        if let Some(carried) = engine.released.get(&address) {
            let order = &mut engine.blocks[block].order;
            if acquire {
                order.acquire(thread, carried);
            } else {
                order.read(thread, carried);
            }
        }
    });
    value
}

pub(crate) fn store_atomic<T: Plain>(address: u64, value: T, release: bool, line: Line) {
    store_global(address, value, Access::AtomicStore, line);
    with(|engine| {
        let (block, thread) = engine.current;
        let order = &mut engine.blocks[block].order;
        let carried = if release {
            order.release(thread)
        } else {
            order.fenced(thread)
        };
        if carried.is_empty() {
            engine.released.remove(&address);
        } else {
            engine.released.insert(address, carried);
        }
    });
}

pub(crate) fn fence() {
    with(|engine| {
        let (block, thread) = engine.current;
        engine.blocks[block].order.fence(thread);
    });
}
