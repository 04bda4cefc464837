//! One selective-scan problem: the descriptor, its inputs, where each step lies in memory,
//! and how to run it on a device, at once or step by step.

use crate::inputs::Inputs;
use crate::problem::offsets_of;
use crate::sample::Sample;
use ferroseq::ops::{
    Layout, SelectiveScan, SelectiveScanArgs, SelectiveScanStep, SelectiveScanStepArgs,
    SequenceOffsets, StateMatrix,
};
use ferroseq::{Buffer, Device, Result};

/// A problem before its inputs are drawn: small enough to print when a test fails.
#[derive(Clone, Debug)]
pub struct SelectiveCase {
    /// Shape and options.
    pub scan: SelectiveScan,
    /// Lengths of packed sequences; their sum is L and B is 1.
    pub lengths: Option<Vec<usize>>,
    /// Whether the parameter is `A_log`.
    pub log: bool,
    /// Whether there is `D_skip`.
    pub skip: bool,
    /// Whether there is `delta_bias`.
    pub bias: bool,
    /// Whether there is `z`.
    pub gate: bool,
    /// Whether there is an initial state.
    pub initial: bool,
    /// Of the inputs.
    pub seed: u64,
}

/// A problem with its inputs.
#[derive(Clone, Debug)]
pub struct SelectiveProblem<T> {
    /// Shape and options.
    pub scan: SelectiveScan,
    /// `[S + 1]` offsets of packed sequences.
    pub offsets: Option<Vec<i64>>,
    /// Inputs.
    pub x: Vec<T>,
    /// Step sizes.
    pub delta: Vec<T>,
    /// `[D, N]`.
    pub a: Vec<f32>,
    /// Whether `a` is `A_log`.
    pub log: bool,
    /// B.
    pub b: Vec<T>,
    /// C.
    pub c: Vec<T>,
    /// `[D]`.
    pub d_skip: Option<Vec<f32>>,
    /// `[D]`.
    pub delta_bias: Option<Vec<f32>>,
    /// Gate.
    pub z: Option<Vec<T>>,
    /// `[B, D, N]` or `[S, D, N]`.
    pub h0: Option<Vec<f32>>,
}

/// What a run returned.
#[derive(Clone, Debug)]
pub struct SelectiveOutcome<T> {
    /// Outputs.
    pub y: Vec<T>,
    /// Final states.
    pub final_state: Vec<f32>,
}

/// One channel of one sequence.
#[derive(Clone, Copy, Debug)]
pub struct Lane {
    /// sequence x D + channel.
    pub index: usize,
    /// Of the batch.
    pub element: usize,
    /// d.
    pub channel: usize,
    /// Its first time step.
    pub start: usize,
    /// Time steps.
    pub steps: usize,
}

impl SelectiveCase {
    /// Without any option but softplus.
    pub fn plain([batch, length, channels, state]: [usize; 4], seed: u64) -> Self {
        Self {
            scan: SelectiveScan::new(batch, length, channels, state),
            lengths: None,
            log: true,
            skip: false,
            bias: false,
            gate: false,
            initial: false,
            seed,
        }
    }

    /// With everything.
    pub fn full(shape: [usize; 4], seed: u64) -> Self {
        Self {
            skip: true,
            bias: true,
            gate: true,
            initial: true,
            ..Self::plain(shape, seed)
        }
    }

    /// Packed sequences of these lengths, with an initial state.
    pub fn packed(lengths: &[usize], channels: usize, state: usize, seed: u64) -> Self {
        Self {
            lengths: Some(lengths.to_vec()),
            initial: true,
            ..Self::plain([1, lengths.iter().sum(), channels, state], seed)
        }
    }

    /// Draws the inputs.
    pub fn problem<T: Sample>(&self) -> SelectiveProblem<T> {
        let mut inputs = Inputs::new(self.seed);
        let scan = self.scan;
        let elements = scan.batch * scan.length * scan.channels;
        let matrix = scan.batch * scan.length * scan.groups * scan.state;
        let parameters = scan.channels * scan.state;
        let mut problem = SelectiveProblem {
            scan,
            offsets: self.lengths.as_deref().map(offsets_of),
            x: inputs.values(elements),
            delta: match scan.softplus {
                true => inputs.values(elements),
                false => inputs.positive_values(elements),
            },
            a: match self.log {
                true => inputs.values(parameters),
                false => inputs.positive_values::<f32>(parameters),
            },
            log: self.log,
            b: inputs.values(matrix),
            c: inputs.values(matrix),
            d_skip: self.skip.then(|| inputs.values(scan.channels)),
            delta_bias: self.bias.then(|| inputs.values(scan.channels)),
            z: self.gate.then(|| inputs.values(elements)),
            h0: None,
        };
        if !self.log {
            problem.a.iter_mut().for_each(|a| *a *= -4.0);
        }
        if self.initial {
            problem.h0 = Some(inputs.values(problem.states()));
        }
        problem
    }
}

/// The buffers of a problem.
struct Uploaded<T: ferroseq::Element> {
    x: Buffer<T>,
    delta: Buffer<T>,
    a: Buffer<f32>,
    b: Buffer<T>,
    c: Buffer<T>,
    d_skip: Option<Buffer<f32>>,
    delta_bias: Option<Buffer<f32>>,
    z: Option<Buffer<T>>,
}

impl<T: Sample> SelectiveProblem<T> {
    /// Sequences: B, or S.
    pub fn sequences(&self) -> usize {
        self.offsets
            .as_ref()
            .map_or(self.scan.batch, |offsets| offsets.len() - 1)
    }

    /// Elements of `h0` and the final state.
    pub fn states(&self) -> usize {
        self.sequences() * self.scan.channels * self.scan.state
    }

    /// Every channel of every sequence.
    pub fn lanes(&self) -> impl Iterator<Item = Lane> + '_ {
        let scan = self.scan;
        (0..self.sequences() * scan.channels).map(move |index| {
            let (sequence, channel) = (index / scan.channels, index % scan.channels);
            let (element, start, steps) = match &self.offsets {
                None => (sequence, 0, scan.length),
                Some(offsets) => {
                    let start = offsets[sequence] as usize;
                    (0, start, offsets[sequence + 1] as usize - start)
                }
            };
            Lane {
                index,
                element,
                channel,
                start,
                steps,
            }
        })
    }

    /// Where step `t` of a lane lies in `x`, `delta`, `z` and `y`.
    pub fn place(&self, lane: &Lane, t: usize) -> usize {
        let SelectiveScan {
            length, channels, ..
        } = self.scan;
        let t = lane.start + t;
        match self.scan.layout {
            Layout::Bld => (lane.element * length + t) * channels + lane.channel,
            Layout::Bdl => (lane.element * channels + lane.channel) * length + t,
        }
    }

    /// Where state `n` of step `t` of a lane lies in `b` and `c`.
    pub fn matrix_place(&self, lane: &Lane, t: usize, n: usize) -> usize {
        let SelectiveScan {
            length,
            channels,
            state,
            groups,
            ..
        } = self.scan;
        let (t, group) = (lane.start + t, lane.channel / (channels / groups));
        match self.scan.layout {
            Layout::Bld => ((lane.element * length + t) * groups + group) * state + n,
            Layout::Bdl => ((lane.element * groups + group) * state + n) * length + t,
        }
    }

    fn upload(&self, device: &Device) -> Result<Uploaded<T>> {
        let optional = |values: &Option<Vec<f32>>| {
            let values = values.as_ref();
            values.map(|values| device.upload(values)).transpose()
        };
        Ok(Uploaded {
            x: device.upload(&self.x)?,
            delta: device.upload(&self.delta)?,
            a: device.upload(&self.a)?,
            b: device.upload(&self.b)?,
            c: device.upload(&self.c)?,
            d_skip: optional(&self.d_skip)?,
            delta_bias: optional(&self.delta_bias)?,
            z: self.z.as_ref().map(|z| device.upload(z)).transpose()?,
        })
    }

    fn matrix<'a>(&self, a: &'a Buffer<f32>) -> StateMatrix<'a> {
        match self.log {
            true => StateMatrix::Log(a),
            false => StateMatrix::Plain(a),
        }
    }

    /// Runs it with every output full of NaN before, so that what is not written shows.
    pub fn run(&self, device: &Device) -> Result<SelectiveOutcome<T>> {
        let on = self.upload(device)?;
        let h0 = self.h0.as_ref().map(|h0| device.upload(h0)).transpose()?;
        let mut y = device.upload(&vec![T::narrow(f32::NAN); self.x.len()])?;
        let mut final_state = device.upload(&vec![f32::NAN; self.states()])?;
        let offsets = self
            .offsets
            .as_ref()
            .map(|offsets| SequenceOffsets::new(device, offsets))
            .transpose()?;
        self.scan.run_with(
            device,
            SelectiveScanArgs {
                x: &on.x,
                delta: &on.delta,
                a: self.matrix(&on.a),
                b: &on.b,
                c: &on.c,
                y: &mut y,
                d_skip: on.d_skip.as_ref(),
                delta_bias: on.delta_bias.as_ref(),
                z: on.z.as_ref(),
                h0: h0.as_ref(),
                final_state: Some(&mut final_state),
                offsets: offsets.as_ref(),
            },
        )?;
        Ok(SelectiveOutcome {
            y: y.to_vec()?,
            final_state: final_state.to_vec()?,
        })
    }

    /// Runs it as L calls of the step; `[B, L, D]` without packed sequences only.
    pub fn run_steps(&self, device: &Device) -> Result<SelectiveOutcome<T>> {
        let SelectiveScan {
            batch,
            length,
            channels,
            state,
            groups,
            softplus,
            ..
        } = self.scan;
        assert!(self.offsets.is_none() && self.scan.layout == Layout::Bld);
        let step = SelectiveScanStep::new(batch, channels, state)
            .groups(groups)
            .softplus(softplus);
        let on = self.upload(device)?;
        let zeros = vec![0.0; self.states()];
        let mut states = device.upload(self.h0.as_ref().unwrap_or(&zeros))?;
        let mut outputs = vec![T::narrow(f32::NAN); self.x.len()];
        for t in 0..length {
            let of_step = |values: &[T], width: usize| {
                let rows = values.chunks_exact(width).skip(t).step_by(length);
                device.upload(&rows.flatten().copied().collect::<Vec<T>>())
            };
            let z = self.z.as_ref().map(|z| of_step(z, channels)).transpose()?;
            let mut y = device.upload(&vec![T::narrow(f32::NAN); batch * channels])?;
            step.run_with(
                device,
                SelectiveScanStepArgs {
                    state: &mut states,
                    x: &of_step(&self.x, channels)?,
                    delta: &of_step(&self.delta, channels)?,
                    a: self.matrix(&on.a),
                    b: &of_step(&self.b, groups * state)?,
                    c: &of_step(&self.c, groups * state)?,
                    y: &mut y,
                    d_skip: on.d_skip.as_ref(),
                    delta_bias: on.delta_bias.as_ref(),
                    z: z.as_ref(),
                },
            )?;
            let rows = outputs.chunks_exact_mut(channels).skip(t).step_by(length);
            for (row, y) in rows.zip(y.to_vec()?.chunks_exact(channels)) {
                row.copy_from_slice(y);
            }
        }
        Ok(SelectiveOutcome {
            y: outputs,
            final_state: states.to_vec()?,
        })
    }

    /// What a failing test prints.
    pub fn describe(&self) -> String {
        let mut text = format!("{} {:?}", T::DTYPE, self.scan);
        for (present, name) in [
            (self.log, ", A_log"),
            (self.d_skip.is_some(), ", D_skip"),
            (self.delta_bias.is_some(), ", delta_bias"),
            (self.z.is_some(), ", z"),
            (self.h0.is_some(), ", h0"),
        ] {
            if present {
                text += name;
            }
        }
        if let Some(offsets) = &self.offsets {
            text += &format!(", cu_seqlens {offsets:?}");
        }
        text
    }
}
