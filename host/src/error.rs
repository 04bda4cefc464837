//! The library's one error type. Every variant names what was found and what was expected.

use crate::dtype::DType;

/// What can go wrong.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A buffer's length does not fit the operation's shape.
    #[error("{operation}: `{argument}` holds {found} elements, expected {expected} ({shape})")]
    Length {
        /// The operation.
        operation: &'static str,
        /// The argument's name.
        argument: &'static str,
        /// Elements it has.
        found: usize,
        /// Elements it must have.
        expected: usize,
        /// Where that number comes from, e.g. `[B, L, D] = [2, 3, 4]`.
        shape: String,
    },
    /// An argument's value makes no sense.
    #[error("{operation}: `{argument}` is {found}, expected {expected}")]
    Argument {
        /// The operation.
        operation: &'static str,
        /// The argument's name.
        argument: &'static str,
        /// What it is.
        found: String,
        /// What it must be.
        expected: String,
    },
    /// The sizes multiply to more elements than memory has addresses.
    #[error("{operation}: {shape} has more elements than can be addressed")]
    TooLarge {
        /// The operation.
        operation: &'static str,
        /// The shape.
        shape: String,
    },
    /// A buffer lives on another device than the one the operation was asked to run on.
    #[error("{operation}: `{argument}` lives on {found}, but the operation runs on {expected}")]
    WrongDevice {
        /// The operation.
        operation: &'static str,
        /// The argument's name.
        argument: &'static str,
        /// The buffer's device.
        found: String,
        /// The operation's device.
        expected: String,
    },
    /// Element types that do not go together.
    #[error("{operation}: `{argument}` is {found}, expected {expected}")]
    DType {
        /// The operation.
        operation: &'static str,
        /// The argument's name.
        argument: String,
        /// Its element type.
        found: DType,
        /// The element type it must have.
        expected: DType,
    },
    /// The device that was asked for is not there.
    #[error("device `{device}` is not available: {reason}")]
    DeviceUnavailable {
        /// As the caller wrote it.
        device: String,
        /// Why, and what would help.
        reason: String,
    },
    /// The binary carries no PTX that the device takes.
    #[error("no PTX for {device}: {reason}")]
    NoPtx {
        /// The device.
        device: String,
        /// Why, and the command that mends it.
        reason: String,
    },
    /// A call of the CUDA driver failed.
    #[error("{call} failed: {message}")]
    Cuda {
        /// The driver function, and what it was for.
        call: String,
        /// The driver's code, its name and its text.
        message: String,
    },
    /// The driver could not compile the PTX.
    #[error("the driver could not compile module `{module}` for {device}: {message}\n{log}")]
    Jit {
        /// The PTX module.
        module: String,
        /// The device.
        device: String,
        /// The driver's code, its name and its text.
        message: String,
        /// The compiler's own log.
        log: String,
    },
    /// The emulator stopped a kernel.
    #[error("emulated {kernel}: {message}")]
    Emulation {
        /// The kernel.
        kernel: String,
        /// What it did, where.
        message: String,
    },
    /// No memory for a buffer.
    #[error("no memory for {bytes} bytes on {device}: {reason}")]
    OutOfMemory {
        /// What was asked for.
        bytes: usize,
        /// Where.
        device: String,
        /// What the allocator said.
        reason: String,
    },
}

/// The library's result.
pub type Result<T, E = Error> = std::result::Result<T, E>;
