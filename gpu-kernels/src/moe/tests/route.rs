//! Route: places against a sort by hand, every way it can run.

use super::*;
use crate::moe::policy::route::{self as policy, Launch, Way, tile_step};
use crate::moe::{RouteAlone, RouteCount, RouteParams, RoutePlace, RoutePlaceSummed, RouteTotals};

#[derive(Clone, Copy, Debug)]
struct Case {
    experts: usize,
    top_k: u32,
    capacity: u32,
    alignment: usize,
    wide: bool,
    /// Rows behind the last that are there to be marked.
    spare: usize,
}

impl Default for Case {
    fn default() -> Self {
        Self {
            experts: 16,
            top_k: 1,
            capacity: u32::MAX,
            alignment: 1,
            wide: false,
            spare: 0,
        }
    }
}

/// Runs `launch` and compares everything with the definition.
fn check(seed: u64, ids: &[i64], case: Case, launch: Launch) {
    let bench = Bench::new(seed);
    let rows = ids.len() + case.experts * (case.alignment - 1) + case.spare;
    let expected = plan(ids, case.experts, case.capacity, case.alignment, rows);
    let ids_view = if case.wide {
        bench.upload(ids).view.cast()
    } else {
        let narrow: Vec<i32> = ids.iter().map(|&id| id as i32).collect();
        bench.upload(&narrow).view
    };
    let offsets = bench.poisoned(case.experts + 1);
    let (slots, row_of) = (bench.poisoned(ids.len()), bench.poisoned(ids.len()));
    let sources = bench.poisoned(rows);
    let table = bench.poisoned::<u32>(launch.table_words as usize);
    let params = RouteParams {
        ids: ids_view,
        slots: slots.view,
        rows: row_of.view,
        sources: sources.view,
        offsets: offsets.view,
        status: bench.status.view,
        table: table.view,
        entries: ids.len() as u32,
        top_k: case.top_k,
        experts: case.experts as u32,
        wide: case.wide.into(),
        capacity: case.capacity,
        alignment: case.alignment as u32,
        row_count: rows as u32,
        tiles: launch.tiles,
        tile_entries: launch.tile_entries,
        padding: 0,
    };
    match launch.way {
        Way::Alone(shape) => bench.launch::<RouteAlone>(shape, params),
        Way::Tiles {
            count,
            totals,
            place,
        } => {
            bench.launch::<RouteCount>(count, params);
            if let Some(totals) = totals {
                bench.launch::<RouteTotals>(totals, params);
                bench.launch::<RoutePlaceSummed>(place, params);
            } else {
                bench.launch::<RoutePlace>(place, params);
            }
        }
    }
    let found = Plan {
        offsets: bench.read(offsets),
        slots: bench.read(slots),
        rows: bench.read(row_of),
        sources: bench.read(sources),
    };
    assert!(
        found == expected,
        "{case:?}, {launch:?}, seed {seed}: {found:?} for {expected:?}"
    );
    let bad = ids
        .iter()
        .position(|&id| !(0..case.experts as i64).contains(&id));
    let mut faults = NO_FAULTS;
    faults[status::EXPERT_ID] = bad.map(|entry| {
        let (token, k) = (entry as u32 / case.top_k, entry as u32 % case.top_k);
        (status::entry(token, k), status::saturate(ids[entry]))
    });
    assert_eq!(bench.faults(), faults);
}

#[test]
fn one_block_places_few_entries() {
    let mut random = random(1);
    for seed in 0..12 {
        for entries in [0, 1, 31, 33, 64, 1000, 2048] {
            let case = Case {
                experts: [1, 2, 16, 33, 100][seed as usize % 5],
                capacity: [u32::MAX, 0, 3, 40][seed as usize % 4],
                alignment: [1, 4, 1, 128, 7][(seed as usize + entries) % 5],
                wide: seed % 2 == 1,
                spare: [0, 5][seed as usize % 2],
                ..Case::default()
            };
            let ids = ids(&mut random, entries, case.experts);
            let launch = policy::launch(entries as u32, case.experts as u32);
            assert!(matches!(launch.way, Way::Alone(_)));
            check(seed, &ids, case, launch);
        }
    }
}

#[test]
fn rows_too_many_to_gather_are_written_one_by_one() {
    let mut random = random(2);
    for (seed, experts) in [(0, 1024), (3, 257)] {
        let case = Case {
            experts,
            top_k: 8,
            alignment: 16,
            ..Case::default()
        };
        let launch = policy::launch(1000, experts as u32);
        check(seed, &ids(&mut random, 1000, experts), case, launch);
    }
}

#[test]
fn tiles_place_what_one_block_would() {
    let mut random = random(3);
    let step = tile_step() as usize;
    for seed in 0..4 {
        for entries in [1, step - 1, step + 1, 5 * step + 17] {
            let case = Case {
                experts: [5, 64, 256, 1023][seed as usize],
                top_k: 1,
                capacity: [u32::MAX, 20][seed as usize % 2],
                alignment: [1, 16][seed as usize / 2],
                wide: seed == 2,
                spare: 3,
            };
            let launch = policy::tiles(entries as u32, case.experts as u32);
            check(seed, &ids(&mut random, entries, case.experts), case, launch);
        }
    }
}

#[test]
fn a_tile_of_several_steps_goes_on_where_the_last_one_ended() {
    let mut random = random(4);
    let entries = 7 * tile_step() as usize + 5;
    let experts = 24;
    let ids = ids(&mut random, entries, experts);
    let whole = policy::tiles(entries as u32, experts as u32);
    let tile_entries = 3 * tile_step();
    let tiles = (entries as u32).div_ceil(tile_entries);
    let Way::Tiles {
        mut count,
        totals,
        mut place,
    } = whole.way
    else {
        panic!("{whole:?}");
    };
    (count.grid[0], place.grid[0]) = (tiles, tiles);
    let launch = Launch {
        way: Way::Tiles {
            count,
            totals,
            place,
        },
        tiles,
        tile_entries,
        ..whole
    };
    let case = Case {
        experts,
        capacity: 500,
        ..Case::default()
    };
    check(5, &ids, case, launch);
}

#[test]
fn a_long_table_is_summed_in_a_launch_between() {
    let mut random = random(5);
    let (entries, experts) = (26 * tile_step() as usize + 1, 1024);
    let launch = policy::launch(entries as u32, experts as u32);
    assert!(matches!(
        launch.way,
        Way::Tiles {
            totals: Some(_),
            ..
        }
    ));
    let case = Case {
        experts,
        top_k: 2,
        alignment: 2,
        ..Case::default()
    };
    check(6, &ids(&mut random, entries, experts), case, launch);
}

#[test]
fn golden_drops_and_alignment() {
    let case = Case {
        experts: 4,
        ..Case::default()
    };
    let launch = policy::launch(5, 4);
    check(0, &[0, -1, 1, 4, 2], case, launch);
    let expected = plan(&[0, -1, 1, 4, 2], 4, u32::MAX, 1, 5);
    assert_eq!(expected.slots, [0, -1, 0, -1, 0]);
    let counts = [2, 3, 0, 6, 8];
    let ids: Vec<i64> = (0..5).flat_map(|e| vec![e as i64; counts[e]]).collect();
    let case = Case {
        experts: 5,
        alignment: 4,
        ..Case::default()
    };
    check(0, &ids, case, policy::launch(ids.len() as u32, 5));
    let expected = plan(&ids, 5, u32::MAX, 4, 24);
    assert_eq!(expected.offsets, [0, 4, 8, 8, 16, 24]);
    assert_eq!(
        expected
            .sources
            .iter()
            .filter(|&&source| source < 0)
            .count(),
        5
    );
}

#[test]
fn launches_cover_every_entry_and_fit_a_block() {
    for experts in [1, 2, 63, 256, 1024] {
        for entries in [
            0,
            1,
            2048,
            2049,
            8192,
            8193,
            65536,
            1 << 20,
            (1 << 29) - 1,
            1 << 29,
        ] {
            let launch = policy::launch(entries, experts);
            let covered = u64::from(launch.tiles) * u64::from(launch.tile_entries);
            assert!(covered >= u64::from(entries), "{launch:?}");
            let shapes = match launch.way {
                Way::Alone(shape) => vec![shape],
                Way::Tiles {
                    count,
                    totals,
                    place,
                } => [Some(count), totals, Some(place)]
                    .into_iter()
                    .flatten()
                    .collect(),
            };
            for shape in shapes {
                // sm_80 has 163 KiB a block.
                assert!(shape.shared_bytes <= 163 << 10, "{launch:?}");
            }
        }
    }
}
