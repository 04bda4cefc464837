//! Projections on a device that runs kernels.

use super::{Launcher, covers, optional, too_large};
use crate::buffer::Buffer;
use crate::dtype::Element;
use crate::error::Result;
use crate::ops::{Activation, Projection, ProjectionPart};
use gpu_kernels::projection::policy::{self, Method};
use gpu_kernels::projection::{self, PARTS, Part, ProjectionParams};
use gpu_kernels::simt::Entry;

const NAME: &str = "projection";

/// The entry points for rows of this element type.
pub trait ProjectionKernels: gpu_kernels::simt::Element {
    /// On the tensor cores.
    type Matrix: Entry<Params = ProjectionParams<Self>>;
    /// By fused multiply-adds.
    type Plain: Entry<Params = ProjectionParams<Self>>;
}

macro_rules! kernels {
    ($($element:ty: $matrix:ident $plain:ident;)*) => { $(
        impl ProjectionKernels for $element {
            type Matrix = projection::$matrix;
            type Plain = projection::$plain;
        }
    )* };
}
kernels! {
    f32: ProjectionF32 ProjectionF32Plain;
    half::f16: ProjectionF16 ProjectionF16Plain;
    half::bf16: ProjectionBf16 ProjectionBf16Plain;
}

pub(crate) fn run<T: Element>(
    op: &Projection,
    device: &impl Launcher,
    x: &Buffer<T>,
    parts: &mut [ProjectionPart<'_, T>],
) -> Result<()> {
    if op.rows == 0 {
        return Ok(());
    }
    let mut present: Vec<_> = parts.iter_mut().filter(|part| part.outputs > 0).collect();
    for parts in present.chunks_mut(PARTS) {
        let params = params(op, x, parts).ok_or_else(|| too_large(NAME, op))?;
        check(op, &params, x, parts)?;
        let launch = policy::launch(
            params.rows,
            params.inputs,
            params.columns,
            T::DTYPE.size() as u32,
        )
        .ok_or_else(|| too_large(NAME, op))?;
        let params = ProjectionParams {
            column_tiles: launch.column_tiles,
            ..params
        };
        match launch.method {
            Method::Matrix => device.launch::<T::Matrix>(launch.shape, params)?,
            Method::Plain => device.launch::<T::Plain>(launch.shape, params)?,
        }
    }
    Ok(())
}

/// The parameters, but for the tiles; `None` if there are too many columns.
fn params<T: Element>(
    op: &Projection,
    x: &Buffer<T>,
    parts: &[&mut ProjectionPart<'_, T>],
) -> Option<ProjectionParams<T>> {
    let mut columns = 0u32;
    let mut described = [Part::absent(0); PARTS];
    for (part, described) in parts.iter().zip(&mut described) {
        let outputs = u32::try_from(part.outputs).ok()?;
        *described = Part {
            weight: part.weight.global(),
            out: part.out.global(),
            bias: optional(part.bias),
            first: columns,
            outputs,
            softplus: (part.activation == Activation::Softplus).into(),
            padding: 0,
        };
        columns = columns.checked_add(outputs)?;
    }
    described[parts.len()..].fill(Part::absent(columns));
    Some(ProjectionParams {
        x: x.global(),
        parts: described,
        rows: op.rows as u64,
        inputs: op.inputs as u64,
        columns,
        column_tiles: 0,
    })
}

/// The last word before the device: no buffer is shorter than what the kernel accesses for
/// these parameters.
fn check<T: Element>(
    op: &Projection,
    params: &ProjectionParams<T>,
    x: &Buffer<T>,
    parts: &[&mut ProjectionPart<'_, T>],
) -> Result<()> {
    covers(
        NAME,
        "x",
        Some(x),
        params.required().ok_or_else(|| too_large(NAME, op))?,
    )?;
    for (part, described) in parts.iter().zip(&params.parts) {
        let required = described.required(params.rows, params.inputs);
        let required = required.ok_or_else(|| too_large(NAME, op))?;
        covers(NAME, "weight", Some(part.weight), required.weight)?;
        covers(NAME, "out", Some(&*part.out), required.out)?;
        covers(NAME, "bias", part.bias, required.bias)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Device;
    use crate::launch::recorder::Recorder;
    use gpu_kernels::simt::LaunchShape;

    /// The launches for weights with these rows.
    fn record<T: Element>(
        rows: usize,
        inputs: usize,
        outputs: &[usize],
    ) -> Vec<(&'static str, LaunchShape, ProjectionParams<T>)> {
        let device = Device::cpu();
        let alloc = |elements| device.alloc::<T>(elements).expect("memory");
        let x = alloc(rows * inputs);
        let weights: Vec<_> = outputs.iter().map(|n| alloc(n * inputs)).collect();
        let mut outs: Vec<_> = outputs.iter().map(|n| alloc(n * rows)).collect();
        let mut parts: Vec<_> = outputs
            .iter()
            .zip(&weights)
            .zip(&mut outs)
            .map(|((&outputs, weight), out)| ProjectionPart {
                outputs,
                weight,
                bias: None,
                activation: Activation::Identity,
                out,
            })
            .collect();
        let recorder = Recorder::default();
        run(&Projection::new(rows, inputs), &recorder, &x, &mut parts).expect("launch");
        let launches = recorder.0.into_inner().into_iter();
        launches
            .map(|(name, shape, params)| (name, shape, *params.downcast().expect("parameters")))
            .collect()
    }

    #[test]
    fn rows_of_whole_16_bytes_go_to_the_tensor_cores() {
        assert_eq!(record::<f32>(3, 8, &[5])[0].0, "projection_f32");
        assert_eq!(record::<f32>(3, 9, &[5])[0].0, "projection_f32_plain");
        assert_eq!(record::<half::f16>(3, 8, &[5])[0].0, "projection_f16");
        let plain = record::<half::bf16>(3, 12, &[5]);
        assert_eq!(plain[0].0, "projection_bf16_plain");
    }

    #[test]
    fn the_weights_of_a_layer_go_in_one_launch_without_a_wasted_tile() {
        let launches = record::<f32>(1000, 256, &[256, 16, 16]);
        let [(_, shape, params)] = &launches[..] else {
            panic!("{} launches", launches.len());
        };
        assert_eq!(params.columns, 3 * policy::TILE_COLUMNS);
        assert_eq!(shape.grid, [8 * 3, 1, 1]);
        assert_eq!(params.parts.map(|part| part.first), [0, 256, 272]);
    }

    #[test]
    fn more_weights_take_more_launches_and_empty_ones_none() {
        let launches = record::<f32>(2, 4, &[1, 0, 2, 3, 0, 4]);
        let columns: Vec<_> = launches.iter().map(|launch| launch.2.columns).collect();
        assert_eq!(columns, [6, 4]);
        let last = launches[1].2.parts;
        assert_eq!(
            last.map(|part| (part.first, part.outputs)),
            [(0, 4), (4, 0), (4, 0)]
        );
        assert!(record::<f32>(0, 4, &[3]).is_empty());
        assert!(record::<f32>(4, 4, &[0]).is_empty());
        // With no inputs there are still the biases to write.
        assert_eq!(record::<f32>(4, 0, &[3]).len(), 1);
    }

    #[test]
    fn a_buffer_the_kernel_would_leave_is_refused() {
        let device = Device::cpu();
        let (x, weight) = (device.alloc::<f32>(8), device.alloc::<f32>(11));
        let (x, weight) = (x.expect("memory"), weight.expect("memory"));
        let mut out = device.alloc::<f32>(6).expect("memory");
        let part = ProjectionPart {
            outputs: 3,
            weight: &weight,
            bias: None,
            activation: Activation::Softplus,
            out: &mut out,
        };
        let recorder = Recorder::default();
        let error = run(&Projection::new(2, 4), &recorder, &x, &mut [part]).expect_err("short");
        let text = error.to_string();
        assert!(
            text.contains("`weight` holds 11 elements, expected 12"),
            "{text}"
        );
        assert!(recorder.0.borrow().is_empty());
    }
}
