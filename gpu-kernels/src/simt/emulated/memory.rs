//! Memory accesses: every one is checked, none touches the address it is given.
//!
//! Unsafe to match the other executions; here a broken promise is a fault that the
//! emulator reports.
#![allow(clippy::missing_safety_doc)]

use crate::emulator::{Access, access};
use crate::simt::Plain;
use core::panic::Location;

pub fn dynamic_shared_base() -> u32 {
    access::shared_base()
}

macro_rules! loads {
    ($($name:ident, $vector:ident = $access:ident)*) => { $(
        #[track_caller]
        pub unsafe fn $name<T: Plain>(pointer: *const T) -> T {
            access::load_global(pointer as u64, Access::$access, Location::caller())
        }
        #[track_caller]
        pub unsafe fn $vector(pointer: *const u32) -> [u32; 4] {
            access::load4_global(pointer as u64, Access::$access, Location::caller())
        }
    )* };
}
loads! {
    load_global, load4_global = Load
    load_global_once, load4_global_once = Load
}

macro_rules! stores {
    ($($name:ident, $vector:ident)*) => { $(
        #[track_caller]
        pub unsafe fn $name<T: Plain>(pointer: *mut T, value: T) {
            access::store_global(pointer as u64, value, Access::Store, Location::caller());
        }
        #[track_caller]
        pub unsafe fn $vector(pointer: *mut u32, value: [u32; 4]) {
            access::store4_global(pointer as u64, value, Location::caller());
        }
    )* };
}
stores! {
    store_global, store4_global
    store_global_once, store4_global_once
}

#[track_caller]
pub unsafe fn load_shared<T: Plain>(address: u32) -> T {
    let line = Location::caller();
    match size_of::<T>() {
        1 => bytemuck::pod_read_unaligned(&access::load_shared::<1>(address, line)),
        2 => bytemuck::pod_read_unaligned(&access::load_shared::<2>(address, line)),
        4 => bytemuck::pod_read_unaligned(&access::load_shared::<4>(address, line)),
        _ => bytemuck::pod_read_unaligned(&access::load_shared::<8>(address, line)),
    }
}

#[track_caller]
pub unsafe fn store_shared<T: Plain>(address: u32, value: T) {
    access::store_shared(address, bytemuck::bytes_of(&value), Location::caller());
}

#[track_caller]
pub unsafe fn load4_shared(address: u32) -> [u32; 4] {
    bytemuck::pod_read_unaligned(&access::load_shared::<16>(address, Location::caller()))
}

#[track_caller]
pub unsafe fn store4_shared(address: u32, value: [u32; 4]) {
    access::store_shared(address, bytemuck::bytes_of(&value), Location::caller());
}

#[track_caller]
pub unsafe fn copy16_async(target: u32, source: *const u32) {
    access::copy_async(target, source as u64, 16, Location::caller());
}

#[track_caller]
pub unsafe fn copy4_async(target: u32, source: *const u32) {
    access::copy_async(target, source as u64, 4, Location::caller());
}

pub fn commit_async() {
    access::commit_async();
}

pub fn wait_async<const PENDING: u32>() {
    access::wait_async(PENDING as usize);
}

#[track_caller]
pub unsafe fn fetch_add(pointer: *mut u32, value: u32) -> u32 {
    access::update_atomic(pointer as u64, Location::caller(), |old: u32| {
        Some(old.wrapping_add(value))
    })
}

#[track_caller]
pub unsafe fn fetch_add64(pointer: *mut u64, value: u64) -> u64 {
    access::update_atomic(pointer as u64, Location::caller(), |old: u64| {
        Some(old.wrapping_add(value))
    })
}

#[track_caller]
pub unsafe fn fetch_min64(pointer: *mut u64, value: u64) -> u64 {
    access::update_atomic(pointer as u64, Location::caller(), |old: u64| {
        Some(old.min(value))
    })
}

#[track_caller]
pub unsafe fn fetch_max_shared(address: u32, value: u32) -> u32 {
    access::update_shared(address, Location::caller(), |old| old.max(value))
}

#[track_caller]
pub unsafe fn fetch_max(pointer: *mut u32, value: u32) -> u32 {
    access::update_atomic(pointer as u64, Location::caller(), |old: u32| {
        Some(old.max(value))
    })
}

#[track_caller]
pub unsafe fn fetch_min(pointer: *mut u32, value: u32) -> u32 {
    access::update_atomic(pointer as u64, Location::caller(), |old: u32| {
        Some(old.min(value))
    })
}

#[track_caller]
pub unsafe fn compare_exchange(pointer: *mut u32, expected: u32, new: u32) -> u32 {
    access::update_atomic(pointer as u64, Location::caller(), |old: u32| {
        (old == expected).then_some(new)
    })
}

#[track_caller]
pub unsafe fn load_acquire(pointer: *const u32) -> u32 {
    access::load_atomic(pointer as u64, true, Location::caller())
}

#[track_caller]
pub unsafe fn store_release(pointer: *mut u32, value: u32) {
    access::store_atomic(pointer as u64, value, true, Location::caller());
}

#[track_caller]
pub unsafe fn load_relaxed64(pointer: *const u64) -> u64 {
    access::load_atomic(pointer as u64, false, Location::caller())
}

#[track_caller]
pub unsafe fn store_relaxed64(pointer: *mut u64, value: u64) {
    access::store_atomic(pointer as u64, value, false, Location::caller());
}

pub fn fence() {
    access::fence();
}
