//! What Ferroseq's tests stand on: exact oracles, seeded inputs, the devices to test.
//!
//! The oracles are written from the operations' definitions in float64 and share no code
//! with any backend. Every tolerance is an error bound derived beside the oracle that
//! computes it; none is tuned. The tests themselves are the one binary `it`.

pub mod compare;
pub mod devices;
pub mod inputs;
pub mod oracle;
pub mod problem;
pub mod sample;
pub mod selective;

pub use devices::{Cases, TestDevice, devices};
pub use problem::{Case, Outcome, Problem};
pub use sample::Sample;
pub use selective::{SelectiveCase, SelectiveOutcome, SelectiveProblem};
