//! What the host tells a projection kernel.

use crate::simt::{Global, Plain};

/// Weights of one launch. More need more launches.
pub const PARTS: usize = 3;

/// One weight, and where its product goes. All arrays begin on 16-byte boundaries.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Part<T> {
    /// `[outputs, inputs]`.
    pub weight: Global<T>,
    /// `[rows, outputs]`, written.
    pub out: Global<T>,
    /// `[outputs]`, or null for zeros.
    pub bias: Global<f32>,
    /// Its first column among those of all parts: the sum of the `outputs` before it.
    pub first: u32,
    /// Columns. 0 for a part that is not there.
    pub outputs: u32,
    /// 1: softplus of what goes to `out`.
    pub softplus: u32,
    /// Not used.
    pub padding: u32,
}

/// Parameters of one launch over `x: [rows, inputs]`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ProjectionParams<T> {
    /// `[rows, inputs]`.
    pub x: Global<T>,
    /// The weights, side by side.
    pub parts: [Part<T>; PARTS],
    /// Rows of `x`.
    pub rows: u64,
    /// Columns of `x` and of each weight.
    pub inputs: u64,
    /// Columns of all parts together.
    pub columns: u32,
    /// Tiles side by side.
    pub column_tiles: u32,
}

impl<T: Plain> Part<T> {
    /// A part that is not there, behind `first` columns.
    pub const fn absent(first: u32) -> Self {
        Self {
            weight: Global::null(),
            out: Global::null(),
            bias: Global::null(),
            first,
            outputs: 0,
            softplus: 0,
            padding: 0,
        }
    }

    /// What the kernel may access of it; `None` if it is more than 64 bits count.
    pub fn required(&self, rows: u64, inputs: u64) -> Option<Required> {
        let outputs = u64::from(self.outputs);
        Some(Required {
            weight: outputs.checked_mul(inputs)?,
            out: outputs.checked_mul(rows)?,
            bias: outputs,
        })
    }
}

/// Elements that a part's arrays must have for a launch to stay inside them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Required {
    /// Of `weight`.
    pub weight: u64,
    /// Of `out`.
    pub out: u64,
    /// Of `bias`, unless it is null.
    pub bias: u64,
}

impl<T: Plain> ProjectionParams<T> {
    /// Elements that `x` must have; `None` if they are more than 64 bits count.
    pub fn required(&self) -> Option<u64> {
        self.rows.checked_mul(self.inputs)
    }

    /// The part that a column, one of `columns`, belongs to.
    #[inline(always)]
    pub(super) fn part(&self, column: u32) -> Part<T> {
        let [a, b, c] = self.parts;
        let (in_b, in_c) = (column >= b.first, column >= c.first);
        // Field by field: chosen as a whole, the parts would go to local memory.
        macro_rules! choose {
            ($field:ident) => {{
                let (a, b, c) = (a.$field, b.$field, c.$field);
                if in_c {
                    c
                } else if in_b {
                    b
                } else {
                    a
                }
            }};
        }
        Part {
            weight: choose!(weight),
            out: choose!(out),
            bias: choose!(bias),
            first: choose!(first),
            outputs: choose!(outputs),
            softplus: choose!(softplus),
            padding: 0,
        }
    }
}
