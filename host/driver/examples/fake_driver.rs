//! A CUDA driver of five functions, for this crate's tests: one device, and errors on request.

use std::ffi::{c_char, c_void};

/// `cuInit`.
///
/// # Safety
/// None needed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuInit(_flags: u32) -> i32 {
    0
}

/// `cuDriverGetVersion`: CUDA 99.1.
///
/// # Safety
/// `version` points to an integer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDriverGetVersion(version: *mut i32) -> i32 {
    // SAFETY: the caller's promise.
    unsafe { *version = 99_010 };
    0
}

/// `cuStreamSynchronize`: fails with the handle's value, so that a test picks the code.
///
/// # Safety
/// None needed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuStreamSynchronize(stream: *mut c_void) -> i32 {
    stream as usize as i32
}

/// `cuGetErrorName`: knows code 226.
///
/// # Safety
/// `text` points to a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGetErrorName(error: i32, text: *mut *const c_char) -> i32 {
    if error != 226 {
        return 1;
    }
    // SAFETY: the caller's promise.
    unsafe { *text = c"CUDA_ERROR_FAKE".as_ptr() };
    0
}

/// `cuGetErrorString`: knows code 226.
///
/// # Safety
/// `text` points to a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGetErrorString(error: i32, text: *mut *const c_char) -> i32 {
    if error != 226 {
        return 1;
    }
    // SAFETY: the caller's promise.
    unsafe { *text = c"a code from the future".as_ptr() };
    0
}
