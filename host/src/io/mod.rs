//! Tensors from and to files: `.npy` (NumPy) and `.safetensors`.
//!
//! Both formats are read and written in bulk, little-endian, in C order. Every writer works
//! on a temporary beside its target, which [`Staged::commit`] renames: until then, and after
//! any failure, the target is what it was.
//!
//! | element type | `.npy` | `.safetensors` |
//! | --- | --- | --- |
//! | f32, f16 | `<f4`, `<f2` | `F32`, `F16` |
//! | bf16 | `<V2`, as the Python package `ml_dtypes` writes it | `BF16` |
//! | i64, i32, u8 | `<i8`, `<i4`, `\|u1` | `I64`, `I32`, `U8` |

mod error;
mod npy;
mod npy_header;
mod safetensors;
mod staged;
mod tensor;

pub use self::error::Error;
pub use self::npy::{NpyReader, NpyWriter, read_npy, write_npy};
pub use self::safetensors::{SafetensorsFile, stage_safetensors, write_safetensors};
pub use self::staged::{Staged, commit_all};
pub use self::tensor::{Tensor, TensorData};

/// This module's result.
pub type Result<T, E = Error> = std::result::Result<T, E>;

// Bytes go from file to memory and back as they are.
const _: () = assert!(cfg!(target_endian = "little"));
