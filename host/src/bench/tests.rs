//! The measuring loop on a machine whose clock says what the test wants.

use super::machine::{Launch, Machine};
use super::oracle::{Comparison, Tolerance};
use super::row::{
    Accuracy, Binds, LaunchFloor, Operations, Rate, Report, Row, Status, Stream, Warm, WarmMethod,
};
use super::run::{self, MIN_SAMPLES, Options};
use super::stats::Timing;
use super::workloads::{Prepared, Workload};
use super::{Progress, to_json};
use crate::device::Device;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::ops::Layout;
use std::cell::Cell;
use std::rc::Rc;

/// A device whose ceilings are 1000 GB/s and 1000 Gop/s, and whose empty launch takes
/// 2 us cold (p10 1.9) and 1 us warm.
struct FakeMachine {
    device: Device,
    cold_us: f64,
    warm_us: f64,
    triads: usize,
    /// The triad's rates, one after the other; the last stays.
    triad_rates: Vec<f64>,
}

impl FakeMachine {
    fn new(cold_us: f64, warm_us: f64) -> Self {
        Self {
            device: Device::cpu(),
            cold_us,
            warm_us,
            triads: 0,
            triad_rates: vec![1000.0],
        }
    }
}

fn time(us: f64) -> Timing {
    Timing {
        median_us: us,
        p10_us: us * 0.95,
        p90_us: us * 1.05,
        samples: MIN_SAMPLES,
    }
}

impl Machine for FakeMachine {
    fn device(&self) -> &Device {
        &self.device
    }
    fn driver(&self) -> Option<String> {
        Some("1.2".to_owned())
    }
    fn cold(&mut self, samples: usize, launch: Launch<'_>) -> Result<Vec<f64>> {
        launch()?;
        Ok(vec![self.cold_us; samples])
    }
    fn warm(
        &mut self,
        samples: usize,
        launches: usize,
        launch: Launch<'_>,
    ) -> Result<(Vec<f64>, WarmMethod)> {
        for _ in 0..launches {
            launch()?;
        }
        Ok((vec![self.warm_us; samples], WarmMethod::Graph))
    }
    fn warm_launches(&self, _cold_us: f64) -> usize {
        20
    }
    fn empty(&mut self, _samples: usize) -> Result<LaunchFloor> {
        let warm = Warm {
            time: time(1.0),
            method: WarmMethod::Graph,
            launches: 100,
        };
        Ok(LaunchFloor {
            cold: time(2.0),
            warm,
        })
    }
    fn large(&self) -> u64 {
        1 << 30
    }
    fn stream(&mut self, stream: Stream, bytes: u64, _samples: usize) -> Result<Rate> {
        let mut billions = 1000.0;
        if stream == Stream::Triad {
            let last = self.triad_rates.len() - 1;
            billions = self.triad_rates[self.triads.min(last)];
            self.triads += 1;
        }
        Ok(Rate::new(
            bytes,
            time(bytes as f64 / billions / 1e3),
            "fake".to_owned(),
        ))
    }
    fn arithmetic(&mut self, _samples: usize) -> Result<Option<(Rate, Rate)>> {
        let rate = |us| Rate::new(1_000_000, time(us), "fake".to_owned());
        Ok(Some((rate(1.0), rate(1.0))))
    }
}

/// Adds one to an array; wrong from the launch on that the test names.
#[derive(Clone, Copy)]
struct FakeWork {
    bytes: u64,
    operations: Operations,
    wrong_from: usize,
    fails: bool,
}

impl Default for FakeWork {
    fn default() -> Self {
        Self {
            bytes: 100_000_000,
            operations: Operations::default(),
            wrong_from: usize::MAX,
            fails: false,
        }
    }
}

struct FakePrepared {
    work: FakeWork,
    launches: Rc<Cell<usize>>,
    input: Vec<f32>,
    output: Vec<f32>,
}

impl Workload for FakeWork {
    fn op(&self) -> &'static str {
        "fake"
    }
    fn shape(&self) -> Vec<usize> {
        vec![3]
    }
    fn dtype(&self) -> DType {
        DType::F32
    }
    fn layout(&self) -> Option<Layout> {
        None
    }
    fn bytes(&self) -> u64 {
        self.bytes
    }
    fn operations(&self) -> Operations {
        self.operations
    }
    fn stream(&self) -> Stream {
        Stream::Triad
    }
    fn prepare(&self, _device: &Device, _seed: u64) -> Result<Box<dyn Prepared>> {
        Ok(Box::new(FakePrepared {
            work: *self,
            launches: Rc::default(),
            input: vec![1.0, 2.0, 3.0],
            output: vec![0.0; 3],
        }))
    }
}

impl Prepared for FakePrepared {
    fn launch(&mut self) -> Result<()> {
        if self.work.fails {
            return Err(Error::OutOfMemory {
                bytes: 1,
                device: "fake".to_owned(),
                reason: "on purpose".to_owned(),
            });
        }
        let launches = self.launches.get();
        self.launches.set(launches + 1);
        for (out, x) in self.output.iter_mut().zip(&self.input) {
            *out = x + 1.0;
        }
        if launches >= self.work.wrong_from {
            self.output[1] = f32::NAN;
        }
        Ok(())
    }
    fn poison(&mut self) -> Result<()> {
        self.output.fill(f32::NAN);
        Ok(())
    }
    fn check(&mut self) -> Result<Accuracy> {
        let mut comparison = Comparison::new(Tolerance::new(DType::F32, 0.0));
        let pairs = self.output.iter().zip([2.0, 3.0, 4.0]);
        comparison.row();
        comparison.values(
            4.0,
            pairs.map(|(&found, expected)| (f64::from(found), expected)),
        );
        Ok(comparison.accuracy(1))
    }
    fn plant_fault(&mut self) -> Result<()> {
        self.input[2] += 1e-3;
        Ok(())
    }
}

fn options() -> Options {
    Options {
        samples: MIN_SAMPLES,
        ..Options::default()
    }
}

fn report(machine: &mut FakeMachine, work: FakeWork, options: Options) -> Report {
    let work: Vec<Box<dyn Workload>> = vec![Box::new(work)];
    run::run(machine, &work, &options, &mut |_| {}).unwrap()
}

fn row(cold_us: f64, warm_us: f64, work: FakeWork) -> Row {
    let mut machine = FakeMachine::new(cold_us, warm_us);
    let mut report = report(&mut machine, work, options());
    assert_eq!(report.ok(), report.rows[0].status == Status::Ok);
    report.rows.remove(0)
}

#[test]
fn figures_of_a_good_row() {
    let work = FakeWork::default();
    let row = row(125.0, 110.0, work);
    assert_eq!(row.status, Status::Ok, "{:?}", row.notes);
    assert_eq!(row.gbps, Some(800.0));
    assert!((row.of_ceiling.unwrap() - 0.8).abs() < 1e-12);
    assert!((row.of_same_size.unwrap() - 0.8).abs() < 1e-12);
    let floor = row.floor.unwrap();
    assert_eq!(
        (floor.binds, floor.operations_us),
        (Binds::Bytes, Some(0.0))
    );
    assert!((floor.bytes_us - 100.0).abs() < 1e-9 && (floor.over - 1.25).abs() < 1e-9);
    assert_eq!(row.error.unwrap().relative, 0.0);
    assert_eq!(row.warm.unwrap().time.median_us, 110.0);
    assert_eq!(row.cold.unwrap().samples, MIN_SAMPLES);
}

#[test]
fn the_highest_floor_binds() {
    let exponentials = FakeWork {
        operations: Operations {
            fma: 1_000_000,
            exp2: 300_000_000,
        },
        ..FakeWork::default()
    };
    let floor = row(600.0, 600.0, exponentials).floor.unwrap();
    assert_eq!(floor.binds, Binds::Operations);
    assert!((floor.us() - 300.0).abs() < 1e-9 && (floor.over - 2.0).abs() < 1e-9);
    let tiny = FakeWork {
        bytes: 1000,
        ..FakeWork::default()
    };
    let floor = row(3.0, 2.0, tiny).floor.unwrap();
    assert_eq!(floor.binds, Binds::Launch);
    assert!((floor.over - 1.5).abs() < 1e-9);
}

#[test]
fn a_planted_fault_is_found() {
    let mut machine = FakeMachine::new(125.0, 110.0);
    let options = Options {
        plant_fault: true,
        ..options()
    };
    let report = report(&mut machine, FakeWork::default(), options);
    assert_eq!(report.rows[0].status, Status::Failed);
    assert!(!report.ok() && report.rows[0].notes[0].contains("wrong result"));
}

#[test]
fn results_wrong_only_in_the_warm_runs_are_found() {
    let work = FakeWork {
        wrong_from: 2,
        ..FakeWork::default()
    };
    let row = row(125.0, 110.0, work);
    assert_eq!(row.status, Status::Failed);
    assert!(row.error.unwrap().max_abs.is_nan());
}

#[test]
fn an_error_of_the_operation_is_a_failed_row() {
    let work = FakeWork {
        fails: true,
        ..FakeWork::default()
    };
    let row = row(125.0, 110.0, work);
    assert_eq!(row.status, Status::Failed);
    assert!(row.notes[0].contains("on purpose") && row.cold.is_none());
}

#[test]
fn times_below_the_empty_launch_are_faults() {
    let fault = row(1.5, 1.2, FakeWork::default());
    assert_eq!(fault.status, Status::Fault);
    assert!(fault.notes[0].contains("cold time 1.500 us is below"));
    let fault = row(125.0, 0.5, FakeWork::default());
    assert_eq!(fault.status, Status::Fault);
    assert!(fault.notes[0].contains("warm"));
    // As long as an empty launch, give or take its own scatter, is no fault.
    let tiny = FakeWork {
        bytes: 100,
        ..FakeWork::default()
    };
    assert_eq!(row(1.95, 0.99, tiny).status, Status::Ok);
    // A wrong result stays a wrong result.
    let wrong = FakeWork {
        wrong_from: 0,
        ..FakeWork::default()
    };
    assert_eq!(row(1.5, 1.2, wrong).status, Status::Failed);
}

#[test]
fn a_device_that_changes_speed_is_noted() {
    let mut machine = FakeMachine::new(125.0, 110.0);
    // The ceiling, the row's own size, and the one after the rows.
    machine.triad_rates = vec![1000.0, 1000.0, 900.0];
    let slower = report(&mut machine, FakeWork::default(), options());
    assert!(
        slower.notes[0].contains("clocks moved"),
        "{:?}",
        slower.notes
    );
    let mut machine = FakeMachine::new(125.0, 110.0);
    let steady = report(&mut machine, FakeWork::default(), options());
    assert!(!steady.notes.iter().any(|note| note.contains("clocks")));
}

#[test]
fn rows_that_beat_the_ceiling_say_why() {
    let row = row(90.0, 80.0, FakeWork::default());
    assert_eq!(row.status, Status::Ok);
    assert!(row.notes[0].contains("above the ceiling"));
}

#[test]
fn too_few_samples_are_refused() {
    let work: Vec<Box<dyn Workload>> = vec![Box::new(FakeWork::default())];
    let options = Options {
        samples: MIN_SAMPLES - 1,
        ..Options::default()
    };
    let mut machine = FakeMachine::new(1.0, 1.0);
    let error = run::run(&mut machine, &work, &options, &mut |_| {}).unwrap_err();
    assert!(error.to_string().contains("at least 30"), "{error}");
}

#[test]
fn progress_names_each_row() {
    let work: Vec<Box<dyn Workload>> =
        vec![Box::new(FakeWork::default()), Box::new(FakeWork::default())];
    let mut seen = Vec::new();
    let mut machine = FakeMachine::new(125.0, 110.0);
    run::run(&mut machine, &work, &options(), &mut |progress| {
        seen.push(match progress {
            Progress::Ceilings => "ceilings".to_owned(),
            Progress::Row { index, of, label } => format!("{index}/{of} {label}"),
        });
    })
    .unwrap();
    assert_eq!(seen, ["ceilings", "0/2 fake f32 [3]", "1/2 fake f32 [3]"]);
}

#[test]
fn the_shape_of_the_json() {
    let mut machine = FakeMachine::new(125.0, 110.0);
    let report = report(&mut machine, FakeWork::default(), options());
    let json: serde_json::Value = serde_json::from_str(&to_json(&report).unwrap()).unwrap();
    for field in [
        "version",
        "commit",
        "date",
        "device",
        "driver",
        "launch_floor",
        "ceilings",
        "rows",
        "notes",
    ] {
        assert!(json.get(field).is_some(), "{field}");
    }
    for ceiling in ["copy", "triad", "write", "exp2", "fma"] {
        assert!(json["ceilings"][ceiling]["rate"].is_f64(), "{ceiling}");
    }
    let row = &json["rows"][0];
    for field in [
        "op",
        "shape",
        "dtype",
        "layout",
        "device",
        "bytes",
        "operations",
        "ceiling",
        "cold",
        "warm",
        "gbps",
        "of_ceiling",
        "of_same_size",
        "floor",
        "error",
        "peer",
        "warm_peer",
        "status",
        "notes",
    ] {
        assert!(row.get(field).is_some(), "{field}");
    }
    assert_eq!(row["op"], "fake");
    assert_eq!(row["shape"], serde_json::json!([3]));
    assert_eq!(row["status"], "ok");
    assert_eq!(row["ceiling"], "triad");
    assert_eq!(row["floor"]["binds"], "bytes");
    assert_eq!(row["cold"]["median_us"], 125.0);
    assert_eq!(row["cold"]["samples"], MIN_SAMPLES);
    assert_eq!(row["warm"]["median_us"], 110.0);
    assert_eq!(row["warm"]["method"], "graph");
    assert_eq!(row["error"]["relative"], 0.0);
    assert!(row["peer"].is_null());
    // Known where the build was told it.
    assert_eq!(
        json["commit"],
        serde_json::json!(option_env!("FERROSEQ_COMMIT"))
    );
    // RFC 3339, to the second, UTC.
    let date = json["date"].as_str().unwrap();
    assert!(date.len() == 20 && date.ends_with('Z'), "{date}");
}
