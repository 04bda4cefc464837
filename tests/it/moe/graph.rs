//! Route, dispatch and combine in one CUDA graph, replayed with new ids; and the same
//! sequence started by hand on every device.

use super::{failed, same};
use crate::on_every_device;
use ferroseq::cuda::Graph;
use ferroseq::ops::{
    Combine, CombineArgs, Dispatch, DispatchArgs, Route, RouteArgs, RoutePlan, Routing, Status,
};
use ferroseq::{Buffer, Device, Result};
use ferroseq_tests::devices;
use ferroseq_tests::inputs::Inputs;
use ferroseq_tests::moe::{CHOICES, Choice, Scene};
use ferroseq_tests::oracle::moe::{combine, dispatch};

/// Everything that a layer keeps between steps.
struct Layer {
    route: Route,
    width: usize,
    ids: Buffer<i32>,
    plan: RoutePlan,
    status: Status,
    workspace: Buffer<u8>,
    hidden: Buffer<f32>,
    weights: Buffer<f32>,
    packed: Buffer<f32>,
    out: Buffer<f32>,
}

impl Layer {
    fn new(device: &Device, route: Route, width: usize) -> Result<Self> {
        let mut inputs = Inputs::new(103);
        let entries = route.tokens * route.top_k;
        let workspace = vec![0x11u8; route.workspace_bytes(device)?];
        Ok(Self {
            route,
            width,
            ids: device.upload(&vec![0; entries])?,
            plan: route.plan(device)?,
            status: Status::new(device)?,
            workspace: device.upload(&workspace)?,
            hidden: device.upload(&inputs.values(route.tokens * width))?,
            weights: device.upload(&inputs.values(entries))?,
            packed: device.upload(&vec![f32::NAN; route.rows()? * width])?,
            out: device.upload(&vec![f32::NAN; route.tokens * width])?,
        })
    }

    /// Starts all three.
    fn start(&mut self, device: &Device) -> Result<()> {
        let Route {
            tokens,
            top_k,
            experts,
            ..
        } = self.route;
        let (hidden, rows) = (self.width, self.route.rows()?);
        self.route.run_with(
            device,
            RouteArgs {
                expert_ids: &self.ids,
                plan: &mut self.plan,
                status: &mut self.status,
                workspace: Some(&mut self.workspace),
            },
        )?;
        let dispatch = Dispatch {
            tokens,
            top_k,
            experts,
            hidden,
            rows,
        };
        dispatch.run_with(
            device,
            DispatchArgs {
                hidden: &self.hidden,
                routing: Routing::from(&self.plan),
                packed: &mut self.packed,
                status: &mut self.status,
                workspace: None,
            },
        )?;
        let combine = Combine {
            tokens,
            top_k,
            experts,
            hidden,
            rows,
        };
        combine.run_with(
            device,
            CombineArgs {
                packed: &self.packed,
                routing: Routing::from(&self.plan),
                weights: Some(&self.weights),
                out: &mut self.out,
                status: &mut self.status,
            },
        )
    }

    /// Compares what is there with what these ids must give.
    fn check(&mut self, scene: &Scene) -> std::result::Result<(), String> {
        failed(&"finish", self.status.finish())?;
        let rows = failed(&"rows", self.route.rows())?;
        let (hidden, weights) = (
            failed(&"hidden", self.hidden.to_vec())?,
            failed(&"weights", self.weights.to_vec())?,
        );
        let (top_k, row_idx) = (self.route.top_k, &scene.routed.row_idx);
        let packed = dispatch(&hidden, 0.0, (rows, self.width), top_k, row_idx);
        same("packed", &failed(&"packed", self.packed.to_vec())?, &packed)?;
        let out = combine(&packed, self.width, top_k, row_idx, Some(&weights));
        let out: Vec<f32> = out.iter().map(|expected| expected.sequential).collect();
        same("out", &failed(&"out", self.out.to_vec())?, &out)
    }
}

/// A routing per step, no two alike.
fn steps(route: Route) -> impl Iterator<Item = Scene> {
    let choices = CHOICES
        .into_iter()
        .filter(|choice| *choice != Choice::Invalid);
    (0..)
        .zip(choices.cycle().take(12))
        .map(move |(seed, choice)| Scene::new(route, choice, seed))
}

fn route(tokens: usize) -> Route {
    Route::new(tokens, 3, 10).capacity(Some(40)).alignment(4)
}

#[test]
fn one_after_another() {
    on_every_device(|device| {
        let route = route(if device.cases.large { 700 } else { 30 });
        let mut layer = failed(&route, Layer::new(&device.device, route, 37))?;
        for scene in steps(route) {
            failed(&route, layer.ids.write(&scene.narrow_ids()))?;
            failed(&route, layer.start(&device.device))?;
            layer.check(&scene)?;
        }
        Ok(())
    });
}

#[test]
fn replayed_with_new_ids() {
    for device in devices().iter().map(|device| &device.device) {
        let Some(cuda) = device.as_cuda() else {
            continue;
        };
        let route = route(700);
        let mut layer = Layer::new(device, route, 37).unwrap();
        layer.start(device).unwrap();
        let graph = Graph::capture(cuda, || layer.start(device)).unwrap();
        for scene in steps(route) {
            layer.ids.write(&scene.narrow_ids()).unwrap();
            graph.launch().unwrap();
            layer.check(&scene).unwrap();
        }
        // A bad id is told after the replay that met it, and gone after that.
        let mut scene = Scene::new(route, Choice::Random, 1);
        let sound = scene.narrow_ids();
        scene.ids[500] = 10;
        layer.ids.write(&scene.narrow_ids()).unwrap();
        graph.launch().unwrap();
        let error = layer.status.finish().unwrap_err().to_string();
        assert!(error.contains("is 10 at token 166, k 2"), "{error}");
        layer.ids.write(&sound).unwrap();
        graph.launch().unwrap();
        layer.check(&Scene::new(route, Choice::Random, 1)).unwrap();
    }
}
