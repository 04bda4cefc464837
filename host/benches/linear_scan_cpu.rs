//! The linear scan on the CPU beside a plain loop over three streams (two reads, one write),
//! which is what the same bytes cost when there is no recurrence.
//!
//! `cargo bench -p ferroseq --bench linear_scan_cpu`

#![allow(missing_docs)]

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use ferroseq::ops::{Layout, LinearScan};
use ferroseq::{Buffer, Device, Element};
use half::{bf16, f16};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use rayon::prelude::*;

/// `[B, L, D]`
const SHAPES: [[usize; 3]; 4] = [
    [8, 4096, 256],
    [1, 65536, 256],
    [8, 4096, 1536],
    [1, 1_048_576, 16],
];

fn random<T: Element>(device: &Device, n: usize, range: std::ops::Range<f32>) -> Buffer<T> {
    let mut rng = SmallRng::seed_from_u64(1);
    let values: Vec<T> = (0..n)
        .map(|_| T::from_f32(rng.random_range(range.clone())))
        .collect();
    device.upload(&values).expect("memory")
}

fn scan<T: Element>(c: &mut Criterion, shape: [usize; 3]) {
    let [batch, length, channels] = shape;
    let device = Device::cpu();
    let n = batch * length * channels;
    let a = random::<T>(&device, n, 0.5..1.0);
    let b = random::<T>(&device, n, -1.0..1.0);
    let mut h = device.alloc::<T>(n).expect("memory");
    let mut group = c.benchmark_group("linear_scan_cpu");
    group.throughput(Throughput::Bytes((3 * n * size_of::<T>()) as u64));
    group.sample_size(20);
    for layout in [Layout::Bld, Layout::Bdl] {
        let op = LinearScan::new(batch, length, channels).layout(layout);
        let name = format!("{}_{layout:?}", T::DTYPE).to_lowercase();
        group.bench_function(BenchmarkId::new(name, format!("{shape:?}")), |bencher| {
            bencher.iter(|| op.run(&device, &a, &b, &mut h).expect("valid"));
        });
    }
    group.finish();
}

fn three_streams(c: &mut Criterion, shape: [usize; 3]) {
    let n: usize = shape.iter().product();
    let device = Device::cpu();
    let a = random::<f32>(&device, n, 0.5..1.0)
        .to_vec()
        .expect("memory");
    let b = random::<f32>(&device, n, -1.0..1.0)
        .to_vec()
        .expect("memory");
    let mut out = vec![0.0f32; n];
    let mut group = c.benchmark_group("linear_scan_cpu");
    group.throughput(Throughput::Bytes((12 * n) as u64));
    group.sample_size(20);
    let piece = n.div_ceil(4 * rayon::current_num_threads());
    group.bench_function(
        BenchmarkId::new("three_streams", format!("{shape:?}")),
        |bencher| {
            bencher.iter(|| {
                (out.par_chunks_mut(piece))
                    .zip(a.par_chunks(piece))
                    .zip(b.par_chunks(piece))
                    .for_each(|((out, a), b)| {
                        for ((out, a), b) in out.iter_mut().zip(a).zip(b) {
                            *out = a * b;
                        }
                    });
            });
        },
    );
    group.finish();
}

fn all(c: &mut Criterion) {
    for shape in SHAPES {
        three_streams(c, shape);
        scan::<f32>(c, shape);
    }
    scan::<f16>(c, SHAPES[0]);
    scan::<bf16>(c, SHAPES[0]);
}

criterion_group!(benches, all);
criterion_main!(benches);
