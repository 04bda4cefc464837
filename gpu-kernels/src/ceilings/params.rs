//! What the host tells a ceiling kernel.

use crate::simt::Global;

/// Parameters of a streaming kernel.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct StreamParams {
    /// First array read, `[4 * groups]`; null for `write`.
    pub a: Global<f32>,
    /// Second array read, `[4 * groups]`; null for `copy` and `write`.
    pub b: Global<f32>,
    /// Array written, `[4 * groups]`.
    pub out: Global<f32>,
    /// Groups of four elements (16 bytes) in each array.
    pub groups: u64,
    /// The triad's factor; the value that `write` writes.
    pub scale: f32,
    /// Unused; keeps the size a multiple of 8.
    pub padding: u32,
}

/// Parameters of an arithmetic kernel.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ArithmeticParams {
    /// One element for each thread of the launch, written, so that the work is not dropped.
    pub out: Global<f32>,
    /// Turns of the loop; each is [`policy::OPERATIONS_PER_TURN`](super::policy::OPERATIONS_PER_TURN)
    /// operations a thread.
    pub turns: u32,
    /// Start of the chains.
    pub seed: f32,
    /// `x = scale * x + offset`.
    pub scale: f32,
    /// `x = scale * x + offset`.
    pub offset: f32,
}

/// Parameters of the empty kernel: a kernel takes one struct, so there is one.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct EmptyParams {
    /// Not read.
    pub unused: u64,
}
