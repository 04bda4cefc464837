//! Views of the block's dynamic shared memory, and asynchronous copies into it.

use super::arch::memory;
use super::{Global, Plain, Word};
use core::marker::PhantomData;

/// A view of an array in the block's shared memory: a 32-bit shared-window address.
#[repr(transparent)]
#[derive(Debug)]
pub struct Shared<T> {
    address: u32,
    marker: PhantomData<T>,
}

impl<T> Clone for Shared<T> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Shared<T> {}

impl<T: Plain> Shared<T> {
    /// The array that starts `byte_offset` bytes into the launch's dynamic shared memory
    /// (whose start is aligned to 16 bytes).
    #[inline(always)]
    pub fn dynamic(byte_offset: u32) -> Self {
        Self {
            address: memory::dynamic_shared_base() + byte_offset,
            marker: PhantomData,
        }
    }

    /// The view that starts `count` elements further on.
    #[inline(always)]
    #[allow(clippy::should_implement_trait)]
    pub fn add(self, count: u32) -> Self {
        Self {
            address: self.at(count),
            marker: PhantomData,
        }
    }

    /// The same memory seen as another type.
    #[inline(always)]
    pub fn cast<U: Plain>(self) -> Shared<U> {
        Shared {
            address: self.address,
            marker: PhantomData,
        }
    }

    #[inline(always)]
    fn at(self, index: u32) -> u32 {
        self.address
            .wrapping_add(index.wrapping_mul(core::mem::size_of::<T>() as u32))
    }

    /// Reads element `index`.
    ///
    /// # Safety
    /// `index` lies in the launch's shared memory, was written, and a barrier or warp
    /// synchronisation orders that write before this read.
    #[inline(always)]
    #[track_caller]
    pub unsafe fn load(self, index: u32) -> T {
        // SAFETY: the caller's promise.
        unsafe { memory::load_shared(self.at(index)) }
    }

    /// Writes element `index`.
    ///
    /// # Safety
    /// `index` lies in the launch's shared memory; no other thread accesses it unordered.
    #[inline(always)]
    #[track_caller]
    pub unsafe fn store(self, index: u32, value: T) {
        // SAFETY: the caller's promise.
        unsafe { memory::store_shared(self.at(index), value) }
    }
}

impl<T: Word> Shared<T> {
    /// Reads two words from `index` in one 8-byte access.
    ///
    /// # Safety
    /// As [`load`](Self::load) for both; the address is a multiple of 8.
    #[inline(always)]
    #[track_caller]
    pub unsafe fn load2(self, index: u32) -> [T; 2] {
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
    pub unsafe fn store2(self, index: u32, value: [T; 2]) {
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
    pub unsafe fn load4(self, index: u32) -> [T; 4] {
        // SAFETY: the caller's promise.
        unsafe { memory::load4_shared(self.at(index)) }.map(T::from_bits)
    }

    /// Writes four words from `index` in one 16-byte access.
    ///
    /// # Safety
    /// As [`store`](Self::store) for all four; the address is a multiple of 16.
    #[inline(always)]
    #[track_caller]
    pub unsafe fn store4(self, index: u32, value: [T; 4]) {
        // SAFETY: the caller's promise.
        unsafe { memory::store4_shared(self.at(index), value.map(T::to_bits)) }
    }

    /// Starts copying four words (16 bytes) from `source[from]` to `self[index]`, past the
    /// registers and the L1 cache. The data is there for this thread after
    /// [`async_copy::wait`], for the others after a barrier behind that.
    ///
    /// # Safety
    /// Both ranges lie in their arrays and are aligned to 16 bytes; the target is not
    /// accessed before the wait; nobody writes the source.
    #[inline(always)]
    #[track_caller]
    pub unsafe fn copy4_async(self, index: u32, source: Global<T>, from: usize) {
        // SAFETY: the caller's promise.
        unsafe { memory::copy16_async(self.at(index), source.at(from).cast()) }
    }

    /// [`copy4_async`](Self::copy4_async) of one word (4 bytes).
    ///
    /// # Safety
    /// As [`copy4_async`](Self::copy4_async), with an alignment of 4 bytes.
    #[inline(always)]
    #[track_caller]
    pub unsafe fn copy_async(self, index: u32, source: Global<T>, from: usize) {
        // SAFETY: the caller's promise.
        unsafe { memory::copy4_async(self.at(index), source.at(from).cast()) }
    }
}

/// Groups of asynchronous copies (`cp.async`).
pub mod async_copy {
    use super::memory;

    /// Closes the group of the copies that this thread has started since the last call.
    #[inline(always)]
    #[track_caller]
    pub fn commit() {
        memory::commit_async();
    }

    /// Waits until at most `PENDING` of this thread's newest groups are still under way.
    #[inline(always)]
    #[track_caller]
    pub fn wait<const PENDING: u32>() {
        memory::wait_async::<PENDING>();
    }
}
