//! Times measured by the device itself.

use super::device::{CudaDevice, Handle};
use super::error::check;
use crate::error::Result;
use cust::sys::{self, CUevent};
use std::ptr;
use std::sync::Arc;

/// A mark in the stream of a device, with the time at which the device passed it.
#[derive(Debug)]
pub struct Event {
    device: Arc<CudaDevice>,
    raw: Handle<CUevent>,
}

impl Event {
    /// An event that is not recorded yet.
    ///
    /// # Errors
    /// The driver's error.
    pub fn new(device: &Arc<CudaDevice>) -> Result<Self> {
        let _entered = device.enter()?;
        let mut raw = ptr::null_mut();
        // SAFETY: the driver writes one handle. Flags 0: with timing.
        check(unsafe { sys::cuEventCreate(&mut raw, 0) })
            .map_err(|code| code.of("cuEventCreate"))?;
        Ok(Self {
            device: Arc::clone(device),
            raw: Handle(raw),
        })
    }

    /// Puts the mark behind everything that was started so far. Recorded again, it moves.
    ///
    /// # Errors
    /// The driver's error; while this thread captures a graph.
    pub fn record(&self) -> Result<()> {
        self.device.refuse_in_capture("recording an event")?;
        let _entered = self.device.enter()?;
        // SAFETY: event and stream are of this device and live.
        check(unsafe { sys::cuEventRecord(self.raw.0, self.device.stream()) })
            .map_err(|code| code.of("cuEventRecord"))
    }

    /// Waits until the device has passed the mark.
    ///
    /// # Errors
    /// The driver's error: the first of anything that failed before it.
    pub fn synchronize(&self) -> Result<()> {
        let _entered = self.device.enter()?;
        // SAFETY: the event lives as long as `self`.
        check(unsafe { sys::cuEventSynchronize(self.raw.0) })
            .map_err(|code| code.of("cuEventSynchronize"))
    }

    /// Microseconds from `start` to this event, after waiting for it. The resolution is about
    /// half a microsecond.
    ///
    /// # Errors
    /// The driver's error: of an event that was never recorded, or of anything before it.
    pub fn elapsed_us(&self, start: &Self) -> Result<f64> {
        self.synchronize()?;
        let _entered = self.device.enter()?;
        let mut milliseconds = 0f32;
        // SAFETY: both events live; the driver writes one float.
        check(unsafe { sys::cuEventElapsedTime(&mut milliseconds, start.raw.0, self.raw.0) })
            .map_err(|code| code.of("cuEventElapsedTime"))?;
        Ok(f64::from(milliseconds) * 1000.0)
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        let Ok(_entered) = self.device.enter() else {
            return;
        };
        // SAFETY: created by `new`; the driver keeps it until the device has passed it.
        let _ = unsafe { sys::cuEventDestroy_v2(self.raw.0) };
    }
}

/// Microseconds that the device takes for what `body` starts.
///
/// What is started one launch after the other includes the gaps between them; short kernels
/// are better measured by a [`Graph`](super::Graph) of many.
///
/// # Errors
/// That of `body`; the driver's error.
pub fn time_us(device: &Arc<CudaDevice>, body: impl FnOnce() -> Result<()>) -> Result<f64> {
    let (start, end) = (Event::new(device)?, Event::new(device)?);
    start.record()?;
    body()?;
    end.record()?;
    end.elapsed_us(&start)
}
