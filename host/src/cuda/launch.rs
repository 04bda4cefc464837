//! Starting kernels, after the launch was checked against the device's limits.

use super::device::CudaDevice;
use super::error::check;
use super::module::Function;
use super::properties::Properties;
use crate::error::{Error, Result};
use crate::launch::Launcher;
use cust::sys;
use gpu_kernels::simt::{Entry, Global, LaunchShape, Multiprocessors};
use std::ffi::c_void;
use std::ptr;

impl Launcher for CudaDevice {
    fn launch<K: Entry>(&self, shape: LaunchShape, params: K::Params) -> Result<()> {
        let function = self.modules.function(self, &K::INFO)?;
        let name = K::INFO.name;
        check_shape(name, &shape, self.properties(), &function)?;
        let _entered = self.enter()?;
        let ([gx, gy, gz], [bx, by, bz]) = (shape.grid, shape.block);
        let mut arguments = [ptr::from_ref(&params).cast_mut().cast::<c_void>()];
        // SAFETY: the entry point takes one parameter of `size_of::<K::Params>()` bytes
        // (`Module::function` compared the PTX), which the driver copies before it returns.
        // The shape is within the device's limits. `Launcher::launch`'s contract: the buffers
        // cover what the kernel accesses and live until the launch has ended.
        check(unsafe {
            sys::cuLaunchKernel(
                function.raw(),
                gx,
                gy,
                gz,
                bx,
                by,
                bz,
                shape.shared_bytes,
                self.launch_stream(),
                arguments.as_mut_ptr(),
                ptr::null_mut(),
            )
        })
        .map_err(|code| {
            code.of(format!(
                "cuLaunchKernel of `{name}` with grid {:?}, block {:?}, {} bytes of shared memory",
                shape.grid, shape.block, shape.shared_bytes
            ))
        })
    }

    fn scratch(&self, purpose: &'static str, bytes: usize) -> Result<Global<u32>> {
        self.scratch.get(self, purpose, bytes)
    }

    fn multiprocessors(&self) -> Multiprocessors {
        let properties = self.properties();
        Multiprocessors {
            count: properties.multiprocessors,
            shared_bytes: properties.shared_per_multiprocessor,
        }
    }
}

/// Compares a launch with what device and kernel allow, axis by axis.
fn check_shape(
    kernel: &'static str,
    shape: &LaunchShape,
    device: &Properties,
    function: &Function,
) -> Result<()> {
    let within = |argument: &'static str, found: u64, least: u32, most: u32| {
        if (u64::from(least)..=u64::from(most)).contains(&found) {
            return Ok(());
        }
        Err(Error::Argument {
            operation: kernel,
            argument,
            found: found.to_string(),
            expected: format!("{least} to {most} on {}", device.name),
        })
    };
    for (axis, (name_grid, name_block)) in [
        ("grid x", "block x"),
        ("grid y", "block y"),
        ("grid z", "block z"),
    ]
    .into_iter()
    .enumerate()
    {
        within(name_grid, shape.grid[axis].into(), 1, device.max_grid[axis])?;
        within(
            name_block,
            shape.block[axis].into(),
            1,
            device.max_block[axis],
        )?;
    }
    // Each axis is at most 1024 here, so the product fits.
    let threads = shape.block.iter().map(|axis| u64::from(*axis)).product();
    let most = device.max_threads.min(function.max_threads);
    within("threads of a block", threads, 1, most)?;
    within(
        "bytes of shared memory",
        shape.shared_bytes.into(),
        0,
        function.max_dynamic_shared,
    )
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// The properties of one real device.
    pub(in crate::cuda) fn h200() -> Properties {
        Properties {
            ordinal: 0,
            name: "NVIDIA H200".to_owned(),
            compute_capability: (9, 0),
            multiprocessors: 132,
            memory_bytes: 150_110_011_392,
            l2_bytes: 62_914_560,
            shared_per_block: 49_152,
            shared_per_block_optin: 232_448,
            shared_per_multiprocessor: 233_472,
            max_threads: 1024,
            max_block: [1024, 1024, 64],
            max_grid: [2_147_483_647, 65_535, 65_535],
        }
    }

    fn check(shape: LaunchShape) -> Result<(), String> {
        let function = Function::for_test(256, 232_448 - 1024);
        check_shape("kernel", &shape, &h200(), &function).map_err(|error| error.to_string())
    }

    #[test]
    fn launches_within_the_limits_pass() {
        assert_eq!(check(LaunchShape::linear(1, 256, 0)), Ok(()));
        assert_eq!(
            check(LaunchShape::linear(2_147_483_647, 1, 231_424)),
            Ok(())
        );
    }

    #[test]
    fn every_limit_is_named() {
        let shape = LaunchShape::linear(1, 1, 0);
        let cases = [
            (
                LaunchShape {
                    grid: [0, 1, 1],
                    ..shape
                },
                "`grid x` is 0",
            ),
            (
                LaunchShape {
                    grid: [1, 65_536, 1],
                    ..shape
                },
                "`grid y` is 65536",
            ),
            (
                LaunchShape {
                    grid: [1, 1, 70_000],
                    ..shape
                },
                "`grid z` is 70000",
            ),
            (
                LaunchShape {
                    block: [1025, 1, 1],
                    ..shape
                },
                "`block x` is 1025",
            ),
            (
                LaunchShape {
                    block: [1, 1, 65],
                    ..shape
                },
                "`block z` is 65",
            ),
            (
                LaunchShape {
                    block: [16, 17, 1],
                    ..shape
                },
                "`threads of a block` is 272",
            ),
            (
                LaunchShape {
                    block: [1024, 1024, 64],
                    ..shape
                },
                "`threads of a block` is 67108864",
            ),
            (
                LaunchShape {
                    shared_bytes: 231_425,
                    ..shape
                },
                "`bytes of shared memory` is 231425, expected 0 to 231424 on NVIDIA H200",
            ),
        ];
        for (shape, expected) in cases {
            let text = check(shape).expect_err(expected);
            assert!(text.contains(expected), "{text}, expected {expected}");
            assert!(text.starts_with("kernel: "), "{text}");
        }
    }
}
