//! What the matrix products of a warp compute (PTX ISA: `mma.sync`, shapes m16n8k8 and
//! m16n8k16).
//!
//! The order in which the hardware adds, and how it rounds, is not documented. Here the
//! exact sum is truncated once, the least that a kernel has to reckon with.

use super::warp::WarpOp;
use half::{bf16, f16};

/// What one lane passes: its parts of the two factors and of the sum to add to.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct MatrixOperands {
    pub(crate) a: [u32; 4],
    pub(crate) b: [u32; 2],
    pub(crate) c: [f32; 4],
}

/// The most elements along the depth.
const DEPTH: usize = 16;

/// The parts of the result, by lane.
pub(super) fn multiply(op: WarpOp, lanes: &[MatrixOperands; 32]) -> [[f32; 4]; 32] {
    let mut rows = [[0.0; DEPTH]; 16];
    let mut columns = [[0.0; DEPTH]; 8];
    for (lane, operands) in lanes.iter().enumerate() {
        let (g, t) = (lane / 4, lane % 4);
        for (half, &word) in operands.b.iter().enumerate() {
            put(op, &mut columns[g], half, t, word);
        }
        for (part, &word) in operands.a.iter().enumerate() {
            put(op, &mut rows[g + part % 2 * 8], part / 2, t, word);
        }
    }
    std::array::from_fn(|lane| {
        let (g, t) = (lane / 4, lane % 4);
        std::array::from_fn(|part| {
            let (row, column) = (&rows[g + part / 2 * 8], &columns[2 * t + part % 2]);
            let sum: f64 = row.iter().zip(column).map(|(a, b)| a * b).sum();
            truncate(f64::from(lanes[lane].c[part]) + sum)
        })
    })
}

/// Puts what word `t` of a half of the depth holds in its place.
fn put(op: WarpOp, line: &mut [f64; DEPTH], half: usize, t: usize, word: u32) {
    let (low, high) = (word as u16, (word >> 16) as u16);
    match op {
        WarpOp::MultiplyBf16 => {
            line[8 * half + 2 * t] = bf16::from_bits(low).to_f64();
            line[8 * half + 2 * t + 1] = bf16::from_bits(high).to_f64();
        }
        WarpOp::MultiplyF16 => {
            line[8 * half + 2 * t] = f16::from_bits(low).to_f64();
            line[8 * half + 2 * t + 1] = f16::from_bits(high).to_f64();
        }
        _ => line[4 * half + t] = f64::from(f32::from_bits(word & !0x1FFF)),
    }
}

/// Towards zero; what is too large for f32 becomes infinity.
fn truncate(value: f64) -> f32 {
    let nearest = value as f32;
    if f64::from(nearest).abs() <= value.abs() || nearest.is_infinite() || nearest.is_nan() {
        nearest
    } else {
        f32::from_bits(nearest.to_bits() - 1)
    }
}
