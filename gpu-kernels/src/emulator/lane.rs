//! What a kernel's calls into `simt` come to: the running thread's side of the engine.
//!
//! Every function here looks the engine up through the carrier thread, does its part
//! under one short borrow, and only then pauses the fiber or reports a fault.

use super::block::{Line, State};
use super::engine::Engine;
use super::fault::{FaultKind, Site};
use super::fiber::Pause;
use super::matrix::MatrixOperands;
use super::warp::{Operands, WarpOp};
use crate::simt::LaunchShape;
use std::cell::Cell;
use std::ptr::null_mut;

thread_local! {
    static ENGINE: Cell<*mut Engine<'static>> = const { Cell::new(null_mut()) };
}

/// Makes `engine` the one that kernels on this thread call, until this is dropped.
pub(super) struct Entered;

impl Entered {
    /// # Safety
    /// `engine` stays valid until the result is dropped.
    pub(super) unsafe fn new(engine: *mut Engine<'_>) -> Self {
        ENGINE.set(engine.cast());
        Self
    }
}

/// A kernel that launches a kernel would wait for itself.
pub(super) fn assert_outside() {
    assert!(ENGINE.get().is_null(), "a kernel cannot launch a kernel");
}

impl Drop for Entered {
    fn drop(&mut self) {
        ENGINE.set(null_mut());
    }
}

/// Borrows the engine. `work` must not pause the fiber nor call back in here.
#[inline]
pub(super) fn with<R>(work: impl FnOnce(&mut Engine<'static>) -> R) -> R {
    let engine = ENGINE.get();
    assert!(
        !engine.is_null(),
        "device code runs only inside an emulated launch"
    );
    // SAFETY: set for the length of a launch (`Entered`); the loop that resumed this fiber
    // holds no borrow, and neither does any other fiber, because borrows end here. The
    // lifetime is shortened to that of `work`, which cannot keep anything.
    work(unsafe { &mut *engine })
}

/// Lets others run. The fiber goes on when its thread's state is `Ready` and its turn comes.
fn pause() {
    let pause = with(|engine| {
        let (block, thread) = engine.current;
        engine.blocks[block].threads[thread].pause
    });
    // SAFETY: `started` set it to the pause handle of this fiber, which outlives its body.
    unsafe { (*pause).suspend(()) };
}

/// The running fiber begins: how to pause it.
pub(super) fn started(pause: &Pause) {
    with(|engine| {
        let (block, thread) = engine.current;
        engine.blocks[block].threads[thread].pause = pause;
    });
}

/// Stops the launch. Never returns: the fiber is unwound instead of resumed.
#[cold]
pub(crate) fn fail(kind: FaultKind, line: Line) -> ! {
    fail_at(None, kind, line)
}

#[cold]
fn fail_at(thread: Option<usize>, kind: FaultKind, line: Line) -> ! {
    with(|engine| {
        let (block, current) = engine.current;
        let kind = engine.with_indices(kind);
        engine.report(
            block,
            thread.unwrap_or(current),
            Some(Site::from(line)),
            kind,
        );
    });
    loop {
        pause();
    }
}

impl Engine<'_> {
    /// Threads that a block knows by number, by their index.
    pub(super) fn with_indices(&self, mut kind: FaultKind) -> FaultKind {
        if let FaultKind::BarrierDivergence { other, .. } = &mut kind {
            *other = self.thread_index(other[0]);
        }
        kind
    }
}

/// Before an access: another thread may run.
#[inline]
pub(super) fn switch_point(line: Line) {
    match with(Engine::count_access) {
        Ok(false) => {}
        Ok(true) => yield_turn(),
        Err(kind) => fail(kind, line),
    }
}

fn yield_turn() {
    with(|engine| {
        let (block, thread) = engine.current;
        engine.blocks[block].ready.push(thread as u16);
    });
    pause();
}

pub(crate) fn shape() -> LaunchShape {
    with(|engine| engine.shape)
}

pub(crate) fn thread_index() -> [u32; 3] {
    with(|engine| engine.thread_index(engine.current.1 as u32))
}

pub(crate) fn block_index() -> [u32; 3] {
    with(|engine| engine.blocks[engine.current.0].index)
}

pub(crate) fn lane_id() -> u32 {
    with(|engine| engine.current.1 as u32 % 32)
}

/// The block's barrier. Whether any thread brought a predicate that holds.
pub(crate) fn sync_threads_or(predicate: bool, line: Line) -> bool {
    let arrived = with(|engine| {
        let (block, thread) = engine.current;
        let released = engine.blocks[block].arrive_at_barrier(thread, predicate, line)?;
        engine.stats.barriers += u64::from(released);
        Ok(())
    });
    match arrived {
        Ok(()) => pause(),
        Err(kind) => fail(kind, line),
    }
    // The next barrier cannot be passed before this thread is there, too.
    with(|engine| engine.blocks[engine.current.0].voted)
}

pub(crate) fn spin_hint(line: Line) {
    with(|engine| {
        let (block, thread) = engine.current;
        let thread = &mut engine.blocks[block].threads[thread];
        thread.spun_at = Some(line);
        thread.accesses = 0;
        thread.idle_from = 0;
    });
    yield_turn();
}

pub(crate) fn warp_op(op: WarpOp, mask: u32, operands: Operands, line: Line) -> u32 {
    let arrived = with(|engine| {
        let (block, thread) = engine.current;
        let result = engine.blocks[block].arrive_at_warp_op(thread, op, mask, operands, line);
        engine.stats.warp_operations += u64::from(matches!(result, Ok(Some(_))));
        result
    });
    match arrived {
        Ok(Some(result)) => result,
        Ok(None) => {
            pause();
            with(|engine| {
                let (block, thread) = engine.current;
                let thread = &engine.blocks[block].threads[thread];
                debug_assert!(matches!(thread.state, State::Ready));
                thread.result
            })
        }
        Err(blame) => fail_at(Some(blame.thread), blame.kind, line),
    }
}

/// A matrix product of the whole warp: this lane's part of it.
pub(crate) fn matrix_op(op: WarpOp, factors: MatrixOperands, line: Line) -> [f32; 4] {
    with(|engine| {
        let (block, thread) = engine.current;
        engine.blocks[block].threads[thread].factors = factors;
    });
    warp_op(op, u32::MAX, Operands::default(), line);
    // The warp's next product cannot be computed before this lane brings its part.
    with(|engine| {
        let (block, thread) = engine.current;
        engine.blocks[block].threads[thread].product
    })
}
