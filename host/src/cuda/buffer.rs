//! Memory of a GPU, and typed arrays in it.

use super::device::CudaDevice;
use super::error::{Code, check};
use super::graph;
use crate::buffer::{Buffer, Storage};
use crate::dtype::Data;
use crate::error::{Error, Result};
use cust::sys::{self, CUdeviceptr, CUstream};
use gpu_kernels::simt::Global;
use std::marker::PhantomData;
use std::sync::Arc;

/// One allocation, aligned to 256 bytes at least. Freed when the last of its owners (a
/// buffer, a captured graph) lets go, after what was started on the device has ended.
#[derive(Debug)]
pub(super) struct Memory {
    device: Arc<CudaDevice>,
    address: CUdeviceptr,
    bytes: usize,
}

impl Memory {
    /// `bytes` > 0 bytes, as they come.
    pub(super) fn new(device: &Arc<CudaDevice>, bytes: usize) -> Result<Self> {
        let address = allocate(device, bytes)?;
        Ok(Self {
            device: Arc::clone(device),
            address,
            bytes,
        })
    }

    pub(super) fn device(&self) -> &CudaDevice {
        &self.device
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        release(&self.device, self.address);
    }
}

/// `bytes` bytes of the device's memory. Nothing frees them but [`release`].
pub(super) fn allocate(device: &CudaDevice, bytes: usize) -> Result<CUdeviceptr> {
    let _entered = device.enter()?;
    let mut address = 0;
    // SAFETY: the driver writes one address; the context is current.
    match check(unsafe { sys::cuMemAlloc_v2(&mut address, bytes) }) {
        Ok(()) => Ok(address),
        Err(code @ Code(ferroseq_driver::OUT_OF_MEMORY)) => Err(Error::OutOfMemory {
            bytes,
            device: device.label(),
            reason: format!("cuMemAlloc_v2: {code}"),
        }),
        Err(code) => Err(code.of(format!("cuMemAlloc_v2 of {bytes} bytes"))),
    }
}

/// Frees what [`allocate`] gave, after everything on the stream.
pub(super) fn release(device: &CudaDevice, address: CUdeviceptr) {
    // Errors here are those of launches before it, which whoever waits is told of, or of a
    // context that is gone with its memory.
    let Ok(_entered) = device.enter() else { return };
    let _ = device.wait("cuStreamSynchronize");
    // SAFETY: the address came from `allocate`, its owner is going, and no work that was
    // started on the stream uses it any more.
    let _ = unsafe { sys::cuMemFree_v2(address) };
}

/// Starts setting `bytes` bytes from `address` on to `value`.
pub(super) fn set_bytes(
    device: &CudaDevice,
    address: CUdeviceptr,
    bytes: usize,
    value: u8,
    stream: CUstream,
) -> Result<()> {
    let _entered = device.enter()?;
    // SAFETY: the callers pass a range inside an allocation that outlives the stream's work.
    check(unsafe { sys::cuMemsetD8Async(address, value, bytes, stream) })
        .map_err(|code| code.of(format!("cuMemsetD8Async of {bytes} bytes")))
}

/// An array in a GPU's memory. An empty one has no memory and needs no driver.
#[derive(Debug)]
pub(crate) struct CudaBuffer<T> {
    memory: Option<Arc<Memory>>,
    len: usize,
    marker: PhantomData<T>,
}

impl<T: Data> CudaBuffer<T> {
    fn uninitialised(device: &Arc<CudaDevice>, len: usize) -> Result<Self> {
        let bytes = len
            .checked_mul(size_of::<T>())
            .ok_or_else(|| Error::OutOfMemory {
                bytes: usize::MAX,
                device: device.label(),
                reason: format!(
                    "{len} elements of {} are more than an address space",
                    T::DTYPE
                ),
            })?;
        let memory = match bytes {
            0 => None,
            _ => Some(Arc::new(Memory::new(device, bytes)?)),
        };
        Ok(Self {
            memory,
            len,
            marker: PhantomData,
        })
    }

    pub(crate) fn from_slice(device: &Arc<CudaDevice>, data: &[T]) -> Result<Self> {
        device.refuse_in_capture("upload")?;
        let mut buffer = Self::uninitialised(device, data.len())?;
        buffer.write(data)?;
        Ok(buffer)
    }

    pub(crate) fn zeros(device: &Arc<CudaDevice>, len: usize) -> Result<Self> {
        device.refuse_in_capture("allocation")?;
        let buffer = Self::uninitialised(device, len)?;
        buffer.fill(0)?;
        Ok(buffer)
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn write(&mut self, data: &[T]) -> Result<()> {
        assert_eq!(data.len(), self.len, "the caller compares lengths");
        let Some(memory) = &self.memory else {
            return Ok(());
        };
        let device = &memory.device;
        device.refuse_in_capture("write")?;
        let _entered = device.enter()?;
        let bytes: &[u8] = bytemuck::cast_slice(data);
        let call = || format!("cuMemcpyHtoDAsync_v2 of {} bytes", bytes.len());
        // SAFETY: both ranges have `bytes.len()` bytes (asserted above); the wait below keeps
        // `data` borrowed until the copy has ended.
        check(unsafe {
            sys::cuMemcpyHtoDAsync_v2(
                memory.address,
                bytes.as_ptr().cast(),
                bytes.len(),
                device.stream(),
            )
        })
        .map_err(|code| code.of(call()))?;
        device.wait("cuStreamSynchronize after a copy to the device")
    }

    pub(crate) fn read(&self, out: &mut [T]) -> Result<()> {
        assert_eq!(out.len(), self.len, "the caller compares lengths");
        let Some(memory) = &self.memory else {
            return Ok(());
        };
        let device = &memory.device;
        device.refuse_in_capture("read")?;
        let _entered = device.enter()?;
        let bytes: &mut [u8] = bytemuck::cast_slice_mut(out);
        let len = bytes.len();
        // SAFETY: both ranges have `len` bytes (asserted above), any bits are a `T`
        // (`Data: Pod`), and the wait below keeps `out` borrowed until the copy has ended.
        check(unsafe {
            sys::cuMemcpyDtoHAsync_v2(
                bytes.as_mut_ptr().cast(),
                memory.address,
                len,
                device.stream(),
            )
        })
        .map_err(|code| code.of(format!("cuMemcpyDtoHAsync_v2 of {len} bytes")))?;
        device.wait("cuStreamSynchronize after a copy from the device")
    }

    /// The kernel's view. A graph that this thread is capturing keeps the memory.
    pub(crate) fn global(&self) -> Global<T> {
        match &self.memory {
            Some(memory) => {
                graph::keep(memory);
                Global::from_address(memory.address)
            }
            None => Global::null(),
        }
    }

    /// Starts setting every byte to `value`.
    fn fill(&self, value: u8) -> Result<()> {
        let Some(memory) = &self.memory else {
            return Ok(());
        };
        graph::keep(memory);
        let stream = memory.device.launch_stream();
        set_bytes(&memory.device, memory.address, memory.bytes, value, stream)
    }

    /// Starts copying `source`, of the same length and on the same device, over `self`.
    fn copy_from(&mut self, source: &Self) -> Result<()> {
        let (Some(to), Some(from)) = (&self.memory, &source.memory) else {
            return Ok(());
        };
        graph::keep(to);
        graph::keep(from);
        let (device, bytes) = (&to.device, to.bytes);
        let _entered = device.enter()?;
        // SAFETY: two allocations of `bytes` bytes, distinct because one is borrowed mutably;
        // both outlive the stream's work.
        check(unsafe {
            let stream = device.launch_stream();
            sys::cuMemcpyDtoDAsync_v2(to.address, from.address, bytes, stream)
        })
        .map_err(|code| code.of(format!("cuMemcpyDtoDAsync_v2 of {bytes} bytes")))
    }
}

/// Starts setting every byte of a GPU's buffer to `value`: to poison an output, or to push
/// everything else out of the L2 cache. May be captured in a graph.
///
/// # Errors
/// [`Error::Argument`] for a buffer of the CPU; the driver's error.
pub fn fill<T: Data>(buffer: &mut Buffer<T>, value: u8) -> Result<()> {
    match &buffer.storage {
        Storage::Cuda(cuda) => cuda.fill(value),
        Storage::Host(_) | Storage::Emulated(_) => Err(not_on_a_gpu("fill", "buffer")),
    }
}

/// Starts copying a GPU's buffer over another of the same GPU. May be captured in a graph.
///
/// # Errors
/// [`Error::Length`] unless both have the same length, [`Error::WrongDevice`],
/// [`Error::Argument`] for buffers of the CPU; the driver's error.
pub fn copy<T: Data>(from: &Buffer<T>, to: &mut Buffer<T>) -> Result<()> {
    const NAME: &str = "device copy";
    if from.device() != to.device() {
        return Err(Error::WrongDevice {
            operation: NAME,
            argument: "from",
            found: from.device().to_string(),
            expected: to.device().to_string(),
        });
    }
    if from.len() != to.len() {
        return Err(Error::Length {
            operation: NAME,
            argument: "from",
            found: from.len(),
            expected: to.len(),
            shape: "the target's length".to_owned(),
        });
    }
    match (&from.storage, &mut to.storage) {
        (Storage::Cuda(from), Storage::Cuda(to)) => to.copy_from(from),
        _ => Err(not_on_a_gpu(NAME, "from")),
    }
}

fn not_on_a_gpu(operation: &'static str, argument: &'static str) -> Error {
    Error::Argument {
        operation,
        argument,
        found: "a buffer of the CPU".to_owned(),
        expected: "a buffer of a GPU".to_owned(),
    }
}
