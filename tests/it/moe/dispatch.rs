//! Dispatch: every packed row is its token's copy, bit for bit, or zero.

use super::{every_payload, failed, same, scenes};
use ferroseq::ops::{Dispatch, DispatchArgs, Payload, Route, Routing, Slots, Status};
use ferroseq::{Buffer, Device};
use ferroseq_tests::TestDevice;
use ferroseq_tests::moe::{Choice, Scene};
use ferroseq_tests::oracle::moe::{dispatch, rows};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

every_payload! { widths scenes_and_plans later_tokens_win unclaimed_rows_are_zero measured_shapes
many_bytes a_hundred_runs }

/// Rows around 16 bytes of every type, odd ones, and one of a model.
const WIDTHS: [usize; 16] = [
    0, 1, 2, 3, 4, 7, 8, 9, 15, 16, 17, 127, 128, 129, 1000, 7168,
];

/// Any bits at all: a copy does not look at them.
fn any_bits<T: Payload>(len: usize, seed: u64) -> Vec<T> {
    let mut values = vec![T::default(); len];
    let mut rng = SmallRng::seed_from_u64(seed);
    bytemuck::cast_slice_mut::<T, u8>(&mut values).fill_with(|| rng.random());
    values
}

fn bits<T: Payload>(values: &[T]) -> &[u8] {
    bytemuck::cast_slice(values)
}

/// A caller's own routing, on the host.
#[derive(Debug)]
struct Own {
    op: Dispatch,
    ids: Vec<i64>,
    slot_idx: Vec<i32>,
    expert_offsets: Vec<i32>,
}

impl Own {
    /// What route found, given as slots.
    fn of(scene: &Scene, hidden: usize, more_rows: usize) -> Self {
        Self {
            op: sizes(&scene.op, hidden, scene.rows() + more_rows),
            ids: scene.ids.clone(),
            slot_idx: scene.routed.slot_idx.clone(),
            expert_offsets: scene.routed.expert_offsets.clone(),
        }
    }

    /// Dispatches with ids of 32 and of 64 bits, everything dirty before.
    fn conforms<T: Payload>(&self, device: &Device) -> Result<(), String> {
        let narrow: Vec<i32> = self.ids.iter().map(|id| *id as i32).collect();
        self.conforms_with::<T, _>(device, &narrow)?;
        self.conforms_with::<T, _>(device, &self.ids)
    }

    fn conforms_with<T: Payload, I: ferroseq::ops::Index>(
        &self,
        device: &Device,
        ids: &[I],
    ) -> Result<(), String> {
        let hidden = any_bits::<T>(self.op.tokens * self.op.hidden, 3);
        let rows = rows(&self.ids, &self.slot_idx, &self.expert_offsets);
        let expected = expected(&self.op, &hidden, &rows);
        let what = format!("{device}: {:?}, ids of {}", self.op, I::DTYPE);
        let found = failed(&what, self.run(device, ids, &hidden))?;
        same(&what, bits(&found), bits(&expected))
    }

    fn run<T: Payload, I: ferroseq::ops::Index>(
        &self,
        device: &Device,
        ids: &[I],
        hidden: &[T],
    ) -> ferroseq::Result<Vec<T>> {
        let (ids, slot_idx) = (device.upload(ids)?, device.upload(&self.slot_idx)?);
        let expert_offsets = device.upload(&self.expert_offsets)?;
        let slots = Slots {
            expert_ids: &ids,
            slot_idx: &slot_idx,
            expert_offsets: &expert_offsets,
        };
        into_dirt(&self.op, device, &device.upload(hidden)?, slots.into())
    }
}

fn sizes(route: &Route, hidden: usize, rows: usize) -> Dispatch {
    Dispatch {
        tokens: route.tokens,
        top_k: route.top_k,
        experts: route.experts,
        hidden,
        rows,
    }
}

fn expected<T: Payload>(op: &Dispatch, hidden: &[T], rows: &[i32]) -> Vec<T> {
    dispatch(hidden, T::default(), (op.rows, op.hidden), op.top_k, rows)
}

/// Dispatches over garbage, with garbage as scratch memory.
fn into_dirt<T: Payload, I: ferroseq::ops::Index>(
    op: &Dispatch,
    device: &Device,
    hidden: &Buffer<T>,
    routing: Routing<'_, I>,
) -> ferroseq::Result<Vec<T>> {
    let mut packed = device.upload(&any_bits::<T>(op.rows * op.hidden, 5))?;
    let bytes = op.workspace_bytes(device, &routing)?;
    let mut workspace = device.upload(&vec![0x5Au8; bytes])?;
    let mut status = Status::new(device)?;
    let args = DispatchArgs {
        hidden,
        routing,
        packed: &mut packed,
        status: &mut status,
        workspace: Some(&mut workspace),
    };
    op.run_with(device, args)?;
    status.finish()?;
    packed.to_vec()
}

/// Dispatches by a plan, with as many rows as needed, and with more.
fn by_plan<T: Payload>(device: &Device, scene: &Scene, width: usize) -> Result<(), String> {
    by_plan_into::<T>(device, scene, width, 0)?;
    by_plan_into::<T>(device, scene, width, 3)
}

fn by_plan_into<T: Payload>(
    device: &Device,
    scene: &Scene,
    width: usize,
    more_rows: usize,
) -> Result<(), String> {
    let plan = failed(&scene.op, scene.plan(device))?;
    let values = any_bits::<T>(scene.op.tokens * width, 7);
    let hidden = failed(&scene.op, device.upload(&values))?;
    let op = sizes(&scene.op, width, scene.rows() + more_rows);
    let found = failed(&op, into_dirt(&op, device, &hidden, Routing::from(&plan)))?;
    let expected = expected(&op, &values, &scene.routed.row_idx);
    let what = format!("{device}: {op:?} by {:?}", scene.op);
    same(&what, bits(&found), bits(&expected))
}

fn widths<T: Payload>(device: &TestDevice) -> Result<(), String> {
    for width in WIDTHS {
        let tokens = if width > 1000 { 5 } else { 19 };
        let op = Route::new(tokens, 3, 4).alignment(2).capacity(Some(11));
        let scene = Scene::new(op, Choice::Invalid, width as u64);
        Own::of(&scene, width, 0).conforms::<T>(&device.device)?;
        by_plan::<T>(&device.device, &scene, width)?;
    }
    Ok(())
}

fn scenes_and_plans<T: Payload>(device: &TestDevice) -> Result<(), String> {
    for scene in scenes(device) {
        Own::of(&scene, 6, 0).conforms::<T>(&device.device)?;
        by_plan::<T>(&device.device, &scene, 6)?;
    }
    Ok(())
}

/// Slots at random, so that many entries meet on one row: the last one stays. Some are -1,
/// of any expert.
fn later_tokens_win<T: Payload>(device: &TestDevice) -> Result<(), String> {
    let tokens = if device.cases.large { 3000 } else { 150 };
    for (experts, rows_each, width) in [(3, 2, 5), (1, 1, 16), (5, 40, 129)] {
        let mut rng = SmallRng::seed_from_u64(rows_each as u64);
        let mut draw = |most: i32| rng.random_range(-1..most);
        let entries = tokens * 2;
        let slot_idx: Vec<i32> = (0..entries).map(|_| draw(rows_each)).collect();
        let id = |slot: &i32| match slot {
            -1 => i64::from(draw(experts)) * 1000,
            _ => i64::from(draw(experts).max(0)),
        };
        let own = Own {
            ids: slot_idx.iter().map(id).collect(),
            expert_offsets: (0..=experts).map(|e| e * rows_each).collect(),
            op: Dispatch {
                tokens,
                top_k: 2,
                experts: experts as usize,
                hidden: width,
                rows: (experts * rows_each) as usize,
            },
            slot_idx,
        };
        own.conforms::<T>(&device.device)?;
    }
    Ok(())
}

/// Few tokens in many rows, experts without any, and rows past the last expert.
fn unclaimed_rows_are_zero<T: Payload>(device: &TestDevice) -> Result<(), String> {
    for width in [1, 7, 64] {
        let own = Own {
            op: Dispatch {
                tokens: 3,
                top_k: 1,
                experts: 4,
                hidden: width,
                rows: 61,
            },
            ids: vec![1, 3, 1],
            slot_idx: vec![6, 0, -1],
            expert_offsets: vec![0, 20, 31, 31, 53],
        };
        own.conforms::<T>(&device.device)?;
        // Nobody at all.
        let nobody = Own {
            slot_idx: vec![-1; 3],
            ..own
        };
        nobody.conforms::<T>(&device.device)?;
    }
    Ok(())
}

/// The first of the measured shapes, and the others with fewer tokens or narrower.
fn measured_shapes<T: Payload>(device: &TestDevice) -> Result<(), String> {
    let shapes: &[(usize, usize, usize, usize)] = if device.cases.large {
        &[
            (2048, 128, 16, 1),
            (128, 7168, 256, 8),
            (8192, 128, 256, 8),
            (65536, 32, 64, 1),
        ]
    } else {
        &[(256, 128, 16, 1), (2, 7168, 256, 8)]
    };
    for &(tokens, width, experts, top_k) in shapes {
        let scene = Scene::new(Route::new(tokens, top_k, experts), Choice::Random, 23);
        by_plan::<T>(&device.device, &scene, width)?;
    }
    Ok(())
}

/// More bytes than a launch is worth, which other kernels move: rows of 129 vectors of 16
/// bytes, one copy or three of a token, some rows unclaimed, and rows that two entries claim.
fn many_bytes<T: Payload>(device: &TestDevice) -> Result<(), String> {
    let width = 129 * 16 / size_of::<T>();
    let scene = |tokens, top_k| {
        let op = Route::new(tokens, top_k, 7);
        Scene::new(op.alignment(16).capacity(Some(7000)), Choice::Random, 25)
    };
    let scenes = [scene(17_001, 1), scene(5_667, 3)];
    let [one, three] = scenes.each_ref().map(|scene| {
        let mut own = Own::of(scene, width, 0);
        own.slot_idx[8] = own.slot_idx[9].min(3);
        own
    });
    let large = device.cases.large;
    let device = &device.device;
    if large {
        by_plan::<T>(device, &scenes[0], width)?;
        by_plan::<T>(device, &scenes[1], width)?;
        one.conforms::<T>(device)?;
        return three.conforms::<T>(device);
    }
    // The emulator takes ten seconds for each run.
    if T::DTYPE == ferroseq::DType::Bf16 {
        by_plan_into::<T>(device, &scenes[0], width, 0)?;
        three.conforms_with::<T, _>(device, &three.ids)?;
    }
    Ok(())
}

fn a_hundred_runs<T: Payload>(device: &TestDevice) -> Result<(), String> {
    let (tokens, runs) = if device.cases.large {
        (700, 100)
    } else {
        (40, 100)
    };
    let device = &device.device;
    let op = Dispatch {
        tokens,
        top_k: 2,
        experts: 2,
        hidden: 9,
        rows: 8,
    };
    let mut rng = SmallRng::seed_from_u64(29);
    let own = Own {
        ids: (0..tokens * 2).map(|_| rng.random_range(0..2)).collect(),
        slot_idx: (0..tokens * 2).map(|_| rng.random_range(0..4)).collect(),
        expert_offsets: vec![0, 4, 8],
        op,
    };
    let hidden = any_bits::<T>(tokens * op.hidden, 31);
    let rows = rows(&own.ids, &own.slot_idx, &own.expert_offsets);
    let expected = expected(&op, &hidden, &rows);
    for run in 0..runs {
        let found = failed(&op, own.run(device, &own.ids, &hidden))?;
        same(
            &format!("{device}: run {run}"),
            bits(&found),
            bits(&expected),
        )?;
    }
    Ok(())
}
