//! The SIMT emulator: runs this crate's kernels on the CPU and checks what they do.
//!
//! Every GPU thread is a fiber. The fibers of all running blocks share the thread that
//! launches, and switch at barriers, warp operations, `spin_hint` and, with most seeds,
//! at memory accesses. Which thread and which block goes next, in what order blocks start
//! and how many run at once is drawn from a seed, so a run can be repeated exactly:
//! [`Config::seed`], or the variable `FERROSEQ_EMU_SEED` where the host reads it. Seed 0
//! is the plain schedule. Every [`Fault`] names the seed that replays it. A launch uses
//! one core; launches on different machines run side by side.
//!
//! # What it finds
//!
//! A fault stops the launch and is returned as a value that names the kernel, block,
//! thread and source line.
//!
//! - **Barriers**: a thread that has ended, or waits at the barrier of another line,
//!   while others wait. This is stricter than the hardware, which counts ended threads out.
//! - **Warp operations**: a mask that does not name its own lane; a lane of the mask that
//!   has ended, does not exist, or waits elsewhere (another operation, line or mask); a
//!   shuffle that reads a lane outside the mask.
//! - **Memory**: an access that does not lie within one live array, use after free, an
//!   address that is no multiple of the access's size (16 for vectors), a read of shared
//!   memory, or of global memory that was allocated without contents, that nobody wrote.
//! - **Asynchronous copies**: touching the target before the wait of the copy's group.
//!   The data is read when the copy starts and lands at the wait.
//! - **Data races**, on shared and global memory, within a block and between blocks: two
//!   accesses of which one writes, not both atomic, with no order between them. Order
//!   comes from: program order; `sync_threads`; `sync_warp` among its lanes (shuffles,
//!   votes and reductions order nothing, as in PTX); a `store_release` seen by a
//!   `load_acquire`; a fence before a relaxed atomic store or update that is seen by a
//!   relaxed atomic load or update before a fence; updates continue what they build on;
//!   barriers pass all of this on, also a fence made before the barrier for a store made
//!   after it by another thread. A race is found from this order, not from the timing:
//!   the two need not collide in this run.
//! - **Waits that cannot end**: every running block has been spinning for a thousand rounds
//!   and nothing has changed, or a thread has read 2^25 times while nothing changed.
//!   Because few blocks run at once and start in any order, a wait for a block that was
//!   not promised to run ends here.
//! - **Panics** (an index out of bounds, an overflow in a debug build) and `trap`.
//!
//! # What it cannot find
//!
//! - Faults of a compiler, of PTX, of the hardware: it compiles the source for the CPU.
//! - A race through a read it no longer remembers: of the readers of a word since its last
//!   write it keeps two warps. It reports fewer races for that, never one that is none.
//! - Weak memory effects as values: a load always sees the last store in the schedule.
//!   Wrong order shows as a race instead. Two relaxed accesses to different words that
//!   need an order between each other, and no plain data, do not.
//! - An overrun that lands in another live array (they lie at least a megabyte, or their
//!   own length, apart), or within one array.
//! - An endless loop that accesses no memory and calls nothing here.
//! - Bank conflicts, occupancy, registers, speed.
//!
//! # Arithmetic
//!
//! `exp2_approx`, `log2_approx` and `rcp_approx` are off by up to the error their
//! documentation allows, by an amount that depends on the argument alone: a test that
//! needs more than is promised fails here. Conversions and `fma` are exact. A matrix
//! product is truncated, as on the hardware, but adds in its own order.

pub(crate) mod access;
mod block;
mod clocks;
mod engine;
mod fault;
mod fiber;
pub(crate) mod lane;
mod matrix;
mod memory;
mod message;
mod order;
mod schedule;
mod shadow;
mod shared;
mod warp;

pub use fault::{Fault, FaultKind, HangCause, Place, Site, Whereabouts};
pub(crate) use matrix::MatrixOperands;
pub use memory::MemoryError;
pub use shadow::Access;
pub(crate) use warp::{Operands, WarpOp};

use crate::simt::{Entry, LaunchShape};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Threads a block can have, on every GPU.
const MAX_THREADS: u32 = 1024;
/// Dynamic shared memory a block can have: sm_90's 227 KiB.
const MAX_SHARED: u32 = 227 << 10;
/// Clock at which the record of accesses starts anew.
const LAST_CLOCK: u32 = 1 << 30;

/// How a machine runs kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// The schedule; 0 is the plain one.
    pub seed: u64,
    /// Look for data races. Without it launches are faster and need less memory.
    pub races: bool,
    /// Turns of fibers after which a launch is taken to hang, whatever it changes.
    pub turn_limit: u64,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            seed: 0,
            races: true,
            turn_limit: 1 << 32,
        }
    }
}

/// What a launch did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Blocks that ran.
    pub blocks: u64,
    /// Times a fiber was resumed.
    pub turns: u64,
    /// Barriers, once per block.
    pub barriers: u64,
    /// Warp operations, once per group of lanes.
    pub warp_operations: u64,
    /// Accesses to memory, once per thread.
    pub accesses: u64,
}

/// An emulated GPU: memory, and kernels that run on it one after the other.
#[derive(Debug)]
pub struct Machine {
    config: Config,
    state: Mutex<State>,
}

struct State {
    memory: memory::Memory,
    /// The largest clock of any launch so far.
    clock: u32,
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("State")
            .field("clock", &self.clock)
            .finish_non_exhaustive()
    }
}

impl Machine {
    /// A machine without any arrays.
    pub fn new(config: Config) -> Self {
        Self {
            config,
            state: Mutex::new(State {
                memory: memory::Memory::new(),
                clock: 0,
            }),
        }
    }

    /// How it runs kernels.
    pub fn config(&self) -> Config {
        self.config
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The address of a new array whose contents count as unwritten.
    ///
    /// # Errors
    /// [`MemoryError::OutOfMemory`].
    pub fn alloc(&self, bytes: usize) -> Result<u64, MemoryError> {
        self.state().memory.alloc(bytes, 0xFF, true)
    }

    /// The address of a new array of zeros; `unwritten`: a kernel may not rely on them.
    ///
    /// # Errors
    /// [`MemoryError::OutOfMemory`].
    pub fn alloc_zeroed(&self, bytes: usize, unwritten: bool) -> Result<u64, MemoryError> {
        self.state().memory.alloc(bytes, 0, unwritten)
    }

    /// Frees the array at `address`, which is not handed out again.
    ///
    /// # Errors
    /// [`MemoryError::NotAllocated`] unless a live array starts there.
    pub fn free(&self, address: u64) -> Result<(), MemoryError> {
        self.state().memory.free(address)
    }

    /// Copies `bytes` to `address`.
    ///
    /// # Errors
    /// [`MemoryError::NotAllocated`] unless they lie within one live array.
    pub fn write(&self, address: u64, bytes: &[u8]) -> Result<(), MemoryError> {
        self.state().memory.write(address, bytes)
    }

    /// Copies the bytes at `address` to `out`.
    ///
    /// # Errors
    /// [`MemoryError::NotAllocated`] unless they lie within one live array;
    /// [`MemoryError::Unwritten`] if some of that array's bytes were written, but not all of these.
    pub fn read(&self, address: u64, out: &mut [u8]) -> Result<(), MemoryError> {
        self.state().memory.read(address, out)
    }

    /// Runs kernel `K` to its end. After a fault, memory holds what was written until then.
    ///
    /// # Errors
    /// The first [`Fault`].
    pub fn launch<K: Entry>(
        &self,
        shape: LaunchShape,
        params: K::Params,
    ) -> Result<Stats, Box<Fault>> {
        self.check::<K>(&shape)?;
        lane::assert_outside();
        fiber::catch_panics();
        let mut state = self.state();
        let state = &mut *state;
        if state.clock > LAST_CLOCK {
            state.memory.forget_accesses();
            state.clock = 0;
        }
        let mut engine = engine::Engine::new(
            self.config,
            K::INFO.name,
            shape,
            &mut state.memory,
            state.clock + 1,
        );
        let start = move || {
            fiber::Fiber::new(move |pause| {
                lane::started(pause);
                // SAFETY: this is an emulated launch. Whether the buffers cover what
                // `params` describes is checked at every access.
                unsafe { K::run(params) }
            })
        };
        let pointer = &raw mut engine;
        // SAFETY: `engine` lives until the end of this function, and is used only through
        // `pointer` until `run` returns.
        unsafe {
            let _entered = lane::Entered::new(pointer);
            engine::run(pointer, &start);
        }
        state.clock = engine.latest;
        match engine.fault {
            Some(fault) => Err(Box::new(fault)),
            None => Ok(engine.stats),
        }
    }

    fn check<K: Entry>(&self, shape: &LaunchShape) -> Result<(), Box<Fault>> {
        let product = |size: [u32; 3]| {
            size.iter()
                .try_fold(1u32, |product, n| product.checked_mul(*n))
                .unwrap_or(u32::MAX)
        };
        let (blocks, threads) = (product(shape.grid), product(shape.block));
        let most = K::INFO.bounds.max_threads.min(MAX_THREADS);
        let (found, expected) = if threads == 0 || threads > most {
            (
                format!("blocks of {:?} threads", shape.block),
                format!("1 to {most} threads, as its launch bounds say"),
            )
        } else if blocks == 0 || u64::from(blocks) << engine::key_shift(shape) > 1 << 32 {
            (
                format!("a grid of {:?} blocks", shape.grid),
                "at least 1 block, at most 2^32 threads".to_owned(),
            )
        } else if shape.shared_bytes > MAX_SHARED {
            (
                format!("{} bytes of shared memory", shape.shared_bytes),
                format!("at most {MAX_SHARED}"),
            )
        } else {
            return Ok(());
        };
        Err(Box::new(Fault {
            kernel: K::INFO.name,
            block: [0; 3],
            thread: [0; 3],
            site: None,
            kind: FaultKind::Launch { found, expected },
            seed: self.config.seed,
        }))
    }
}
