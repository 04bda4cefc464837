//! Route: random experts, the counting itself as the oracle.

use super::{Operation, Prepared, Work, Workload, argument};
use crate::bench::oracle::{Comparison, Tolerance};
use crate::bench::presets;
use crate::bench::random::mix;
use crate::bench::row::{Accuracy, Operations, Stream};
use crate::buffer::Buffer;
use crate::device::Device;
use crate::dtype::DType;
use crate::error::Result;
use crate::ops::{Layout, Route, RouteArgs, RoutePlan, Status};

pub(super) const OPERATION: Operation = Operation {
    name: "route",
    about: "expert ids to offsets, slots and rows, stable",
    sizes: "T,E,K",
    presets: |kind| {
        let work = |[tokens, experts, top_k]: [usize; 3]| work(Route::new(tokens, top_k, experts));
        presets::route(kind).iter().copied().map(work).collect()
    },
    custom: |shape, dtype, _: Layout| {
        let &[tokens, experts, top_k] = shape else {
            let found = format!("{} sizes", shape.len());
            return Err(argument("shape", found, "three: T,E,K"));
        };
        // f32 is what the command line asks for by itself.
        if !matches!(dtype, DType::I32 | DType::F32) {
            return Err(argument("dtype", dtype.name(), "none: the ids are i32"));
        }
        let op = Route::new(tokens, top_k, experts);
        op.rows()?;
        distinct(&op)?;
        Ok(work(op))
    },
};

/// Tokens choose different experts, so there must be as many.
pub(super) fn distinct(op: &Route) -> Result<()> {
    if op.top_k <= op.experts {
        return Ok(());
    }
    Err(argument(
        "shape",
        format!("K = {} of E = {} experts", op.top_k, op.experts),
        "K at most E: tokens choose different experts here",
    ))
}

/// What tokens choose: with K = 1 one expert after the other, else K different ones at
/// random, each as likely.
pub(super) fn expert_ids(op: &Route, seed: u64) -> Vec<i32> {
    let mut ids = Vec::with_capacity(op.tokens * op.top_k);
    if op.top_k == 1 {
        ids.extend((0..op.tokens).map(|token| (token % op.experts) as i32));
        return ids;
    }
    let mut experts: Vec<i32> = (0..op.experts as i32).collect();
    let mut draw = seed;
    for _ in 0..op.tokens {
        for k in 0..op.top_k {
            draw = mix(draw);
            let other = k + (draw % (op.experts - k) as u64) as usize;
            experts.swap(k, other);
        }
        ids.extend_from_slice(&experts[..op.top_k]);
    }
    ids
}

/// Where everything must go, counted on the host.
pub(super) struct Counted {
    pub expert_offsets: Vec<i32>,
    pub slot_idx: Vec<i32>,
    pub source_of_row: Vec<i32>,
}

impl Counted {
    pub(super) fn new(op: &Route, ids: &[i32]) -> Self {
        let mut lists = vec![Vec::new(); op.experts];
        let mut slot_idx = Vec::with_capacity(ids.len());
        for (entry, &id) in ids.iter().enumerate() {
            let list = &mut lists[id as usize];
            slot_idx.push(list.len() as i32);
            list.push(entry as i32);
        }
        let mut expert_offsets = vec![0];
        let mut end = 0;
        expert_offsets.extend(lists.iter().map(|list| {
            end += list.len() as i32;
            end
        }));
        Self {
            expert_offsets,
            slot_idx,
            source_of_row: lists.concat(),
        }
    }
}

fn work(op: Route) -> Work {
    Box::new(RouteWork { op })
}

struct RouteWork {
    op: Route,
}

impl Workload for RouteWork {
    fn op(&self) -> &'static str {
        OPERATION.name
    }

    fn shape(&self) -> Vec<usize> {
        vec![self.op.tokens, self.op.experts, self.op.top_k]
    }

    fn dtype(&self) -> DType {
        DType::I32
    }

    fn layout(&self) -> Option<Layout> {
        None
    }

    /// Ids once; slots, sources and offsets once.
    fn bytes(&self) -> u64 {
        let entries = (self.op.tokens * self.op.top_k) as u64;
        4 * (3 * entries + self.op.experts as u64 + 1)
    }

    fn operations(&self) -> Operations {
        Operations::default()
    }

    fn stream(&self) -> Stream {
        Stream::Copy
    }

    fn prepare(&self, device: &Device, seed: u64) -> Result<Box<dyn Prepared>> {
        Ok(Box::new(Routing::new(self.op, device, seed)?))
    }
}

/// A routing with its buffers: of this operation, and of those that go on from it.
pub(super) struct Routing {
    op: Route,
    device: Device,
    /// As they were drawn, whatever is planted on the device.
    pub ids: Vec<i32>,
    expert_ids: Buffer<i32>,
    pub plan: RoutePlan,
    pub status: Status,
    workspace: Buffer<u8>,
}

impl Routing {
    pub(super) fn new(op: Route, device: &Device, seed: u64) -> Result<Self> {
        let ids = expert_ids(&op, seed);
        let bytes = op.workspace_bytes(device)?;
        Ok(Self {
            op,
            device: device.clone(),
            expert_ids: device.upload(&ids)?,
            ids,
            plan: op.plan(device)?,
            status: Status::new(device)?,
            workspace: device.alloc(bytes)?,
        })
    }
}

impl Prepared for Routing {
    fn launch(&mut self) -> Result<()> {
        self.op.run_with(
            &self.device,
            RouteArgs {
                expert_ids: &self.expert_ids,
                plan: &mut self.plan,
                status: &mut self.status,
                workspace: Some(&mut self.workspace),
            },
        )
    }

    fn poison(&mut self) -> Result<()> {
        self.plan.poison()
    }

    fn check(&mut self) -> Result<Accuracy> {
        self.status.finish()?;
        let expected = Counted::new(&self.op, &self.ids);
        let mut comparison = Comparison::new(Tolerance::exact());
        let mut compare = |found: &[i32], expected: &[i32]| {
            let pairs = found.iter().zip(expected);
            let pairs = pairs.map(|(&found, &expected)| (f64::from(found), f64::from(expected)));
            comparison.values(0.0, pairs);
        };
        compare(
            &self.plan.expert_offsets().to_vec()?,
            &expected.expert_offsets,
        );
        compare(
            &self.plan.source_of_row().to_vec()?,
            &expected.source_of_row,
        );
        compare(&self.plan.slot_idx().to_vec()?, &expected.slot_idx);
        (0..self.op.tokens).for_each(|_| comparison.row());
        Ok(comparison.accuracy(self.op.tokens))
    }

    fn plant_fault(&mut self) -> Result<()> {
        let mut ids = self.ids.clone();
        if let Some(id) = ids.first_mut() {
            *id = if *id == 0 {
                self.op.experts as i32 - 1
            } else {
                0
            };
        }
        self.expert_ids.write(&ids)
    }
}
