//! The projection kernels in the emulator, against float64 sums written from the definition.

use super::policy::{self, Method};
use super::*;
use crate::emulator::{Config, Machine};
use crate::simt::{Entry, Global, Plain};

/// Numbers that look random, in -1 .. 1.
fn noise(seed: u64, index: usize) -> f32 {
    let mut word = (index as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ seed;
    word = (word ^ (word >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    ((word >> 40) as f32) / (1u32 << 23) as f32 - 1.0
}

/// Sizes, and which parts have a bias and softplus.
#[derive(Clone, Copy, Debug)]
struct Case<'a> {
    rows: usize,
    inputs: usize,
    parts: &'a [(usize, bool, bool)],
    seed: u64,
}

/// A case's arrays on the host.
struct Data<T> {
    x: Vec<T>,
    weights: Vec<Vec<T>>,
    biases: Vec<Vec<f32>>,
}

impl<T: Operand> Data<T> {
    fn new(case: &Case) -> Self {
        let scale = 1.0 / (case.inputs.max(1) as f32).sqrt();
        let some = |seed, len: usize, scale: f32| -> Vec<T> {
            (0..len)
                .map(|i| T::from_f32(noise(seed, i) * scale))
                .collect()
        };
        let outputs = |i: usize| case.parts[i].0;
        let each = 0..case.parts.len();
        Self {
            x: some(1, case.rows * case.inputs, 3.0),
            weights: each
                .clone()
                .map(|i| some(10 + i as u64, outputs(i) * case.inputs, 2.0 * scale))
                .collect(),
            biases: each
                .map(|i| (0..outputs(i)).map(|j| noise(20 + i as u64, j)).collect())
                .collect(),
        }
    }

    /// Output `(row, column)` of a part, and the sum of the sizes of what is added.
    fn exact(&self, case: &Case, part: usize, row: usize, column: usize) -> (f64, f64) {
        let (_, bias, softplus) = case.parts[part];
        let x = &self.x[row * case.inputs..][..case.inputs];
        let weight = &self.weights[part][column * case.inputs..][..case.inputs];
        let bias = if bias {
            f64::from(self.biases[part][column])
        } else {
            0.0
        };
        let terms = x.iter().zip(weight);
        let terms = terms.map(|(x, w)| f64::from(x.to_f32()) * f64::from(w.to_f32()));
        let (mut sum, mut size) = (0.0, bias.abs());
        for term in terms {
            sum += term;
            size += term.abs();
        }
        sum += bias;
        match softplus {
            true if sum <= 20.0 => (sum.exp().ln_1p(), size),
            _ => (sum, size),
        }
    }
}

fn upload<T: Plain>(machine: &Machine, data: &[T]) -> Global<T> {
    let bytes: &[u8] = bytemuck::cast_slice(data);
    let address = machine.alloc(bytes.len()).unwrap();
    machine.write(address, bytes).unwrap();
    Global::from_address(address)
}

/// Runs a case. The outputs start as NaN.
fn run<K, P, T>(case: &Case, data: &Data<T>) -> Vec<Vec<T>>
where
    T: Operand,
    K: Entry<Params = ProjectionParams<T>>,
    P: Entry<Params = ProjectionParams<T>>,
{
    let machine = Machine::new(Config {
        seed: case.seed,
        ..Config::default()
    });
    let mut parts = [Part::absent(0); PARTS];
    let mut columns = 0;
    for (i, &(outputs, bias, softplus)) in case.parts.iter().enumerate() {
        let poison = vec![T::from_f32(f32::NAN); case.rows * outputs];
        parts[i] = Part {
            weight: upload(&machine, &data.weights[i]),
            out: upload(&machine, &poison),
            bias: match bias {
                true => upload(&machine, &data.biases[i]),
                false => Global::null(),
            },
            first: columns,
            outputs: outputs as u32,
            softplus: softplus.into(),
            padding: 0,
        };
        columns += outputs as u32;
    }
    parts[case.parts.len()..].fill(Part::absent(columns));
    let (rows, inputs) = (case.rows as u64, case.inputs as u64);
    let launch = policy::launch(rows, inputs, columns, size_of::<T>() as u32).unwrap();
    let params = ProjectionParams {
        x: upload(&machine, &data.x),
        parts,
        rows,
        inputs,
        columns,
        column_tiles: launch.column_tiles,
    };
    let done = match launch.method {
        Method::Matrix => machine.launch::<K>(launch.shape, params),
        Method::Plain => machine.launch::<P>(launch.shape, params),
    };
    if let Err(fault) = done {
        panic!("{case:?}: {fault}");
    }
    let read = |(part, &(outputs, ..)): (&Part<T>, &(usize, bool, bool))| {
        let mut out = vec![T::from_f32(0.0); case.rows * outputs];
        let bytes = bytemuck::cast_slice_mut(&mut out);
        machine.read(part.out.address(), bytes).unwrap();
        out
    };
    parts.iter().zip(case.parts).map(read).collect()
}

/// Runs a case and compares every element. `rounding`: of the element type.
fn check<K, P, T>(case: Case, rounding: f64)
where
    T: Operand,
    K: Entry<Params = ProjectionParams<T>>,
    P: Entry<Params = ProjectionParams<T>>,
{
    let data = Data::<T>::new(&case);
    let outs = run::<K, P, T>(&case, &data);
    for (part, out) in outs.iter().enumerate() {
        let outputs = case.parts[part].0;
        for (i, value) in out.iter().enumerate() {
            let (exact, size) = data.exact(&case, part, i / outputs, i % outputs);
            // Each product's own bound; softplus has a slope of at most 1.
            let bound = 4.2e-6 * size + (rounding + 1e-6) * exact.abs();
            let found = f64::from(value.to_f32());
            assert!(
                (found - exact).abs() <= bound,
                "{case:?}: part {part}, element {i}: {found}, expected {exact} +- {bound}"
            );
        }
    }
}

fn check_f32(case: Case) {
    check::<ProjectionF32, ProjectionF32Plain, f32>(case, 0.0);
}

fn check_all(case: Case) {
    check_f32(case);
    check::<ProjectionF16, ProjectionF16Plain, f16>(case, 1.0 / 2048.0);
    check::<ProjectionBf16, ProjectionBf16Plain, bf16>(case, 1.0 / 256.0);
}

const THREE: &[(usize, bool, bool)] = &[(5, true, true), (2, false, false), (1, true, false)];

#[test]
fn small_and_unaligned_sizes() {
    let parts: [&[(usize, bool, bool)]; 4] = [
        &[(1, false, false)],
        THREE,
        &[(4, true, true), (0, true, false), (3, false, true)],
        &[(8, false, true), (4, true, false), (4, true, false)],
    ];
    for (seed, inputs) in [0, 1, 4, 7, 8, 13, 36].into_iter().enumerate() {
        for rows in [1, 3] {
            for parts in parts {
                let seed = seed as u64;
                check_all(Case {
                    rows,
                    inputs,
                    parts,
                    seed,
                });
            }
        }
    }
}

/// Around the ends of chunks and groups along the depth.
#[test]
fn depths_around_a_chunk() {
    for (seed, inputs) in [12, 16, 20, 28, 32, 36, 60, 64, 68, 72, 128, 136]
        .iter()
        .enumerate()
    {
        let (inputs, seed) = (*inputs, seed as u64);
        check_all(Case {
            rows: 5,
            inputs,
            parts: THREE,
            seed,
        });
    }
}

#[test]
fn rows_and_columns_around_a_tile() {
    let (rows, columns) = (policy::TILE_ROWS as usize, policy::TILE_COLUMNS as usize);
    for (seed, rows) in [rows - 1, rows, rows + 1].into_iter().enumerate() {
        for last in [columns - 33, columns - 32, columns - 31, columns - 28] {
            let parts = &[(last, true, true), (16, false, false), (16, true, false)];
            let seed = seed as u64;
            check_f32(Case {
                rows,
                inputs: 8,
                parts,
                seed,
            });
        }
    }
    let parts = &[(columns, true, true), (4, false, false), (60, true, false)];
    check_all(Case {
        rows: rows + 1,
        inputs: 40,
        parts,
        seed: 7,
    });
    // The plain kernel's tile.
    let tile = policy::PLAIN_TILE as usize;
    for rows in [tile - 1, tile, tile + 1] {
        let parts = &[(tile - 3, true, true), (2, false, false), (2, true, false)];
        check_f32(Case {
            rows,
            inputs: 19,
            parts,
            seed: 1,
        });
    }
}

/// Many steps of one sign: truncated sums would show.
#[test]
fn long_sums_of_one_sign_do_not_drift() {
    let case = Case {
        rows: 2,
        inputs: 2048,
        parts: &[(3, false, false)],
        seed: 0,
    };
    let mut data = Data::<f32>::new(&case);
    for value in data.x.iter_mut().chain(&mut data.weights[0]) {
        *value = value.abs() + 0.5;
    }
    let outs = run::<ProjectionF32, ProjectionF32Plain, f32>(&case, &data);
    for (i, &value) in outs[0].iter().enumerate() {
        let (exact, _) = data.exact(&case, 0, i / 3, i % 3);
        let error = (f64::from(value) / exact - 1.0).abs();
        assert!(error < 1e-6, "element {i}: {error}");
    }
}

fn bits(outs: &[Vec<f32>]) -> Vec<Vec<u32>> {
    let bits = |out: &Vec<f32>| out.iter().map(|value| value.to_bits()).collect();
    outs.iter().map(bits).collect()
}

#[test]
fn a_row_does_not_depend_on_the_others_nor_on_the_schedule() {
    for inputs in [72, 33] {
        let whole = Case {
            rows: 131,
            inputs,
            parts: THREE,
            seed: 0,
        };
        let data = Data::<f32>::new(&whole);
        let outs = run::<ProjectionF32, ProjectionF32Plain, f32>(&whole, &data);
        let again = Case { seed: 5, ..whole };
        let again = run::<ProjectionF32, ProjectionF32Plain, f32>(&again, &data);
        assert_eq!(bits(&outs), bits(&again));
        // The last three rows alone.
        let last = Case { rows: 3, ..whole };
        let mut data = data;
        data.x.drain(..128 * inputs);
        let alone = run::<ProjectionF32, ProjectionF32Plain, f32>(&last, &data);
        for (out, alone) in bits(&outs).iter().zip(bits(&alone)) {
            assert_eq!(out[out.len() - alone.len()..], alone);
        }
    }
}

#[test]
fn infinities_nan_and_the_largest_numbers_follow_the_definition() {
    let parts = &[(4, false, false), (4, false, true), (3, false, false)];
    let case = Case {
        rows: 9,
        inputs: 8,
        parts,
        seed: 2,
    };
    let mut data = Data::<f32>::new(&case);
    let special = [
        f32::INFINITY,
        f32::NEG_INFINITY,
        f32::NAN,
        f32::MAX,
        f32::MIN,
        f32::MIN_POSITIVE,
        1e-45,
    ];
    for (row, value) in special.into_iter().enumerate() {
        data.x[row * case.inputs + row] = value;
    }
    // One weight that keeps the largest numbers finite, and one that is zero.
    for (k, weight) in data.weights[0][..case.inputs].iter_mut().enumerate() {
        *weight = if k % 2 == 0 { 0.25 } else { 0.0 };
    }
    let outs = run::<ProjectionF32, ProjectionF32Plain, f32>(&case, &data);
    for (part, out) in outs.iter().enumerate() {
        let outputs = case.parts[part].0;
        for (i, &found) in out.iter().enumerate() {
            let (row, column) = (i / outputs, i % outputs);
            let x = &data.x[row * case.inputs..][..case.inputs];
            let weight = &data.weights[part][column * case.inputs..][..case.inputs];
            let sum = x
                .iter()
                .zip(weight)
                .fold(0f32, |sum, (x, w)| x.mul_add(*w, sum));
            if sum.is_finite() && f64::from(sum).abs() < 1e30 {
                let (exact, size) = data.exact(&case, part, row, column);
                assert!(
                    (f64::from(found) - exact).abs() <= 5e-6 * size,
                    "{part}, {i}"
                );
                continue;
            }
            let expected = match case.parts[part].2 {
                true if sum <= 20.0 => 0.0,
                _ => sum,
            };
            let same = found == expected
                || found.is_nan() && expected.is_nan()
                || (found / expected - 1.0).abs() < 5e-6;
            assert!(
                same,
                "part {part}, element {i}: {found}, expected {expected}"
            );
        }
    }
}

#[test]
fn which_kernel_and_which_grid() {
    assert_eq!(Method::new(256, 4), Method::Matrix);
    assert_eq!(Method::new(254, 4), Method::Plain);
    assert_eq!(Method::new(256, 2), Method::Matrix);
    assert_eq!(Method::new(252, 2), Method::Plain);
    assert_eq!(Method::new(1 << 29, 4), Method::Plain);
    // No column of the usual layer is wasted.
    let launch = policy::launch(32768, 256, 288, 4).unwrap();
    assert_eq!(launch.column_tiles * policy::TILE_COLUMNS, 288);
    // More than a grid has.
    assert!(policy::launch(1 << 40, 256, 1 << 20, 4).is_none());
    assert!(policy::launch(u64::MAX, 256, u32::MAX, 4).is_none());
}
