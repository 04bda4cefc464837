//! Tests of this folder on a real GPU. Where there is none they say so and pass, or fail
//! if `FERROSEQ_REQUIRE_CUDA=1`.

use super::module::Module;
use super::{CudaDevice, Event, Graph, copy, fill, time_us};
use crate::launch::Launcher;
use crate::{Buffer, Device, Error, Result};
use gpu_kernels::simt::{Entry, EntryInfo, Global, LaunchBounds, LaunchShape};
use std::io::Write;
use std::sync::Arc;

const PTX: &str = include_str!("tests.ptx");
const MODULE: &str = "test";

/// The first GPU, with the kernels of `tests.ptx`.
fn gpu(test: &str) -> Option<(Device, Arc<CudaDevice>)> {
    let device = first_gpu(test)?;
    let cuda = Arc::clone(device.as_cuda().expect("a GPU"));
    cuda.modules.preload(&cuda, MODULE, PTX);
    Some((device, cuda))
}

/// The first GPU; `None`, visibly, where there is none.
pub(crate) fn first_gpu(test: &str) -> Option<Device> {
    match Device::cuda(0) {
        Ok(device) => Some(device),
        Err(error) if std::env::var("FERROSEQ_REQUIRE_CUDA").is_ok_and(|value| value == "1") => {
            panic!("FERROSEQ_REQUIRE_CUDA=1, but {error}")
        }
        Err(error) => {
            // Not `eprintln!`, which the test harness hides when a test passes.
            let _ = writeln!(std::io::stderr(), "skipped {test}: {error}");
            None
        }
    }
}

macro_rules! gpu_or_skip {
    ($name:literal) => {
        match gpu($name) {
            Some(gpu) => gpu,
            None => return,
        }
    };
}

macro_rules! test_entry {
    ($handle:ident = $symbol:literal($params:ty)) => {
        struct $handle;
        impl Entry for $handle {
            type Params = $params;
            const INFO: EntryInfo = EntryInfo {
                name: $symbol,
                module: MODULE,
                param_size: size_of::<$params>(),
                bounds: LaunchBounds {
                    max_threads: 1024,
                    min_blocks: 0,
                },
            };
            unsafe fn run(_: $params) {
                unreachable!("written in PTX")
            }
        }
    };
}

#[repr(C)]
#[derive(Clone, Copy)]
struct AddParams {
    data: Global<i32>,
    len: u64,
    value: u32,
    padding: u32,
}
test_entry!(Add = "test_add"(AddParams));

#[repr(C)]
#[derive(Clone, Copy)]
struct CountParams {
    scratch: Global<u32>,
    out: Global<i32>,
    threads: u32,
    padding: u32,
}
test_entry!(Count = "test_count"(CountParams));

#[repr(C)]
#[derive(Clone, Copy)]
struct SharedParams {
    out: Global<i32>,
    bytes: u32,
    value: u32,
}
test_entry!(Shared = "test_shared"(SharedParams));
test_entry!(Stale = "test_shared"(AddParams));

fn add(device: &CudaDevice, data: &Buffer<i32>, value: u32) -> Result<()> {
    let len = data.len() as u64;
    let shape = LaunchShape::linear(len.div_ceil(128) as u32, 128, 0);
    let params = AddParams {
        data: data.global(),
        len,
        value,
        padding: 0,
    };
    device.launch::<Add>(shape, params)
}

fn shared(device: &CudaDevice, out: &Buffer<i32>, bytes: u32) -> Result<()> {
    let params = SharedParams {
        out: out.global(),
        bytes,
        value: bytes + 1,
    };
    device.launch::<Shared>(LaunchShape::linear(1, 1, bytes), params)
}

#[test]
fn copies_come_back_whatever_their_length() {
    let (device, cuda) = gpu_or_skip!("copies_come_back_whatever_their_length");
    for len in [0usize, 1, 3, 255, 256, 1 << 20] {
        let bytes: Vec<u8> = (0..len).map(|i| (i * 7 + 3) as u8).collect();
        let longs: Vec<i64> = (0..len).map(|i| i as i64 * -3).collect();
        let (a, b) = (device.upload(&bytes), device.upload(&longs));
        let (mut a, b) = (a.expect("upload"), b.expect("upload"));
        assert_eq!(a.to_vec().expect("read"), bytes);
        assert_eq!(b.to_vec().expect("read"), longs);
        let zeros = device.alloc::<f32>(len).expect("alloc");
        assert_eq!(zeros.to_vec().expect("read"), vec![0.0; len]);
        fill(&mut a, 0xa5).expect("fill");
        assert_eq!(a.to_vec().expect("read"), vec![0xa5; len]);
        let mut target = device.alloc::<i64>(len).expect("alloc");
        copy(&b, &mut target).expect("copy");
        drop(b);
        assert_eq!(target.to_vec().expect("read"), longs);
    }
    cuda.synchronize().expect("no error is left");
}

#[test]
fn lengths_that_differ_are_refused_before_the_driver() {
    let (device, _) = gpu_or_skip!("lengths_that_differ_are_refused_before_the_driver");
    let mut buffer = device.upload(&[1i32, 2, 3]).expect("upload");
    let wrong = buffer.write(&[0; 4]).expect_err("one too many");
    assert!(
        matches!(
            wrong,
            Error::Length {
                found: 4,
                expected: 3,
                ..
            }
        ),
        "{wrong}"
    );
    assert_eq!(buffer.to_vec().expect("read"), [1, 2, 3]);
}

#[test]
fn more_memory_than_there_is_is_an_error_with_the_size() {
    let (device, _) = gpu_or_skip!("more_memory_than_there_is_is_an_error_with_the_size");
    let error = device.alloc::<u8>(1 << 50).expect_err("a petabyte");
    assert!(
        matches!(error, Error::OutOfMemory { bytes, .. } if bytes == 1 << 50),
        "{error}"
    );
    let error = device
        .alloc::<i64>(usize::MAX / 4)
        .expect_err("more than addresses");
    assert!(matches!(error, Error::OutOfMemory { .. }), "{error}");
    device.alloc::<u8>(1).expect("still works");
}

#[test]
fn a_gpu_is_opened_once_and_a_missing_one_is_counted() {
    let (_, cuda) = gpu_or_skip!("a_gpu_is_opened_once_and_a_missing_one_is_counted");
    let again = Device::cuda(0).expect("open again");
    assert!(Arc::ptr_eq(&cuda, again.as_cuda().expect("a GPU")));
    let error = Device::cuda(10_000).expect_err("no such GPU").to_string();
    assert!(
        error.contains("cuda:10000") && error.contains("the driver sees"),
        "{error}"
    );
}

#[test]
fn events_measure_what_lies_between_them() {
    let (device, cuda) = gpu_or_skip!("events_measure_what_lies_between_them");
    let data = device.alloc::<i32>(1 << 20).expect("alloc");
    add(&cuda, &data, 1).expect("warm up");
    let launches = |count: u32| {
        time_us(&cuda, || (0..count).try_for_each(|_| add(&cuda, &data, 1))).expect("time")
    };
    // Other tests use the GPU, too: of several times the least disturbed.
    let least = |count| {
        (0..10)
            .map(|_| launches(count))
            .fold(f64::INFINITY, f64::min)
    };
    let (few, many) = (least(1), least(200));
    assert!(few > 0.0 && many > few, "{few} us for 1, {many} us for 200");

    let never = Event::new(&cuda).expect("event");
    let end = Event::new(&cuda).expect("event");
    end.record().expect("record");
    let error = end
        .elapsed_us(&never)
        .expect_err("never recorded")
        .to_string();
    assert!(error.starts_with("cuEventElapsedTime failed"), "{error}");
}

#[test]
fn a_graph_replays_what_was_recorded_and_keeps_its_buffers() {
    let (device, cuda) = gpu_or_skip!("a_graph_replays_what_was_recorded_and_keeps_its_buffers");
    let data = device.upload(&vec![5i32; 1000]).expect("upload");
    let mut result = device.alloc::<i32>(1000).expect("alloc");
    let graph = Graph::capture(&cuda, || {
        (0..3).try_for_each(|_| add(&cuda, &data, 2))?;
        copy(&data, &mut result)
    })
    .expect("capture");
    assert_eq!(
        data.to_vec().expect("read"),
        vec![5; 1000],
        "nothing ran yet"
    );
    for _ in 0..2 {
        graph.launch().expect("launch");
    }
    assert_eq!(data.to_vec().expect("read"), vec![17; 1000]);
    // The graph keeps the memory: another buffer does not get it, and the launch is valid.
    drop(data);
    let other = device.upload(&vec![1i32; 1000]).expect("upload");
    graph.launch().expect("launch");
    assert_eq!(result.to_vec().expect("read"), vec![23; 1000]);
    assert_eq!(other.to_vec().expect("read"), vec![1; 1000]);
    drop(graph);
    cuda.synchronize().expect("no error is left");
}

#[test]
fn what_cannot_be_recorded_is_refused_and_the_device_goes_on() {
    let (device, cuda) = gpu_or_skip!("what_cannot_be_recorded_is_refused_and_the_device_goes_on");
    let data = device.upload(&[1i32]).expect("upload");
    let refused = |body: &dyn Fn() -> Result<()>| {
        let error = Graph::capture(&cuda, body)
            .expect_err("refused")
            .to_string();
        assert!(error.contains("captures a graph"), "{error}");
    };
    refused(&|| data.to_vec().map(drop));
    refused(&|| cuda.synchronize());
    refused(&|| device.alloc::<i32>(4).map(drop));
    refused(&|| time_us(&cuda, || Ok(())).map(drop));
    refused(&|| Graph::capture(&cuda, || Ok(())).map(drop));
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let _ = Graph::capture(&cuda, || panic!("in the body"));
    }));
    assert!(panicked.is_err());
    add(&cuda, &data, 1).expect("launch");
    assert_eq!(data.to_vec().expect("read"), [2]);
}

#[test]
fn other_threads_launch_while_one_captures() {
    let (device, cuda) = gpu_or_skip!("other_threads_launch_while_one_captures");
    let (mine, other) = (device.alloc::<i32>(64), device.alloc::<i32>(64));
    let (mine, other) = (mine.expect("alloc"), other.expect("alloc"));
    let graph = Graph::capture(&cuda, || {
        add(&cuda, &mine, 1)?;
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                add(&cuda, &other, 1)?;
                other.to_vec()
            });
            let values = thread.join().expect("thread")?;
            assert_eq!(values, vec![1; 64]);
            Ok(())
        })
    })
    .expect("capture");
    graph.launch().expect("launch");
    assert_eq!(mine.to_vec().expect("read"), vec![1; 64]);
    assert_eq!(other.to_vec().expect("read"), vec![1; 64]);
}

#[test]
fn broken_ptx_gives_the_compilers_log() {
    let (_, cuda) = gpu_or_skip!("broken_ptx_gives_the_compilers_log");
    let broken = PTX.replace("add.u32 %r5, %r5, %r1;", "add.u32 %r5, %r99, nonsense;");
    let refused = Module::load(&cuda, &broken)
        .expect("context")
        .expect_err("broken");
    let error = refused.into_error("broken", &cuda);
    let Error::Jit { log, .. } = &error else {
        panic!("{error}")
    };
    assert!(log.contains("nonsense") || log.contains("%r99"), "{log}");
    assert!(
        error.to_string().contains("module `broken` for cuda:0"),
        "{error}"
    );
}

#[test]
fn ptx_of_another_source_is_refused() {
    let (device, cuda) = gpu_or_skip!("ptx_of_another_source_is_refused");
    let data = device.alloc::<i32>(1).expect("alloc");
    let params = AddParams {
        data: data.global(),
        len: 1,
        value: 1,
        padding: 0,
    };
    let module = Module::load(&cuda, PTX).expect("context").expect("module");
    let error = module
        .function(&cuda, &Stale::INFO)
        .expect_err("24 bytes for 16")
        .to_string();
    assert!(
        error.contains("takes 24 bytes") && error.contains("build-ptx"),
        "{error}"
    );
    cuda.launch::<Add>(LaunchShape::linear(1, 1, 0), params)
        .expect("launch");
    assert_eq!(data.to_vec().expect("read"), [1]);
}

#[test]
fn shared_memory_over_48_kb_works_up_to_the_limit() {
    let (device, cuda) = gpu_or_skip!("shared_memory_over_48_kb_works_up_to_the_limit");
    let out = device.alloc::<i32>(1).expect("alloc");
    let limit = cuda.properties().shared_per_block_optin;
    for bytes in [4, 48 << 10, (48 << 10) + 4, limit] {
        shared(&cuda, &out, bytes).expect("launch");
        assert_eq!(out.to_vec().expect("read"), [bytes as i32 + 1]);
    }
    let error = shared(&cuda, &out, limit + 4)
        .expect_err("too much")
        .to_string();
    let expected = format!("`bytes of shared memory` is {}", limit + 4);
    assert!(error.contains(&expected), "{error}");
    shared(&cuda, &out, 64).expect("still works");
}

#[test]
fn two_threads_launch_on_one_device() {
    let (device, cuda) = gpu_or_skip!("two_threads_launch_on_one_device");
    let common = device.alloc::<i32>(4096).expect("alloc");
    std::thread::scope(|scope| {
        for thread in 1..=2u32 {
            let (device, cuda, common) = (&device, &cuda, &common);
            scope.spawn(move || {
                let own = device.alloc::<i32>(4096).expect("alloc");
                for _ in 0..500 {
                    add(cuda, &own, thread).expect("launch");
                    add(cuda, common, thread).expect("launch");
                }
                let expected = vec![500 * thread as i32; 4096];
                assert_eq!(own.to_vec().expect("read"), expected);
            });
        }
    });
    assert_eq!(common.to_vec().expect("read"), vec![1500; 4096]);
}

#[test]
fn scratch_is_zero_and_survives_growth_under_a_graph() {
    let (device, cuda) = gpu_or_skip!("scratch_is_zero_and_survives_growth_under_a_graph");
    let out = device.alloc::<i32>(1).expect("alloc");
    let count = |bytes: usize| {
        let params = CountParams {
            scratch: cuda.scratch("test", bytes)?,
            out: out.global(),
            threads: 1 << 14,
            padding: 0,
        };
        cuda.launch::<Count>(LaunchShape::linear(1 << 7, 1 << 7, 0), params)
    };
    let graph = Graph::capture(&cuda, || count(4)).expect("capture");
    for round in 0..4 {
        count(100_000 << round).expect("launch");
        graph.launch().expect("launch");
    }
    assert_eq!(out.to_vec().expect("read"), [8 << 14]);
}

#[test]
fn without_embedded_ptx_the_error_says_what_to_run() {
    let (device, _) = gpu_or_skip!("without_embedded_ptx_the_error_says_what_to_run");
    if !crate::info::collect().ptx.modules.is_empty() {
        return; // This binary has some.
    }
    let a = device.upload(&[1f32]).expect("upload");
    let mut h = device.alloc::<f32>(1).expect("alloc");
    let error = crate::ops::LinearScan::new(1, 1, 1).run(&device, &a, &a, &mut h);
    let error = error.expect_err("no PTX").to_string();
    assert!(error.contains("cargo xtask build-ptx"), "{error}");
}

#[test]
fn without_a_driver_the_device_is_refused_with_the_reason() {
    if ferroseq_driver::status().is_ok() {
        return; // Here is one.
    }
    for spec in ["cuda", "cuda:3"] {
        let error = Device::from_spec(spec).expect_err("no driver").to_string();
        assert!(
            error.contains("no NVIDIA driver library was found"),
            "{error}"
        );
        assert!(error.contains("libcuda.so.1"), "{error}");
    }
    assert_eq!(Device::auto(), Device::cpu());
}
