//! One linear-scan problem: the descriptor, its inputs, where each channel's steps lie in
//! memory, and how to run it on a device.

use crate::inputs::Inputs;
use crate::sample::Sample;
use ferroseq::ops::{Layout, LinearScan, LinearScanArgs, SequenceOffsets};
use ferroseq::{Device, Result};

/// A problem before its inputs are drawn: small enough to print when a test fails.
#[derive(Clone, Debug)]
pub struct Case {
    /// Shape and options.
    pub scan: LinearScan,
    /// Lengths of packed sequences; their sum is L and B is 1.
    pub lengths: Option<Vec<usize>>,
    /// Whether there is an initial state.
    pub initial: bool,
    /// Of the inputs.
    pub seed: u64,
}

/// A problem with its inputs.
#[derive(Clone, Debug)]
pub struct Problem<T> {
    /// Shape and options.
    pub scan: LinearScan,
    /// `[S + 1]` offsets of packed sequences.
    pub offsets: Option<Vec<i64>>,
    /// Gates.
    pub a: Vec<T>,
    /// Inputs.
    pub b: Vec<T>,
    /// `[B, D]` or `[S, D]`.
    pub h0: Option<Vec<f32>>,
}

/// What a run returned.
#[derive(Clone, Debug)]
pub struct Outcome<T> {
    /// States.
    pub h: Vec<T>,
    /// Final states.
    pub final_state: Vec<f32>,
}

impl Case {
    /// Without packed sequences or initial state.
    pub fn plain(batch: usize, length: usize, channels: usize, seed: u64) -> Self {
        Self {
            scan: LinearScan::new(batch, length, channels),
            lengths: None,
            initial: false,
            seed,
        }
    }

    /// Packed sequences of these lengths.
    pub fn packed(lengths: &[usize], channels: usize, seed: u64) -> Self {
        Self {
            scan: LinearScan::new(1, lengths.iter().sum(), channels),
            lengths: Some(lengths.to_vec()),
            initial: false,
            seed,
        }
    }

    /// Draws the inputs.
    pub fn problem<T: Sample>(&self) -> Problem<T> {
        let mut inputs = Inputs::new(self.seed);
        let elements = self.scan.batch * self.scan.length * self.scan.channels;
        let mut problem = Problem {
            scan: self.scan,
            offsets: self.lengths.as_deref().map(offsets_of),
            a: inputs.gates(elements),
            b: inputs.values(elements),
            h0: None,
        };
        if self.initial {
            problem.h0 = Some(inputs.values(problem.states()));
        }
        problem
    }
}

/// Offsets of sequences of these lengths: a running sum that starts at 0.
pub fn offsets_of(lengths: &[usize]) -> Vec<i64> {
    let mut offsets = vec![0];
    let mut sum = 0;
    for &length in lengths {
        sum += length as i64;
        offsets.push(sum);
    }
    offsets
}

/// Where the steps of one channel of one sequence lie.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    /// Its place in `h0` and the final state.
    pub state: usize,
    first: usize,
    stride: usize,
    rows: usize,
    reverse: bool,
}

impl Column {
    /// Indices in `a`, `b` and `h`, in the order the scan takes them.
    pub fn indices(self) -> impl DoubleEndedIterator<Item = usize> + ExactSizeIterator {
        (0..self.rows).map(move |step| {
            let row = if self.reverse {
                self.rows - 1 - step
            } else {
                step
            };
            self.first + row * self.stride
        })
    }
}

impl<T: Sample> Problem<T> {
    /// Sequences: B, or S.
    pub fn sequences(&self) -> usize {
        self.offsets
            .as_ref()
            .map_or(self.scan.batch, |offsets| offsets.len() - 1)
    }

    /// Elements of `h0` and the final state.
    pub fn states(&self) -> usize {
        self.sequences() * self.scan.channels
    }

    /// Every channel of every sequence.
    pub fn columns(&self) -> impl Iterator<Item = Column> + '_ {
        let scan = self.scan;
        (0..self.states()).map(move |state| {
            let (sequence, channel) = (state / scan.channels, state % scan.channels);
            let (batch, row, rows) = match &self.offsets {
                None => (sequence, 0, scan.length),
                Some(offsets) => {
                    let row = offsets[sequence] as usize;
                    (0, row, offsets[sequence + 1] as usize - row)
                }
            };
            let (time, across) = match scan.layout {
                Layout::Bld => (scan.channels, 1),
                Layout::Bdl => (1, scan.length),
            };
            Column {
                state,
                first: batch * scan.length * scan.channels + row * time + channel * across,
                stride: time,
                rows,
                reverse: scan.reverse,
            }
        })
    }

    /// Runs it with every output full of NaN before, so that what is not written shows.
    pub fn run(&self, device: &Device) -> Result<Outcome<T>> {
        self.run_on(device, false)
    }

    /// Runs it with `h` holding `b` before the run.
    pub fn run_in_place(&self, device: &Device) -> Result<Outcome<T>> {
        self.run_on(device, true)
    }

    fn run_on(&self, device: &Device, in_place: bool) -> Result<Outcome<T>> {
        let a = device.upload(&self.a)?;
        let (b, mut h) = if in_place {
            (None, device.upload(&self.b)?)
        } else {
            let poison = vec![T::narrow(f32::NAN); self.b.len()];
            (Some(device.upload(&self.b)?), device.upload(&poison)?)
        };
        let h0 = self.h0.as_ref().map(|h0| device.upload(h0)).transpose()?;
        let mut final_state = device.upload(&vec![f32::NAN; self.states()])?;
        let offsets = self
            .offsets
            .as_ref()
            .map(|offsets| SequenceOffsets::new(device, offsets))
            .transpose()?;
        self.scan.run_with(
            device,
            LinearScanArgs {
                a: &a,
                b: b.as_ref(),
                h: &mut h,
                h0: h0.as_ref(),
                final_state: Some(&mut final_state),
                offsets: offsets.as_ref(),
            },
        )?;
        Ok(Outcome {
            h: h.to_vec()?,
            final_state: final_state.to_vec()?,
        })
    }

    /// What a failing test prints.
    pub fn describe(&self) -> String {
        format!(
            "{} {:?}{}{}",
            T::DTYPE,
            self.scan,
            if self.h0.is_some() { ", h0" } else { "" },
            self.offsets
                .as_ref()
                .map_or_else(String::new, |offsets| format!(", cu_seqlens {offsets:?}")),
        )
    }
}
