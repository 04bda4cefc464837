//! Route, dispatch, combine and their gradients by their definitions: routing in integers,
//! sums in float64 with error bounds, and step by step in f32 where the order is fixed.
//!
//! # The bounds
//!
//! A sum of n products, each fused into the sum or rounded before it, meets at most n
//! roundings a term in order, and no more in any grouping: `|computed - sum| <= g(n) *
//! sum |term|`, `g(n) = n*u/(1 - n*u)`, u = 2^-24 (Higham, Accuracy and Stability of
//! Numerical Algorithms, lemma 3.1), and 2^-150 for each of its 2 n operations, should it
//! underflow. A product that is rounded before it is added meets one rounding more, hence
//! n + 1 below.

use super::Interval;
use super::bound::UNIT;
use super::linear_scan::Expected;
use crate::sample::Sample;
use ferroseq::ops::Route;

const TINIEST: f64 = f64::from_bits((1023 - 150) << 52);

/// A routing, on the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Routed {
    /// `[E + 1]`.
    pub expert_offsets: Vec<i32>,
    /// `[T, K]`.
    pub slot_idx: Vec<i32>,
    /// `[T, K]`.
    pub row_idx: Vec<i32>,
    /// `[R]`, R the last offset.
    pub source_of_row: Vec<i32>,
}

/// Routes `ids: [T, K]`, invalid ids dropped: entry after entry, each gets the next slot of
/// its expert while there is one.
pub fn route(op: &Route, ids: &[i64]) -> Routed {
    let mut kept = vec![Vec::new(); op.experts];
    let mut slot_idx = Vec::new();
    for (entry, &id) in ids.iter().enumerate() {
        let valid = (0..op.experts as i64).contains(&id);
        let expert = valid.then_some(id as usize);
        let room = |e: &usize| op.capacity.is_none_or(|most| kept[*e].len() < most);
        slot_idx.push(match expert.filter(room) {
            Some(e) => {
                kept[e].push(entry as i32);
                kept[e].len() as i32 - 1
            }
            None => -1,
        });
    }
    let (mut expert_offsets, mut source_of_row) = (vec![0], Vec::new());
    for entries in &kept {
        source_of_row.extend(entries);
        while source_of_row.len() % op.alignment != 0 {
            source_of_row.push(-1);
        }
        expert_offsets.push(source_of_row.len() as i32);
    }
    let row_idx = rows(ids, &slot_idx, &expert_offsets);
    Routed {
        expert_offsets,
        slot_idx,
        row_idx,
        source_of_row,
    }
}

/// The packed row of each entry, -1 where its slot is.
pub fn rows(ids: &[i64], slot_idx: &[i32], expert_offsets: &[i32]) -> Vec<i32> {
    let row = |(id, slot): (&i64, &i32)| match slot {
        -1 => -1,
        slot => expert_offsets[*id as usize] + slot,
    };
    ids.iter().zip(slot_idx).map(row).collect()
}

/// The packed rows of `hidden: [T, H]`: entry after entry, so that the later one stays.
pub fn dispatch<T: Copy>(
    hidden: &[T],
    zero: T,
    sizes: (usize, usize),
    top_k: usize,
    row_idx: &[i32],
) -> Vec<T> {
    let (packed_rows, width) = sizes;
    let mut packed = vec![zero; packed_rows * width];
    for (entry, &row) in row_idx.iter().enumerate().filter(|(_, row)| **row >= 0) {
        let (token, row) = (entry / top_k, row as usize);
        packed[row * width..][..width].copy_from_slice(&hidden[token * width..][..width]);
    }
    packed
}

/// `out[t] = sum_k w[t, k] * packed[row(t, k)]`, `[T, H]`.
pub fn combine<T: Sample>(
    packed: &[T],
    width: usize,
    top_k: usize,
    row_idx: &[i32],
    weights: Option<&[f32]>,
) -> Vec<Expected> {
    let mut out = Vec::new();
    for token in 0..row_idx.len() / top_k {
        let entries = token * top_k..(token + 1) * top_k;
        let kept: Vec<usize> = entries.filter(|entry| row_idx[*entry] >= 0).collect();
        for h in 0..width {
            out.push(sum(kept.iter().map(|&entry| {
                let value = packed[row_idx[entry] as usize * width + h].widen();
                (weights.map(|weights| weights[entry]), value)
            })));
        }
    }
    out
}

/// The sum of these products in order. The first one starts it; of none it is 0.
fn sum(terms: impl Iterator<Item = (Option<f32>, f32)>) -> Expected {
    let (mut value, mut magnitude, mut count) = (0.0, 0.0, 0);
    let mut sequential: Option<f32> = None;
    for (weight, x) in terms {
        let term = f64::from(weight.unwrap_or(1.0)) * f64::from(x);
        value += term;
        magnitude += term.abs();
        count += 1;
        sequential = Some(match (sequential, weight) {
            (None, None) => x,
            (None, Some(weight)) => weight * x,
            (Some(sum), None) => sum + x,
            (Some(sum), Some(weight)) => weight.mul_add(x, sum),
        });
    }
    Expected {
        sequential: sequential.unwrap_or(0.0),
        interval: interval(value, magnitude, count),
    }
}

fn interval(value: f64, magnitude: f64, count: usize) -> Interval {
    let n = (count + 1) as f64;
    let relative = n * UNIT / (1.0 - n * UNIT);
    let underflow = 2.0 * n * TINIEST;
    Interval::around(value, relative * magnitude + underflow)
}

/// Gradient of the dispatch by `hidden`, `[T, H]`: sums over the entries whose copy stayed.
pub fn dispatch_backward<T: Sample>(
    grad_packed: &[T],
    width: usize,
    top_k: usize,
    row_idx: &[i32],
) -> Vec<Expected> {
    let stayed: Vec<i32> = row_idx
        .iter()
        .enumerate()
        .map(|(entry, row)| match row_idx[entry + 1..].contains(row) {
            true => -1,
            false => *row,
        })
        .collect();
    combine(grad_packed, width, top_k, &stayed, None)
}

/// What the gradients of the combine must be.
#[derive(Clone, Debug)]
pub struct CombineGradients {
    /// `[R, H]`, in f32, not yet rounded to the element type.
    pub packed: Vec<f32>,
    /// `[T, K]`, in any order of summation; `sequential` is the f32 sum in order.
    pub weights: Vec<Expected>,
}

/// Gradients of the combine, no row having two entries.
pub fn combine_backward<T: Sample>(
    grad_out: &[T],
    packed: &[T],
    sizes: (usize, usize),
    top_k: usize,
    row_idx: &[i32],
    weights: Option<&[f32]>,
) -> CombineGradients {
    let (packed_rows, width) = sizes;
    let mut gradients = CombineGradients {
        packed: vec![0.0; packed_rows * width],
        weights: Vec::new(),
    };
    for (entry, &row) in row_idx.iter().enumerate() {
        let grad = &grad_out[entry / top_k * width..][..width];
        let Ok(row) = usize::try_from(row) else {
            gradients.weights.push(sum(std::iter::empty()));
            continue;
        };
        let own = &packed[row * width..][..width];
        let products = own.iter().zip(grad);
        gradients.weights.push(sum(
            products.map(|(x, grad)| (Some(x.widen()), grad.widen()))
        ));
        for (out, grad) in gradients.packed[row * width..].iter_mut().zip(grad) {
            *out = match weights {
                Some(weights) => weights[entry] * grad.widen(),
                None => grad.widen(),
            };
        }
    }
    gradients
}
