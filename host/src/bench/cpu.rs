//! The CPU as a [`Machine`]: wall clock, and a streaming ceiling on all threads.

use super::machine::{Launch, Machine, timing, warm};
use super::row::{LaunchFloor, Rate, Stream, WarmMethod};
use crate::device::Device;
use crate::error::Result;
use rayon::prelude::*;
use std::hint::black_box;
use std::time::Instant;

const MIB: u64 = 1 << 20;

/// A guess at the last-level cache where the system does not say.
const CACHE: u64 = 64 * MIB;

/// Elements that one task of a streaming loop moves: large enough to amortise handing it
/// out, small enough to spread an array over many threads.
const CHUNK: usize = 1 << 15;

/// Wall-clock time that one warm sample should take at least, in microseconds: far above
/// the clock's resolution.
const SAMPLE_US: f64 = 500.0;

pub(crate) struct CpuMachine {
    device: Device,
    large: u64,
    flush: Vec<u64>,
    a: Vec<f32>,
    b: Vec<f32>,
    out: Vec<f32>,
}

impl CpuMachine {
    pub(crate) fn new() -> Self {
        let cache = last_level_cache().unwrap_or(CACHE);
        let flush = (2 * cache).clamp(64 * MIB, 512 * MIB);
        Self {
            device: Device::cpu(),
            large: (8 * cache).clamp(192 * MIB, 1536 * MIB),
            flush: vec![0; (flush / 8) as usize],
            a: Vec::new(),
            b: Vec::new(),
            out: Vec::new(),
        }
    }

    /// Writes more than the caches hold.
    fn flush(&mut self) {
        self.flush.par_chunks_mut(CHUNK).for_each(|chunk| {
            for word in chunk {
                *word = word.wrapping_add(1);
            }
        });
        black_box(&self.flush);
    }
}

/// Bytes of the largest cache that the first processor sees (Linux).
fn last_level_cache() -> Option<u64> {
    let folder = std::fs::read_dir("/sys/devices/system/cpu/cpu0/cache").ok()?;
    folder
        .filter_map(|entry| {
            let text = std::fs::read_to_string(entry.ok()?.path().join("size")).ok()?;
            parse_size(text.trim())
        })
        .max()
}

fn parse_size(text: &str) -> Option<u64> {
    let (number, unit) = match text.strip_suffix('K') {
        Some(number) => (number, 1 << 10),
        None => match text.strip_suffix('M') {
            Some(number) => (number, MIB),
            None => (text, 1),
        },
    };
    number.parse::<u64>().ok()?.checked_mul(unit)
}

fn us(since: Instant) -> f64 {
    since.elapsed().as_secs_f64() * 1e6
}

/// One pass of a streaming loop over the first `n` elements, on all threads.
fn pass(stream: Stream, a: &[f32], b: &[f32], out: &mut [f32], scale: f32) {
    let out = out.par_chunks_mut(CHUNK);
    match stream {
        Stream::Copy => out
            .zip(a.par_chunks(CHUNK))
            .for_each(|(out, a)| out.copy_from_slice(a)),
        Stream::Triad => out
            .zip(a.par_chunks(CHUNK).zip(b.par_chunks(CHUNK)))
            .for_each(|(out, (a, b))| {
                for ((out, a), b) in out.iter_mut().zip(a).zip(b) {
                    *out = scale * a + b;
                }
            }),
        Stream::Write => out.for_each(|out| out.fill(scale)),
    }
}

impl Machine for CpuMachine {
    fn device(&self) -> &Device {
        &self.device
    }

    fn driver(&self) -> Option<String> {
        None
    }

    fn cold(&mut self, samples: usize, launch: Launch<'_>) -> Result<Vec<f64>> {
        launch()?;
        let mut times = Vec::with_capacity(samples);
        for _ in 0..samples {
            self.flush();
            let start = Instant::now();
            launch()?;
            times.push(us(start));
        }
        Ok(times)
    }

    fn warm(
        &mut self,
        samples: usize,
        launches: usize,
        launch: Launch<'_>,
    ) -> Result<(Vec<f64>, WarmMethod)> {
        launch()?;
        let mut times = Vec::with_capacity(samples);
        for _ in 0..samples {
            let start = Instant::now();
            for _ in 0..launches {
                launch()?;
            }
            times.push(us(start) / launches as f64);
        }
        Ok((times, WarmMethod::BackToBack))
    }

    fn warm_launches(&self, cold_us: f64) -> usize {
        (SAMPLE_US / cold_us.max(1e-3)).ceil().clamp(1.0, 100.0) as usize
    }

    fn empty(&mut self, samples: usize) -> Result<LaunchFloor> {
        let mut nothing = || {
            black_box(());
            Ok(())
        };
        let cold = timing(&self.cold(samples, &mut nothing)?)?;
        Ok(LaunchFloor {
            cold,
            warm: warm(self, samples, 100, &mut nothing)?,
        })
    }

    fn large(&self) -> u64 {
        self.large
    }

    fn stream(&mut self, stream: Stream, bytes: u64, samples: usize) -> Result<Rate> {
        let bytes = bytes.min(self.large);
        let n = (bytes / stream.arrays() / 4).max(1) as usize;
        let reads = stream.arrays() as usize - 1;
        // Out of `self`, because `cold` borrows it for the flush.
        let (mut a, mut b, mut out) = (
            std::mem::take(&mut self.a),
            std::mem::take(&mut self.b),
            std::mem::take(&mut self.out),
        );
        for (array, used) in [(&mut a, reads > 0), (&mut b, reads > 1), (&mut out, true)] {
            if used && array.len() < n {
                array.resize(n, 1.0);
            }
        }
        let times = self.cold(samples, &mut || {
            let (a, b) = (&a[..n.min(a.len())], &b[..n.min(b.len())]);
            pass(stream, a, b, &mut out[..n], black_box(0.5));
            black_box(&out);
            Ok(())
        });
        (self.a, self.b, self.out) = (a, b, out);
        let threads = rayon::current_num_threads();
        Ok(Rate::new(
            stream.arrays() * n as u64 * 4,
            timing(&times?)?,
            format!("{threads} threads"),
        ))
    }

    fn arithmetic(&mut self, _samples: usize) -> Result<Option<(Rate, Rate)>> {
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_move_what_they_say() {
        let n = 2 * CHUNK + 7;
        let a: Vec<f32> = (0..n).map(|i| i as f32).collect();
        let b = vec![2.0; n];
        let mut out = vec![f32::NAN; n];
        pass(Stream::Copy, &a, &[], &mut out, 0.5);
        assert_eq!(out, a);
        pass(Stream::Triad, &a, &b, &mut out, 0.5);
        assert!((0..n).all(|i| out[i] == 0.5 * i as f32 + 2.0));
        pass(Stream::Write, &[], &[], &mut out, 0.5);
        assert!(out.iter().all(|&x| x == 0.5));
    }

    #[test]
    fn rates_are_of_the_bytes_asked_for() {
        let mut machine = CpuMachine::new();
        for stream in [Stream::Copy, Stream::Triad, Stream::Write] {
            let rate = machine.stream(stream, 1_200_000, 3).unwrap();
            assert_eq!(rate.amount, 1_200_000);
            assert_eq!(rate.time.samples, 3);
            assert!(rate.rate > 0.0 && rate.rate.is_finite());
        }
    }

    #[test]
    fn clocks() {
        let mut machine = CpuMachine::new();
        let pause = || {
            std::thread::sleep(std::time::Duration::from_millis(2));
            Ok(())
        };
        let cold = machine.cold(3, &mut { pause }).unwrap();
        assert_eq!(cold.len(), 3);
        let (warm, method) = machine.warm(3, 2, &mut { pause }).unwrap();
        assert_eq!((warm.len(), method), (3, WarmMethod::BackToBack));
        assert!(cold.iter().chain(&warm).all(|&us| us >= 2000.0));
        let floor = machine.empty(30).unwrap();
        assert!(floor.cold.median_us < 1000.0);
    }

    #[test]
    fn cache_sizes() {
        assert_eq!(parse_size("32K"), Some(32768));
        assert_eq!(parse_size("36M"), Some(36 * MIB));
        assert_eq!(parse_size("512"), Some(512));
        assert_eq!(parse_size("many"), None);
    }
}
