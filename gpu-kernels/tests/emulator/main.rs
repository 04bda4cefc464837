//! Tests of the emulator, through the same `simt` functions that kernels call.

mod approximation;
mod arithmetic;
mod copies;
mod hang;
mod matrix;
mod memory;
mod order;
mod speed;
mod threads;
mod warp;

use gpu_kernels::emulator::{Config, Fault, Machine, Stats};
use gpu_kernels::simt::{Entry, Global, LaunchShape, Plain};

/// Declares a test kernel: `kernel!(Name(params: Type) { body })`.
macro_rules! kernel {
    ($name:ident($params:tt : $type:ty) $body:block) => {
        struct $name;
        impl gpu_kernels::simt::Entry for $name {
            type Params = $type;
            const INFO: gpu_kernels::simt::EntryInfo = gpu_kernels::simt::EntryInfo {
                name: stringify!($name),
                module: "test",
                param_size: size_of::<$type>(),
                bounds: gpu_kernels::simt::LaunchBounds {
                    max_threads: 1024,
                    min_blocks: 0,
                },
            };
            #[allow(unused_unsafe)]
            unsafe fn run($params: $type) {
                // SAFETY: the emulator checks every access.
                unsafe { $body }
            }
        }
    };
}
use kernel;

/// Seeds that every correct kernel must pass.
const SEEDS: std::ops::Range<u64> = 0..64;

fn machine(seed: u64) -> Machine {
    Machine::new(Config {
        seed,
        ..Config::default()
    })
}

fn upload<T: Plain>(machine: &Machine, data: &[T]) -> Global<T> {
    let bytes = bytemuck::cast_slice(data);
    let address = machine.alloc(bytes.len()).unwrap();
    machine.write(address, bytes).unwrap();
    Global::from_address(address)
}

fn download<T: Plain + Default>(machine: &Machine, array: Global<T>, len: usize) -> Vec<T> {
    let mut out = vec![T::default(); len];
    let bytes = bytemuck::cast_slice_mut(&mut out);
    machine.read(address(array), bytes).unwrap();
    out
}

fn address<T>(array: Global<T>) -> u64 {
    // SAFETY: a view is one address (`repr(transparent)`).
    unsafe { std::mem::transmute_copy::<Global<T>, u64>(&array) }
}

/// Runs `K` on a machine with four zeroed arrays of `words` words.
fn launch<K: Entry<Params = [Global<u32>; 4]>>(
    seed: u64,
    shape: LaunchShape,
    words: usize,
) -> Result<([Vec<u32>; 4], Stats), Box<Fault>> {
    let machine = machine(seed);
    let arrays = [(); 4].map(|()| upload(&machine, &vec![0u32; words]));
    let stats = machine.launch::<K>(shape, arrays)?;
    Ok((arrays.map(|array| download(&machine, array, words)), stats))
}

/// Runs `K` under every seed: it must pass, with the same arrays each time.
fn passes<K: Entry<Params = [Global<u32>; 4]>>(shape: LaunchShape, words: usize) -> [Vec<u32>; 4] {
    let mut all = SEEDS.map(|seed| match launch::<K>(seed, shape, words) {
        Ok((arrays, _)) => arrays,
        Err(fault) => panic!("{fault}"),
    });
    let first = all.next().unwrap();
    for other in all {
        assert_eq!(first, other, "{}", K::INFO.name);
    }
    first
}

/// Runs `K` under every seed: each must report a fault that `expected` accepts, on a line
/// of `source` (the test's own file) that is marked `// FAULT: Name`.
fn faults<K: Entry<Params = [Global<u32>; 4]>>(
    source: &str,
    shape: LaunchShape,
    words: usize,
    expected: impl Fn(&Fault) -> bool,
) {
    for seed in SEEDS {
        let fault = match launch::<K>(seed, shape, words) {
            Ok(_) => panic!("{} passed with seed {seed}", K::INFO.name),
            Err(fault) => fault,
        };
        if seed < 2 {
            println!("{fault}");
        }
        assert!(expected(&fault), "another fault than expected: {fault}");
        assert_marked(source, K::INFO.name, &fault);
        let again = launch::<K>(seed, shape, words).unwrap_err();
        assert_eq!(
            fault.to_string(),
            again.to_string(),
            "a seed replays its fault"
        );
        assert!(
            fault
                .to_string()
                .contains(&format!("FERROSEQ_EMU_SEED={seed}"))
        );
    }
}

fn assert_marked(source: &str, name: &str, fault: &Fault) {
    let site = fault.site.as_ref().expect("a source line");
    let line = source
        .lines()
        .nth(site.line as usize - 1)
        .unwrap_or_default();
    let mark = format!("// FAULT: {name}");
    assert!(
        line.trim_end().ends_with(&mark),
        "not marked for {name}: {fault}"
    );
}
