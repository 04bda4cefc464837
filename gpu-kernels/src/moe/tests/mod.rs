//! The MoE kernels in the emulator, launched as the policy says, against the definition.

mod combine;
mod dispatch;
mod route;

use crate::emulator::{Config, Machine};
use crate::moe::status;
use crate::simt::{Entry, Global, LaunchShape, Plain};
use rand::{Rng, SeedableRng, rngs::SmallRng};

/// A machine and what the tests put there.
struct Bench {
    machine: Machine,
    status: Array<u64>,
}

/// An array on it.
#[derive(Clone, Copy, Debug)]
struct Array<T> {
    view: Global<T>,
    len: usize,
}

impl Bench {
    fn new(seed: u64) -> Self {
        let machine = Machine::new(Config {
            seed,
            ..Config::default()
        });
        let status = upload(&machine, &[status::NONE; status::WORDS]);
        Self { machine, status }
    }

    fn upload<T: Plain>(&self, data: &[T]) -> Array<T> {
        upload(&self.machine, data)
    }

    /// An array of which every element must be written before it is read.
    fn poisoned<T: Plain>(&self, len: usize) -> Array<T> {
        let address = self.machine.alloc(len * size_of::<T>()).unwrap();
        Array {
            view: Global::from_address(address),
            len,
        }
    }

    fn read<T: Plain>(&self, array: Array<T>) -> Vec<T> {
        let mut out = vec![T::zeroed(); array.len];
        let bytes = bytemuck::cast_slice_mut(&mut out);
        self.machine.read(array.view.address(), bytes).unwrap();
        out
    }

    #[track_caller]
    fn launch<K: Entry>(&self, shape: LaunchShape, params: K::Params) {
        if let Err(fault) = self.machine.launch::<K>(shape, params) {
            panic!("{shape:?}: {fault}");
        }
    }

    /// The first fault of each kind: position and value.
    fn faults(&self) -> Vec<Option<(u32, i32)>> {
        let words = self.read(self.status);
        let found = |word| (word != status::NONE).then(|| status::position_and_value(word));
        words.into_iter().map(found).collect()
    }
}

fn upload<T: Plain>(machine: &Machine, data: &[T]) -> Array<T> {
    let address = machine.alloc(size_of_val(data)).unwrap();
    machine.write(address, bytemuck::cast_slice(data)).unwrap();
    Array {
        view: Global::from_address(address),
        len: data.len(),
    }
}

const NO_FAULTS: [Option<(u32, i32)>; status::WORDS] = [None; status::WORDS];

/// What route is to find.
#[derive(Clone, Debug, Default, PartialEq)]
struct Plan {
    offsets: Vec<i32>,
    slots: Vec<i32>,
    rows: Vec<i32>,
    sources: Vec<i32>,
}

/// The definition of a route, with `row_count` sources.
fn plan(ids: &[i64], experts: usize, capacity: u32, alignment: usize, row_count: usize) -> Plan {
    let mut counts = vec![0; experts];
    let mut slots = Vec::new();
    for &id in ids {
        let expert = usize::try_from(id).ok().filter(|expert| *expert < experts);
        slots.push(match expert {
            Some(expert) if counts[expert] < capacity as usize => {
                counts[expert] += 1;
                counts[expert] as i32 - 1
            }
            _ => -1,
        });
    }
    let mut offsets = vec![0];
    for count in counts {
        let last = *offsets.last().unwrap();
        offsets.push(last + count.next_multiple_of(alignment) as i32);
    }
    let mut sources = vec![-1; row_count];
    let mut rows = Vec::new();
    for (entry, (&id, &slot)) in ids.iter().zip(&slots).enumerate() {
        if slot < 0 {
            rows.push(-1);
            continue;
        }
        let row = offsets[id as usize] + slot;
        sources[row as usize] = entry as i32;
        rows.push(row);
    }
    Plan {
        offsets,
        slots,
        rows,
        sources,
    }
}

fn random(seed: u64) -> SmallRng {
    SmallRng::seed_from_u64(seed)
}

/// Ids of which one in ten is out of range.
fn ids(random: &mut SmallRng, entries: usize, experts: usize) -> Vec<i64> {
    let bad = [-1, experts as i64, i64::from(i32::MAX), -7];
    (0..entries)
        .map(|_| match random.random_range(0..10) {
            0 => bad[random.random_range(0..bad.len())],
            _ => random.random_range(0..experts as i64),
        })
        .collect()
}
