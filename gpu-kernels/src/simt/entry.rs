//! Entry points and launch shapes: the contract between a kernel and whoever launches it.

/// Grid, block and dynamic shared memory of one launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaunchShape {
    /// Blocks in x, y, z.
    pub grid: [u32; 3],
    /// Threads of a block in x, y, z.
    pub block: [u32; 3],
    /// Dynamic shared memory of a block, in bytes.
    pub shared_bytes: u32,
}

impl LaunchShape {
    /// A one-dimensional launch.
    pub const fn linear(blocks: u32, threads: u32, shared_bytes: u32) -> Self {
        Self {
            grid: [blocks, 1, 1],
            block: [threads, 1, 1],
            shared_bytes,
        }
    }

    /// Threads of one block.
    pub const fn threads(&self) -> u32 {
        self.block[0] * self.block[1] * self.block[2]
    }
}

/// What a launch has to know of the device that it fills.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Multiprocessors {
    /// How many.
    pub count: u32,
    /// Shared memory of each, in bytes.
    pub shared_bytes: u32,
}

/// Shared memory that the driver takes for each block, in bytes.
const RESERVED_BYTES: u32 = 1 << 10;

impl Multiprocessors {
    /// Blocks with `shared_bytes` bytes of shared memory each that run at once, at most
    /// `most` on a multiprocessor; at least one.
    pub const fn blocks(&self, shared_bytes: u32, most: u32) -> u32 {
        let fit = self.shared_bytes / (shared_bytes + RESERVED_BYTES);
        let fit = if fit < most { fit } else { most };
        let blocks = fit * self.count;
        if blocks == 0 { 1 } else { blocks }
    }
}

/// What the register allocator may assume: written into the PTX as `.maxntid` and
/// `.minnctapersm`, because no Rust compiler writes launch bounds itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaunchBounds {
    /// The largest block the kernel is launched with.
    pub max_threads: u32,
    /// Blocks that should fit on a multiprocessor at once; 0 leaves it to ptxas.
    pub min_blocks: u32,
}

/// One entry point of a PTX module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntryInfo {
    /// The symbol in the PTX.
    pub name: &'static str,
    /// The module (family) it belongs to.
    pub module: &'static str,
    /// Size of its parameter struct, in bytes.
    pub param_size: usize,
    /// Its launch bounds.
    pub bounds: LaunchBounds,
}

/// A kernel as the launcher sees it: its name, and the one struct it takes.
pub trait Entry: 'static {
    /// The parameter struct, passed by value.
    type Params: Copy + 'static;
    /// Name, module, bounds.
    const INFO: EntryInfo;

    /// The kernel itself, for the emulator: what one thread runs.
    ///
    /// # Safety
    /// Runs inside an emulated launch whose buffers cover what `params` describes.
    #[cfg(not(target_arch = "nvptx64"))]
    unsafe fn run(params: Self::Params);
}

/// Lists a family's entry points: one line each, from which come the PTX symbol, the
/// typed handle the launcher and emulator take, and the `ENTRIES` list of the build.
///
/// ```text
/// entries! {
///     module "linear_scan";
///     /// f32 sequences.
///     LinearScanF32Rows = linear_scan_f32_rows(LinearScanParams<f32>)
///         => scan_tiles::<Rows<f32>, 1, false>, bounds(BLOCK, BLOCKS);
/// }
/// ```
macro_rules! entries {
    (module $module:literal; $(
        $(#[$meta:meta])*
        $handle:ident = $symbol:ident($params:ty) => $body:expr, bounds($threads:expr, $blocks:expr);
    )*) => {
        /// The name of this family's PTX module.
        pub const MODULE: &str = $module;

        $(
            $(#[$meta])*
            #[derive(Clone, Copy, Debug)]
            pub struct $handle;

            impl $crate::simt::Entry for $handle {
                type Params = $params;
                const INFO: $crate::simt::EntryInfo = $crate::simt::EntryInfo {
                    name: stringify!($symbol),
                    module: $module,
                    param_size: core::mem::size_of::<$params>(),
                    bounds: $crate::simt::LaunchBounds { max_threads: $threads, min_blocks: $blocks },
                };

                // Compiled here, once: else every crate that launches kernels, and every test
                // executable, compiles them all again.
                #[cfg(not(target_arch = "nvptx64"))]
                #[inline(never)]
                unsafe fn run(params: $params) {
                    // SAFETY: the caller's promise is the kernel's.
                    unsafe { $body(params) }
                }
            }
        )*

        /// This family's entry points.
        pub const ENTRIES: &[$crate::simt::EntryInfo] =
            &[$(<$handle as $crate::simt::Entry>::INFO),*];

        #[cfg(target_arch = "nvptx64")]
        mod device {
            use super::*;
            $(entry_point! { $symbol($params) => $body })*
        }
    };
}
