//! Combine by a plan: normal rows, weights from 0 to 1, the sum in float64 as the oracle.

use super::dispatch::{Sizes, sizes};
use super::route::{Counted, Routing};
use super::{Operation, Prepared, Work, Workload};
use crate::bench::oracle::{Comparison, Tolerance, larger, sample};
use crate::bench::presets;
use crate::bench::random::Random;
use crate::bench::row::{Accuracy, Operations, Stream};
use crate::buffer::Buffer;
use crate::device::Device;
use crate::dtype::{DType, Element};
use crate::error::Result;
use crate::ops::{Combine, CombineArgs, Layout, Route};
use half::{bf16, f16};

pub(super) const OPERATION: Operation = Operation {
    name: "combine",
    about: "weighted sums of packed rows, by a plan",
    sizes: "T,H,E,K",
    presets: |kind| {
        let work = |preset: &presets::Moe| {
            let [tokens, hidden, experts, top_k] = preset.shape;
            let route = Route::new(tokens, top_k, experts);
            work(Sizes { route, hidden }, preset.dtype)
        };
        presets::moe(kind).iter().map(work).collect()
    },
    custom: |shape, dtype, _: Layout| Ok(work(sizes(shape, dtype)?, dtype)),
};

fn work(sizes: Sizes, dtype: DType) -> Work {
    Box::new(CombineWork { sizes, dtype })
}

struct CombineWork {
    sizes: Sizes,
    dtype: DType,
}

impl Workload for CombineWork {
    fn op(&self) -> &'static str {
        OPERATION.name
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

    /// Packed rows once, tokens once.
    fn bytes(&self) -> u64 {
        self.sizes.elements() * self.dtype.size() as u64
    }

    fn operations(&self) -> Operations {
        Operations {
            fma: (self.sizes.rows() * self.sizes.hidden) as u64,
            exp2: 0,
        }
    }

    fn stream(&self) -> Stream {
        // K reads to one write.
        if self.sizes.route.top_k > 1 {
            Stream::Triad
        } else {
            Stream::Copy
        }
    }

    fn prepare(&self, device: &Device, seed: u64) -> Result<Box<dyn Prepared>> {
        Ok(match self.dtype {
            DType::F16 => Box::new(Sums::<f16>::new(self.sizes, device, seed)?),
            DType::Bf16 => Box::new(Sums::<bf16>::new(self.sizes, device, seed)?),
            _ => Box::new(Sums::<f32>::new(self.sizes, device, seed)?),
        })
    }
}

struct Sums<T: Element> {
    sizes: Sizes,
    device: Device,
    routing: Routing,
    row_idx: Vec<usize>,
    values: Random,
    shares: Random,
    packed: Buffer<T>,
    weights: Buffer<f32>,
    out: Buffer<T>,
    sampled: Vec<usize>,
}

impl<T: Element> Sums<T> {
    fn new(sizes: Sizes, device: &Device, seed: u64) -> Result<Self> {
        let Route { tokens, top_k, .. } = sizes.route;
        let mut routing = Routing::new(sizes.route, device, seed)?;
        routing.launch()?;
        routing.status.finish()?;
        let counted = Counted::new(&sizes.route, &routing.ids);
        let row = |(id, slot): (&i32, &i32)| (counted.expert_offsets[*id as usize] + slot) as usize;
        let (values, shares) = (Random::normal(seed), Random::uniform(!seed, 0.0, 1.0));
        let packed = values.vec::<T>(sizes.rows() * sizes.hidden);
        Ok(Self {
            row_idx: routing.ids.iter().zip(&counted.slot_idx).map(row).collect(),
            packed: device.upload(&packed)?,
            weights: device.upload(&shares.vec::<f32>(tokens * top_k))?,
            out: device.alloc(tokens * sizes.hidden)?,
            sampled: sample(tokens, sizes.hidden * top_k, seed),
            device: device.clone(),
            sizes,
            routing,
            values,
            shares,
        })
    }

    /// The rows of a token and their weights.
    fn entries(&self, token: usize) -> impl Iterator<Item = (usize, f64)> + '_ {
        let top_k = self.sizes.route.top_k;
        (token * top_k..(token + 1) * top_k).map(|entry| {
            let weight: f32 = self.shares.at(entry);
            (self.row_idx[entry], f64::from(weight))
        })
    }
}

impl<T: Element> Prepared for Sums<T> {
    fn launch(&mut self) -> Result<()> {
        let Route {
            tokens,
            top_k,
            experts,
            ..
        } = self.sizes.route;
        let combine = Combine {
            tokens,
            top_k,
            experts,
            hidden: self.sizes.hidden,
            rows: self.sizes.rows(),
        };
        combine.run_with(
            &self.device,
            CombineArgs {
                packed: &self.packed,
                routing: (&self.routing.plan).into(),
                weights: Some(&self.weights),
                out: &mut self.out,
                status: &mut self.routing.status,
            },
        )
    }

    fn poison(&mut self) -> Result<()> {
        self.out.write(&vec![T::from_f32(f32::NAN); self.out.len()])
    }

    fn check(&mut self) -> Result<Accuracy> {
        self.routing.status.finish()?;
        let out = self.out.to_vec()?;
        let (hidden, top_k) = (self.sizes.hidden, self.sizes.route.top_k);
        // Each term is rounded K + 1 times at most, by 2^-24.
        let arithmetic = (top_k + 1) as f64 * 2f64.powi(-24);
        let mut comparison = Comparison::new(Tolerance::new(T::DTYPE, arithmetic));
        for &token in &self.sampled {
            let mut expected = vec![0.0f64; hidden];
            let mut magnitudes = vec![0.0f64; hidden];
            for (row, weight) in self.entries(token) {
                for (h, (sum, magnitude)) in expected.iter_mut().zip(&mut magnitudes).enumerate() {
                    let value: T = self.values.at(row * hidden + h);
                    let term = weight * f64::from(value.to_f32());
                    *sum += term;
                    *magnitude += term.abs();
                }
            }
            comparison.row();
            let scale = magnitudes.iter().copied().fold(0.0, larger);
            let found = &out[token * hidden..][..hidden];
            let pairs = found.iter().zip(&expected);
            comparison.values(scale, pairs.map(|(x, y)| (f64::from(x.to_f32()), *y)));
        }
        Ok(comparison.accuracy(self.sizes.route.tokens))
    }

    fn plant_fault(&mut self) -> Result<()> {
        let token = self.sampled.first().copied();
        // Of the token's rows the one that weighs most.
        let heaviest = token.and_then(|token| {
            self.entries(token)
                .max_by(|one, other| one.1.total_cmp(&other.1))
        });
        if let (Some((row, _)), true) = (heaviest, self.sizes.hidden > 0) {
            let at = row * self.sizes.hidden + self.sizes.hidden / 2;
            let mut packed = self.packed.to_vec()?;
            packed[at] = T::from_f32(packed[at].to_f32() + 8.0);
            self.packed.write(&packed)?;
        }
        Ok(())
    }
}
