//! Measuring: what an operation takes, beside what it could take at best.
//!
//! Each file is one concern: [`stats`] medians and percentiles; `workloads` what can be
//! measured and `presets` at which sizes; `machine` what a device must offer, `cpu` and
//! `gpu` how the two offer it; `run` the loop; `oracle` the float64 check;
//! [`row`] the result as plain data; [`table`], [`plot`], [`compare`] what becomes of it.
//! The method is explained in `docs/performance.md`.

pub mod compare;
mod cpu;
mod gpu;
mod machine;
mod oracle;
pub mod plot;
mod presets;
mod random;
pub mod row;
mod run;
pub mod stats;
pub mod table;
mod workloads;

pub use run::{MIN_SAMPLES, Options, Progress};
pub use workloads::{OPERATIONS, Operation, Selection, layout_name};

use crate::device::{Device, DeviceKind};
use crate::error::{Error, Result};
use row::Report;

/// Measures what `selection` names on `device`.
///
/// A row whose result is wrong or whose operation fails does not end the run; it is marked,
/// and [`Report::ok`] is false.
///
/// # Errors
/// [`Error::Argument`] for a selection or options that make no sense, and for the emulator; the device's error
/// if not even its ceilings could be measured.
pub fn measure(
    device: &Device,
    selection: &Selection,
    options: &Options,
    progress: &mut dyn FnMut(Progress<'_>),
) -> Result<Report> {
    let work = || selection.workloads(device.kind());
    match (device.kind(), device.as_cuda()) {
        (DeviceKind::Cpu, _) => run::run(&mut cpu::CpuMachine::new(), &work()?, options, progress),
        (_, Some(cuda)) => {
            let work = work()?;
            let mut machine = gpu::GpuMachine::new(device.clone(), cuda.clone())?;
            run::run(&mut machine, &work, options, progress)
        }
        _ => Err(workloads::argument(
            "device",
            device.to_string(),
            "the CPU or a GPU: the time of an emulated kernel says nothing",
        )),
    }
}

/// The report as pretty-printed JSON, with a line break at its end.
///
/// # Errors
/// None in practice: the report is plain data.
pub fn to_json(report: &Report) -> Result<String> {
    let mut text = serde_json::to_string_pretty(report).map_err(|error| Error::Argument {
        operation: "bench",
        argument: "report",
        found: error.to_string(),
        expected: "plain data".to_owned(),
    })?;
    text.push('\n');
    Ok(text)
}

#[cfg(test)]
mod fixtures;
#[cfg(test)]
mod tests;
#[cfg(test)]
use fixtures::{sample_report, sample_report_with};
