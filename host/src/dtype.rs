//! Element types of sequences.

use half::{bf16, f16};
use std::fmt;

/// An element type, at run time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DType {
    /// IEEE binary32.
    F32,
    /// IEEE binary16.
    F16,
    /// bfloat16.
    Bf16,
    /// Signed 64-bit integers (offsets, indices).
    I64,
    /// Signed 32-bit integers (indices).
    I32,
    /// Opaque bytes.
    U8,
}

impl DType {
    /// Its name: `f32`, `f16`, `bf16`, `i64`, `i32`, `u8`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::F16 => "f16",
            Self::Bf16 => "bf16",
            Self::I64 => "i64",
            Self::I32 => "i32",
            Self::U8 => "u8",
        }
    }

    /// Bytes of one element.
    pub const fn size(self) -> usize {
        match self {
            Self::I64 => 8,
            Self::F32 | Self::I32 => 4,
            Self::F16 | Self::Bf16 => 2,
            Self::U8 => 1,
        }
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Anything a [`Buffer`](crate::Buffer) can hold.
pub trait Data: gpu_kernels::simt::Plain + Default + Send + Sync + fmt::Debug {
    /// The type at run time.
    const DTYPE: DType;
}

macro_rules! data {
    ($($t:ty = $d:ident),*) => { $(impl Data for $t { const DTYPE: DType = DType::$d; })* };
}
data!(
    f32 = F32,
    f16 = F16,
    bf16 = Bf16,
    i64 = I64,
    i32 = I32,
    u8 = U8
);

/// A sequence's element type: f32, f16 or bf16. State and accumulation are f32 always.
pub trait Element: Data + gpu_kernels::simt::Element + crate::launch::Kernels {}

impl Element for f32 {}
impl Element for f16 {}
impl Element for bf16 {}
