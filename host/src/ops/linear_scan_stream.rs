//! The linear scan of a sequence that arrives in chunks.
//!
//! The state goes from one chunk to the next on the device, in f32. The states are those of
//! one call over the whole length, bit for bit: the CPU steps through every element in turn,
//! and a device that cuts the length into tiles takes chunks of whole tiles.

use super::{LinearScan, LinearScanArgs};
use crate::buffer::Buffer;
use crate::device::{Device, DeviceKind};
use crate::dtype::Element;
use crate::error::{Error, Result};
use crate::launch;

/// A linear scan that is fed chunks along L. With `reverse`, the last chunk comes first.
///
/// ```
/// use ferroseq::{Device, ops::{LinearScan, LinearScanStream}};
///
/// # fn main() -> ferroseq::Result<()> {
/// let device = Device::cpu();
/// let (a, b) = (device.upload(&[0.5f32, 0.5])?, device.upload(&[1.0f32, 1.0])?);
/// let mut h = device.alloc::<f32>(2)?;
/// // One channel; the length is that of each chunk.
/// let mut stream = LinearScanStream::new(&device, LinearScan::new(1, 0, 1), None)?;
/// stream.push(2, &a, Some(&b), &mut h)?;
/// assert_eq!(h.to_vec()?, [1.0, 1.5]);
/// stream.push(2, &a, Some(&b), &mut h)?;
/// assert_eq!(h.to_vec()?, [1.75, 1.875]);
/// assert_eq!(stream.state().to_vec()?, [1.875]);
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct LinearScanStream {
    device: Device,
    scan: LinearScan,
    state: Buffer<f32>,
    next: Buffer<f32>,
    /// The length of a chunk behind which no other can follow.
    ragged: Option<usize>,
}

impl LinearScanStream {
    /// Starts from `h0: [B, D]`, or zeros. `scan` says batch, channels, layout and direction;
    /// its length is not used.
    ///
    /// # Errors
    /// [`Error::Length`](crate::Error::Length) for a wrong `h0`, and the device's errors.
    pub fn new(device: &Device, scan: LinearScan, h0: Option<&Buffer<f32>>) -> Result<Self> {
        let empty = LinearScan { length: 0, ..scan };
        empty.elements()?;
        let mut stream = Self {
            device: device.clone(),
            scan,
            state: device.alloc(scan.batch.saturating_mul(scan.channels))?,
            next: device.alloc(scan.batch.saturating_mul(scan.channels))?,
            ragged: None,
        };
        if let Some(h0) = h0 {
            // A scan of no steps hands its initial state on.
            let nothing = device.alloc::<f32>(0)?;
            empty.run_with(
                device,
                LinearScanArgs {
                    a: &nothing,
                    b: None,
                    h: &mut device.alloc(0)?,
                    h0: Some(h0),
                    final_state: Some(&mut stream.state),
                    offsets: None,
                },
            )?;
        } else {
            // The emulator holds a kernel to what was written, not to what `alloc` left.
            let zeros = vec![0.0; stream.state.len()];
            stream.state.write(&zeros)?;
        }
        Ok(stream)
    }

    /// What a chunk's length must be a multiple of, for all chunks but the last: 1 on the
    /// CPU; elsewhere the time steps of a tile (a few hundred), where rounding may begin anew.
    pub fn granularity<T: Element>(device: &Device, scan: LinearScan) -> usize {
        match device.kind() {
            DeviceKind::Cpu => 1,
            _ => launch::linear_scan::tile_steps::<T>(&scan),
        }
    }

    /// Scans the next `length` time steps: `a`, `b` and `h` are `[B, length, D]` (or
    /// `[B, D, length]`); `b` absent means that `h` holds the inputs.
    ///
    /// # Errors
    /// [`Error::Argument`] behind a chunk that was no multiple of the
    /// [`granularity`](Self::granularity); else as [`LinearScan::run_with`]. The state is
    /// then that before the call.
    pub fn push<T: Element>(
        &mut self,
        length: usize,
        a: &Buffer<T>,
        b: Option<&Buffer<T>>,
        h: &mut Buffer<T>,
    ) -> Result<()> {
        let scan = LinearScan {
            length,
            ..self.scan
        };
        let granularity = Self::granularity::<T>(&self.device, scan);
        if let Some(before) = self.ragged
            && length > 0
        {
            return Err(Error::Argument {
                operation: "linear scan stream",
                argument: "length",
                found: format!("a chunk of {before} time steps, and another behind it"),
                expected: format!(
                    "a multiple of {granularity} for all chunks but the last on {}",
                    self.device
                ),
            });
        }
        scan.run_with(
            &self.device,
            LinearScanArgs {
                a,
                b,
                h,
                h0: Some(&self.state),
                final_state: Some(&mut self.next),
                offsets: None,
            },
        )?;
        std::mem::swap(&mut self.state, &mut self.next);
        if !length.is_multiple_of(granularity) {
            self.ragged = Some(length);
        }
        Ok(())
    }

    /// The state after the last chunk, `[B, D]`.
    pub fn state(&self) -> &Buffer<f32> {
        &self.state
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::Layout;

    #[test]
    fn chunks_give_the_bits_of_one_call() {
        let device = Device::cpu();
        let (length, channels) = (50, 3);
        let value = |i: usize| (i as f32 * 0.7).sin();
        let a: Vec<f32> = (0..length * channels).map(value).collect();
        let b: Vec<f32> = (0..length * channels).map(|i| value(i + 9)).collect();
        let h0 = device.upload(&[1.0f32, -2.0, 3.0]).unwrap();
        for reverse in [false, true] {
            let scan = LinearScan::new(1, length, channels)
                .layout(Layout::Bld)
                .reverse(reverse);
            let (mut h, mut last) = (vec![0.0; a.len()], vec![0.0; channels]);
            let mut whole = device.alloc::<f32>(a.len()).unwrap();
            let mut state = device.alloc::<f32>(channels).unwrap();
            let args = LinearScanArgs {
                a: &device.upload(&a).unwrap(),
                b: Some(&device.upload(&b).unwrap()),
                h: &mut whole,
                h0: Some(&h0),
                final_state: Some(&mut state),
                offsets: None,
            };
            scan.run_with(&device, args).unwrap();
            whole.read(&mut h).unwrap();
            state.read(&mut last).unwrap();

            let mut stream = LinearScanStream::new(&device, scan, Some(&h0)).unwrap();
            let mut cuts = vec![0..7, 7..7, 7..31, 31..50];
            if reverse {
                cuts.reverse();
            }
            for cut in cuts {
                let range = cut.start * channels..cut.end * channels;
                let mut out = device.upload(&b[range.clone()]).unwrap();
                let a = device.upload(&a[range.clone()]).unwrap();
                stream.push(cut.len(), &a, None, &mut out).unwrap();
                assert_eq!(out.to_vec().unwrap(), h[range]);
            }
            assert_eq!(stream.state().to_vec().unwrap(), last);
        }
    }
}
