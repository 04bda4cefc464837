//! The driver's result codes: which of them `cust` knows, the last one, its name and text.

use crate::{NO_DEVICE, SUCCESS, UNKNOWN, library};
use std::cell::Cell;
use std::ffi::{CStr, c_char};

thread_local! {
    static LAST: Cell<i32> = const { Cell::new(SUCCESS) };
}

/// What `cust` may see of a code, after the code itself is noted for [`last_code`].
pub(crate) fn settle(code: i32) -> i32 {
    if code != SUCCESS {
        LAST.set(code);
    }
    if is_known(code) { code } else { UNKNOWN }
}

/// The driver's own code for the last call on this thread that did not succeed; 0 if none.
pub fn last_code() -> i32 {
    LAST.get()
}

/// Whether `CUresult` of `cust_raw` 0.11.3 has a variant of this value.
const fn is_known(code: i32) -> bool {
    matches!(
        code,
        0..=8
            | 34
            | 100..=102
            | 200..=202
            | 205..=224
            | 300..=304
            | 400..=401
            | 500
            | 600
            | 700..=705
            | 708..=720
            | 800..=809
            | 900..=911
            | 999
    )
}

/// The driver's name and text for a code, e.g. `("CUDA_ERROR_OUT_OF_MEMORY", "out of memory")`.
pub fn describe(code: i32) -> (String, String) {
    type Lookup = unsafe extern "C" fn(i32, *mut *const c_char) -> i32;
    let ask = |function: &str| -> Option<String> {
        // SAFETY: `cuGetErrorName` and `cuGetErrorString` have this prototype.
        let lookup = unsafe { library::symbol::<Lookup>(function) }.ok()?;
        let mut text: *const c_char = std::ptr::null();
        // SAFETY: any number may be asked for; `text` outlives the call.
        let result = unsafe { lookup(code, &mut text) };
        if result != SUCCESS || text.is_null() {
            return None;
        }
        // SAFETY: on success the driver gives a NUL-terminated string that it never frees.
        let text = unsafe { CStr::from_ptr(text) };
        Some(text.to_string_lossy().into_owned())
    };
    match (ask("cuGetErrorName"), ask("cuGetErrorString")) {
        (Some(name), text) => (name, text.unwrap_or_else(|| "no text".to_owned())),
        (None, _) if code == NO_DEVICE => {
            let text = library::status().err().map(|missing| missing.to_string());
            (
                "CUDA_ERROR_NO_DEVICE".to_owned(),
                text.unwrap_or_else(|| "no device".to_owned()),
            )
        }
        (None, _) => (
            "unnamed error".to_owned(),
            "the driver has no text for this code".to_owned(),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_cust_lacks_become_unknown_and_are_kept() {
        assert_eq!(settle(226), UNKNOWN);
        assert_eq!(last_code(), 226);
        assert_eq!(settle(-3), UNKNOWN);
        assert_eq!(last_code(), -3);
    }

    #[test]
    fn success_does_not_erase_the_last_failure() {
        assert_eq!(settle(700), 700);
        assert_eq!(settle(SUCCESS), SUCCESS);
        assert_eq!(last_code(), 700);
    }

    #[test]
    fn another_thread_has_its_own_last_code() {
        settle(2);
        let other = std::thread::spawn(last_code).join().expect("thread");
        assert_eq!((other, last_code()), (SUCCESS, 2));
    }
}
