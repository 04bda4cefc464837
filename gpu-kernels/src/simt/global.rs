//! Views of global memory.

use super::arch::memory;
use super::{Plain, Word};
use core::marker::PhantomData;

/// A view of an array in global memory. Plain data in a parameter struct: it carries no
/// length (the launcher checked that), and a null view stands for an absent argument.
#[repr(transparent)]
#[derive(Debug)]
pub struct Global<T> {
    pointer: *mut T,
    marker: PhantomData<T>,
}

impl<T> Clone for Global<T> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Global<T> {}

// SAFETY: a view is an address; what may be done through it is the kernel's contract.
unsafe impl<T> Send for Global<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for Global<T> {}

impl<T: Plain> Global<T> {
    /// The view of an absent argument.
    pub const fn null() -> Self {
        Self {
            pointer: core::ptr::null_mut(),
            marker: PhantomData,
        }
    }

    /// A view of the array at a device address (in the emulator, an address that it handed out).
    pub const fn from_address(address: u64) -> Self {
        Self {
            pointer: address as usize as *mut T,
            marker: PhantomData,
        }
    }

    /// The address it views.
    pub fn address(self) -> u64 {
        self.pointer as usize as u64
    }

    /// Whether the argument is absent.
    #[inline(always)]
    pub fn is_null(self) -> bool {
        self.pointer.is_null()
    }

    /// The view that starts `count` elements further on.
    #[inline(always)]
    #[allow(clippy::should_implement_trait)]
    pub fn add(self, count: usize) -> Self {
        Self {
            pointer: self.pointer.wrapping_add(count),
            marker: PhantomData,
        }
    }

    /// The same memory seen as another type.
    #[inline(always)]
    pub fn cast<U: Plain>(self) -> Global<U> {
        Global {
            pointer: self.pointer.cast(),
            marker: PhantomData,
        }
    }

    #[inline(always)]
    pub(super) fn at(self, index: usize) -> *mut T {
        self.pointer.wrapping_add(index)
    }

    /// Reads element `index`.
    ///
    /// # Safety
    /// `index` lies in the array; no other thread writes it unordered.
    #[inline(always)]
    #[track_caller]
    pub unsafe fn load(self, index: usize) -> T {
        // SAFETY: the caller's promise.
        unsafe { memory::load_global(self.at(index)) }
    }

    /// Reads element `index`, which nobody on this multiprocessor reads again: it takes no
    /// place in the L1 cache. (Not the read-only path: a kernel that works in place may
    /// write the array behind it.)
    ///
    /// # Safety
    /// As [`load`](Self::load).
    #[inline(always)]
    #[track_caller]
    pub unsafe fn load_once(self, index: usize) -> T {
        // SAFETY: the caller's promise.
        unsafe { memory::load_global_once(self.at(index)) }
    }

    /// Writes element `index`.
    ///
    /// # Safety
    /// `index` lies in the array; no other thread accesses it unordered.
    #[inline(always)]
    #[track_caller]
    pub unsafe fn store(self, index: usize, value: T) {
        // SAFETY: the caller's promise.
        unsafe { memory::store_global(self.at(index), value) }
    }

    /// Writes element `index`, which nobody on the device reads again soon: first to leave the L2.
    ///
    /// # Safety
    /// As [`store`](Self::store).
    #[inline(always)]
    #[track_caller]
    pub unsafe fn store_once(self, index: usize, value: T) {
        // SAFETY: the caller's promise.
        unsafe { memory::store_global_once(self.at(index), value) }
    }
}

impl<T: Word> Global<T> {
    /// Reads two words from `index` in one 8-byte access.
    ///
    /// # Safety
    /// As [`load`](Self::load) for both; the address is a multiple of 8.
    #[inline(always)]
    #[track_caller]
    pub unsafe fn load2(self, index: usize) -> [T; 2] {
        // SAFETY: the caller's promise.
        let words = unsafe { self.add(index).cast::<u64>().load(0) };
        [
            T::from_bits(words as u32),
            T::from_bits((words >> 32) as u32),
        ]
    }

    /// Writes two words from `index` in one 8-byte access.
    ///
    /// # Safety
    /// As [`store`](Self::store) for both; the address is a multiple of 8.
    #[inline(always)]
    #[track_caller]
    pub unsafe fn store2(self, index: usize, value: [T; 2]) {
        let [low, high] = value.map(|word| u64::from(word.to_bits()));
        // SAFETY: the caller's promise.
        unsafe { self.add(index).cast::<u64>().store(0, low | high << 32) };
    }

    /// Reads four words from `index` in one 16-byte access.
    ///
    /// # Safety
    /// As [`load`](Self::load) for all four; the address is a multiple of 16.
    #[inline(always)]
    #[track_caller]
    pub unsafe fn load4(self, index: usize) -> [T; 4] {
        // SAFETY: the caller's promise.
        unsafe { memory::load4_global(self.at(index).cast()) }.map(T::from_bits)
    }

    /// [`load_once`](Self::load_once) of four words in one 16-byte access.
    ///
    /// # Safety
    /// As [`load_once`](Self::load_once) for all four; the address is a multiple of 16.
    #[inline(always)]
    #[track_caller]
    pub unsafe fn load4_once(self, index: usize) -> [T; 4] {
        // SAFETY: the caller's promise.
        unsafe { memory::load4_global_once(self.at(index).cast()) }.map(T::from_bits)
    }

    /// Writes four words from `index` in one 16-byte access.
    ///
    /// # Safety
    /// As [`store`](Self::store) for all four; the address is a multiple of 16.
    #[inline(always)]
    #[track_caller]
    pub unsafe fn store4(self, index: usize, value: [T; 4]) {
        // SAFETY: the caller's promise.
        unsafe { memory::store4_global(self.at(index).cast(), value.map(T::to_bits)) }
    }

    /// [`store_once`](Self::store_once) of four words in one 16-byte access.
    ///
    /// # Safety
    /// As [`store`](Self::store) for all four; the address is a multiple of 16.
    #[inline(always)]
    #[track_caller]
    pub unsafe fn store4_once(self, index: usize, value: [T; 4]) {
        // SAFETY: the caller's promise.
        unsafe { memory::store4_global_once(self.at(index).cast(), value.map(T::to_bits)) }
    }
}
