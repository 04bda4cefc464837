//! The selective scan's conformance suite: the core, the step, the layer.

mod accuracy;
mod determinism;
mod errors;
mod golden;
mod layer;
mod options;
mod packed;
mod segments;
mod shapes;
mod special_values;
mod step;

pub use layer::LAYER;

use ferroseq::DeviceKind;
use ferroseq_tests::TestDevice;

/// The kinds of devices that have the core and the step.
pub const SCAN: &[DeviceKind] = &[DeviceKind::Cpu, DeviceKind::Emulated, DeviceKind::Cuda];

/// State updates that a test's case may take on this device.
fn affords(device: &TestDevice, [batch, length, channels, state]: [usize; 4]) -> bool {
    let updates = batch * length * channels * state;
    updates <= if device.cases.large { 1 << 21 } else { 1 << 11 }
}
