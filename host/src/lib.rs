//! Ferroseq: sequence-model kernels written in Rust, compiled to PTX, driven from Rust.
//!
//! ```no_run
//! use ferroseq::{Device, ops::LinearScan};
//!
//! # fn main() -> ferroseq::Result<()> {
//! let device = Device::auto();                     // a GPU if there is one
//! let (batch, length, channels) = (2, 1024, 64);
//! let n = batch * length * channels;
//! let a = device.upload(&vec![0.9f32; n])?;
//! let b = device.upload(&vec![1.0f32; n])?;
//! let mut h = device.alloc::<f32>(n)?;
//! LinearScan::new(batch, length, channels).run(&device, &a, &b, &mut h)?;
//! let states: Vec<f32> = h.to_vec()?;
//! # Ok(()) }
//! ```
//!
//! An operation is a descriptor in [`ops`]: shapes, options, validation, errors. It runs
//! on whatever [`Device`] it is given; the buffers it takes live there.

#![deny(unsafe_code)]

pub mod bench;
pub mod buffer;
pub mod codegen;
pub mod device;
pub mod dtype;
pub mod emulated;
pub mod error;
pub mod info;
pub mod io;
pub mod ops;

mod cpu;
#[allow(unsafe_code)]
pub mod cuda;
mod embedded;
mod launch;

pub use buffer::Buffer;
pub use device::{Device, DeviceKind};
pub use dtype::{DType, Element};
pub use error::{Error, Result};
