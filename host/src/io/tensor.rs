//! A tensor in host memory: a shape and a typed vector.

use crate::dtype::{DType, Data};
use half::{bf16, f16};
use std::any::Any;

/// A contiguous tensor in C order.
#[derive(Clone, Debug, PartialEq)]
pub struct Tensor {
    /// Sizes, slowest dimension first.
    pub shape: Vec<usize>,
    /// The elements; as many as `shape` multiplies to.
    pub data: TensorData,
}

/// The elements of a [`Tensor`].
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)]
pub enum TensorData {
    F32(Vec<f32>),
    F16(Vec<f16>),
    Bf16(Vec<bf16>),
    I64(Vec<i64>),
    I32(Vec<i32>),
    U8(Vec<u8>),
}

/// The same expression for the vector of every element type.
macro_rules! each {
    ($data:expr, $vec:ident => $result:expr) => {
        match $data {
            TensorData::F32($vec) => $result,
            TensorData::F16($vec) => $result,
            TensorData::Bf16($vec) => $result,
            TensorData::I64($vec) => $result,
            TensorData::I32($vec) => $result,
            TensorData::U8($vec) => $result,
        }
    };
}

impl TensorData {
    /// `len` zeros; `None` without memory for them.
    pub(super) fn zeros(dtype: DType, len: usize) -> Option<Self> {
        fn zeros<T: Data>(len: usize) -> Option<Vec<T>> {
            let mut vec = Vec::new();
            vec.try_reserve_exact(len).ok()?;
            vec.resize(len, T::default());
            Some(vec)
        }
        Some(match dtype {
            DType::F32 => Self::F32(zeros(len)?),
            DType::F16 => Self::F16(zeros(len)?),
            DType::Bf16 => Self::Bf16(zeros(len)?),
            DType::I64 => Self::I64(zeros(len)?),
            DType::I32 => Self::I32(zeros(len)?),
            DType::U8 => Self::U8(zeros(len)?),
        })
    }

    /// The element type.
    pub fn dtype(&self) -> DType {
        fn dtype<T: Data>(_: &[T]) -> DType {
            T::DTYPE
        }
        each!(self, vec => dtype(vec))
    }

    /// Elements.
    pub fn len(&self) -> usize {
        each!(self, vec => vec.len())
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The elements as bytes, little-endian.
    pub fn bytes(&self) -> &[u8] {
        each!(self, vec => bytemuck::cast_slice(vec))
    }

    pub(super) fn bytes_mut(&mut self) -> &mut [u8] {
        each!(self, vec => bytemuck::cast_slice_mut(vec))
    }

    /// The elements, if `T` is their type.
    pub fn as_slice<T: Data>(&self) -> Option<&[T]> {
        each!(self, vec => (vec as &dyn Any).downcast_ref::<Vec<T>>()).map(Vec::as_slice)
    }

    /// The elements, if `T` is their type.
    pub fn into_vec<T: Data>(self) -> Option<Vec<T>> {
        let vec: Box<dyn Any> = each!(self, vec => Box::new(vec));
        vec.downcast().ok().map(|vec| *vec)
    }
}

macro_rules! from {
    ($($variant:ident($t:ty)),*) => { $(
        impl From<Vec<$t>> for TensorData {
            fn from(vec: Vec<$t>) -> Self {
                Self::$variant(vec)
            }
        }
    )* };
}
from!(F32(f32), F16(f16), Bf16(bf16), I64(i64), I32(i32), U8(u8));
