//! Linear scan `h[t] = a[t] * h[t-1] + b[t]` and its gradients: parameters, launch shape,
//! entry points (`forward`, `backward`). One kernel does both.

#[cfg(feature = "linear-scan-backward")]
pub mod backward;
mod chain;
mod edges;
#[cfg(feature = "linear-scan")]
mod forward;
mod kernel;
mod params;
mod place;
pub mod policy;
mod tickets;

#[cfg(feature = "linear-scan")]
pub use forward::*;
pub use params::{Gradients, LinearScanBackwardParams, LinearScanParams, Required};
