//! Gradient of the dispatch: the sum over a token's copies that stayed.

use super::{every_element, failed, scenes};
use ferroseq::Device;
use ferroseq::ops::{
    Combine, Dispatch, DispatchBackward, DispatchBackwardArgs, Routing, Slots, Status,
};
use ferroseq_tests::compare::{all_right, same_bits};
use ferroseq_tests::inputs::Inputs;
use ferroseq_tests::moe::Scene;
use ferroseq_tests::oracle::moe::{dispatch_backward, rows};
use ferroseq_tests::{Sample, TestDevice};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

every_element! { scenes_and_plans copies_that_were_overwritten equals_combine_without_weights }

fn over_poison<T: Sample, I: ferroseq::ops::Index>(
    op: &DispatchBackward,
    device: &Device,
    grad_packed: &[T],
    routing: Routing<'_, I>,
) -> ferroseq::Result<Vec<T>> {
    let Dispatch { tokens, hidden, .. } = op.dispatch;
    let mut grad_hidden = device.upload(&vec![T::narrow(f32::NAN); tokens * hidden])?;
    let mut workspace = device.upload(&vec![0x77u8; op.workspace_bytes(device, &routing)?])?;
    let mut status = Status::new(device)?;
    let args = DispatchBackwardArgs {
        grad_packed: &device.upload(grad_packed)?,
        routing,
        grad_hidden: &mut grad_hidden,
        status: &mut status,
        workspace: Some(&mut workspace),
    };
    op.run_with(device, args)?;
    status.finish()?;
    grad_hidden.to_vec()
}

fn backward(scene: &Scene, hidden: usize, rows: usize) -> DispatchBackward {
    DispatchBackward::new(Dispatch {
        tokens: scene.op.tokens,
        top_k: scene.op.top_k,
        experts: scene.op.experts,
        hidden,
        rows,
    })
}

fn scenes_and_plans<T: Sample>(device: &TestDevice) -> Result<(), String> {
    for scene in scenes(device) {
        for width in [0, 1, 13, 64] {
            let op = backward(&scene, width, scene.rows());
            let grad: Vec<T> = Inputs::new(59).values(scene.rows() * width);
            let plan = failed(&op, scene.plan(&device.device))?;
            let run = over_poison(&op, &device.device, &grad, Routing::from(&plan));
            let truth = dispatch_backward(&grad, width, scene.op.top_k, &scene.routed.row_idx);
            let wrong = |wrong| format!("{}: {op:?}: grad_hidden{wrong}", device.device);
            all_right(&failed(&op, run)?, &truth, true).map_err(wrong)?;
        }
    }
    Ok(())
}

/// Slots at random: of the entries on one row only the last one has a gradient.
fn copies_that_were_overwritten<T: Sample>(device: &TestDevice) -> Result<(), String> {
    let device = &device.device;
    let mut rng = SmallRng::seed_from_u64(61);
    let (tokens, top_k, width) = (40, 3, 9);
    let ids: Vec<i64> = (0..tokens * top_k)
        .map(|_| rng.random_range(0..2))
        .collect();
    let slot_idx: Vec<i32> = ids.iter().map(|_| rng.random_range(-1..30)).collect();
    let offsets = [0, 30, 60];
    let op = DispatchBackward::new(Dispatch {
        tokens,
        top_k,
        experts: 2,
        hidden: width,
        rows: 60,
    });
    let grad: Vec<T> = Inputs::new(67).values(60 * width);
    let slots = Slots {
        expert_ids: &failed(&op, device.upload(&ids))?,
        slot_idx: &failed(&op, device.upload(&slot_idx))?,
        expert_offsets: &failed(&op, device.upload(&offsets))?,
    };
    let found = failed(&op, over_poison(&op, device, &grad, slots.into()))?;
    let truth = dispatch_backward(&grad, width, top_k, &rows(&ids, &slot_idx, &offsets));
    all_right(&found, &truth, true).map_err(|wrong| format!("{device}: grad_hidden{wrong}"))
}

fn equals_combine_without_weights<T: Sample>(device: &TestDevice) -> Result<(), String> {
    let device = &device.device;
    let route = ferroseq::ops::Route::new(35, 4, 9).alignment(3);
    let scene = Scene::new(route, ferroseq_tests::moe::Choice::Random, 71);
    let plan = failed(&route, scene.plan(device))?;
    let op = backward(&scene, 21, scene.rows());
    let grad: Vec<T> = Inputs::new(73).values(scene.rows() * 21);
    let combine = Combine {
        tokens: 35,
        top_k: 4,
        experts: 9,
        hidden: 21,
        rows: scene.rows(),
    };
    let uploaded = failed(&op, device.upload(&grad))?;
    let combined = failed(&op, combine.run(device, &uploaded, &plan, None))?;
    let combined = failed(&op, combined.to_vec())?;
    let found = failed(&op, op.run(device, &uploaded, &plan))?;
    same_bits(
        &format!("{device}"),
        &failed(&op, found.to_vec())?,
        &combined,
    )
}
