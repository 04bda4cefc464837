//! Route: exactly the definition, whatever the shape, the options and the ids.

use super::{failed, same, scenes};
use crate::on_every_device;
use ferroseq::ops::{InvalidIds, Route, RouteArgs, Status};
use ferroseq_tests::TestDevice;
use ferroseq_tests::moe::{CHOICES, Choice, Scene, ids, read};
use ferroseq_tests::oracle::moe::Routed;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

fn compare(what: &str, found: &Routed, expected: &Routed) -> Result<(), String> {
    let same = |array: &str, found: &[i32], expected: &[i32]| {
        same(&format!("{what}: {array}"), found, expected)
    };
    same(
        "expert_offsets",
        &found.expert_offsets,
        &expected.expert_offsets,
    )?;
    same("slot_idx", &found.slot_idx, &expected.slot_idx)?;
    same("row_idx", &found.row_idx, &expected.row_idx)?;
    same(
        "source_of_row",
        &found.source_of_row,
        &expected.source_of_row,
    )
}

/// Routes with ids of 32 and of 64 bits.
fn conforms(device: &TestDevice, scene: &Scene) -> Result<(), String> {
    let (op, device) = (&scene.op, &device.device);
    let what = format!("{device}: {op:?}");
    let wide = failed(&what, scene.plan(device))?;
    compare(&what, &read(&wide)?, &scene.routed)?;
    let narrow = failed(&what, device.upload(&scene.narrow_ids()))?;
    let narrow = failed(&what, op.run(device, &narrow))?;
    compare(&format!("{what}, i32"), &read(&narrow)?, &scene.routed)
}

#[test]
fn golden_invalid_ids_are_dropped() {
    on_every_device(|device| {
        let op = Route::new(5, 1, 4).invalid(InvalidIds::Drop);
        let expert_ids = failed(&op, device.device.upload(&[0i64, -1, 1, 4, 2]))?;
        let found = read(&failed(&op, op.run(&device.device, &expert_ids))?)?;
        let expected = Routed {
            expert_offsets: vec![0, 1, 2, 3, 3],
            slot_idx: vec![0, -1, 0, -1, 0],
            row_idx: vec![0, -1, 1, -1, 2],
            source_of_row: vec![0, 2, 4],
        };
        compare("golden", &found, &expected)
    });
}

#[test]
fn golden_counts_are_aligned() {
    on_every_device(|device| {
        let op = Route::new(19, 1, 5).alignment(4);
        let counts = [2, 3, 0, 6, 8];
        let ids = (0i32..).zip(counts).flat_map(|(e, count)| vec![e; count]);
        let expert_ids = failed(&op, device.device.upload(&ids.collect::<Vec<_>>()))?;
        let found = read(&failed(&op, op.run(&device.device, &expert_ids))?)?;
        same("offsets", &found.expert_offsets, &[0, 4, 8, 8, 16, 24])?;
        let rows = [
            0, 1, -1, -1, 2, 3, 4, -1, 5, 6, 7, 8, 9, 10, -1, -1, 11, 12, 13, 14, 15, 16, 17, 18,
        ];
        same("source_of_row", &found.source_of_row, &rows)
    });
}

#[test]
fn shapes_and_choices() {
    on_every_device(|device| {
        let scenes = scenes(device);
        scenes.iter().try_for_each(|scene| conforms(device, scene))
    });
}

/// More experts than a warp, a block, a word; the most there may be; as many as a token takes.
#[test]
fn experts() {
    on_every_device(|device| {
        for experts in [1, 2, 31, 32, 33, 255, 256, 257, 1023, 1024] {
            let tokens = if device.cases.large { 3000 } else { 70 };
            let top_k = experts.min(3);
            let op = Route::new(tokens, top_k, experts);
            for choice in [Choice::Random, Choice::Invalid] {
                conforms(device, &Scene::new(op, choice, experts as u64))?;
            }
        }
        for experts in [1, 2, 8, 32] {
            // K = E: every token takes every expert.
            let scene = Scene::new(Route::new(29, experts, experts), Choice::Random, 5);
            conforms(device, &scene)?;
        }
        Ok(())
    });
}

/// Numbers of entries around what a warp, a block and a piece of work could take.
#[test]
fn tokens() {
    on_every_device(|device| {
        let edges = (5..=16).flat_map(|power| [(1 << power) - 1, 1 << power, (1 << power) + 1]);
        let most = if device.cases.large { usize::MAX } else { 4097 };
        for (at, tokens) in edges.filter(|tokens| *tokens <= most).enumerate() {
            let choice = CHOICES[at % CHOICES.len()];
            conforms(device, &Scene::new(Route::new(tokens, 1, 16), choice, 3))?;
        }
        Ok(())
    });
}

/// Entries enough for several blocks, for a table of their counts that is summed apart, and
/// for blocks that take several turns.
#[test]
fn several_blocks() {
    on_every_device(|device| {
        let few = [(8193, 1, 16), (3001, 3, 257), (26_000, 1, 1024)];
        let many = [(600_001, 1, 64), (200_000, 4, 1000), (33_333, 32, 33)];
        let shapes = few.iter().chain(many.iter().filter(|_| device.cases.large));
        for &(tokens, top_k, experts) in shapes {
            let op = Route::new(tokens, top_k, experts)
                .capacity(Some(tokens / 3))
                .alignment(8);
            for choice in [Choice::Random, Choice::One, Choice::Invalid] {
                if device.cases.large || choice == Choice::Invalid {
                    conforms(device, &Scene::new(op, choice, 7))?;
                }
            }
        }
        Ok(())
    });
}

/// The shapes whose speed is measured.
#[test]
fn measured_shapes() {
    on_every_device(|device| {
        for (tokens, top_k, experts) in [(2048, 1, 16), (8192, 8, 256), (65536, 1, 64)] {
            if tokens > 2048 && !device.cases.large {
                continue;
            }
            for choice in [Choice::Random, Choice::One] {
                let op = Route::new(tokens, top_k, experts);
                conforms(device, &Scene::new(op, choice, 11))?;
            }
        }
        Ok(())
    });
}

#[test]
fn capacities() {
    on_every_device(|device| {
        for capacity in [0, 1, 2, 5, 64, usize::MAX] {
            for choice in CHOICES {
                let op = Route::new(67, 2, 8).capacity(Some(capacity));
                conforms(device, &Scene::new(op, choice, 13))?;
            }
        }
        Ok(())
    });
}

#[test]
fn alignments() {
    on_every_device(|device| {
        for alignment in [1, 2, 3, 16, 127, 128, 1000] {
            for capacity in [None, Some(0), Some(9)] {
                let op = Route::new(45, 3, 7).alignment(alignment).capacity(capacity);
                for choice in [Choice::Random, Choice::One, Choice::Invalid] {
                    conforms(device, &Scene::new(op, choice, 17))?;
                }
            }
        }
        Ok(())
    });
}

#[test]
fn ids_past_32_bits_are_invalid() {
    on_every_device(|device| {
        let ids = vec![1 << 32, 0, (1 << 32) + 1, 1, -(1 << 32), i64::MIN, i64::MAX];
        let scene = Scene::of(Route::new(7, 1, 2), ids);
        let what = format!("{}", device.device);
        let plan = failed(&what, scene.plan(&device.device))?;
        compare(&what, &read(&plan)?, &scene.routed)
    });
}

#[test]
fn random_shapes_and_options() {
    on_every_device(|device| {
        let most = if device.cases.large { 600 } else { 60 };
        let capacity = prop_oneof![Just(None), (0usize..40).prop_map(Some)];
        let strategy = (
            0usize..most,
            1usize..=32,
            1usize..=1024,
            capacity,
            1usize..40,
            0..5usize,
        );
        let config = Config {
            cases: device.cases.random,
            failure_persistence: None,
            ..Config::default()
        };
        let seeded = (strategy, any::<u64>());
        TestRunner::new(config)
            .run(
                &seeded,
                |((tokens, top_k, experts, capacity, alignment, choice), seed)| {
                    let op = Route::new(tokens, top_k, experts)
                        .capacity(capacity)
                        .alignment(alignment);
                    conforms(device, &Scene::new(op, CHOICES[choice], seed))
                        .map_err(TestCaseError::fail)
                },
            )
            .map_err(|error| error.to_string())
    });
}

/// A hundred runs into one plan, with one status and one workspace that nobody cleans:
/// every time the same, and nothing left of other ids before.
#[test]
fn a_hundred_runs() {
    on_every_device(|device| {
        let op = Route::new(if device.cases.large { 5000 } else { 100 }, 3, 9)
            .capacity(Some(200))
            .alignment(8)
            .invalid(InvalidIds::Drop);
        let device = &device.device;
        let [first, other] =
            [Choice::Random, Choice::Invalid].map(|choice| Scene::new(op, choice, 19));
        let mut plan = failed(&op, op.plan(device))?;
        let mut status = failed(&op, Status::new(device))?;
        let bytes = failed(&op, op.workspace_bytes(device))?;
        let mut workspace = failed(&op, device.upload(&vec![0xA5u8; bytes]))?;
        for run in 0..100 {
            let scene = if run % 7 == 3 { &other } else { &first };
            let ids = failed(&op, device.upload(&scene.narrow_ids()))?;
            let args = RouteArgs {
                expert_ids: &ids,
                plan: &mut plan,
                status: &mut status,
                workspace: Some(&mut workspace),
            };
            failed(&op, op.run_with(device, args))?;
            compare(&format!("run {run}"), &read(&plan)?, &scene.routed)?;
        }
        failed(&op, status.finish())
    });
}

/// R is enough for any choice, and no more than that where one expert takes all or each
/// takes its share.
#[test]
fn the_bound_on_rows_holds() {
    for tokens in 0..5 {
        for (top_k, experts) in [(1, 1), (1, 3), (2, 3), (3, 2)] {
            for capacity in [None, Some(0), Some(1), Some(2)] {
                for alignment in 1..5 {
                    let op = Route::new(tokens, top_k, experts)
                        .capacity(capacity)
                        .alignment(alignment);
                    let bound = op.rows().unwrap();
                    let every = (experts + 1).pow((tokens * top_k) as u32).min(3000);
                    for code in 0..every {
                        let mut rest = code;
                        let ids = (0..tokens * top_k).map(|_| {
                            let id = (rest % (experts + 1)) as i64;
                            rest /= experts + 1;
                            id
                        });
                        let scene = Scene::of(op, ids.collect());
                        assert!(scene.rows() <= bound, "{scene:?}, bound {bound}");
                    }
                }
            }
        }
    }
    let rows = |op: Route| op.rows().unwrap();
    assert_eq!(rows(Route::new(8192, 8, 256)), 65536);
    assert_eq!(rows(Route::new(8192, 8, 256).capacity(Some(0))), 0);
    assert_eq!(rows(Route::new(1, 1, 1024).alignment(128)), 128);
    assert_eq!(rows(Route::new(19, 1, 5).alignment(4)), 32);
    assert_eq!(
        rows(Route::new(100, 1, 4).capacity(Some(5)).alignment(4)),
        32
    );
}

/// The largest T and K: entry numbers near 2^29. About 32 GB of host memory.
#[test]
fn the_most_tokens() {
    if std::env::var("FERROSEQ_HUGE").as_deref() != Ok("1") {
        return ferroseq_tests::devices::skipped(
            "2^29 entries (32 GB of memory; FERROSEQ_HUGE=1 runs it)",
        );
    }
    on_every_device(|device| {
        if !device.cases.large {
            return Ok(());
        }
        let op = Route::new(1 << 24, 32, 1024);
        let scene = Scene::of(op, ids(&op, Choice::Turns, 0));
        conforms(device, &scene)
    });
}
