//! Combine: the order is fixed, so every bit is; and close to float64.

use super::{every_element, failed, scenes};
use ferroseq::ops::{Combine, CombineArgs, Dispatch, Route, Routing, Slots, Status};
use ferroseq::{Buffer, Device};
use ferroseq_tests::compare::{all_right, same_bits};
use ferroseq_tests::inputs::Inputs;
use ferroseq_tests::moe::{Choice, Scene};
use ferroseq_tests::oracle::moe::combine;
use ferroseq_tests::{Sample, TestDevice};

every_element! { widths scenes_and_plans shared_rows special_values round_trip measured_shapes a_hundred_runs }

fn sizes(route: &Route, hidden: usize, rows: usize) -> Combine {
    Combine {
        tokens: route.tokens,
        top_k: route.top_k,
        experts: route.experts,
        hidden,
        rows,
    }
}

/// Combines over NaN.
fn over_poison<T: Sample, I: ferroseq::ops::Index>(
    op: &Combine,
    device: &Device,
    packed: &[T],
    routing: Routing<'_, I>,
    weights: Option<&Buffer<f32>>,
) -> ferroseq::Result<Vec<T>> {
    let poison = vec![T::narrow(f32::NAN); op.tokens * op.hidden];
    let mut out = device.upload(&poison)?;
    let mut status = Status::new(device)?;
    let args = CombineArgs {
        packed: &device.upload(packed)?,
        routing,
        weights,
        out: &mut out,
        status: &mut status,
    };
    op.run_with(device, args)?;
    status.finish()?;
    out.to_vec()
}

/// Combines by plan and by slots, with and without weights.
fn conforms<T: Sample>(
    device: &TestDevice,
    scene: &Scene,
    width: usize,
    values: Option<&[T]>,
) -> Result<(), String> {
    let device = &device.device;
    let mut inputs = Inputs::new(scene.ids.len() as u64);
    let op = sizes(&scene.op, width, scene.rows());
    let drawn = inputs.values(op.rows * width);
    let packed = values.unwrap_or(&drawn);
    let host_weights: Vec<f32> = inputs.values(scene.ids.len());
    let what = format!("{device}: {op:?} by {:?}", scene.op);
    let plan = failed(&what, scene.plan(device))?;
    let (ids, slot_idx) = (
        failed(&what, device.upload(&scene.ids))?,
        failed(&what, device.upload(&scene.routed.slot_idx))?,
    );
    let expert_offsets = failed(&what, device.upload(&scene.routed.expert_offsets))?;
    let slots = Slots {
        expert_ids: &ids,
        slot_idx: &slot_idx,
        expert_offsets: &expert_offsets,
    };
    let uploaded = failed(&what, device.upload(&host_weights))?;
    for weighted in [false, true] {
        let (weights, uploaded) = match weighted {
            true => (Some(host_weights.as_slice()), Some(&uploaded)),
            false => (None, None),
        };
        let truth = combine(packed, width, op.top_k, &scene.routed.row_idx, weights);
        let by_plan = over_poison(&op, device, packed, Routing::from(&plan), uploaded);
        let by_slots = over_poison(&op, device, packed, slots.into(), uploaded);
        for (how, found) in [("plan", by_plan), ("slots", by_slots)] {
            let found = failed(&what, found)?;
            let wrong = |wrong| format!("{what}, {how}, weights {weighted}: out{wrong}");
            all_right(&found, &truth, true).map_err(wrong)?;
            all_right(&found, &truth, false).map_err(wrong)?;
        }
    }
    Ok(())
}

fn widths<T: Sample>(device: &TestDevice) -> Result<(), String> {
    for width in [
        0, 1, 2, 3, 4, 7, 8, 9, 15, 16, 17, 127, 128, 129, 1023, 1025, 7168,
    ] {
        let tokens = if width > 1000 { 3 } else { 19 };
        let op = Route::new(tokens, 3, 4).alignment(2).capacity(Some(11));
        conforms::<T>(device, &Scene::new(op, Choice::Invalid, 1), width, None)?;
    }
    Ok(())
}

fn scenes_and_plans<T: Sample>(device: &TestDevice) -> Result<(), String> {
    let scenes = scenes(device);
    scenes
        .iter()
        .try_for_each(|scene| conforms::<T>(device, scene, 6, None))
}

/// Two entries may read one row.
fn shared_rows<T: Sample>(device: &TestDevice) -> Result<(), String> {
    let mut scene = Scene::of(Route::new(4, 2, 2), vec![0, 1, 0, 0, 1, 1, 1, 0]);
    scene.routed.slot_idx = vec![0, 0, 0, 0, 1, -1, 0, 2];
    let offsets = &scene.routed.expert_offsets;
    let rows = ferroseq_tests::oracle::moe::rows(&scene.ids, &scene.routed.slot_idx, offsets);
    let device = &device.device;
    let op = sizes(&scene.op, 5, scene.rows());
    let packed: Vec<T> = Inputs::new(1).values(op.rows * 5);
    let upload = |values: &[i32]| failed(&op, device.upload(values));
    let slots = Slots {
        expert_ids: &upload(&scene.narrow_ids())?,
        slot_idx: &upload(&scene.routed.slot_idx)?,
        expert_offsets: &upload(offsets)?,
    };
    let found = failed(&op, over_poison(&op, device, &packed, slots.into(), None))?;
    let truth = combine(&packed, 5, 2, &rows, None);
    all_right(&found, &truth, true).map_err(|wrong| format!("{device}: out{wrong}"))
}

/// NaN, infinities, zeros of both signs, and sums that overflow.
fn special_values<T: Sample>(device: &TestDevice) -> Result<(), String> {
    let scene = Scene::new(Route::new(23, 4, 5), Choice::Repeating, 3);
    let values = [
        f32::NAN,
        f32::INFINITY,
        f32::NEG_INFINITY,
        0.0,
        -0.0,
        T::HUGE,
        -T::HUGE,
        T::TINY,
        T::DENORMAL,
        1.0,
        -1.5,
    ];
    let packed = (0..scene.rows() * 37).map(|at| T::narrow(values[at * at % values.len()]));
    conforms(device, &scene, 37, Some(&packed.collect::<Vec<_>>()))
}

/// `combine(dispatch(x)) = x`: for K = 1 without weights bit for bit, and for weights that
/// are powers of two and sum to 1.
fn round_trip<T: Sample>(device: &TestDevice) -> Result<(), String> {
    let device = &device.device;
    for (top_k, weights) in [
        (1, None),
        (1, Some(vec![1.0])),
        (2, Some(vec![0.5, 0.5])),
        (4, Some(vec![0.5, 0.25, 0.125, 0.125])),
    ] {
        let width = 33;
        let route = Route::new(21, top_k, 6).alignment(4);
        let scene = Scene::new(route, Choice::Random, 37);
        let plan = failed(&route, scene.plan(device))?;
        let mut hidden: Vec<T> = Inputs::new(41).values(route.tokens * width);
        hidden[7] = T::narrow(-0.0);
        let dispatch = Dispatch {
            tokens: route.tokens,
            top_k,
            experts: 6,
            hidden: width,
            rows: failed(&route, plan.rows())?,
        };
        let uploaded = failed(&route, device.upload(&hidden))?;
        let packed = failed(&route, dispatch.run(device, &uploaded, &plan))?;
        let weights = weights.map(|weights| weights.repeat(route.tokens));
        let weights = weights.map(|weights| device.upload(&weights)).transpose();
        let weights = failed(&route, weights)?;
        let combine = sizes(&route, width, dispatch.rows);
        let back = combine.run(device, &packed, &plan, weights.as_ref());
        let back = failed(&route, failed(&route, back)?.to_vec())?;
        same_bits(&format!("{device}: K = {top_k}"), &back, &hidden)?;
    }
    Ok(())
}

fn measured_shapes<T: Sample>(device: &TestDevice) -> Result<(), String> {
    let shapes: &[(usize, usize, usize, usize)] = if device.cases.large {
        &[(128, 7168, 256, 8), (8192, 24, 256, 8), (65536, 8, 64, 1)]
    } else {
        &[(2, 7168, 256, 8), (128, 16, 64, 1)]
    };
    for &(tokens, width, experts, top_k) in shapes {
        let scene = Scene::new(Route::new(tokens, top_k, experts), Choice::Random, 43);
        conforms::<T>(device, &scene, width, None)?;
    }
    Ok(())
}

fn a_hundred_runs<T: Sample>(device: &TestDevice) -> Result<(), String> {
    let scene = Scene::new(Route::new(17, 5, 3), Choice::Random, 47);
    let device = &device.device;
    let op = sizes(&scene.op, 19, scene.rows());
    let plan = failed(&op, scene.plan(device))?;
    let packed: Vec<T> = Inputs::new(53).values(op.rows * 19);
    let run = || {
        failed(
            &op,
            over_poison(&op, device, &packed, Routing::from(&plan), None),
        )
    };
    let first = run()?;
    (1..100).try_for_each(|again| same_bits(&format!("run {again}"), &run()?, &first))
}
