//! Routings for the tests of route, dispatch and combine.

use crate::oracle::moe::{Routed, route};
use ferroseq::ops::{InvalidIds, Route, RoutePlan};
use ferroseq::{Device, Result};
use rand::rngs::SmallRng;
use rand::seq::index::sample;
use rand::{Rng, SeedableRng};

/// How tokens choose experts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// K different experts at random; with K > E, K at random.
    Random,
    /// K at random, the same one again among them.
    Repeating,
    /// Always the last expert.
    One,
    /// One after another.
    Turns,
    /// Random, and every other one or so no expert at all.
    Invalid,
}

/// Every way to choose.
pub const CHOICES: [Choice; 5] = [
    Choice::Random,
    Choice::Repeating,
    Choice::One,
    Choice::Turns,
    Choice::Invalid,
];

/// Draws `[T, K]` ids.
pub fn ids(op: &Route, choice: Choice, seed: u64) -> Vec<i64> {
    let mut rng = SmallRng::seed_from_u64(seed);
    let (experts, top_k) = (op.experts, op.top_k);
    let mut ids = Vec::with_capacity(op.tokens * top_k);
    for token in 0..op.tokens {
        match choice {
            Choice::Random if top_k <= experts => {
                ids.extend(sample(&mut rng, experts, top_k).iter().map(|e| e as i64));
            }
            Choice::Random | Choice::Repeating => {
                ids.extend((0..top_k).map(|_| rng.random_range(0..experts) as i64));
            }
            Choice::One => ids.extend((0..top_k).map(|_| experts as i64 - 1)),
            Choice::Turns => {
                ids.extend((0..top_k).map(|k| ((token * top_k + k) % experts) as i64));
            }
            Choice::Invalid => ids.extend((0..top_k).map(|_| match rng.random_range(0..8) {
                0 => -1,
                1 => experts as i64,
                2 => i64::from(i32::MIN),
                3 => i64::from(i32::MAX),
                _ => rng.random_range(0..experts) as i64,
            })),
        }
    }
    ids
}

/// A routing, its ids, and what it must give.
#[derive(Clone, Debug)]
pub struct Scene {
    /// The routing; invalid ids are dropped.
    pub op: Route,
    /// `[T, K]`.
    pub ids: Vec<i64>,
    /// What route gives.
    pub routed: Routed,
}

impl Scene {
    /// Draws the ids.
    pub fn new(op: Route, choice: Choice, seed: u64) -> Self {
        Self::of(op, ids(&op, choice, seed))
    }

    /// With these ids.
    pub fn of(op: Route, ids: Vec<i64>) -> Self {
        let op = op.invalid(InvalidIds::Drop);
        let routed = route(&op, &ids);
        Self { op, ids, routed }
    }

    /// Packed rows.
    pub fn rows(&self) -> usize {
        self.routed.source_of_row.len()
    }

    /// The ids as 32 bits.
    pub fn narrow_ids(&self) -> Vec<i32> {
        self.ids.iter().map(|id| *id as i32).collect()
    }

    /// The plan that `device` makes of it.
    ///
    /// # Errors
    /// The device's.
    pub fn plan(&self, device: &Device) -> Result<RoutePlan> {
        self.op.run(device, &device.upload(&self.ids)?)
    }
}

/// A plan, read from its device. Rows from the last offset on must be marked as empty.
///
/// # Errors
/// The device's; what is wrong with the rows past the last offset.
pub fn read(plan: &RoutePlan) -> Result<Routed, String> {
    let read = |buffer: &ferroseq::Buffer<i32>| buffer.to_vec().map_err(|error| error.to_string());
    let mut routed = Routed {
        expert_offsets: read(plan.expert_offsets())?,
        slot_idx: read(plan.slot_idx())?,
        row_idx: read(plan.row_idx())?,
        source_of_row: read(plan.source_of_row())?,
    };
    let rows = routed
        .expert_offsets
        .last()
        .map_or(0, |last| *last as usize);
    if rows > routed.source_of_row.len() {
        return Err(format!("{rows} rows, but source_of_row has fewer"));
    }
    let behind = routed.source_of_row.split_off(rows);
    match behind.iter().position(|source| *source != -1) {
        Some(at) => Err(format!("source_of_row[{}] is {}", rows + at, behind[at])),
        None => Ok(routed),
    }
}
