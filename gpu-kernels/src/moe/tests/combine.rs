//! Combine and the gradients, against sums by hand.

use super::dispatch::Slots;
use super::*;
use crate::moe::policy::combine as policy;
use crate::moe::{
    CombineBackwardBf16, CombineBackwardF16Any, CombineBackwardF32, CombineBackwardF32Any,
    CombineBackwardParams, CombineBf16, CombineBf16Any, CombineBf16Few, CombineF16, CombineF16Any,
    CombineF16Few, CombineF32, CombineF32Any, CombineF32Few, CombineParams, SlotArrays,
};
use crate::simt::Element;
use half::{bf16, f16};

/// Where the rows come from.
#[derive(Clone, Copy, Debug, PartialEq)]
enum From {
    Plan,
    Slots,
    Claims,
}

fn elements<T: Element>(random: &mut SmallRng, len: usize) -> Vec<T> {
    let draw = |_| T::from_f32(random.random_range(-2.0..2.0));
    (0..len).map(draw).collect()
}

fn combine<T, Wide, Few, Any>(seed: u64, hidden: usize, top_k: usize, from: From, weighted: bool)
where
    T: Element + PartialEq + std::fmt::Debug,
    Wide: Entry<Params = CombineParams<T>>,
    Few: Entry<Params = CombineParams<T>>,
    Any: Entry<Params = CombineParams<T>>,
{
    let mut random = random(seed);
    let tokens = 13;
    let slots = Slots::random(&mut random, tokens * top_k, 5);
    let row_count = slots.row_count();
    let packed = elements::<T>(&mut random, row_count * hidden);
    let weights = elements::<f32>(&mut random, tokens * top_k);
    let bench = Bench::new(seed);
    let arrays = slots.arrays(&bench, top_k as u32, row_count, seed.is_multiple_of(2));
    let (rows, owners) = slots.claim(&bench, arrays);
    let vectors = (hidden * size_of::<T>()).is_multiple_of(16);
    let units = if vectors {
        hidden * size_of::<T>() / 16
    } else {
        hidden
    };
    let experts = (from == From::Slots).then_some(arrays.experts);
    let launch = policy::launch(tokens as u32, top_k as u32, experts, units as u64).unwrap();
    let out = bench.poisoned::<T>(tokens * hidden);
    let params = CombineParams {
        packed: bench.upload(&packed).view,
        out: out.view,
        weights: if weighted {
            bench.upload(&weights).view
        } else {
            Global::null()
        },
        rows: if from == From::Slots {
            Global::null()
        } else {
            rows.view
        },
        owners: if from == From::Claims {
            owners.view
        } else {
            Global::null()
        },
        status: bench.status.view,
        from: match from {
            From::Slots => arrays,
            _ => SlotArrays::absent(top_k as u32, row_count as u32),
        },
        tokens: tokens as u32,
        row_units: units as u32,
        chunk: launch.chunk,
        log2_team: launch.log2_team,
    };
    match (vectors, launch.few) {
        (false, _) => bench.launch::<Any>(launch.shape, params),
        (true, true) => bench.launch::<Few>(launch.shape, params),
        (true, false) => bench.launch::<Wide>(launch.shape, params),
    }
    let found = bench.read(out);
    let row_of = slots.rows();
    let mut owner = vec![usize::MAX; row_count];
    for (entry, row) in row_of.iter().enumerate() {
        if let Some(row) = row {
            owner[*row] = entry;
        }
    }
    for token in 0..tokens {
        for column in 0..hidden {
            let mut sum: Option<f32> = None;
            for entry in token * top_k..(token + 1) * top_k {
                let Some(row) = row_of[entry] else { continue };
                if from == From::Claims && owner[row] != entry {
                    continue;
                }
                let value = packed[row * hidden + column].to_f32();
                let weight = if weighted { weights[entry] } else { 1.0 };
                sum = Some(match sum {
                    None => weight * value,
                    Some(sum) => weight.mul_add(value, sum),
                });
            }
            let expected = T::from_f32(sum.unwrap_or(0.0));
            let at = token * hidden + column;
            assert_eq!(
                found[at], expected,
                "{hidden} x {top_k}, {from:?}, seed {seed}"
            );
        }
    }
    assert_eq!(bench.faults(), NO_FAULTS);
}

#[test]
fn sums_are_those_of_the_definition() {
    let ways = [From::Plan, From::Slots, From::Claims];
    let cases = [
        (1, 1),
        (3, 2),
        (8, 1),
        (40, 2),
        (64, 9),
        (129, 3),
        (1032, 4),
        (24, 32),
    ];
    for (seed, (hidden, top_k)) in (0..).zip(cases) {
        for from in ways {
            let weighted = seed % 3 != 0;
            combine::<f32, CombineF32, CombineF32Few, CombineF32Any>(
                seed, hidden, top_k, from, weighted,
            );
            combine::<f16, CombineF16, CombineF16Few, CombineF16Any>(
                seed, hidden, top_k, from, weighted,
            );
            combine::<bf16, CombineBf16, CombineBf16Few, CombineBf16Any>(
                seed, hidden, top_k, from, weighted,
            );
        }
    }
}

fn backward<T, K>(seed: u64, hidden: usize, units: usize, claimed: bool, weighted: bool)
where
    T: Element,
    K: Entry<Params = CombineBackwardParams<T>>,
{
    let mut random = random(seed);
    let (tokens, top_k, experts) = (11, 3, 4);
    let ids = ids(&mut random, tokens * top_k, experts);
    let plan = plan(&ids, experts, 10, 4, ids.len() + 12);
    let row_count = plan.sources.len() + 1;
    let bench = Bench::new(seed);
    let grad_out = elements::<T>(&mut random, tokens * hidden);
    let packed = elements::<T>(&mut random, row_count * hidden);
    let weights = elements::<f32>(&mut random, ids.len());
    let grad_packed = bench.poisoned::<T>(row_count * hidden);
    let grad_weights = bench.poisoned::<f32>(ids.len());
    // A plan's sources, or the claims that say the same.
    let sources: Vec<u32> = plan
        .sources
        .iter()
        .map(|&source| {
            if claimed {
                (source + 1) as u32
            } else {
                source as u32
            }
        })
        .collect();
    let (shape, rows_per_team) = policy::backward(ids.len() as u32, row_count as u32).unwrap();
    let params = CombineBackwardParams {
        grad_out: bench.upload(&grad_out).view,
        packed: bench.upload(&packed).view,
        grad_packed: grad_packed.view,
        weights: if weighted {
            bench.upload(&weights).view
        } else {
            Global::null()
        },
        grad_weights: grad_weights.view,
        rows: bench.upload(&plan.rows).view,
        sources: bench.upload(&sources).view,
        status: bench.status.view,
        entries: ids.len() as u32,
        top_k: top_k as u32,
        row_count: row_count as u32,
        row_units: units as u32,
        source_count: sources.len() as u32,
        claimed: claimed.into(),
        rows_per_team,
        padding: 0,
    };
    bench.launch::<K>(shape, params);
    let mut expected = vec![0.0f32; row_count * hidden];
    let found = bench.read(grad_weights);
    for (entry, &row) in plan.rows.iter().enumerate() {
        let mut sum = 0.0;
        if row >= 0 {
            for column in 0..hidden {
                let grad = grad_out[entry / top_k * hidden + column].to_f32();
                let at = row as usize * hidden + column;
                sum += f64::from(grad) * f64::from(packed[at].to_f32());
                let weight = if weighted { weights[entry] } else { 1.0 };
                expected[at] = T::from_f32(weight * grad).to_f32();
            }
        }
        let error = (f64::from(found[entry]) - sum).abs();
        assert!(
            error <= 1e-6 * 4.0 * hidden as f64,
            "entry {entry}: {error}"
        );
    }
    let found: Vec<f32> = bench.read(grad_packed).into_iter().map(T::to_f32).collect();
    assert_eq!(found, expected);
    assert_eq!(bench.faults(), NO_FAULTS);
}

#[test]
fn gradients_are_those_of_the_definition() {
    backward::<f32, CombineBackwardF32>(1, 40, 10, false, true);
    backward::<f32, CombineBackwardF32>(2, 1028, 257, true, false);
    backward::<f32, CombineBackwardF32Any>(3, 7, 7, true, true);
    backward::<f16, CombineBackwardF16Any>(4, 129, 129, false, true);
    backward::<bf16, CombineBackwardBf16>(5, 1024, 128, false, true);
}

#[test]
fn a_row_with_two_entries_has_no_gradient() {
    let bench = Bench::new(3);
    let grad_packed = bench.poisoned::<f32>(2);
    let (shape, rows_per_team) = policy::backward(3, 2).unwrap();
    let params = CombineBackwardParams {
        grad_out: bench.upload(&[1.0f32, 2.0, 3.0]).view,
        packed: Global::null(),
        grad_packed: grad_packed.view,
        weights: Global::null(),
        grad_weights: Global::null(),
        rows: bench.upload(&[1, 0, 1]).view,
        sources: bench.upload(&[2u32, 3]).view,
        status: bench.status.view,
        entries: 3,
        top_k: 1,
        row_count: 2,
        row_units: 1,
        source_count: 2,
        claimed: 1,
        rows_per_team,
        padding: 0,
    };
    bench.launch::<CombineBackwardF32Any>(shape, params);
    assert_eq!(
        bench.faults()[status::CLAIMED],
        Some((status::entry(0, 0), 1))
    );
}

#[test]
fn launches_fit_a_grid() {
    for (tokens, units) in [
        (0, 1),
        (1, 1),
        (128, 896),
        (8192, 896),
        (1 << 24, 1 << 10),
        (1, 1 << 30),
    ] {
        for top_k in [1, 8] {
            let launch = policy::launch(tokens, top_k, None, units).unwrap();
            let [x, y, _] = launch.shape.grid;
            assert!(y <= 65_535 && x > 0);
            assert!(u64::from(y) * u64::from(launch.chunk) >= units);
            assert!((x << (policy::THREADS.ilog2() - launch.log2_team)) >= tokens);
        }
    }
    assert!(policy::launch(1, 1, None, 1 << 31).is_none());
    assert!(policy::launch(1, 1, None, u64::MAX).is_none());
}
