//! Projections on the CPU: the matrix product of the `matrixmultiply` crate, through
//! `ndarray`, block by block in parallel.
//!
//! That product sums along `in` in an order that depends on nothing but `in`, and blocks cut
//! rows and outputs alone, so an element's bits are the same in any batch. Narrow types are
//! widened first; sums are f32.

use super::lanes::{load_into, store};
use super::math::softplus;
use super::{contiguous, slice, slice_mut};
use crate::buffer::Buffer;
use crate::dtype::{DType, Element};
use crate::error::Result;
use crate::ops::{Activation, Projection, ProjectionPart};
use multiversion::multiversion;
use ndarray::linalg::general_mat_mul;
use ndarray::{Array2, ArrayView2, ArrayViewMut2, Axis, CowArray, Ix2};

const ROWS: Axis = Axis(0);
const OUTPUTS: Axis = Axis(1);
/// Rows and outputs of a block: enough for the product to be fast, its result in the L2 cache.
const BLOCK: usize = 192;

pub(crate) fn run<T: Element>(
    op: &Projection,
    x: &Buffer<T>,
    parts: &mut [ProjectionPart<'_, T>],
) -> Result<()> {
    const VALIDATED: &str = "validated: the length is that of the shape";
    let x = ArrayView2::from_shape((op.rows, op.inputs), slice(x)).expect(VALIDATED);
    for part in parts {
        let weight = (part.outputs, op.inputs);
        divide(Block {
            x,
            weight: ArrayView2::from_shape(weight, slice(part.weight)).expect(VALIDATED),
            bias: part.bias.map(slice),
            activation: part.activation,
            out: ArrayViewMut2::from_shape((op.rows, part.outputs), slice_mut(part.out))
                .expect(VALIDATED),
        });
    }
    Ok(())
}

/// Some rows times some outputs.
struct Block<'a, T> {
    x: ArrayView2<'a, T>,
    weight: ArrayView2<'a, T>,
    bias: Option<&'a [f32]>,
    activation: Activation,
    out: ArrayViewMut2<'a, T>,
}

impl<T: Element> Block<'_, T> {
    fn split_rows(self, at: usize) -> (Self, Self) {
        let (x, out) = (self.x.split_at(ROWS, at), self.out.split_at(ROWS, at));
        let part = |x, out| Self {
            x,
            weight: self.weight,
            bias: self.bias,
            activation: self.activation,
            out,
        };
        (part(x.0, out.0), part(x.1, out.1))
    }

    fn split_outputs(self, at: usize) -> (Self, Self) {
        let weight = self.weight.split_at(ROWS, at);
        let bias = self.bias.map(|bias| bias.split_at(at)).unzip();
        let out = self.out.split_at(OUTPUTS, at);
        let part = |weight, bias, out| Self {
            x: self.x,
            weight,
            bias,
            activation: self.activation,
            out,
        };
        (part(weight.0, bias.0, out.0), part(weight.1, bias.1, out.1))
    }
}

/// Cuts what is larger than a block in two, and runs the halves in parallel.
fn divide<T: Element>(block: Block<'_, T>) {
    let (rows, outputs) = block.out.dim();
    if rows <= BLOCK && outputs <= BLOCK {
        return product(block);
    }
    let (left, right) = if rows >= outputs {
        block.split_rows(rows.div_ceil(BLOCK) / 2 * BLOCK)
    } else {
        block.split_outputs(outputs.div_ceil(BLOCK) / 2 * BLOCK)
    };
    rayon::join(|| divide(left), || divide(right));
}

fn product<T: Element>(block: Block<'_, T>) {
    let mut sums = Array2::zeros(block.out.dim());
    let (x, weight) = (wide(block.x), wide(block.weight));
    general_mat_mul(1.0, &x, &weight.t(), 0.0, &mut sums);
    finish(sums, block.bias, block.activation, block.out);
}

/// The values of a matrix, whose rows follow one another, as f32.
#[multiversion(targets("x86_64+avx2+fma+f16c"))]
fn wide<'a, T: Element>(matrix: ArrayView2<'a, T>) -> CowArray<'a, f32, Ix2> {
    let values: &'a [T] = contiguous(matrix.to_slice());
    if T::DTYPE == DType::F32 {
        let view = ArrayView2::from_shape(matrix.dim(), bytemuck::cast_slice(values));
        return contiguous(view.ok()).into();
    }
    let mut copy = vec![0.0; values.len()];
    load_into(values, &mut copy);
    contiguous(Array2::from_shape_vec(matrix.dim(), copy).ok()).into()
}

/// Bias, activation, and the rounding to the element type.
#[multiversion(targets("x86_64+avx2+fma+f16c"))]
fn finish<T: Element>(
    mut sums: Array2<f32>,
    bias: Option<&[f32]>,
    activation: Activation,
    mut out: ArrayViewMut2<'_, T>,
) {
    for (mut sums, out) in sums.outer_iter_mut().zip(out.outer_iter_mut()) {
        let (sums, out) = (
            contiguous(sums.as_slice_mut()),
            contiguous(out.into_slice()),
        );
        if let Some(bias) = bias {
            for (sum, bias) in sums.iter_mut().zip(bias) {
                *sum += bias;
            }
        }
        if activation == Activation::Softplus {
            for sum in sums.iter_mut() {
                *sum = softplus(*sum);
            }
        }
        if T::DTYPE == DType::F32 {
            bytemuck::cast_slice_mut(out).copy_from_slice(sums);
        } else {
            store(sums, out);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Device;

    /// Small integers: every order of summation gives the exact result.
    #[test]
    fn is_the_product() {
        let device = Device::cpu();
        for [rows, inputs, outputs] in [
            [0, 3, 2],
            [3, 0, 2],
            [3, 2, 0],
            [1, 1, 1],
            [2, 300, 5],
            [193, 7, 1],
            [1, 7, 400],
            [450, 33, 500],
        ] {
            let x: Vec<f32> = (0..rows * inputs)
                .map(|i| (i * 7 % 11) as f32 - 5.0)
                .collect();
            let weight: Vec<f32> = (0..outputs * inputs)
                .map(|i| (i * 5 % 13) as f32 - 6.0)
                .collect();
            let bias: Vec<f32> = (0..outputs).map(|i| i as f32).collect();
            let mut out = device.upload(&vec![f32::NAN; rows * outputs]).unwrap();
            let part = ProjectionPart {
                outputs,
                weight: &device.upload(&weight).unwrap(),
                bias: Some(&device.upload(&bias).unwrap()),
                activation: Activation::Identity,
                out: &mut out,
            };
            let x_buffer = device.upload(&x).unwrap();
            let op = Projection::new(rows, inputs);
            op.run(&device, &x_buffer, &mut [part]).unwrap();
            let expected: Vec<f32> = (0..rows * outputs)
                .map(|at| {
                    let (row, output) = (at / outputs, at % outputs);
                    let products =
                        (0..inputs).map(|i| x[row * inputs + i] * weight[output * inputs + i]);
                    products.sum::<f32>() + bias[output]
                })
                .collect();
            assert_eq!(out.to_vec().unwrap(), expected, "{rows} {inputs} {outputs}");
        }
    }
}
