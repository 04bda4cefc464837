//! The emulator is fast enough to test with.

use crate::{kernel, launch};
use gpu_kernels::simt::thread::*;
use gpu_kernels::simt::{Global, LaunchShape, Shared};
use std::time::{Duration, Instant};

kernel!(Barriers(_: [Global<u32>; 4]) {
    for _ in 0..1000 {
        sync_threads();
    }
});

kernel!(Traffic([a, b, ..]: [Global<u32>; 4]) {
    let (me, shared) = (thread_idx_x(), Shared::<u32>::dynamic(0));
    for turn in 0..100 {
        let at = (turn * block_dim_x() + me) as usize;
        shared.store(me, a.load(at));
        sync_threads();
        b.store(at, shared.load(me ^ 1));
        sync_threads();
    }
});

fn best_of_five(run: impl Fn()) -> Duration {
    let once = |()| {
        let start = Instant::now();
        run();
        start.elapsed()
    };
    [(); 5].map(once).into_iter().min().unwrap()
}

/// The aim is 100 ms on one core; the limit leaves room for a busy machine.
#[test]
fn a_block_of_256_threads_with_1000_barriers() {
    let time = best_of_five(|| {
        let (_, stats) = launch::<Barriers>(0, LaunchShape::linear(1, 256, 0), 0).unwrap();
        assert_eq!(stats.barriers, 1000);
    });
    println!("256 threads x 1000 barriers: {time:?}");
    assert!(time < Duration::from_millis(400), "{time:?}");
    let time = best_of_five(|| {
        let (_, stats) = launch::<Traffic>(0, LaunchShape::linear(1, 256, 1024), 25_600).unwrap();
        println!("{} accesses", stats.accesses);
    });
    println!("with memory traffic: {time:?}");
    assert!(time < Duration::from_millis(400), "{time:?}");
}
