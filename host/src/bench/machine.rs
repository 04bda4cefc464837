//! What a device must offer to be measured: time with a cold and a warm cache, and its
//! ceilings. [`super::gpu`] and [`super::cpu`] are the two; tests bring their own.

use super::row::{LaunchFloor, Rate, Stream, Warm, WarmMethod};
use super::stats::Timing;
use super::workloads::argument;
use crate::device::Device;
use crate::error::Result;

/// Starts the work once; on a GPU without waiting for it.
pub(crate) type Launch<'a> = &'a mut dyn FnMut() -> Result<()>;

/// A device with a clock.
pub(crate) trait Machine {
    /// Where the work runs.
    fn device(&self) -> &Device;

    /// Its driver, if it has one.
    fn driver(&self) -> Option<String>;

    /// Microseconds of each of `samples` launches, each with a flushed cache, after a
    /// warm-up.
    fn cold(&mut self, samples: usize, launch: Launch<'_>) -> Result<Vec<f64>>;

    /// Microseconds of one launch, `samples` times, each the mean of `launches` with
    /// nothing between them.
    fn warm(
        &mut self,
        samples: usize,
        launches: usize,
        launch: Launch<'_>,
    ) -> Result<(Vec<f64>, WarmMethod)>;

    /// How many launches to put into one warm sample of work that takes `cold_us`.
    fn warm_launches(&self, cold_us: f64) -> usize;

    /// What launching nothing takes.
    fn empty(&mut self, samples: usize) -> Result<LaunchFloor>;

    /// Bytes to measure a streaming ceiling with: far more than the caches hold.
    fn large(&self) -> u64;

    /// The best cold rate of this traffic over `bytes` in all its arrays together, at
    /// most [`large`](Self::large).
    fn stream(&mut self, stream: Stream, bytes: u64, samples: usize) -> Result<Rate>;

    /// Throughput of `exp2` and of fused multiply-adds; `None` where neither is measured.
    fn arithmetic(&mut self, samples: usize) -> Result<Option<(Rate, Rate)>>;
}

/// The statistics of times that a machine took.
pub(crate) fn timing(samples: &[f64]) -> Result<Timing> {
    Timing::of(samples).ok_or_else(|| {
        argument(
            "samples",
            format!("{} times, not all finite", samples.len()),
            "at least one finite time",
        )
    })
}

/// [`Machine::warm`] with its statistics.
pub(crate) fn warm(
    machine: &mut dyn Machine,
    samples: usize,
    launches: usize,
    launch: Launch<'_>,
) -> Result<Warm> {
    let (times, method) = machine.warm(samples, launches, launch)?;
    Ok(Warm {
        time: timing(&times)?,
        method,
        launches,
    })
}
