//! What a run of the bench found: plain data, the same in the table, the plot and the JSON.
//!
//! Times in microseconds, rates in GB/s (10^9 bytes) and Gop/s (10^9 operations), shares
//! as fractions (0.95, not 95). A number that does not exist (NaN) is `null` in JSON.

use super::stats::Timing;
use serde::Serialize;

/// Everything one run found.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// The version of this crate.
    pub version: String,
    /// The commit it was built from, if the build knew.
    pub commit: Option<String>,
    /// When the run began, UTC.
    pub date: String,
    /// The device.
    pub device: String,
    /// Its driver, on a GPU.
    pub driver: Option<String>,
    /// What an empty kernel takes, measured as the rows are.
    pub launch_floor: LaunchFloor,
    /// What the device reached in this run.
    pub ceilings: Ceilings,
    /// One for each piece of work.
    pub rows: Vec<Row>,
    /// What a reader should know: lines of the peers' file that were not used, and so on.
    pub notes: Vec<String>,
}

impl Report {
    /// Whether every row is right and measured.
    pub fn ok(&self) -> bool {
        self.rows.iter().all(|row| row.status == Status::Ok)
    }
}

/// The empty kernel's times (on the CPU: an empty call's).
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct LaunchFloor {
    /// With the cache flushed before each launch.
    pub cold: Timing,
    /// Many launches divided by their number.
    pub warm: Warm,
}

/// What the device can do at most, as far as our own loops could make it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Ceilings {
    /// One read, one write.
    pub copy: Rate,
    /// Two reads, one write.
    pub triad: Rate,
    /// One write.
    pub write: Rate,
    /// `exp2` on the special-function unit; `None` where it is not measured.
    pub exp2: Option<Rate>,
    /// f32 fused multiply-adds; `None` where it is not measured.
    pub fma: Option<Rate>,
}

impl Ceilings {
    /// The streaming ceiling of this kind of traffic.
    pub fn stream(&self, stream: Stream) -> &Rate {
        match stream {
            Stream::Copy => &self.copy,
            Stream::Triad => &self.triad,
            Stream::Write => &self.write,
        }
    }
}

/// A measured rate.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Rate {
    /// GB/s of a streaming loop, Gop/s of an arithmetic one.
    pub rate: f64,
    /// Bytes moved, or operations done, in one launch.
    pub amount: u64,
    /// The time of one launch.
    pub time: Timing,
    /// Which of the loops that were tried was the fastest.
    pub variant: String,
}

impl Rate {
    /// The rate at which `amount` was done in `time`.
    pub fn new(amount: u64, time: Timing, variant: String) -> Self {
        Self {
            rate: per_us(amount, time.median_us),
            amount,
            time,
            variant,
        }
    }

    /// Microseconds that `amount` takes at this rate.
    pub fn floor_us(&self, amount: u64) -> f64 {
        amount as f64 / (self.rate * 1e3)
    }
}

/// Billions a second, of `amount` in `us` microseconds.
pub fn per_us(amount: u64, us: f64) -> f64 {
    amount as f64 / (us * 1e3)
}

/// A kind of memory traffic, and the ceiling kernel that has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Stream {
    /// One read, one write.
    Copy,
    /// Two reads, one write.
    Triad,
    /// One write.
    Write,
}

impl Stream {
    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Copy => "copy",
            Self::Triad => "triad",
            Self::Write => "write",
        }
    }

    /// Arrays that one launch reads and writes.
    pub const fn arrays(self) -> u64 {
        match self {
            Self::Copy => 2,
            Self::Triad => 3,
            Self::Write => 1,
        }
    }
}

/// Arithmetic that a piece of work cannot do without.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Operations {
    /// f32 fused multiply-adds (an add or a product alone counts as one).
    pub fma: u64,
    /// Exponentials, logarithms and reciprocals: the special-function unit's.
    pub exp2: u64,
}

impl Operations {
    /// All of them.
    pub fn total(&self) -> u64 {
        self.fma + self.exp2
    }
}

/// The warm time and how it was taken.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Warm {
    /// The time of one launch.
    #[serde(flatten)]
    pub time: Timing,
    /// How.
    pub method: WarmMethod,
    /// Launches in each sample.
    pub launches: usize,
}

/// How a warm time was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum WarmMethod {
    /// A CUDA graph of many launches, divided by their number.
    Graph,
    /// Launches one after the other, divided by their number.
    BackToBack,
}

/// The times below which a piece of work cannot go on this device, and how near it came.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Floor {
    /// Its bytes at the ceiling of its traffic.
    pub bytes_us: f64,
    /// Its arithmetic at the measured throughput; `None` where that was not measured.
    pub operations_us: Option<f64>,
    /// An empty launch.
    pub launch_us: f64,
    /// The largest of the three.
    pub binds: Binds,
    /// The cold time as a multiple of that one.
    pub over: f64,
}

impl Floor {
    /// The floor that binds, in microseconds.
    pub fn us(&self) -> f64 {
        match self.binds {
            Binds::Bytes => self.bytes_us,
            Binds::Operations => self.operations_us.unwrap_or_default(),
            Binds::Launch => self.launch_us,
        }
    }
}

/// Which floor is the highest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Binds {
    /// Memory traffic.
    Bytes,
    /// Arithmetic.
    Operations,
    /// Starting a kernel.
    Launch,
}

impl Binds {
    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Bytes => "bytes",
            Self::Operations => "operations",
            Self::Launch => "launch",
        }
    }
}

/// How a result compares with the float64 oracle.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Accuracy {
    /// Frobenius norm of the difference over that of the oracle, in the sample.
    pub relative: f64,
    /// The largest difference of one element.
    pub max_abs: f64,
    /// The largest difference of one element as a share of what that element is allowed.
    pub worst: f64,
    /// `relative` must not exceed this.
    pub tolerance: f64,
    /// Rows (channels, tokens) compared.
    pub sampled: usize,
    /// Rows there are.
    pub of: usize,
}

impl Accuracy {
    /// Whether the result is right. A NaN anywhere is wrong.
    pub fn ok(&self) -> bool {
        self.relative <= self.tolerance && self.worst <= 1.0 && self.max_abs.is_finite()
    }
}

/// Whether a row counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Status {
    /// Right, and measured.
    #[serde(rename = "ok")]
    Ok,
    /// The result is wrong, or the operation returned an error.
    #[serde(rename = "FAILED")]
    Failed,
    /// The time cannot be true.
    #[serde(rename = "fault")]
    Fault,
}

impl Status {
    /// As the table and the JSON show it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Failed => "FAILED",
            Self::Fault => "fault",
        }
    }
}

/// The fastest peer that did the same work.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PeerMatch {
    /// Its name.
    pub peer: String,
    /// Its time.
    pub us: f64,
    /// Its time over ours: above 1, we are faster.
    pub ratio: f64,
}

/// One piece of work on one device.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// The operation, e.g. `linear-scan`.
    pub op: String,
    /// Its sizes in the operation's own order, e.g. `[B, L, D]` whatever the layout.
    pub shape: Vec<usize>,
    /// The element type of its sequences.
    pub dtype: String,
    /// The memory layout, e.g. `bld`, where there is a choice.
    pub layout: Option<String>,
    /// The device.
    pub device: String,
    /// Bytes that must move: each argument once.
    pub bytes: u64,
    /// Arithmetic that must be done.
    pub operations: Operations,
    /// The ceiling that its traffic is held against.
    pub ceiling: Stream,
    /// Times with the cache flushed before each launch; `None` if the operation failed.
    pub cold: Option<Timing>,
    /// Times with the cache as the launch before left it.
    pub warm: Option<Warm>,
    /// `bytes` over the cold median.
    pub gbps: Option<f64>,
    /// `gbps` as a share of the ceiling, measured over large arrays.
    pub of_ceiling: Option<f64>,
    /// `gbps` as a share of what the ceiling's kernel reaches over the same bytes.
    pub of_same_size: Option<f64>,
    /// How far it is from what is possible.
    pub floor: Option<Floor>,
    /// The worse of the comparisons after the cold and the warm runs.
    pub error: Option<Accuracy>,
    /// The best peer, cold.
    pub peer: Option<PeerMatch>,
    /// The best peer, warm.
    pub warm_peer: Option<PeerMatch>,
    /// Whether the row counts.
    pub status: Status,
    /// Why not, and what else a reader should know.
    pub notes: Vec<String>,
}

impl Row {
    /// The sizes as text, e.g. `[8,4096,256]`.
    pub fn shape_text(&self) -> String {
        let sizes: Vec<String> = self.shape.iter().map(usize::to_string).collect();
        format!("[{}]", sizes.join(","))
    }

    /// Operation, element type, layout and sizes in one line.
    pub fn label(&self) -> String {
        let mut words = vec![self.op.clone(), self.dtype.clone()];
        words.extend(self.layout.clone());
        words.push(self.shape_text());
        words.join(" ")
    }
}
