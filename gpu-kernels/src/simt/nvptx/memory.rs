//! Loads, stores, asynchronous copies and atomics, each one PTX instruction.
//!
//! Assembly, because stock rustc cannot say which state space a pointer is in (it emits
//! generic accesses), nor a cache hint, nor an order that survives. Memory accesses are
//! not convergent operations, so assembly is safe for them. Plain loads are `pure,
//! readonly`: LLVM may drop or merge them, but not move them over a write.

use crate::simt::Plain;
use core::arch::{asm, global_asm};

// One symbol for every module: the launch's dynamic shared memory.
global_asm!(".extern .shared .align 16 .b8 ferroseq_shared[];");

#[inline(always)]
pub fn dynamic_shared_base() -> u32 {
    let address: u32;
    // SAFETY: reads an address.
    unsafe {
        asm!("mov.u32 {0}, ferroseq_shared;", out(reg32) address, options(pure, nomem, nostack));
    }
    address
}

/// One load of `size_of::<T>()` bytes: bytes go through a 16-bit register (PTX has no
/// smaller ones).
macro_rules! load {
    ($t:ty, $space:literal, $address:expr, $class:ident) => {{
        let address = $address;
        match size_of::<$t>() {
            1 => {
                let bits: u16;
                asm!(concat!("ld.", $space, ".u8 {0}, [{1}];"), out(reg16) bits, in($class) address, options(pure, readonly, nostack));
                core::mem::transmute_copy::<u8, $t>(&(bits as u8))
            }
            2 => {
                let bits: u16;
                asm!(concat!("ld.", $space, ".u16 {0}, [{1}];"), out(reg16) bits, in($class) address, options(pure, readonly, nostack));
                core::mem::transmute_copy::<u16, $t>(&bits)
            }
            4 => {
                let bits: u32;
                asm!(concat!("ld.", $space, ".u32 {0}, [{1}];"), out(reg32) bits, in($class) address, options(pure, readonly, nostack));
                core::mem::transmute_copy::<u32, $t>(&bits)
            }
            _ => {
                let bits: u64;
                asm!(concat!("ld.", $space, ".u64 {0}, [{1}];"), out(reg64) bits, in($class) address, options(pure, readonly, nostack));
                core::mem::transmute_copy::<u64, $t>(&bits)
            }
        }
    }};
}

macro_rules! store {
    ($t:ty, $space:literal, $address:expr, $class:ident, $value:expr) => {{
        let (address, value) = ($address, $value);
        match size_of::<$t>() {
            1 => {
                let bits = core::mem::transmute_copy::<$t, u8>(&value) as u16;
                asm!(concat!("st.", $space, ".u8 [{0}], {1};"), in($class) address, in(reg16) bits, options(nostack));
            }
            2 => {
                let bits = core::mem::transmute_copy::<$t, u16>(&value);
                asm!(concat!("st.", $space, ".u16 [{0}], {1};"), in($class) address, in(reg16) bits, options(nostack));
            }
            4 => {
                let bits = core::mem::transmute_copy::<$t, u32>(&value);
                asm!(concat!("st.", $space, ".u32 [{0}], {1};"), in($class) address, in(reg32) bits, options(nostack));
            }
            _ => {
                let bits = core::mem::transmute_copy::<$t, u64>(&value);
                asm!(concat!("st.", $space, ".u64 [{0}], {1};"), in($class) address, in(reg64) bits, options(nostack));
            }
        }
    }};
}

macro_rules! load4 {
    ($space:literal, $address:expr, $class:ident) => {{
        let (a, b, c, d): (u32, u32, u32, u32);
        asm!(
            concat!("ld.", $space, ".v4.u32 {{{0}, {1}, {2}, {3}}}, [{4}];"),
            out(reg32) a, out(reg32) b, out(reg32) c, out(reg32) d, in($class) $address,
            options(pure, readonly, nostack)
        );
        [a, b, c, d]
    }};
}

macro_rules! store4 {
    ($space:literal, $address:expr, $class:ident, $value:expr) => {{
        let [a, b, c, d] = $value;
        asm!(
            concat!("st.", $space, ".v4.u32 [{0}], {{{1}, {2}, {3}, {4}}};"),
            in($class) $address, in(reg32) a, in(reg32) b, in(reg32) c, in(reg32) d,
            options(nostack)
        );
    }};
}

#[inline(always)]
pub unsafe fn load_global<T: Plain>(pointer: *const T) -> T {
    // SAFETY: the caller's promise: a global address the thread may read.
    unsafe { load!(T, "global", pointer, reg64) }
}

#[inline(always)]
pub unsafe fn load_global_once<T: Plain>(pointer: *const T) -> T {
    // SAFETY: as above.
    unsafe { load!(T, "global.L1::no_allocate", pointer, reg64) }
}

#[inline(always)]
pub unsafe fn store_global<T: Plain>(pointer: *mut T, value: T) {
    // SAFETY: the caller's promise: a global address the thread may write.
    unsafe { store!(T, "global", pointer, reg64, value) }
}

#[inline(always)]
pub unsafe fn store_global_once<T: Plain>(pointer: *mut T, value: T) {
    // SAFETY: as above.
    unsafe { store!(T, "global.cs", pointer, reg64, value) }
}

#[inline(always)]
pub unsafe fn load4_global(pointer: *const u32) -> [u32; 4] {
    // SAFETY: the caller's promise, with 16-byte alignment.
    unsafe { load4!("global", pointer, reg64) }
}

#[inline(always)]
pub unsafe fn load4_global_once(pointer: *const u32) -> [u32; 4] {
    // SAFETY: as above.
    unsafe { load4!("global.L1::no_allocate", pointer, reg64) }
}

#[inline(always)]
pub unsafe fn store4_global(pointer: *mut u32, value: [u32; 4]) {
    // SAFETY: the caller's promise, with 16-byte alignment.
    unsafe { store4!("global", pointer, reg64, value) }
}

#[inline(always)]
pub unsafe fn store4_global_once(pointer: *mut u32, value: [u32; 4]) {
    // SAFETY: as above.
    unsafe { store4!("global.cs", pointer, reg64, value) }
}

#[inline(always)]
pub unsafe fn load_shared<T: Plain>(address: u32) -> T {
    // SAFETY: the caller's promise: inside the block's shared memory.
    unsafe { load!(T, "shared", address, reg32) }
}

#[inline(always)]
pub unsafe fn store_shared<T: Plain>(address: u32, value: T) {
    // SAFETY: as above.
    unsafe { store!(T, "shared", address, reg32, value) }
}

#[inline(always)]
pub unsafe fn load4_shared(address: u32) -> [u32; 4] {
    // SAFETY: as above, with 16-byte alignment.
    unsafe { load4!("shared", address, reg32) }
}

#[inline(always)]
pub unsafe fn store4_shared(address: u32, value: [u32; 4]) {
    // SAFETY: as above.
    unsafe { store4!("shared", address, reg32, value) }
}

#[inline(always)]
pub unsafe fn copy16_async(target: u32, source: *const u32) {
    // SAFETY: the caller's promise: both ranges valid and aligned to 16 bytes.
    unsafe {
        asm!("cp.async.cg.shared.global.L2::128B [{0}], [{1}], 16;", in(reg32) target, in(reg64) source, options(nostack));
    }
}

#[inline(always)]
pub unsafe fn copy4_async(target: u32, source: *const u32) {
    // SAFETY: the caller's promise: both words valid and aligned.
    unsafe {
        asm!("cp.async.ca.shared.global [{0}], [{1}], 4;", in(reg32) target, in(reg64) source, options(nostack));
    }
}

#[inline(always)]
pub fn commit_async() {
    // SAFETY: closes this thread's group of copies.
    unsafe { asm!("cp.async.commit_group;", options(nostack)) }
}

#[inline(always)]
pub fn wait_async<const PENDING: u32>() {
    // SAFETY: waits for this thread's own copies.
    unsafe { asm!("cp.async.wait_group {0};", const PENDING, options(nostack)) }
}

macro_rules! read_modify_write {
    ($($name:ident = $op:literal)*) => { $(
        #[inline(always)]
        pub unsafe fn $name(pointer: *mut u32, value: u32) -> u32 {
            let old: u32;
            // SAFETY: the caller's promise: a word accessed only atomically.
            unsafe {
                asm!(concat!("atom.relaxed.gpu.global.", $op, ".u32 {0}, [{1}], {2};"),
                    out(reg32) old, in(reg64) pointer, in(reg32) value, options(nostack));
            }
            old
        }
    )* };
}
read_modify_write! { fetch_add = "add" fetch_max = "max" fetch_min = "min" }

#[inline(always)]
pub unsafe fn compare_exchange(pointer: *mut u32, expected: u32, new: u32) -> u32 {
    let old: u32;
    // SAFETY: the caller's promise: a word accessed only atomically.
    unsafe {
        asm!("atom.relaxed.gpu.global.cas.b32 {0}, [{1}], {2}, {3};",
            out(reg32) old, in(reg64) pointer, in(reg32) expected, in(reg32) new, options(nostack));
    }
    old
}

#[inline(always)]
pub unsafe fn fetch_add64(pointer: *mut u64, value: u64) -> u64 {
    let old: u64;
    // SAFETY: the caller's promise: a word accessed only atomically.
    unsafe {
        asm!("atom.relaxed.gpu.global.add.u64 {0}, [{1}], {2};",
            out(reg64) old, in(reg64) pointer, in(reg64) value, options(nostack));
    }
    old
}

#[inline(always)]
pub unsafe fn fetch_min64(pointer: *mut u64, value: u64) -> u64 {
    let old: u64;
    // SAFETY: as above.
    unsafe {
        asm!("atom.relaxed.gpu.global.min.u64 {0}, [{1}], {2};",
            out(reg64) old, in(reg64) pointer, in(reg64) value, options(nostack));
    }
    old
}

#[inline(always)]
pub unsafe fn fetch_max_shared(address: u32, value: u32) -> u32 {
    let old: u32;
    // SAFETY: the caller's promise: a word of the block's shared memory.
    unsafe {
        asm!("atom.relaxed.cta.shared.max.u32 {0}, [{1}], {2};",
            out(reg32) old, in(reg32) address, in(reg32) value, options(nostack));
    }
    old
}

#[inline(always)]
pub unsafe fn load_acquire(pointer: *const u32) -> u32 {
    let value: u32;
    // SAFETY: as above. Not `readonly`: nothing may move over it.
    unsafe {
        asm!("ld.acquire.gpu.global.u32 {0}, [{1}];", out(reg32) value, in(reg64) pointer, options(nostack));
    }
    value
}

#[inline(always)]
pub unsafe fn store_release(pointer: *mut u32, value: u32) {
    // SAFETY: as above.
    unsafe {
        asm!("st.release.gpu.global.u32 [{0}], {1};", in(reg64) pointer, in(reg32) value, options(nostack));
    }
}

#[inline(always)]
pub unsafe fn load_relaxed64(pointer: *const u64) -> u64 {
    let value: u64;
    // SAFETY: as above.
    unsafe {
        asm!("ld.relaxed.gpu.global.u64 {0}, [{1}];", out(reg64) value, in(reg64) pointer, options(nostack));
    }
    value
}

#[inline(always)]
pub unsafe fn store_relaxed64(pointer: *mut u64, value: u64) {
    // SAFETY: as above.
    unsafe {
        asm!("st.relaxed.gpu.global.u64 [{0}], {1};", in(reg64) pointer, in(reg64) value, options(nostack));
    }
}

#[inline(always)]
pub fn fence() {
    // SAFETY: orders this thread's accesses.
    unsafe { asm!("fence.acq_rel.gpu;", options(nostack)) }
}
