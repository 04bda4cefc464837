//! Dispatch by a plan, alone and together with the route before it: normal tokens, exact
//! copies.

use super::route::{Counted, Routing, distinct};
use super::{Operation, Prepared, Work, Workload, argument};
use crate::bench::oracle::{Comparison, Tolerance, sample};
use crate::bench::presets;
use crate::bench::random::Random;
use crate::bench::row::{Accuracy, Operations, Stream};
use crate::buffer::Buffer;
use crate::device::Device;
use crate::dtype::{DType, Element};
use crate::error::Result;
use crate::ops::{Dispatch, DispatchArgs, Layout, Route};
use half::{bf16, f16};

pub(super) const OPERATION: Operation = Operation {
    name: "dispatch",
    about: "tokens to the packed rows of their experts, by a plan",
    sizes: "T,H,E,K",
    presets: |kind| presets(presets::moe(kind), false),
    custom: |shape, dtype, _: Layout| Ok(work(sizes(shape, dtype)?, dtype, false)),
};

pub(super) const WITH_ROUTE: Operation = Operation {
    name: "route-dispatch",
    about: "route, then dispatch by its plan",
    sizes: "T,H,E,K",
    presets: |kind| presets(presets::route_dispatch(kind), true),
    custom: |shape, dtype, _: Layout| Ok(work(sizes(shape, dtype)?, dtype, true)),
};

fn presets(presets: &[presets::Moe], route: bool) -> Vec<Work> {
    let work = |preset: &presets::Moe| {
        let [tokens, hidden, experts, top_k] = preset.shape;
        let sizes = Sizes {
            route: Route::new(tokens, top_k, experts),
            hidden,
        };
        work(sizes, preset.dtype, route)
    };
    presets.iter().map(work).collect()
}

/// T, H, E and K.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sizes {
    pub route: Route,
    pub hidden: usize,
}

impl Sizes {
    pub(super) fn shape(&self) -> Vec<usize> {
        let Route {
            tokens,
            top_k,
            experts,
            ..
        } = self.route;
        vec![tokens, self.hidden, experts, top_k]
    }

    /// Packed rows: nothing is dropped.
    pub(super) fn rows(&self) -> usize {
        self.route.tokens * self.route.top_k
    }

    /// Elements of `tokens` tokens and as many packed rows as there are.
    pub(super) fn elements(&self) -> u64 {
        (self.route.tokens + self.rows()) as u64 * self.hidden as u64
    }
}

/// The sizes of a dispatch or combine over an element type that a combine takes.
pub(super) fn sizes(shape: &[usize], dtype: DType) -> Result<Sizes> {
    let &[tokens, hidden, experts, top_k] = shape else {
        let found = format!("{} sizes", shape.len());
        return Err(argument("shape", found, "four: T,H,E,K"));
    };
    if !matches!(dtype, DType::F32 | DType::F16 | DType::Bf16) {
        return Err(argument("dtype", dtype.name(), "f32, f16 or bf16"));
    }
    let route = Route::new(tokens, top_k, experts);
    route.rows()?;
    distinct(&route)?;
    let sizes = Sizes { route, hidden };
    dispatch(&sizes).sizes().check()?;
    Ok(sizes)
}

fn dispatch(sizes: &Sizes) -> Dispatch {
    Dispatch {
        tokens: sizes.route.tokens,
        top_k: sizes.route.top_k,
        experts: sizes.route.experts,
        hidden: sizes.hidden,
        rows: sizes.rows(),
    }
}

fn work(sizes: Sizes, dtype: DType, route: bool) -> Work {
    Box::new(DispatchWork {
        sizes,
        dtype,
        route,
    })
}

struct DispatchWork {
    sizes: Sizes,
    dtype: DType,
    /// Whether a launch routes, too.
    route: bool,
}

impl Workload for DispatchWork {
    fn op(&self) -> &'static str {
        if self.route {
            WITH_ROUTE.name
        } else {
            OPERATION.name
        }
    }

    fn shape(&self) -> Vec<usize> {
        self.sizes.shape()
    }

    fn dtype(&self) -> DType {
        self.dtype
    }

    fn layout(&self) -> Option<Layout> {
        None
    }

    /// Tokens once, packed rows once; the ids and what becomes of them are next to nothing.
    fn bytes(&self) -> u64 {
        self.sizes.elements() * self.dtype.size() as u64
    }

    fn operations(&self) -> Operations {
        Operations::default()
    }

    fn stream(&self) -> Stream {
        // One read to K writes.
        if self.sizes.route.top_k > 2 {
            Stream::Write
        } else {
            Stream::Copy
        }
    }

    fn prepare(&self, device: &Device, seed: u64) -> Result<Box<dyn Prepared>> {
        let (sizes, route) = (self.sizes, self.route);
        Ok(match self.dtype {
            DType::F16 => Box::new(Copies::<f16>::new(sizes, route, device, seed)?),
            DType::Bf16 => Box::new(Copies::<bf16>::new(sizes, route, device, seed)?),
            _ => Box::new(Copies::<f32>::new(sizes, route, device, seed)?),
        })
    }
}

struct Copies<T: Element> {
    sizes: Sizes,
    route: bool,
    device: Device,
    routing: Routing,
    source_of_row: Vec<i32>,
    tokens: Random,
    hidden: Buffer<T>,
    packed: Buffer<T>,
    sampled: Vec<usize>,
}

impl<T: Element> Copies<T> {
    fn new(sizes: Sizes, route: bool, device: &Device, seed: u64) -> Result<Self> {
        let mut routing = Routing::new(sizes.route, device, seed)?;
        routing.launch()?;
        routing.status.finish()?;
        let tokens = Random::normal(seed);
        let elements = sizes.route.tokens * sizes.hidden;
        Ok(Self {
            source_of_row: Counted::new(&sizes.route, &routing.ids).source_of_row,
            hidden: device.upload(&tokens.vec::<T>(elements))?,
            packed: device.alloc(sizes.rows() * sizes.hidden)?,
            sampled: sample(sizes.rows(), sizes.hidden, seed),
            device: device.clone(),
            sizes,
            route,
            routing,
            tokens,
        })
    }

    /// The first element of the token whose copy packed row `row` is.
    fn source(&self, row: usize) -> usize {
        self.source_of_row[row] as usize / self.sizes.route.top_k * self.sizes.hidden
    }
}

impl<T: Element> Prepared for Copies<T> {
    fn launch(&mut self) -> Result<()> {
        if self.route {
            self.routing.launch()?;
        }
        dispatch(&self.sizes).run_with(
            &self.device,
            DispatchArgs {
                hidden: &self.hidden,
                routing: (&self.routing.plan).into(),
                packed: &mut self.packed,
                status: &mut self.routing.status,
                workspace: None,
            },
        )
    }

    fn poison(&mut self) -> Result<()> {
        if self.route {
            self.routing.poison()?;
        }
        self.packed
            .write(&vec![T::from_f32(f32::NAN); self.packed.len()])
    }

    fn check(&mut self) -> Result<Accuracy> {
        self.routing.status.finish()?;
        let packed = self.packed.to_vec()?;
        let mut comparison = Comparison::new(Tolerance::exact());
        for &row in &self.sampled {
            let (at, source) = (row * self.sizes.hidden, self.source(row));
            comparison.row();
            let pairs = (0..self.sizes.hidden).map(|h| {
                let expected: T = self.tokens.at(source + h);
                let found = packed[at + h].to_f32();
                (f64::from(found), f64::from(expected.to_f32()))
            });
            comparison.values(0.0, pairs);
        }
        Ok(comparison.accuracy(self.sizes.rows()))
    }

    fn plant_fault(&mut self) -> Result<()> {
        if let (Some(&row), true) = (self.sampled.first(), self.sizes.hidden > 0) {
            let at = self.source(row) + self.sizes.hidden / 2;
            let mut hidden = self.hidden.to_vec()?;
            hidden[at] = T::from_f32(hidden[at].to_f32() + 1.0);
            self.hidden.write(&hidden)?;
        }
        Ok(())
    }
}
