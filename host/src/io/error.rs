//! What can go wrong with a tensor file. Every variant names the file.

use crate::dtype::DType;
use std::path::PathBuf;

/// A file that cannot be read or written, or does not hold what was asked for.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The operating system's error.
    #[error("cannot {action} {path}")]
    Io {
        /// What was tried: `open`, `read`, ...
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The operating system's reason.
        source: std::io::Error,
    },
    /// Not a file of its format.
    #[error("{path} is not {expected}: {reason}")]
    Format {
        /// The file.
        path: PathBuf,
        /// The format: `a .npy file`, ...
        expected: &'static str,
        /// What is wrong with it.
        reason: String,
    },
    /// The name's ending says nothing about the format.
    #[error("{path}: the name must end in {expected}")]
    Extension {
        /// The file.
        path: PathBuf,
        /// The endings there are.
        expected: &'static str,
    },
    /// Dimensions in Fortran order.
    #[error(
        "{path} is in Fortran order, expected C order (save it through numpy.ascontiguousarray)"
    )]
    FortranOrder {
        /// The file.
        path: PathBuf,
    },
    /// Bytes in the wrong order.
    #[error("{path} holds big-endian elements ({found}), expected little-endian ones")]
    BigEndian {
        /// The file.
        path: PathBuf,
        /// Its element type, as NumPy spells it.
        found: String,
    },
    /// An element type that this library does not have.
    #[error("{path}: {tensor} has elements of type {found}, expected one of {expected}")]
    UnknownType {
        /// The file.
        path: PathBuf,
        /// Which tensor.
        tensor: String,
        /// Its element type, as the file spells it.
        found: String,
        /// Those there are.
        expected: &'static str,
    },
    /// Fewer bytes than the header promises.
    #[error(
        "{path} is truncated: {found} bytes of data, expected {expected} for {dtype} {shape:?}"
    )]
    Truncated {
        /// The file.
        path: PathBuf,
        /// Bytes after the header.
        found: u64,
        /// Bytes there must be.
        expected: u64,
        /// Element type in the header.
        dtype: DType,
        /// Shape in the header.
        shape: Vec<usize>,
    },
    /// More bytes than the header promises.
    #[error(
        "{path} goes on after its tensor: {found} bytes of data, expected {expected} for {dtype} {shape:?}"
    )]
    TrailingBytes {
        /// The file.
        path: PathBuf,
        /// Bytes after the header.
        found: u64,
        /// Bytes there must be.
        expected: u64,
        /// Element type in the header.
        dtype: DType,
        /// Shape in the header.
        shape: Vec<usize>,
    },
    /// A name that is not in the file.
    #[error("{path} has no tensor `{name}`, only {names}")]
    MissingTensor {
        /// The file.
        path: PathBuf,
        /// What was asked for.
        name: String,
        /// The names there are.
        names: String,
    },
    /// Another element type than the one that is needed.
    #[error("{path}: {tensor} is {found}, expected {expected}")]
    WrongType {
        /// The file.
        path: PathBuf,
        /// Which tensor.
        tensor: String,
        /// Its element type.
        found: DType,
        /// What it must be.
        expected: String,
    },
    /// Another shape than the one that is needed.
    #[error("{path}: {tensor} has shape {found:?}, expected {expected}")]
    WrongShape {
        /// The file.
        path: PathBuf,
        /// Which tensor.
        tensor: String,
        /// Its shape.
        found: Vec<usize>,
        /// What it must be.
        expected: String,
    },
    /// A tensor that does not fit in memory.
    #[error("{path}: no memory for {dtype} {shape:?}")]
    OutOfMemory {
        /// The file.
        path: PathBuf,
        /// Its element type.
        dtype: DType,
        /// Its shape.
        shape: Vec<usize>,
    },
}
