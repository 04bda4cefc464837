//! The kernels in the emulator, against the definition in float64: every cut, layout and
//! element type, with ragged sizes, under several schedules.

use super::policy::{self, Cut, Kernel};
use super::*;
use crate::emulator::{Config, Machine};
use crate::simt::{Element, Entry, Global, Plain};
use std::panic::Location;

mod split;

/// A problem in `[B, L, ..]` order, drawn from a small generator.
struct Problem {
    sequences: usize,
    length: usize,
    groups: usize,
    group_channels: usize,
    states: usize,
    offsets: Option<Vec<i64>>,
    full: bool,
    softplus: bool,
    log: bool,
    /// Least decay, if A is given as it is.
    least_rate: f32,
}

impl Problem {
    fn new(sequences: usize, length: usize, channels: usize, states: usize) -> Self {
        Self {
            sequences,
            length,
            groups: 1,
            group_channels: channels,
            states,
            offsets: None,
            full: false,
            softplus: true,
            log: true,
            least_rate: 0.0,
        }
    }

    fn channels(&self) -> usize {
        self.groups * self.group_channels
    }

    fn batch(&self) -> usize {
        if self.offsets.is_some() {
            1
        } else {
            self.sequences
        }
    }
}

/// What a launch reads, as the element type rounded it.
struct Inputs {
    x: Vec<f32>,
    delta: Vec<f32>,
    z: Vec<f32>,
    b: Vec<f32>,
    c: Vec<f32>,
    a: Vec<f32>,
    d_skip: Vec<f32>,
    delta_bias: Vec<f32>,
    h0: Vec<f32>,
}

fn noise(seed: u32, len: usize) -> Vec<f32> {
    let mut word = seed.wrapping_mul(0x9E37_79B9) | 1;
    let mut next = || {
        word ^= word << 13;
        word ^= word >> 17;
        word ^= word << 5;
        word as f32 / u32::MAX as f32 * 2.0 - 1.0
    };
    (0..len).map(|_| 1.7 * next()).collect()
}

fn rounded<T: Element>(values: Vec<f32>) -> Vec<f32> {
    let round = |value: f32| Element::to_f32(<T as Element>::from_f32(value));
    values.into_iter().map(round).collect()
}

impl Inputs {
    fn new<T: Element>(p: &Problem) -> Self {
        let rows = p.batch() * p.length;
        let elements = |seed| rounded::<T>(noise(seed, rows * p.channels()));
        let matrix = |seed| rounded::<T>(noise(seed, rows * p.groups * p.states));
        let a = noise(6, p.channels() * p.states);
        Self {
            x: elements(1),
            delta: elements(2),
            z: elements(3),
            b: matrix(4),
            c: matrix(5),
            a: if p.log {
                a
            } else {
                a.into_iter().map(|a| -a.abs() - p.least_rate).collect()
            },
            d_skip: noise(7, p.channels()),
            delta_bias: noise(8, p.channels()),
            h0: noise(9, p.sequences * p.channels() * p.states),
        }
    }

    /// `y`, and the last states.
    fn expected(&self, p: &Problem) -> (Vec<f64>, Vec<f64>) {
        let (channels, states) = (p.channels(), p.states);
        let mut y = vec![f64::NAN; self.x.len()];
        let mut last = vec![f64::NAN; self.h0.len()];
        for sequence in 0..p.sequences {
            let rows = match &p.offsets {
                Some(offsets) => offsets[sequence] as usize..offsets[sequence + 1] as usize,
                None => sequence * p.length..(sequence + 1) * p.length,
            };
            for channel in 0..channels {
                let group = channel / p.group_channels;
                let first = (sequence * channels + channel) * states;
                let mut h: Vec<f64> = (first..first + states)
                    .map(|i| if p.full { f64::from(self.h0[i]) } else { 0.0 })
                    .collect();
                for row in rows.clone() {
                    let at = row * channels + channel;
                    let option = |value: f32| if p.full { f64::from(value) } else { 0.0 };
                    let delta = f64::from(self.delta[at]) + option(self.delta_bias[channel]);
                    let delta = if p.softplus {
                        delta.exp().ln_1p()
                    } else {
                        delta
                    };
                    let x = f64::from(self.x[at]);
                    let mut sum = option(self.d_skip[channel]) * x;
                    for (n, state) in h.iter_mut().enumerate().take(states) {
                        let a = f64::from(self.a[channel * states + n]);
                        let a = if p.log { -a.exp() } else { a };
                        let matrix = (row * p.groups + group) * states + n;
                        *state = (delta * a).exp() * *state + delta * x * f64::from(self.b[matrix]);
                        sum += f64::from(self.c[matrix]) * *state;
                    }
                    let z = f64::from(self.z[at]);
                    y[at] = if p.full {
                        sum * z / (1.0 + (-z).exp())
                    } else {
                        sum
                    };
                }
                last[first..first + states].copy_from_slice(&h);
            }
        }
        (y, last)
    }
}

/// From `[batch, rows, columns]` to `[batch, columns, rows]`.
fn transposed(values: &[f32], batch: usize, rows: usize, columns: usize) -> Vec<f32> {
    let mut out = Vec::with_capacity(values.len());
    for b in 0..batch {
        for column in 0..columns {
            out.extend((0..rows).map(|row| values[(b * rows + row) * columns + column]));
        }
    }
    out
}

fn upload<T: Plain>(machine: &Machine, values: &[T]) -> Global<T> {
    let bytes = bytemuck::cast_slice(values);
    let address = machine.alloc(bytes.len()).unwrap();
    machine.write(address, bytes).unwrap();
    Global::from_address(address)
}

fn download<T: Plain>(machine: &Machine, array: Global<T>, len: usize) -> Vec<T> {
    let mut out = vec![bytemuck::Zeroable::zeroed(); len];
    machine
        .read(array.address(), bytemuck::cast_slice_mut(&mut out))
        .unwrap();
    out
}

fn machine(seed: u64) -> Machine {
    Machine::new(Config {
        seed,
        ..Config::default()
    })
}

/// A problem's arrays on `machine`, outputs poisoned, and the launch of its cut.
fn prepared<T: Element>(
    p: &Problem,
    inputs: &Inputs,
    columns: bool,
    machine: &Machine,
) -> (policy::Launch, SelectiveScanParams<T>) {
    let elements = |values: &[f32], width: usize| -> Global<T> {
        let values = if columns {
            transposed(values, p.batch(), p.length, width)
        } else {
            values.to_vec()
        };
        let values: Vec<T> = values.into_iter().map(T::from_f32).collect();
        upload(machine, &values)
    };
    let option = |values: &[f32]| {
        if p.full {
            upload(machine, values)
        } else {
            Global::null()
        }
    };
    let launch = policy::launch(
        p.sequences as u64,
        p.length as u64,
        p.groups as u64,
        p.group_channels as u64,
        p.states as u64,
        size_of::<T>() as u32,
    )
    .unwrap();
    let poison = vec![T::from_f32(f32::NAN); inputs.x.len()];
    let params = SelectiveScanParams {
        x: elements(&inputs.x, p.channels()),
        delta: elements(&inputs.delta, p.channels()),
        z: if p.full {
            elements(&inputs.z, p.channels())
        } else {
            Global::null()
        },
        y: upload(machine, &poison),
        b: elements(&inputs.b, p.groups * p.states),
        c: elements(&inputs.c, p.groups * p.states),
        a: upload(machine, &inputs.a),
        d_skip: option(&inputs.d_skip),
        delta_bias: option(&inputs.delta_bias),
        h0: option(&inputs.h0),
        final_state: upload(machine, &vec![f32::NAN; inputs.h0.len()]),
        offsets: match &p.offsets {
            Some(offsets) => upload(machine, offsets),
            None => Global::null(),
        },
        length: p.length as u64,
        group_channels: p.group_channels as u64,
        sequences: p.sequences as u32,
        groups: p.groups as u32,
        channel_blocks: launch.channel_blocks,
        states: p.states as u32,
        log2_lanes: launch.cut.log2_lanes,
        log2_channels: launch.cut.log2_channels(),
        counters: Global::null(),
        call: 0,
        between: Global::null(),
        segments: 1,
        segment_tiles: 0,
        padding: 0,
        options: if p.softplus { options::SOFTPLUS } else { 0 }
            | if p.log { options::LOG } else { 0 },
    };
    (launch, params)
}

/// `y` in `[B, L, D]`, and the last states.
fn results<T: Element>(
    p: &Problem,
    columns: bool,
    machine: &Machine,
    params: &SelectiveScanParams<T>,
) -> (Vec<f32>, Vec<f32>) {
    let y = download(machine, params.y, p.batch() * p.length * p.channels());
    let y: Vec<f32> = y.into_iter().map(Element::to_f32).collect();
    let y = if columns {
        transposed(&y, p.batch(), p.channels(), p.length)
    } else {
        y
    };
    let states = p.sequences * p.channels() * p.states;
    (y, download(machine, params.final_state, states))
}

/// Runs `K`, which must be the kernel of the problem's cut.
fn run<T: Element, K: Entry<Params = SelectiveScanParams<T>>>(
    p: &Problem,
    columns: bool,
    seed: u64,
) -> (Vec<f32>, Vec<f32>) {
    let machine = machine(seed);
    let (launch, params) = prepared(p, &Inputs::new::<T>(p), columns, &machine);
    if let Err(fault) = machine.launch::<K>(launch.shape, params) {
        panic!("{fault}");
    }
    results(p, columns, &machine, &params)
}

#[track_caller]
fn compare(what: &str, found: &[f32], expected: &[f64], tolerance: f64) {
    let here = Location::caller();
    assert_eq!(found.len(), expected.len());
    let scale = expected.iter().fold(1.0, |max: f64, e| max.max(e.abs()));
    for (i, (&found, &expected)) in found.iter().zip(expected).enumerate() {
        let error = (f64::from(found) - expected).abs();
        assert!(
            error <= tolerance * scale,
            "{what} {i}: {found}, expected {expected} ({here})"
        );
    }
}

/// Rows and columns against the definition.
#[track_caller]
fn check<T, R, C>(p: &Problem, seed: u64)
where
    T: Element,
    R: Entry<Params = SelectiveScanParams<T>>,
    C: Entry<Params = SelectiveScanParams<T>>,
{
    let (y, last) = Inputs::new::<T>(p).expected(p);
    // An ulp of the element type, and of f32 for each of a few operations.
    let ulp = if size_of::<T>() == 4 { 3e-6 } else { 8e-3 };
    let rows = run::<T, R>(p, false, seed);
    compare("y", &rows.0, &y, ulp);
    compare("state", &rows.1, &last, 3e-6);
    // The layout decides nothing about rounding.
    assert_eq!(run::<T, C>(p, true, seed + 1), rows);
}

fn full(p: Problem) -> Problem {
    Problem { full: true, ..p }
}

#[test]
fn narrow_lanes() {
    for (seed, states) in [1, 2, 7, 8, 9, 16].into_iter().enumerate() {
        assert_eq!(Cut::new(states as u64, 70).unwrap().kernel, Kernel::Narrow);
        let p = full(Problem::new(2, 45, 35, states));
        check::<f32, SelectiveScanF32RowsNarrow, SelectiveScanF32ColumnsNarrow>(&p, seed as u64);
    }
}

#[test]
fn lanes_of_four() {
    for (seed, states) in [17, 32, 33, 64, 65, 128].into_iter().enumerate() {
        assert_eq!(Cut::new(states as u64, 17).unwrap().kernel, Kernel::Alone);
        let p = full(Problem::new(1, 70, 17, states));
        check::<f32, SelectiveScanF32RowsAlone, SelectiveScanF32ColumnsAlone>(&p, seed as u64);
    }
}

#[test]
fn wide_lanes() {
    for (seed, states) in [131, 200, 256].into_iter().enumerate() {
        assert_eq!(Cut::new(states as u64, 9).unwrap().kernel, Kernel::Wide);
        let p = full(Problem::new(1, 34, 9, states));
        check::<f32, SelectiveScanF32RowsWide, SelectiveScanF32ColumnsWide>(&p, seed as u64);
    }
}

#[test]
fn more_channels_take_other_kernels() {
    let alone = full(Problem::new(2, 37, 1536, 16));
    check::<f32, SelectiveScanF32RowsAlone, SelectiveScanF32ColumnsAlone>(&alone, 0);
    let alone = full(Problem::new(96, 35, 33, 11));
    check::<f32, SelectiveScanF32RowsAlone, SelectiveScanF32ColumnsAlone>(&alone, 0);
    let alone = Problem::new(3, 33, 1100, 12);
    check::<bf16, SelectiveScanBf16RowsAlone, SelectiveScanBf16ColumnsAlone>(&alone, 0);
    let p = Problem::new(2, 35, 8192 + 5, 16);
    check::<bf16, SelectiveScanBf16RowsMerged, SelectiveScanBf16ColumnsMerged>(&p, 0);
    let p = full(Problem::new(171, 17, 97, 9));
    check::<f32, SelectiveScanF32RowsMerged, SelectiveScanF32ColumnsMerged>(&p, 0);
    let p = full(Problem::new(1, 2, 8192, 17));
    check::<f32, SelectiveScanF32RowsWide, SelectiveScanF32ColumnsWide>(&p, 0);
    let p = Problem::new(1, 2, 8192, 33);
    check::<f32, SelectiveScanF32RowsWide, SelectiveScanF32ColumnsWide>(&p, 0);
}

/// What is in the batch decides about the kernel, and nothing about results.
#[test]
fn every_cut_gives_the_same_bits() {
    let of = |states: usize, cut: Kernel| {
        let channels = match cut {
            Kernel::Narrow => 34,
            Kernel::Alone if states > 16 => 34,
            Kernel::Alone => 3072,
            Kernel::Merged => 16384,
            _ => 8192,
        };
        assert_eq!(Cut::new(states as u64, channels).unwrap().kernel, cut);
        let p = full(Problem::new(
            (channels as usize).div_ceil(34),
            3,
            34,
            states,
        ));
        let all = match cut {
            Kernel::Narrow => run::<f32, SelectiveScanF32RowsNarrow>(&p, false, 0),
            Kernel::Alone => run::<f32, SelectiveScanF32RowsAlone>(&p, false, 0),
            Kernel::Merged => run::<f32, SelectiveScanF32RowsMerged>(&p, false, 0),
            Kernel::Wide => run::<f32, SelectiveScanF32RowsWide>(&p, false, 0),
        };
        // The first sequence: inputs are drawn in order.
        let bits = |values: Vec<f32>, len: usize| -> Vec<u32> {
            values.into_iter().take(len).map(f32::to_bits).collect()
        };
        (bits(all.0, 3 * 34), bits(all.1, 34 * states))
    };
    for states in [9, 16] {
        let narrow = of(states, Kernel::Narrow);
        assert_eq!(of(states, Kernel::Alone), narrow);
        assert_eq!(of(states, Kernel::Merged), narrow);
    }
    for states in [40, 100] {
        assert_eq!(of(states, Kernel::Wide), of(states, Kernel::Alone));
    }
}

#[test]
fn sixteen_bit_elements() {
    for (seed, states) in [3, 16].into_iter().enumerate() {
        let p = full(Problem::new(2, 33, 24, states));
        check::<bf16, SelectiveScanBf16RowsNarrow, SelectiveScanBf16ColumnsNarrow>(&p, seed as u64);
        check::<f16, SelectiveScanF16RowsNarrow, SelectiveScanF16ColumnsNarrow>(&p, seed as u64);
    }
    let p = full(Problem::new(1, 40, 5, 48));
    check::<bf16, SelectiveScanBf16RowsAlone, SelectiveScanBf16ColumnsAlone>(&p, 0);
    check::<f16, SelectiveScanF16RowsAlone, SelectiveScanF16ColumnsAlone>(&p, 0);
    let p = full(Problem::new(1, 40, 5, 140));
    check::<bf16, SelectiveScanBf16RowsWide, SelectiveScanBf16ColumnsWide>(&p, 0);
    check::<f16, SelectiveScanF16RowsWide, SelectiveScanF16ColumnsWide>(&p, 0);
}

#[test]
fn lengths_around_a_tile() {
    for (seed, length) in [0, 1, 31, 32, 33, 64, 97].into_iter().enumerate() {
        let p = Problem::new(2, length, 3, 4);
        check::<f32, SelectiveScanF32RowsNarrow, SelectiveScanF32ColumnsNarrow>(&p, seed as u64);
    }
}

#[test]
fn groups_share_matrices() {
    for (groups, group_channels) in [(3, 1), (2, 20)] {
        let p = full(Problem {
            groups,
            group_channels,
            ..Problem::new(2, 40, 0, 12)
        });
        check::<f32, SelectiveScanF32RowsNarrow, SelectiveScanF32ColumnsNarrow>(&p, 5);
    }
}

#[test]
fn packed_sequences() {
    let p = full(Problem {
        offsets: Some(vec![0, 0, 1, 36, 36, 99, 100]),
        ..Problem::new(6, 100, 18, 6)
    });
    check::<f32, SelectiveScanF32RowsNarrow, SelectiveScanF32ColumnsNarrow>(&p, 3);
}

#[test]
fn without_softplus_and_with_plain_a() {
    let p = Problem {
        softplus: false,
        log: false,
        ..Problem::new(1, 20, 5, 16)
    };
    // Steps of either sign: some states grow.
    check::<f32, SelectiveScanF32RowsNarrow, SelectiveScanF32ColumnsNarrow>(&p, 0);
}

#[test]
fn schedules_change_nothing() {
    let p = full(Problem::new(2, 75, 20, 16));
    let first = run::<f32, SelectiveScanF32RowsNarrow>(&p, false, 0);
    for seed in 1..8 {
        assert_eq!(
            run::<f32, SelectiveScanF32RowsNarrow>(&p, false, seed),
            first
        );
    }
}
