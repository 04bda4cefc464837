//! Gradients of the combine: by the packed rows and by the weights.

use super::{every_element, failed, scenes};
use ferroseq::Device;
use ferroseq::ops::{Combine, CombineBackward, CombineBackwardArgs, Route, Routing, Slots, Status};
use ferroseq_tests::compare::{all_right, same_bits};
use ferroseq_tests::inputs::Inputs;
use ferroseq_tests::moe::{Choice, Scene};
use ferroseq_tests::oracle::moe::combine_backward;
use ferroseq_tests::{Sample, TestDevice};

every_element! { widths scenes_and_slots without_weights a_hundred_runs }

/// A problem on the host.
struct Problem<T> {
    scene: Scene,
    op: CombineBackward,
    grad_out: Vec<T>,
    packed: Vec<T>,
    weights: Option<Vec<f32>>,
}

impl<T: Sample> Problem<T> {
    fn new(scene: Scene, width: usize, weighted: bool) -> Self {
        let mut inputs = Inputs::new(79);
        let rows = scene.rows();
        Self {
            op: CombineBackward::new(Combine {
                tokens: scene.op.tokens,
                top_k: scene.op.top_k,
                experts: scene.op.experts,
                hidden: width,
                rows,
            }),
            grad_out: inputs.values(scene.op.tokens * width),
            packed: inputs.values(rows * width),
            weights: weighted.then(|| inputs.values(scene.ids.len())),
            scene,
        }
    }

    /// Runs it over NaN: the gradients by `packed` and by the weights.
    fn run<I: ferroseq::ops::Index>(
        &self,
        device: &Device,
        routing: Routing<'_, I>,
    ) -> ferroseq::Result<(Vec<T>, Vec<f32>)> {
        let poison = vec![T::narrow(f32::NAN); self.packed.len()];
        let mut grad_packed = device.upload(&poison)?;
        let mut grad_weights = device.upload(&vec![f32::NAN; self.scene.ids.len()])?;
        let bytes = self.op.workspace_bytes(device, &routing)?;
        let mut workspace = device.upload(&vec![0x33u8; bytes])?;
        let mut status = Status::new(device)?;
        let weights = self.weights.as_ref();
        let weights = weights.map(|weights| device.upload(weights)).transpose()?;
        let args = CombineBackwardArgs {
            grad_out: &device.upload(&self.grad_out)?,
            packed: Some(&device.upload(&self.packed)?),
            routing,
            weights: weights.as_ref(),
            grad_packed: &mut grad_packed,
            grad_weights: Some(&mut grad_weights),
            status: &mut status,
            workspace: Some(&mut workspace),
        };
        self.op.run_with(device, args)?;
        status.finish()?;
        Ok((grad_packed.to_vec()?, grad_weights.to_vec()?))
    }

    fn by_plan(&self, device: &Device) -> ferroseq::Result<(Vec<T>, Vec<f32>)> {
        self.run(device, Routing::from(&self.scene.plan(device)?))
    }

    fn by_slots(&self, device: &Device) -> ferroseq::Result<(Vec<T>, Vec<f32>)> {
        let slots = Slots {
            expert_ids: &device.upload(&self.scene.ids)?,
            slot_idx: &device.upload(&self.scene.routed.slot_idx)?,
            expert_offsets: &device.upload(&self.scene.routed.expert_offsets)?,
        };
        self.run(device, slots.into())
    }

    fn conforms(&self, device: &Device) -> Result<(), String> {
        let Combine {
            top_k,
            hidden,
            rows,
            ..
        } = self.op.combine;
        let truth = combine_backward(
            &self.grad_out,
            &self.packed,
            (rows, hidden),
            top_k,
            &self.scene.routed.row_idx,
            self.weights.as_deref(),
        );
        let grad_packed: Vec<T> = truth.packed.iter().map(|value| T::narrow(*value)).collect();
        let what = format!("{device}: {:?}", self.op);
        for (how, run) in [
            ("plan", self.by_plan(device)),
            ("slots", self.by_slots(device)),
        ] {
            let (by_packed, by_weights) = failed(&what, run)?;
            same_bits(
                &format!("{what}, {how}: grad_packed"),
                &by_packed,
                &grad_packed,
            )?;
            all_right(&by_weights, &truth.weights, false)
                .map_err(|wrong| format!("{what}, {how}: grad_weights{wrong}"))?;
        }
        Ok(())
    }
}

fn widths<T: Sample>(device: &TestDevice) -> Result<(), String> {
    for width in [0, 1, 2, 3, 8, 15, 16, 17, 31, 33, 127, 128, 129, 1025, 7168] {
        let tokens = if width > 1000 { 3 } else { 11 };
        let route = Route::new(tokens, 2, 4).alignment(2).capacity(Some(7));
        let scene = Scene::new(route, Choice::Invalid, 83);
        Problem::<T>::new(scene, width, true).conforms(&device.device)?;
    }
    Ok(())
}

fn scenes_and_slots<T: Sample>(device: &TestDevice) -> Result<(), String> {
    let problems = scenes(device)
        .into_iter()
        .map(|scene| Problem::<T>::new(scene, 6, true));
    problems
        .into_iter()
        .try_for_each(|problem| problem.conforms(&device.device))
}

fn without_weights<T: Sample>(device: &TestDevice) -> Result<(), String> {
    for width in [1, 20, 129] {
        let scene = Scene::new(Route::new(13, 3, 5).alignment(4), Choice::Repeating, 89);
        Problem::<T>::new(scene, width, false).conforms(&device.device)?;
    }
    Ok(())
}

fn a_hundred_runs<T: Sample>(device: &TestDevice) -> Result<(), String> {
    let scene = Scene::new(Route::new(9, 3, 4), Choice::Random, 97);
    let problem = Problem::<T>::new(scene, 259, true);
    let run = || failed(&problem.op, problem.by_plan(&device.device));
    let first = run()?;
    for again in 1..100 {
        let (by_packed, by_weights) = run()?;
        same_bits(&format!("run {again}: grad_packed"), &by_packed, &first.0)?;
        same_bits(&format!("run {again}: grad_weights"), &by_weights, &first.1)?;
    }
    Ok(())
}
