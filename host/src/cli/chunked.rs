//! `ferroseq scan --chunk`: files larger than memory, a piece of each sequence at a time.

use super::progress::Progress;
use super::scan::{Job, load_state, stage_npy};
use anyhow::Context;
use ferroseq::io::{NpyReader, NpyWriter, Tensor, commit_all};
use ferroseq::ops::{Layout, LinearScan, LinearScanStream};
use ferroseq::{Buffer, Device, DeviceKind, Element};
use std::ops::Range;
use std::time::{Duration, Instant};

/// Scans with `steps` time steps in memory, rounded up to whole tiles; gives the time of the scans alone.
pub fn run<T: Element>(job: Job, steps: usize) -> anyhow::Result<Duration> {
    let (shape, sequences, channels) =
        (job.a.shape().to_owned(), job.sequences(), job.scan.channels);
    let pieces = Pieces::new(&job);
    let h0 = job.h0.map(load_state).transpose()?;
    // A device that cuts the length into tiles takes whole ones.
    let tile = LinearScanStream::granularity::<T>(&job.device, job.scan);
    let steps = steps
        .checked_next_multiple_of(tile)
        .unwrap_or(steps - steps % tile);
    let bytes = 3 * job.a.bytes();
    let mut work = Work::<T> {
        device: job.device,
        scan: LinearScan {
            batch: 1,
            ..job.scan
        },
        a: job
            .a
            .into_reader()
            .context("--chunk reads .npy files only")?,
        b: job
            .b
            .into_reader()
            .context("--chunk reads .npy files only")?,
        h: NpyWriter::create(&job.out, job.dtype, &shape)?,
        host: Vec::new(),
        buffers: None,
        time: Duration::ZERO,
        progress: Progress::new(bytes),
    };
    work.progress.phase("scan");
    let mut last = Vec::new();
    for sequence in 0..sequences {
        let h0 = match &h0 {
            Some(h0) => Some(work.device.upload(&h0[sequence * channels..][..channels])?),
            None => None,
        };
        let mut stream = LinearScanStream::new(&work.device, work.scan, h0.as_ref())?;
        let length = pieces.lengths[sequence];
        for i in 0..length.div_ceil(steps) {
            let done = i * steps;
            let count = steps.min(length - done);
            let first = if work.scan.reverse {
                length - done - count
            } else {
                done
            };
            let runs = pieces.runs(sequence, first..first + count);
            work.piece(&mut stream, &runs, count)?;
        }
        last.extend(stream.state().to_vec()?);
    }
    let Work {
        h, time, progress, ..
    } = work;
    drop(progress);
    let mut staged = vec![h.finish()];
    if let Some(path) = &job.final_state {
        let last = Tensor {
            shape: vec![sequences, channels],
            data: last.into(),
        };
        staged.push(stage_npy(path, &last, |_| {})?);
    }
    commit_all(staged)?;
    Ok(time)
}

/// Where the sequences lie in the files.
struct Pieces {
    layout: Layout,
    length: usize,
    channels: usize,
    /// Of each sequence, the batch element and the first time step there.
    starts: Vec<(usize, usize)>,
    lengths: Vec<usize>,
}

impl Pieces {
    fn new(job: &Job) -> Self {
        let LinearScan {
            batch,
            length,
            channels,
            layout,
            ..
        } = job.scan;
        let (starts, lengths) = match &job.offsets {
            Some(offsets) => (offsets.as_slice().windows(2))
                .map(|pair| ((0, pair[0] as usize), (pair[1] - pair[0]) as usize))
                .unzip(),
            None => (0..batch).map(|b| ((b, 0), length)).unzip(),
        };
        Self {
            layout,
            length,
            channels,
            starts,
            lengths,
        }
    }

    /// The runs of neighbouring elements that hold these time steps of a sequence: the first
    /// element of each, and how many there are in each.
    fn runs(&self, sequence: usize, steps: Range<usize>) -> Runs {
        let (batch, start) = self.starts[sequence];
        let first = start + steps.start;
        match self.layout {
            Layout::Bld => Runs {
                firsts: vec![(batch * self.length + first) * self.channels],
                elements: steps.len() * self.channels,
            },
            Layout::Bdl => Runs {
                firsts: (0..self.channels)
                    .map(|channel| (batch * self.channels + channel) * self.length + first)
                    .collect(),
                elements: steps.len(),
            },
        }
    }
}

struct Runs {
    firsts: Vec<usize>,
    elements: usize,
}

struct Work<T: Element> {
    device: Device,
    /// One sequence.
    scan: LinearScan,
    a: NpyReader,
    b: NpyReader,
    h: NpyWriter,
    host: Vec<T>,
    /// `a`, `b` and `h` of a piece; of a new size only when the piece has one.
    buffers: Option<[Buffer<T>; 3]>,
    time: Duration,
    progress: Progress,
}

impl<T: Element> Work<T> {
    /// Reads, scans and writes `steps` time steps of one sequence.
    fn piece(
        &mut self,
        stream: &mut LinearScanStream,
        runs: &Runs,
        steps: usize,
    ) -> anyhow::Result<()> {
        let elements = runs.firsts.len() * runs.elements;
        if elements == 0 {
            return Ok(());
        }
        if self.host.len() < elements {
            let more = elements - self.host.len();
            (self.host.try_reserve_exact(more))
                .with_context(|| format!("no memory for a chunk of {elements} elements"))?;
        }
        self.host.resize(elements, T::default());
        let first = self.buffers.is_none();
        let reuse = (self.buffers.take()).filter(|[a, ..]| a.len() == elements);
        let [mut a, mut b, mut h] = match reuse {
            Some(buffers) => buffers,
            None => [
                self.device.alloc(elements)?,
                self.device.alloc(elements)?,
                self.device.alloc(elements)?,
            ],
        };
        read(&mut self.a, runs, &mut self.host)?;
        a.write(&self.host)?;
        read(&mut self.b, runs, &mut self.host)?;
        b.write(&self.host)?;
        if first && self.device.kind() == DeviceKind::Cuda {
            let scan = LinearScan {
                length: steps,
                ..self.scan
            };
            scan.run(&self.device, &a, &b, &mut h)?;
        }
        self.device.synchronize()?;
        let start = Instant::now();
        stream.push(steps, &a, Some(&b), &mut h)?;
        self.device.synchronize()?;
        self.time += start.elapsed();
        h.read(&mut self.host)?;
        for (&first, part) in runs.firsts.iter().zip(self.host.chunks(runs.elements)) {
            self.h.write_at(first, part)?;
        }
        self.progress.add(3 * (elements * size_of::<T>()) as u64);
        self.buffers = Some([a, b, h]);
        Ok(())
    }
}

fn read<T: Element>(file: &mut NpyReader, runs: &Runs, out: &mut [T]) -> ferroseq::io::Result<()> {
    for (&first, part) in runs.firsts.iter().zip(out.chunks_mut(runs.elements)) {
        file.read_at(first, part)?;
    }
    Ok(())
}
