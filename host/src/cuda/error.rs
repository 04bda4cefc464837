//! From the driver's result codes to the library's [`Error`].
//!
//! A `cust` error is never displayed: it asks the driver again, loses newer codes, and can
//! panic. The code comes from `ferroseq_driver::last_code`, which kept the driver's own.

use crate::error::Error;
use cust::error::CudaResult;
use cust::sys::CUresult;
use std::fmt;

/// A code other than success, as the driver returned it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Code(pub(super) i32);

impl Code {
    /// The error of `call`: the driver function, and what it was for.
    pub(super) fn of(self, call: impl Into<String>) -> Error {
        Error::Cuda {
            call: call.into(),
            message: self.to_string(),
        }
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, text) = ferroseq_driver::describe(self.0);
        write!(f, "{text} ({name}, code {})", self.0)
    }
}

/// The result of a call through `cust::sys`.
pub(super) fn check(result: CUresult) -> Result<(), Code> {
    match result {
        CUresult::CUDA_SUCCESS => Ok(()),
        // The same thread made the call, so the last code is this call's.
        _ => Err(Code(ferroseq_driver::last_code())),
    }
}

/// The result of a call through `cust`, right after it.
pub(super) fn check_cust<T>(result: CudaResult<T>) -> Result<T, Code> {
    result.map_err(|_| Code(ferroseq_driver::last_code()))
}

/// The error of something that makes no sense while this thread captures a graph.
pub(super) fn while_capturing(call: &str) -> Error {
    Error::Cuda {
        call: call.to_owned(),
        message: "not possible while this thread captures a graph: launches are recorded, \
                  not run, until the capture ends"
            .to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_names_call_code_and_number() {
        let text = Code(2).of("cuMemAlloc_v2 of 8 bytes").to_string();
        assert!(
            text.starts_with("cuMemAlloc_v2 of 8 bytes failed: "),
            "{text}"
        );
        assert!(text.ends_with("code 2)"), "{text}");
    }
}
