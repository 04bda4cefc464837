//! The sizes that are measured unless the user names others.

use crate::device::DeviceKind;
use crate::dtype::DType;
use crate::ops::Layout;

/// Sizes, element type and layout of one sequence operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Preset {
    /// `[B, L, D]`, whatever the layout.
    pub shape: [usize; 3],
    pub dtype: DType,
    pub layout: Layout,
}

/// On a GPU: the sizes that the peers are measured at. The first three fill the card
/// with sequences, with channels, and with one long sequence; the fourth is too small to
/// fill it.
const GPU: [[usize; 3]; 4] = [
    [32, 4096, 256],
    [8, 4096, 1536],
    [1, 65536, 1024],
    [1, 16384, 256],
];

/// On a GPU, f32 and `[B, L, D]` only: few channels over a million steps, and many
/// sequences with few channels each.
const GPU_NARROW: [[usize; 3]; 2] = [[1, 1_048_576, 16], [4096, 16, 1024]];

/// On a CPU: the same kinds of work, small enough for a laptop to end in a minute or two.
const CPU: [[usize; 3]; 3] = [[8, 4096, 256], [1, 16384, 256], [1, 131_072, 16]];

/// The linear scan's.
pub(crate) fn linear_scan(kind: DeviceKind) -> Vec<Preset> {
    let shapes: &[[usize; 3]] = match kind {
        DeviceKind::Cpu => &CPU,
        DeviceKind::Cuda => &GPU,
        // Its time says nothing.
        DeviceKind::Emulated => &[],
    };
    let mut presets = Vec::new();
    for dtype in [DType::F32, DType::Bf16] {
        for layout in [Layout::Bld, Layout::Bdl] {
            presets.extend(shapes.iter().map(|&shape| Preset {
                shape,
                dtype,
                layout,
            }));
        }
    }
    if kind == DeviceKind::Cuda {
        presets.extend(GPU_NARROW.iter().map(|&shape| Preset {
            shape,
            dtype: DType::F32,
            layout: Layout::Bld,
        }));
    }
    presets
}

/// Sizes of a mixture of experts, and the element type of its rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Moe {
    /// T, H, E, K.
    pub shape: [usize; 4],
    pub dtype: DType,
}

const fn moe_of(shape: [usize; 4], dtype: DType) -> Moe {
    Moe { shape, dtype }
}

/// On a GPU: a small layer, where the launch is most of the time; a large one with many
/// experts; many tokens with one expert each; and the large one's decoding step.
const GPU_MOE: [Moe; 4] = [
    moe_of([2048, 128, 16, 1], DType::F32),
    moe_of([8192, 7168, 256, 8], DType::Bf16),
    moe_of([65536, 2048, 64, 1], DType::F32),
    moe_of([128, 7168, 256, 8], DType::Bf16),
];

const CPU_MOE: [Moe; 2] = [
    moe_of([2048, 128, 16, 1], DType::F32),
    moe_of([1024, 1024, 64, 8], DType::Bf16),
];

/// Dispatch's and combine's.
pub(crate) fn moe(kind: DeviceKind) -> &'static [Moe] {
    match kind {
        DeviceKind::Cpu => &CPU_MOE,
        DeviceKind::Cuda => &GPU_MOE,
        DeviceKind::Emulated => &[],
    }
}

/// Route and dispatch together: where launches are what counts.
pub(crate) fn route_dispatch(kind: DeviceKind) -> &'static [Moe] {
    &moe(kind)[..moe(kind).len().min(1)]
}

/// Route's: T, E, K.
pub(crate) fn route(kind: DeviceKind) -> &'static [[usize; 3]] {
    match kind {
        DeviceKind::Cpu => &[[2048, 16, 1], [8192, 256, 8]],
        DeviceKind::Cuda => &[[2048, 16, 1], [8192, 256, 8], [65536, 64, 1], [128, 256, 8]],
        DeviceKind::Emulated => &[],
    }
}

/// The linear scan's gradients'.
pub(crate) fn linear_scan_backward(kind: DeviceKind) -> Vec<Preset> {
    match kind {
        DeviceKind::Cpu => vec![Preset {
            shape: CPU[0],
            dtype: DType::F32,
            layout: Layout::Bld,
        }],
        DeviceKind::Cuda => [DType::F32, DType::Bf16]
            .into_iter()
            .flat_map(|dtype| {
                [Layout::Bld, Layout::Bdl].map(|layout| Preset {
                    shape: GPU[0],
                    dtype,
                    layout,
                })
            })
            .collect(),
        DeviceKind::Emulated => Vec::new(),
    }
}

/// `[B, L, D, N]`, element type and layout of the selective scan. On a GPU the sizes that the
/// peers are measured at: one that fits the cache, a large model's, one long sequence, many
/// states.
pub(crate) fn selective_scan(kind: DeviceKind) -> Vec<([usize; 4], DType, Layout)> {
    use DType::{Bf16, F32};
    use Layout::{Bdl, Bld};
    match kind {
        DeviceKind::Cpu => [Bld, Bdl]
            .map(|layout| (SELECTIVE_CPU, F32, layout))
            .to_vec(),
        DeviceKind::Cuda => vec![
            (SELECTIVE_GPU, F32, Bld),
            (SELECTIVE_GPU, F32, Bdl),
            (SELECTIVE_GPU, Bf16, Bld),
            (SELECTIVE_GPU, Bf16, Bdl),
            ([8, 2048, 5120, 16], Bf16, Bld),
            ([1, 65536, 2048, 16], Bf16, Bld),
            ([2, 4096, 4096, 128], Bf16, Bld),
        ],
        DeviceKind::Emulated => Vec::new(),
    }
}

const SELECTIVE_GPU: [usize; 4] = [16, 2048, 256, 16];
const SELECTIVE_CPU: [usize; 4] = [2, 2048, 256, 16];

/// `[B, L, D, N]` and element type of a layer, and of its projections alone.
pub(crate) fn projection(kind: DeviceKind) -> Vec<([usize; 4], DType)> {
    match kind {
        DeviceKind::Cpu => vec![(SELECTIVE_CPU, DType::F32)],
        DeviceKind::Cuda => [DType::F32, DType::Bf16]
            .map(|dtype| (SELECTIVE_GPU, dtype))
            .to_vec(),
        DeviceKind::Emulated => Vec::new(),
    }
}

/// `[B, D, N]` and element type of the step: a batch of a large model's decoding.
pub(crate) fn selective_scan_step(kind: DeviceKind) -> Vec<([usize; 3], DType)> {
    match kind {
        DeviceKind::Cpu => vec![([64, 1024, 16], DType::F32)],
        DeviceKind::Cuda => [DType::Bf16, DType::F32]
            .map(|dtype| ([64, 5120, 16], dtype))
            .to_vec(),
        DeviceKind::Emulated => Vec::new(),
    }
}
