//! The operations: one file each, with its shapes, options, validation and errors. What
//! is said here is said once; every backend takes it from here.

mod check;
mod linear_scan;
mod linear_scan_backward;
mod linear_scan_stream;
mod projection;
mod selective_scan;
mod selective_scan_layer;
mod selective_scan_step;
mod sequences;

pub use linear_scan::{LinearScan, LinearScanArgs};
pub use linear_scan_backward::{LinearScanBackward, LinearScanBackwardArgs};
pub use linear_scan_stream::LinearScanStream;
pub use projection::{Activation, Projection, ProjectionPart};
pub use selective_scan::{MAX_STATE, SelectiveScan, SelectiveScanArgs, StateMatrix};
pub use selective_scan_layer::{
    SelectiveScanLayer, SelectiveScanLayerArgs, SelectiveScanWorkspace,
};
pub use selective_scan_step::{SelectiveScanStep, SelectiveScanStepArgs};
pub use sequences::{Layout, SequenceOffsets};
