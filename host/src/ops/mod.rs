//! The operations: one file each, with its shapes, options, validation and errors. What
//! is said here is said once; every backend takes it from here.

mod check;
mod combine;
mod combine_backward;
mod dispatch;
mod dispatch_backward;
mod linear_scan;
mod linear_scan_backward;
mod linear_scan_stream;
pub(crate) mod moe;
mod projection;
mod route;
mod selective_scan;
mod selective_scan_layer;
mod selective_scan_step;
mod sequences;

pub use combine::{Combine, CombineArgs};
pub use combine_backward::{CombineBackward, CombineBackwardArgs};
pub use dispatch::{Dispatch, DispatchArgs};
pub use dispatch_backward::{DispatchBackward, DispatchBackwardArgs};
pub use linear_scan::{LinearScan, LinearScanArgs};
pub use linear_scan_backward::{LinearScanBackward, LinearScanBackwardArgs};
pub use linear_scan_stream::LinearScanStream;
pub use moe::{Index, MAX_EXPERTS, MAX_TOKENS, MAX_TOP_K, Payload, Routing, Slots, Status};
pub use projection::{Activation, Projection, ProjectionPart};
pub use route::{InvalidIds, Route, RouteArgs, RoutePlan};
pub use selective_scan::{MAX_STATE, SelectiveScan, SelectiveScanArgs, StateMatrix};
pub use selective_scan_layer::{
    SelectiveScanLayer, SelectiveScanLayerArgs, SelectiveScanWorkspace,
};
pub use selective_scan_step::{SelectiveScanStep, SelectiveScanStepArgs};
pub use sequences::{Layout, SequenceOffsets};
