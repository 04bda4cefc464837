//! The measuring loop: ceilings first, then row after row, each checked.

use super::machine::{Machine, timing, warm};
use super::oracle::larger;
use super::row::{
    Accuracy, Binds, Ceilings, Floor, LaunchFloor, Rate, Report, Row, Status, Stream, per_us,
};
use super::workloads::{Work, Workload, argument, layout_name};
use crate::error::Result;
use std::collections::HashMap;

/// Samples of each time that are taken at least.
pub const MIN_SAMPLES: usize = 30;

/// The triad's rate may move by this share from the start of a run to its end before the
/// report says so.
const DRIFT: f64 = 0.03;

/// How to measure.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Samples of each time, at least [`MIN_SAMPLES`].
    pub samples: usize,
    /// Of the random inputs.
    pub seed: u64,
    /// For tests: changes an input behind the oracle's back, so that every row must
    /// come out FAILED.
    pub plant_fault: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            samples: 50,
            seed: 1,
            plant_fault: false,
        }
    }
}

/// What is being done, for whoever shows progress.
#[derive(Clone, Debug)]
pub enum Progress<'a> {
    /// The ceilings are being measured.
    Ceilings,
    /// Row `index` (from 0) of `of` is being measured.
    Row {
        /// Which.
        index: usize,
        /// How many there are.
        of: usize,
        /// The work.
        label: &'a str,
    },
}

/// Measures `work` on `machine`.
pub(crate) fn run(
    machine: &mut dyn Machine,
    work: &[Work],
    options: &Options,
    progress: &mut dyn FnMut(Progress<'_>),
) -> Result<Report> {
    if options.samples < MIN_SAMPLES {
        return Err(argument(
            "samples",
            options.samples.to_string(),
            format!("at least {MIN_SAMPLES}"),
        ));
    }
    progress(Progress::Ceilings);
    let date = humantime::format_rfc3339_seconds(std::time::SystemTime::now()).to_string();
    let launch_floor = machine.empty(options.samples)?;
    let ceilings = ceilings(machine, options.samples)?;
    let mut meter = Meter {
        machine,
        options,
        launch_floor,
        ceilings,
        same_size: HashMap::new(),
    };
    let mut rows = Vec::with_capacity(work.len());
    for (index, workload) in work.iter().enumerate() {
        let mut row = blank(workload.as_ref(), meter.machine);
        progress(Progress::Row {
            index,
            of: work.len(),
            label: &row.label(),
        });
        if let Err(error) = meter.measure(workload.as_ref(), &mut row) {
            row.status = Status::Failed;
            row.notes.push(error.to_string());
        }
        rows.push(row);
    }
    let mut notes: Vec<String> = meter.drift()?.into_iter().collect();
    if cfg!(debug_assertions) {
        notes.push("a debug build: times on the CPU mean nothing".to_owned());
    }
    Ok(Report {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        commit: option_env!("FERROSEQ_COMMIT").map(str::to_owned),
        date,
        device: meter.machine.device().to_string(),
        driver: meter.machine.driver(),
        launch_floor,
        ceilings: meter.ceilings,
        rows,
        notes,
    })
}

fn ceilings(machine: &mut dyn Machine, samples: usize) -> Result<Ceilings> {
    let large = machine.large();
    let (exp2, fma) = machine.arithmetic(samples)?.unzip();
    Ok(Ceilings {
        copy: machine.stream(Stream::Copy, large, samples)?,
        triad: machine.stream(Stream::Triad, large, samples)?,
        write: machine.stream(Stream::Write, large, samples)?,
        exp2,
        fma,
    })
}

/// A row that says what the work is and nothing yet of how it went.
fn blank(workload: &dyn Workload, machine: &dyn Machine) -> Row {
    Row {
        op: workload.op().to_owned(),
        shape: workload.shape(),
        dtype: workload.dtype().name().to_owned(),
        layout: workload
            .layout()
            .map(|layout| layout_name(layout).to_owned()),
        device: machine.device().to_string(),
        bytes: workload.bytes(),
        operations: workload.operations(),
        ceiling: workload.stream(),
        cold: None,
        warm: None,
        gbps: None,
        of_ceiling: None,
        of_same_size: None,
        floor: None,
        error: None,
        peer: None,
        warm_peer: None,
        status: Status::Ok,
        notes: Vec::new(),
    }
}

struct Meter<'a> {
    machine: &'a mut dyn Machine,
    options: &'a Options,
    launch_floor: LaunchFloor,
    ceilings: Ceilings,
    same_size: HashMap<(Stream, u64), f64>,
}

impl Meter<'_> {
    fn measure(&mut self, workload: &dyn Workload, row: &mut Row) -> Result<()> {
        let samples = self.options.samples;
        let mut prepared = workload.prepare(self.machine.device(), self.options.seed)?;
        if self.options.plant_fault {
            prepared.plant_fault()?;
        }
        prepared.poison()?;
        let cold = timing(&self.machine.cold(samples, &mut || prepared.launch())?)?;
        row.cold = Some(cold);
        let after_cold = prepared.check()?;
        row.error = Some(after_cold);
        prepared.poison()?;
        let launches = self.machine.warm_launches(cold.median_us);
        row.warm = Some(warm(self.machine, samples, launches, &mut || {
            prepared.launch()
        })?);
        row.error = Some(worse(after_cold, prepared.check()?));
        drop(prepared);
        self.figures(row)?;
        judge(row, &self.launch_floor);
        Ok(())
    }

    /// Rates, shares and floors of a row that has its times.
    fn figures(&mut self, row: &mut Row) -> Result<()> {
        let Some(cold) = row.cold else { return Ok(()) };
        let gbps = per_us(row.bytes, cold.median_us);
        let same_size = self.same_size(row.ceiling, row.bytes)?;
        row.gbps = Some(gbps);
        row.of_ceiling = Some(gbps / self.ceilings.stream(row.ceiling).rate);
        row.of_same_size = Some(gbps / same_size);
        row.floor = Some(floor(
            row,
            cold.median_us,
            &self.ceilings,
            &self.launch_floor,
        ));
        Ok(())
    }

    /// What the ceiling's kernel reaches over just these bytes, in GB/s.
    fn same_size(&mut self, stream: Stream, bytes: u64) -> Result<f64> {
        if bytes >= self.machine.large() {
            return Ok(self.ceilings.stream(stream).rate);
        }
        if let Some(&rate) = self.same_size.get(&(stream, bytes)) {
            return Ok(rate);
        }
        let rate = self
            .machine
            .stream(stream, bytes, self.options.samples)?
            .rate;
        self.same_size.insert((stream, bytes), rate);
        Ok(rate)
    }

    /// A line if the device was faster or slower at the end than at the start.
    fn drift(&mut self) -> Result<Option<String>> {
        let large = self.machine.large();
        let now = self
            .machine
            .stream(Stream::Triad, large, self.options.samples)?
            .rate;
        let before = self.ceilings.triad.rate;
        Ok(((now / before - 1.0).abs() > DRIFT).then(|| {
            format!(
                "the triad ran at {before:.1} GB/s before the rows and at {now:.1} GB/s after them \
                 ({:+.1}%): the device's clocks moved, or something else ran on it",
                100.0 * (now / before - 1.0)
            )
        }))
    }
}

/// The floors of a row whose cold time is `us`.
fn floor(row: &Row, us: f64, ceilings: &Ceilings, launch: &LaunchFloor) -> Floor {
    let time = |rate: &Option<Rate>, amount: u64| match rate {
        _ if amount == 0 => Some(0.0),
        Some(rate) => Some(rate.floor_us(amount)),
        None => None,
    };
    let mut floor = Floor {
        bytes_us: ceilings.stream(row.ceiling).floor_us(row.bytes),
        // The two pipes work side by side.
        operations_us: time(&ceilings.fma, row.operations.fma)
            .zip(time(&ceilings.exp2, row.operations.exp2))
            .map(|(fma, exp2)| fma.max(exp2)),
        launch_us: launch.cold.median_us,
        binds: Binds::Bytes,
        over: 0.0,
    };
    let operations = floor.operations_us.unwrap_or_default();
    if operations > floor.bytes_us {
        floor.binds = Binds::Operations;
    }
    if floor.launch_us > floor.bytes_us.max(operations) {
        floor.binds = Binds::Launch;
    }
    floor.over = us / floor.us();
    floor
}

fn worse(a: Accuracy, b: Accuracy) -> Accuracy {
    Accuracy {
        relative: larger(a.relative, b.relative),
        max_abs: larger(a.max_abs, b.max_abs),
        worst: larger(a.worst, b.worst),
        ..a
    }
}

/// Sets the status: a wrong result is worse than a time that cannot be.
fn judge(row: &mut Row, launch: &LaunchFloor) {
    let wrong = row.error.filter(|error| !error.ok());
    if let Some(error) = wrong {
        row.status = Status::Failed;
        row.notes.push(format!(
            "wrong result: relative error {:.2e} (allowed {:.2e}), largest difference {:.2e}, {:.2e} \
             of what its element is allowed",
            error.relative, error.tolerance, error.max_abs, error.worst
        ));
        return;
    }
    // Against the floor's p10: a kernel that does almost nothing scatters around the
    // floor's median, and half of those would be called faults.
    let below = |name: &str, us: f64, floor: f64| {
        (us < floor).then(|| {
            format!("measurement fault: {name} time {us:.3} us is below the empty launch's {floor:.3} us")
        })
    };
    let cold = row
        .cold
        .and_then(|time| below("cold", time.median_us, launch.cold.p10_us));
    let warm = row
        .warm
        .and_then(|warm| below("warm", warm.time.median_us, launch.warm.time.p10_us));
    for fault in cold.into_iter().chain(warm) {
        row.status = Status::Fault;
        row.notes.push(fault);
    }
    if row.of_ceiling.is_some_and(|share| share > 1.02) {
        row.notes.push(
            "above the ceiling: part of its bytes stayed in the cache, or the ceiling was disturbed \
             or is not the fastest loop there is (the share of the same size helps to tell)"
                .to_owned(),
        );
    }
}
