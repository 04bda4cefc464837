//! A GPU as a [`Machine`]: device events, the L2 flushed, graphs, and the ceiling kernels.

use super::machine::{Launch, Machine, timing, warm};
use super::random::Random;
use super::row::{LaunchFloor, Rate, Stream, WarmMethod};
use crate::buffer::Buffer;
use crate::cuda::{CudaDevice, Event, Graph, fill};
use crate::device::Device;
use crate::error::Result;
use crate::launch::ceilings::{self, Pass};
use gpu_kernels::ceilings::policy;
use std::sync::Arc;

const MIB: u64 = 1 << 20;

/// Bytes of a streaming ceiling: a dozen times the largest L2 there is.
const LARGE: u64 = 768 * MIB;

/// Launches before the first sample: modules are loaded, clocks are up.
const WARM_UP: usize = 3;

/// What the launches of one graph should take together, in microseconds: some hundred
/// times the cost of starting it.
const GRAPH_US: f64 = 2000.0;

pub(crate) struct GpuMachine {
    device: Device,
    cuda: Arc<CudaDevice>,
    flush: Buffer<u8>,
    arrays: Option<Arrays>,
}

/// The arrays that the streaming kernels read and write, each as long as the kernel with
/// the fewest arrays that uses it needs.
struct Arrays {
    a: Buffer<f32>,
    b: Buffer<f32>,
    out: Buffer<f32>,
}

impl GpuMachine {
    pub(crate) fn new(device: Device, cuda: Arc<CudaDevice>) -> Result<Self> {
        // Twice the L2, so that no replacement policy keeps a line of before.
        let bytes = (2 * cuda.properties().l2_bytes).max(64 * MIB);
        Ok(Self {
            flush: device.alloc(bytes as usize)?,
            device,
            cuda,
            arrays: None,
        })
    }

    fn arrays(&mut self) -> Result<Arrays> {
        if let Some(arrays) = self.arrays.take() {
            return Ok(arrays);
        }
        let (large, device) = (self.large(), &self.device);
        let elements = |arrays: u64| (large / arrays / 4) as usize;
        let random = |seed, len| -> Result<Buffer<f32>> {
            device.upload(&Random::uniform(seed, -1.0, 1.0).vec::<f32>(len))
        };
        Ok(Arrays {
            a: random(11, elements(Stream::Copy.arrays()))?,
            b: random(12, elements(Stream::Triad.arrays()))?,
            out: device.alloc(elements(Stream::Write.arrays()))?,
        })
    }

    /// The fastest of the launches to try.
    fn best(&mut self, stream: Stream, arrays: &mut Arrays, groups: u64, n: usize) -> Result<Rate> {
        let bytes = stream.arrays() * groups * 16;
        let cuda = Arc::clone(&self.cuda);
        let mut best: Option<Rate> = None;
        for shape in policy::stream_launches(groups, cuda.properties().multiprocessors) {
            for staged in [false, true] {
                let pass = Pass {
                    shape,
                    groups,
                    staged,
                };
                let times = self.cold(n, &mut || {
                    let Arrays { a, b, out } = &mut *arrays;
                    match stream {
                        Stream::Copy => ceilings::copy(cuda.as_ref(), pass, a, out),
                        Stream::Triad => ceilings::triad(cuda.as_ref(), pass, 0.5, a, b, out),
                        Stream::Write => ceilings::write(cuda.as_ref(), pass, 0.5, out),
                    }
                })?;
                let accesses = if staged {
                    "asynchronous copies"
                } else {
                    "plain accesses"
                };
                let variant = format!("{} blocks, {accesses}", shape.grid[0]);
                let rate = Rate::new(bytes, timing(&times)?, variant);
                if best.as_ref().is_none_or(|best| rate.rate > best.rate) {
                    best = Some(rate);
                }
            }
        }
        // `groups` is at least 1, so there is a launch to try.
        best.ok_or_else(|| super::workloads::argument("bytes", "0", "at least 16"))
    }
}

/// Microseconds that the device takes for each of `samples` launches, with `before` before
/// each, after a warm-up.
fn timed(
    cuda: &Arc<CudaDevice>,
    samples: usize,
    before: Launch<'_>,
    launch: Launch<'_>,
) -> Result<Vec<f64>> {
    for _ in 0..WARM_UP {
        before()?;
        launch()?;
    }
    let pairs = (0..samples)
        .map(|_| Ok((Event::new(cuda)?, Event::new(cuda)?)))
        .collect::<Result<Vec<_>>>()?;
    // No wait in between: while the device flushes, the host starts what follows, so that
    // the launch is queued when its turn comes.
    for (start, end) in &pairs {
        before()?;
        start.record()?;
        launch()?;
        end.record()?;
    }
    cuda.synchronize()?;
    pairs
        .iter()
        .map(|(start, end)| end.elapsed_us(start))
        .collect()
}

impl Machine for GpuMachine {
    fn device(&self) -> &Device {
        &self.device
    }

    fn driver(&self) -> Option<String> {
        crate::info::collect().driver.version
    }

    fn cold(&mut self, samples: usize, launch: Launch<'_>) -> Result<Vec<f64>> {
        let flush = &mut self.flush;
        timed(&self.cuda, samples, &mut || fill(flush, 0), launch)
    }

    fn warm(
        &mut self,
        samples: usize,
        launches: usize,
        launch: Launch<'_>,
    ) -> Result<(Vec<f64>, WarmMethod)> {
        launch()?;
        self.cuda.synchronize()?;
        let mut many = || (0..launches).try_for_each(|_| launch());
        // Where the work cannot be captured (it waits, or allocates), it is started anew
        // each time; if it fails then too, that is its own error.
        let graph = Graph::capture(&self.cuda, &mut many).ok();
        let method = match graph {
            Some(_) => WarmMethod::Graph,
            None => WarmMethod::BackToBack,
        };
        let mut start = || match &graph {
            Some(graph) => graph.launch(),
            None => many(),
        };
        let mut times = timed(&self.cuda, samples, &mut || Ok(()), &mut start)?;
        for time in &mut times {
            *time /= launches as f64;
        }
        Ok((times, method))
    }

    fn warm_launches(&self, cold_us: f64) -> usize {
        (GRAPH_US / cold_us.max(1e-3)).ceil().clamp(20.0, 100.0) as usize
    }

    fn empty(&mut self, samples: usize) -> Result<LaunchFloor> {
        let cuda = Arc::clone(&self.cuda);
        let mut nothing = || ceilings::empty(cuda.as_ref());
        let cold = timing(&self.cold(samples, &mut nothing)?)?;
        let launches = self.warm_launches(cold.median_us);
        Ok(LaunchFloor {
            cold,
            warm: warm(self, samples, launches, &mut nothing)?,
        })
    }

    fn large(&self) -> u64 {
        LARGE.min(self.cuda.properties().memory_bytes / 8)
    }

    fn stream(&mut self, stream: Stream, bytes: u64, samples: usize) -> Result<Rate> {
        let bytes = bytes.min(self.large());
        let groups = (bytes / stream.arrays() / 16).max(1);
        let mut arrays = self.arrays()?;
        let best = self.best(stream, &mut arrays, groups, samples);
        self.arrays = Some(arrays);
        best
    }

    fn arithmetic(&mut self, samples: usize) -> Result<Option<(Rate, Rate)>> {
        let cuda = Arc::clone(&self.cuda);
        let shape = policy::arithmetic_launch(cuda.properties().multiprocessors);
        let mut out = self
            .device
            .alloc::<f32>(ceilings::threads(shape) as usize)?;
        let mut rate = |launch: &mut dyn FnMut(&mut Buffer<f32>) -> Result<u64>| {
            let mut amount = 0;
            let times = self.cold(samples, &mut || {
                amount = launch(&mut out)?;
                Ok(())
            })?;
            let variant = format!("{} blocks", shape.grid[0]);
            Ok(Rate::new(amount, timing(&times)?, variant))
        };
        Ok(Some((
            rate(&mut |out| ceilings::exp2(cuda.as_ref(), shape, out))?,
            rate(&mut |out| ceilings::fma(cuda.as_ref(), shape, out))?,
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::row::Status;
    use crate::bench::{Options, Selection, measure};
    use crate::dtype::DType;
    use crate::ops::Layout;
    use std::io::Write;

    /// The first GPU. Without one the test says so and passes, or fails if
    /// `FERROSEQ_REQUIRE_CUDA=1`.
    fn gpu(test: &str) -> Option<GpuMachine> {
        let open = || {
            let device = Device::cuda(0)?;
            let cuda = Arc::clone(device.as_cuda().expect("a GPU"));
            GpuMachine::new(device, cuda)
        };
        match open() {
            Ok(machine) => Some(machine),
            Err(error)
                if std::env::var("FERROSEQ_REQUIRE_CUDA").is_ok_and(|value| value == "1") =>
            {
                panic!("FERROSEQ_REQUIRE_CUDA=1, but {error}")
            }
            Err(error) => {
                // Not `eprintln!`, which the test harness hides when a test passes.
                let _ = writeln!(std::io::stderr(), "skipped {test}: {error}");
                None
            }
        }
    }

    #[test]
    fn streams_compute_what_they_say_on_every_grid() {
        let Some(machine) = gpu("streams_compute_what_they_say_on_every_grid") else {
            return;
        };
        let cuda = machine.cuda.as_ref();
        for groups in [1, 255, policy::tile(), 3 * policy::tile() + 5, 5_000_017] {
            let n = 4 * groups as usize;
            let (a, b) = (Random::normal(1).vec(n + 4), Random::normal(2).vec(n + 4));
            let (x, y) = (
                machine.device.upload::<f32>(&a).unwrap(),
                machine.device.upload::<f32>(&b).unwrap(),
            );
            let check = |launch: &dyn Fn(Pass, &mut Buffer<f32>) -> Result<()>,
                         expected: &dyn Fn(usize) -> f32| {
                for shape in policy::stream_launches(groups, 3) {
                    for staged in [false, true] {
                        let mut out = machine.device.upload(&vec![f32::NAN; n + 4]).unwrap();
                        let pass = Pass {
                            shape,
                            groups,
                            staged,
                        };
                        launch(pass, &mut out).unwrap();
                        let out = out.to_vec().unwrap();
                        assert!((0..n).all(|i| out[i] == expected(i)), "{pass:?}");
                        assert!(
                            out[n..].iter().all(|x| x.is_nan()),
                            "{pass:?}: past the end"
                        );
                    }
                }
            };
            check(&|pass, out| ceilings::copy(cuda, pass, &x, out), &|i| a[i]);
            check(
                &|pass, out| ceilings::triad(cuda, pass, 0.5, &x, &y, out),
                &|i| 0.5f32.mul_add(a[i], b[i]),
            );
            check(&|pass, out| ceilings::write(cuda, pass, 0.5, out), &|_| 0.5);
        }
    }

    #[test]
    fn the_flush_changes_a_small_copy() {
        let Some(mut machine) = gpu("the_flush_changes_a_small_copy") else {
            return;
        };
        // Both arrays together are a quarter of the L2.
        let cuda = Arc::clone(&machine.cuda);
        let properties = cuda.properties();
        let groups = properties.l2_bytes / 8 / 16;
        let a = machine.device.alloc((4 * groups) as usize).unwrap();
        let mut out = machine.device.alloc((4 * groups) as usize).unwrap();
        // Few blocks: their own start must not hide where the data comes from.
        let shape = policy::stream_launches(groups, properties.multiprocessors)
            .next()
            .unwrap();
        let pass = Pass {
            shape,
            groups,
            staged: false,
        };
        let mut copy = || ceilings::copy(cuda.as_ref(), pass, &a, &mut out);
        let warm = timed(&cuda, 100, &mut || Ok(()), &mut copy).unwrap();
        let cold = machine.cold(100, &mut copy).unwrap();
        let (warm, cold) = (timing(&warm).unwrap(), timing(&cold).unwrap());
        assert!(
            cold.median_us > 1.1 * warm.median_us,
            "the flush changed nothing: cold {cold:?}, warm {warm:?}"
        );
    }

    #[test]
    fn ceilings_are_plausible() {
        let Some(mut machine) = gpu("ceilings_are_plausible") else {
            return;
        };
        let (exp2, fma) = machine.arithmetic(30).unwrap().unwrap();
        assert!(
            exp2.rate > 0.0 && fma.rate > 2.0 * exp2.rate,
            "{exp2:?} {fma:?}"
        );
        let large = machine.large();
        let triad = machine.stream(Stream::Triad, large, 30).unwrap();
        assert!(triad.amount > large - 48 && triad.rate > 10.0, "{triad:?}");
        let floor = machine.empty(30).unwrap();
        assert_eq!(floor.warm.method, WarmMethod::Graph);
        assert!(
            floor.warm.time.median_us <= floor.cold.median_us,
            "{floor:?}"
        );
    }

    #[test]
    fn right_work_passes_and_wrong_work_fails() {
        let Some(machine) = gpu("right_work_passes_and_wrong_work_fails") else {
            return;
        };
        for layout in [Layout::Bld, Layout::Bdl] {
            let selection = Selection {
                operations: vec!["linear-scan".to_owned()],
                shape: Some(vec![3, 1000, 257]),
                dtypes: vec![DType::F32, DType::F16, DType::Bf16],
                layouts: vec![layout],
            };
            for (plant_fault, expected) in [(false, Status::Ok), (true, Status::Failed)] {
                let options = Options {
                    samples: 30,
                    plant_fault,
                    ..Options::default()
                };
                let report = measure(&machine.device, &selection, &options, &mut |_| {}).unwrap();
                assert_eq!(report.rows.len(), 3);
                for row in &report.rows {
                    assert_eq!(row.status, expected, "{}: {:?}", row.label(), row.notes);
                    assert!(row.cold.is_some() && row.warm.is_some());
                }
            }
        }
    }
}
