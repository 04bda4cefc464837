//! What the driver says of itself and of its GPUs. Opens no context.

use super::error::{Code, check, check_cust};
use crate::error::{Error, Result};
use cust::CudaFlags;
use cust::sys::{self, CUdevice_attribute as Attribute};
use serde::Serialize;

/// A GPU, as the driver describes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Properties {
    /// The driver's number for it.
    pub ordinal: usize,
    /// Its name.
    pub name: String,
    /// Compute capability: major, minor.
    pub compute_capability: (u32, u32),
    /// Streaming multiprocessors.
    pub multiprocessors: u32,
    /// Global memory, in bytes.
    pub memory_bytes: u64,
    /// Level-2 cache, in bytes.
    pub l2_bytes: u64,
    /// Shared memory of a block without asking for more, in bytes.
    pub shared_per_block: u32,
    /// Shared memory of a block that asks for it, in bytes.
    pub shared_per_block_optin: u32,
    /// Shared memory of a multiprocessor, in bytes.
    pub shared_per_multiprocessor: u32,
    /// Threads of a block.
    pub max_threads: u32,
    /// Threads of a block in x, y, z.
    pub max_block: [u32; 3],
    /// Blocks of a grid in x, y, z.
    pub max_grid: [u32; 3],
}

impl Properties {
    pub(crate) fn query(ordinal: usize) -> Result<Self> {
        let device = device(ordinal)?;
        let get = |attribute: Attribute| attribute_of(device, attribute);
        Ok(Self {
            ordinal,
            name: check_cust(device.name()).map_err(|code| code.of("cuDeviceGetName"))?,
            compute_capability: (
                get(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?,
                get(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?,
            ),
            multiprocessors: get(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?,
            memory_bytes: check_cust(device.total_memory())
                .map_err(|code| code.of("cuDeviceTotalMem_v2"))? as u64,
            l2_bytes: u64::from(get(Attribute::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE)?),
            shared_per_block: get(Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK)?,
            shared_per_block_optin: get(
                Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN,
            )?,
            shared_per_multiprocessor: get(
                Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR,
            )?,
            max_threads: get(Attribute::CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK)?,
            max_block: [
                get(Attribute::CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X)?,
                get(Attribute::CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y)?,
                get(Attribute::CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z)?,
            ],
            max_grid: [
                get(Attribute::CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X)?,
                get(Attribute::CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y)?,
                get(Attribute::CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z)?,
            ],
        })
    }
}

/// Starts the driver and counts its GPUs; the error is the sentence a user should read.
pub(crate) fn count() -> Result<usize, String> {
    ferroseq_driver::status().map_err(|missing| missing.to_string())?;
    let failed = |call: &str, code: Code| format!("{call} failed: {code}");
    match check_cust(cust::init(CudaFlags::empty())) {
        Ok(()) => {}
        // The driver is there and works, but sees no GPU (or CUDA_VISIBLE_DEVICES hides all).
        Err(Code(ferroseq_driver::NO_DEVICE)) => return Ok(0),
        Err(code) => return Err(failed("cuInit", code)),
    }
    match check_cust(cust::device::Device::num_devices()) {
        Ok(count) => Ok(count as usize),
        Err(Code(ferroseq_driver::NO_DEVICE)) => Ok(0),
        Err(code) => Err(failed("cuDeviceGetCount", code)),
    }
}

/// The highest CUDA version that the driver serves: major, minor.
pub(crate) fn cuda_version() -> Result<(u32, u32)> {
    let version =
        check_cust(cust::CudaApiVersion::get()).map_err(|code| code.of("cuDriverGetVersion"))?;
    Ok((
        version.major().unsigned_abs(),
        version.minor().unsigned_abs(),
    ))
}

/// GPU `ordinal`, or why it is not there.
pub(super) fn find(ordinal: usize) -> Result<cust::device::Device> {
    let unavailable = |reason: String| Error::DeviceUnavailable {
        device: format!("cuda:{ordinal}"),
        reason,
    };
    let hidden = || {
        std::env::var("CUDA_VISIBLE_DEVICES").map_or_else(
            |_| String::new(),
            |value| format!(" (CUDA_VISIBLE_DEVICES is `{value}`)"),
        )
    };
    match count().map_err(unavailable)? {
        0 => Err(unavailable(format!("the driver sees no GPU{}", hidden()))),
        1 if ordinal >= 1 => Err(unavailable(format!(
            "the driver sees one GPU, cuda:0{}",
            hidden()
        ))),
        count if ordinal >= count => Err(unavailable(format!(
            "the driver sees {count} GPUs, cuda:0 to cuda:{}{}",
            count - 1,
            hidden()
        ))),
        _ => device(ordinal),
    }
}

fn device(ordinal: usize) -> Result<cust::device::Device> {
    let call = || format!("cuDeviceGet of GPU {ordinal}");
    let number = u32::try_from(ordinal).unwrap_or(u32::MAX);
    check_cust(cust::device::Device::get_device(number)).map_err(|code| code.of(call()))
}

fn attribute_of(device: cust::device::Device, attribute: Attribute) -> Result<u32> {
    let mut value = 0;
    // SAFETY: the driver writes one integer; it refuses attributes it does not know.
    check(unsafe { sys::cuDeviceGetAttribute(&mut value, attribute, device.as_raw()) })
        .map_err(|code| code.of(format!("cuDeviceGetAttribute of {attribute:?}")))?;
    // Sizes and counts: never negative.
    Ok(u32::try_from(value).unwrap_or_default())
}
