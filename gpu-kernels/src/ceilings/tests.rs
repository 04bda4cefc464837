//! The ceiling kernels in the emulator: they move and compute what they claim to, on every
//! grid they are tried with, and touch nothing else.

use super::*;
use crate::emulator::{Config, Machine};
use crate::simt::{Entry, Global, LaunchShape};

const A: fn(usize) -> f32 = |i| i as f32;
const B: fn(usize) -> f32 = |i| 1.0 / (1 + i) as f32;

struct Array {
    address: u64,
    len: usize,
}

impl Array {
    fn new(machine: &Machine, len: usize, value: impl Fn(usize) -> f32) -> Self {
        let data: Vec<f32> = (0..len).map(value).collect();
        let address = machine.alloc(4 * len).unwrap();
        machine.write(address, bytemuck::cast_slice(&data)).unwrap();
        Self { address, len }
    }

    fn view(&self) -> Global<f32> {
        Global::from_address(self.address)
    }

    fn read(&self, machine: &Machine) -> Vec<f32> {
        let mut out = vec![0.0; self.len];
        let bytes = bytemuck::cast_slice_mut(&mut out);
        machine.read(self.address, bytes).unwrap();
        out
    }
}

fn machine(seed: u64) -> Machine {
    Machine::new(Config {
        seed,
        ..Config::default()
    })
}

/// Runs `K` over `reads` arrays of just the size it needs, with every grid, and compares.
fn stream<K: Entry<Params = StreamParams>>(reads: usize, expected: impl Fn(usize) -> f32) {
    // One group; a part of a tile; whole tiles; whole tiles and a part, enough of them
    // that the blocks of a one-multiprocessor card stride.
    for groups in [1, 255, policy::tile(), 9 * policy::tile() + 257] {
        let n = 4 * groups as usize;
        for (seed, shape) in policy::stream_launches(groups, 1).enumerate() {
            let machine = machine(seed as u64);
            let a = Array::new(&machine, n, A);
            let b = Array::new(&machine, n, B);
            let out = Array::new(&machine, n, |_| f32::NAN);
            let absent = Global::null();
            let params = StreamParams {
                a: if reads > 0 { a.view() } else { absent },
                b: if reads > 1 { b.view() } else { absent },
                out: out.view(),
                groups,
                scale: 0.5,
                padding: 0,
            };
            if let Err(fault) = machine.launch::<K>(shape, params) {
                panic!("{shape:?}, {groups} groups: {fault}");
            }
            let out = out.read(&machine);
            for (i, &found) in out.iter().enumerate() {
                assert_eq!(
                    found,
                    expected(i),
                    "{shape:?}, {groups} groups, element {i}"
                );
            }
        }
    }
}

#[test]
fn copies_copy() {
    stream::<Copy>(1, A);
    stream::<CopyStaged>(1, A);
}

#[test]
fn triads_add() {
    stream::<Triad>(2, |i| 0.5f32.mul_add(A(i), B(i)));
    stream::<TriadStaged>(2, |i| 0.5f32.mul_add(A(i), B(i)));
}

#[test]
fn writes_write() {
    stream::<Write>(0, |_| 0.5);
    stream::<WriteOnce>(0, |_| 0.5);
}

/// Two blocks of an arithmetic kernel, and what each thread stored.
fn chains<K: Entry<Params = ArithmeticParams>>(turns: u32) -> Vec<f32> {
    let machine = machine(3);
    let shape = LaunchShape::linear(2, policy::BLOCK, 0);
    let out = Array::new(&machine, 2 * policy::BLOCK as usize, |_| f32::NAN);
    let params = ArithmeticParams {
        out: out.view(),
        turns,
        seed: 0.25,
        scale: 0.5,
        offset: 1.0,
    };
    if let Err(fault) = machine.launch::<K>(shape, params) {
        panic!("{fault}");
    }
    out.read(&machine)
}

#[test]
fn chains_end_where_their_operations_lead() {
    // x = x / 2 + 1 goes to 2, x = 2^-x to 0.641186 (the omega constant over ln 2).
    let chains_of = policy::CHAINS as f32;
    for sum in chains::<Fma>(2) {
        assert!((sum - 2.0 * chains_of).abs() < 1e-3, "{sum}");
    }
    for sum in chains::<Exp2>(4) {
        assert!((sum - 0.641_186 * chains_of).abs() < 1e-3, "{sum}");
    }
}

#[test]
fn a_turn_is_as_many_operations_as_policy_says() {
    // With x = x + 1 the sum counts them: all chains start from 0 .. CHAINS.
    let machine = machine(0);
    let out = Array::new(&machine, policy::BLOCK as usize, |_| f32::NAN);
    let params = ArithmeticParams {
        out: out.view(),
        turns: 3,
        seed: 0.0,
        scale: 1.0,
        offset: 1.0,
    };
    machine
        .launch::<Fma>(LaunchShape::linear(1, policy::BLOCK, 0), params)
        .unwrap();
    let starts: usize = (0..policy::CHAINS).sum();
    let expected = (3 * policy::OPERATIONS_PER_TURN) as f32 + starts as f32;
    assert!(out.read(&machine).iter().all(|&sum| sum == expected));
}

#[test]
fn nothing_does_nothing() {
    let stats = machine(0)
        .launch::<Empty>(policy::empty_launch(), EmptyParams::default())
        .unwrap();
    assert_eq!((stats.blocks, stats.accesses), (1, 0));
}
