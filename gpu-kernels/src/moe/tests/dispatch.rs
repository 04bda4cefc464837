//! Dispatch by plans, claims and slots, of rows of every width.

use super::*;
use crate::moe::policy::claim;
use crate::moe::policy::dispatch::{self as policy, Sizes, Way};
use crate::moe::{
    Claim, ClaimClear, ClaimParams, DispatchByte, DispatchGather, DispatchHalf, DispatchParams,
    DispatchSlots, DispatchVector, DispatchVectors, DispatchWord, SlotArrays,
};

/// A caller's slots.
#[derive(Clone, Debug)]
pub(super) struct Slots {
    pub ids: Vec<i64>,
    pub slots: Vec<i32>,
    pub offsets: Vec<i32>,
}

impl Slots {
    /// Random ones that may share rows.
    pub fn random(random: &mut SmallRng, entries: usize, experts: usize) -> Self {
        let mut offsets = vec![0];
        for _ in 0..experts {
            offsets.push(offsets.last().unwrap() + random.random_range(0..6));
        }
        let mut this = Self {
            ids: Vec::new(),
            slots: Vec::new(),
            offsets,
        };
        for _ in 0..entries {
            let expert = random.random_range(0..experts);
            let rows = this.offsets[expert + 1] - this.offsets[expert];
            // An expert without rows, and some others, leave the entry out.
            let slot = random.random_range(-1..rows.max(0));
            let wrong = slot == -1 && random.random();
            this.ids.push(if wrong { -5 } else { expert as i64 });
            this.slots.push(slot);
        }
        this
    }

    pub fn row_count(&self) -> usize {
        *self.offsets.last().unwrap() as usize
    }

    /// Each entry's row.
    pub fn rows(&self) -> Vec<Option<usize>> {
        let row = |(&id, &slot): (&i64, &i32)| {
            (slot >= 0).then(|| (self.offsets[id as usize] + slot) as usize)
        };
        self.ids.iter().zip(&self.slots).map(row).collect()
    }

    pub fn arrays(&self, bench: &Bench, top_k: u32, row_count: usize, wide: bool) -> SlotArrays {
        let narrow: Vec<i32> = self.ids.iter().map(|&id| id as i32).collect();
        SlotArrays {
            ids: match wide {
                true => bench.upload(&self.ids).view.cast(),
                false => bench.upload(&narrow).view,
            },
            slots: bench.upload(&self.slots).view,
            offsets: bench.upload(&self.offsets).view,
            experts: self.offsets.len() as u32 - 1,
            wide: wide.into(),
            row_count: row_count as u32,
            top_k,
        }
    }

    /// Checked and claimed on the device: rows and owners.
    pub fn claim(&self, bench: &Bench, from: SlotArrays) -> (Array<i32>, Array<u32>) {
        let rows = bench.poisoned(self.ids.len());
        let owners = bench.poisoned(from.row_count as usize);
        let params = ClaimParams {
            from,
            rows: rows.view,
            owners: owners.view,
            status: bench.status.view,
            entries: self.ids.len() as u32,
            padding: 0,
        };
        bench.launch::<ClaimClear>(claim::clear(from.row_count), params);
        let shape = claim::claim(self.ids.len() as u32, from.experts);
        bench.launch::<Claim>(shape, params);
        (rows, owners)
    }
}

/// The packed rows: of each entry's row, later entries over earlier ones.
fn packed(
    hidden: &[u8],
    rows: &[Option<usize>],
    top_k: usize,
    bytes: usize,
    count: usize,
) -> Vec<u8> {
    let mut packed = vec![0; count * bytes];
    for (entry, row) in rows.iter().enumerate() {
        if let Some(row) = row {
            let token = entry / top_k * bytes;
            packed[row * bytes..][..bytes].copy_from_slice(&hidden[token..][..bytes]);
        }
    }
    packed
}

/// Launches the kernel that the policy chose.
fn launch(bench: &Bench, launch: policy::Launch, params: DispatchParams) {
    let params = with_shape(launch, params);
    match launch.way {
        Way::Vectors => bench.launch::<DispatchVectors>(launch.shape, params),
        Way::Vector => bench.launch::<DispatchVector>(launch.shape, params),
        Way::Gather => bench.launch::<DispatchGather>(launch.shape, params),
        Way::Word => bench.launch::<DispatchWord>(launch.shape, params),
        Way::Half => bench.launch::<DispatchHalf>(launch.shape, params),
        Way::Byte => bench.launch::<DispatchByte>(launch.shape, params),
    }
}

fn with_shape(launch: policy::Launch, params: DispatchParams) -> DispatchParams {
    DispatchParams {
        row_units: launch.row_units,
        chunk: launch.chunk,
        log2_team: launch.log2_team,
        rows_per_team: launch.rows_per_team,
        ..params
    }
}

/// The launches worth a test: what the policy chose for these sizes, and for rows of whole
/// vectors what it would choose for more of them.
fn launches(sizes: Sizes, behind: bool) -> Vec<policy::Launch> {
    let mut launches = vec![policy::launch(&sizes, behind).unwrap()];
    if launches[0].way == Way::Vector && launches[0].row_units > 32 {
        // The grid of a dispatch with so many rows would be too large for these; its kernel
        // and teams are not.
        let many = Sizes {
            tokens: sizes.tokens.max(1 << 20),
            rows: sizes.rows.max(1 << 20),
            ..sizes
        };
        let mut launch = policy::launch(&many, behind).unwrap();
        let teams = policy::THREADS >> launch.log2_team;
        let count = if launch.way == Way::Gather {
            sizes.rows
        } else {
            launch.rows_per_team = launches[0].rows_per_team;
            sizes.tokens.max(sizes.rows.div_ceil(32))
        };
        launch.shape.grid[0] = count.div_ceil(teams).max(1);
        launches.push(launch);
    }
    launches
}

fn hidden(random: &mut SmallRng, tokens: usize, bytes: usize) -> Vec<u8> {
    (0..tokens * bytes)
        .map(|_| random.random_range(1..=255))
        .collect()
}

#[test]
fn plans_of_every_width() {
    let mut random = random(10);
    let mut ways = std::collections::HashSet::new();
    // Units of each size: less than a warp, more than a team has in flight, several teams.
    let widths = [
        1,
        3,
        4,
        12,
        18,
        16,
        48,
        127,
        258,
        508,
        512,
        2050,
        4096,
        9 * 4096 + 16,
    ];
    for (seed, bytes) in (0..).zip(widths) {
        for (tokens, top_k) in [(1, 1), (7, 3), (40, 1)] {
            let tokens: usize = if bytes > 9000 { 2 } else { tokens };
            let ids = ids(&mut random, tokens * top_k, 4);
            let plan = plan(&ids, 4, 9, 4, ids.len() + 16);
            let hidden = hidden(&mut random, tokens, bytes);
            // One row more than the plan knows of.
            let row_count = plan.sources.len() + 1;
            let sizes = Sizes {
                tokens: tokens as u32,
                top_k: top_k as u32,
                rows: row_count as u32,
                row_bytes: bytes as u64,
            };
            let rows: Vec<_> = plan
                .rows
                .iter()
                .map(|&row| usize::try_from(row).ok())
                .collect();
            let expected = packed(&hidden, &rows, top_k, bytes, row_count);
            for shape in launches(sizes, false) {
                let bench = Bench::new(seed);
                let out = bench.poisoned::<u8>(row_count * bytes);
                let params = DispatchParams {
                    hidden: bench.upload(&hidden).view,
                    packed: out.view,
                    rows: bench.upload(&plan.rows).view,
                    sources: bench.upload(&plan.sources).view.cast(),
                    status: bench.status.view,
                    from: SlotArrays::absent(top_k as u32, row_count as u32),
                    tokens: tokens as u32,
                    row_units: 0,
                    source_count: plan.sources.len() as u32,
                    claimed: 0,
                    chunk: 0,
                    log2_team: 0,
                    rows_per_team: 0,
                    padding: 0,
                };
                launch(&bench, shape, params);
                assert!(bench.read(out) == expected, "{shape:?}, {sizes:?}");
                assert_eq!(bench.faults(), NO_FAULTS);
                ways.insert(format!("{:?}", shape.way));
            }
        }
    }
    assert_eq!(ways.len(), 6, "{ways:?}");
}

#[test]
fn a_plan_for_more_rows_than_there_are_is_a_fault() {
    let bench = Bench::new(1);
    let plan = plan(&[0, 1, 1, 0], 2, u32::MAX, 1, 4);
    let out = bench.poisoned::<u8>(3 * 16);
    let sizes = Sizes {
        tokens: 4,
        top_k: 1,
        rows: 3,
        row_bytes: 16,
    };
    let shape = policy::launch(&sizes, true).unwrap();
    let params = DispatchParams {
        hidden: bench.upload(&[1u8; 64]).view,
        packed: out.view,
        rows: bench.upload(&plan.rows).view,
        sources: bench.upload(&plan.sources).view.cast(),
        status: bench.status.view,
        from: SlotArrays::absent(1, 3),
        tokens: 4,
        row_units: 1,
        source_count: 4,
        claimed: 0,
        chunk: 0,
        log2_team: 0,
        rows_per_team: 0,
        padding: 0,
    };
    launch(&bench, shape, params);
    assert_eq!(bench.faults()[status::ROW], Some((status::entry(2, 0), 3)));
}

/// How a caller's slots are dispatched.
#[derive(Clone, Copy, Debug, PartialEq)]
enum How {
    AtOnce,
    Claims,
    ManyClaims,
}

/// Dispatches by slots; what was written, if anything.
fn by_slots(
    bench: &Bench,
    slots: &Slots,
    hidden: &[u8],
    top_k: u32,
    bytes: usize,
    how: How,
) -> Vec<u8> {
    let row_count = slots.row_count() + 2;
    let tokens = slots.ids.len() as u32 / top_k;
    let from = slots.arrays(bench, top_k, row_count, tokens.is_multiple_of(2));
    let out = bench.upload(&vec![0xEE; row_count * bytes]);
    let sizes = Sizes {
        tokens,
        top_k,
        rows: row_count as u32,
        row_bytes: bytes as u64,
    };
    let mut params = DispatchParams {
        hidden: bench.upload(hidden).view,
        packed: out.view,
        rows: Global::null(),
        sources: Global::null(),
        status: bench.status.view,
        from,
        tokens,
        row_units: 0,
        source_count: row_count as u32,
        claimed: 1,
        chunk: 0,
        log2_team: 0,
        rows_per_team: 0,
        padding: 0,
    };
    if how == How::AtOnce {
        let shape = policy::slots(&sizes, from.experts).unwrap();
        bench.launch::<DispatchSlots>(shape.shape, with_shape(shape, params));
    } else {
        let (rows, owners) = slots.claim(bench, from);
        params.rows = rows.view;
        params.sources = owners.view;
        let launches = launches(sizes, false);
        let shape = match how {
            How::Claims => launches[0],
            _ => *launches.last().unwrap(),
        };
        launch(bench, shape, params);
    }
    bench.read(out)
}

#[test]
fn the_later_token_wins() {
    let mut random = random(11);
    for seed in 0..10 {
        let top_k = [1, 2, 5][seed as usize % 3];
        let tokens = [1, 30, 64, 333][seed as usize % 4];
        let slots = Slots::random(&mut random, tokens * top_k, 7);
        for (bytes, how) in [
            (16, How::AtOnce),
            (640, How::AtOnce),
            (16, How::Claims),
            (640, How::Claims),
            (640, How::ManyClaims),
            (6, How::Claims),
        ] {
            let hidden = hidden(&mut random, tokens, bytes);
            let bench = Bench::new(seed);
            let found = by_slots(&bench, &slots, &hidden, top_k as u32, bytes, how);
            let count = slots.row_count() + 2;
            let expected = packed(&hidden, &slots.rows(), top_k, bytes, count);
            assert!(found == expected, "seed {seed}, {bytes} bytes, {how:?}");
            assert_eq!(bench.faults(), NO_FAULTS);
        }
    }
}

#[test]
fn faults_are_found_before_anything_is_written() {
    let good = Slots {
        ids: vec![0, 1, 2, 1, 0, 2],
        slots: vec![0, 0, 0, 1, 1, -1],
        offsets: vec![0, 2, 4, 5],
    };
    type Case = (fn(&mut Slots), usize, (u32, i32));
    let cases: [Case; 9] = [
        (|s| s.offsets[0] = 1, status::OFFSETS, (0, 1)),
        (|s| s.offsets[2] = 1, status::OFFSETS, (2, 1)),
        (|s| s.offsets[1] = i32::MIN, status::OFFSETS, (1, i32::MIN)),
        (|s| s.offsets[2] = i32::MAX, status::OFFSETS, (2, i32::MAX)),
        (
            |s| s.ids[3] = 3,
            status::EXPERT_ID,
            (status::entry(1, 1), 3),
        ),
        (
            |s| s.ids[1] = -1,
            status::EXPERT_ID,
            (status::entry(0, 1), -1),
        ),
        (|s| s.slots[2] = 1, status::SLOT, (status::entry(1, 0), 1)),
        (|s| s.slots[0] = -2, status::SLOT, (status::entry(0, 0), -2)),
        (
            |s| s.slots[4] = i32::MAX,
            status::SLOT,
            (status::entry(2, 0), i32::MAX),
        ),
    ];
    for (seed, (spoil, kind, fault)) in (0..).zip(cases) {
        let mut slots = good.clone();
        spoil(&mut slots);
        // The rows there are do not depend on what was spoiled.
        let bench = Bench::new(seed);
        for how in [How::AtOnce, How::Claims] {
            let hidden = [7; 3 * 16];
            let found = by_slots(&bench, &slots, &hidden, 2, 16, how);
            assert!(found.iter().all(|&byte| byte == 0xEE), "{slots:?}");
            assert_eq!(bench.faults()[kind], Some(fault), "{slots:?}");
        }
    }
}

#[test]
fn nothing_to_dispatch_leaves_zeros() {
    let bench = Bench::new(2);
    let slots = Slots {
        ids: Vec::new(),
        slots: Vec::new(),
        offsets: vec![0, 3, 40],
    };
    for how in [How::AtOnce, How::Claims] {
        let found = by_slots(&bench, &slots, &[], 4, 32, how);
        assert_eq!(found, vec![0; 42 * 32]);
    }
}
