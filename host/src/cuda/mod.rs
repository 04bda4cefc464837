//! NVIDIA GPUs, through the CUDA driver API (`cust`, and `cust::sys` where it falls short).
//!
//! Nothing outside this folder sees a raw pointer. [`Device`](crate::Device) and
//! [`Buffer`](crate::Buffer) are the ordinary way in; what is public here besides is for
//! measuring: [`Event`], [`time_us`], [`Graph`], [`fill`], [`copy`].

mod buffer;
mod device;
mod error;
mod event;
mod graph;
mod launch;
mod module;
pub(crate) mod properties;
mod scratch;
#[cfg(test)]
mod tests;

pub(crate) use buffer::CudaBuffer;
pub use buffer::{copy, fill};
pub use device::CudaDevice;
pub use event::{Event, time_us};
pub use graph::Graph;
pub use properties::Properties;
#[cfg(test)]
pub(crate) use tests::first_gpu;
