//! Fibers: one small stack per GPU thread, reused, and what is needed to catch a
//! kernel's panic on one without printing it.

use super::fault::Site;
use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, CoroutineResult, Yielder};
use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;

/// Bytes of a fiber's stack; below it lies a guard page. Kernels keep their state in
/// registers, so that this is room to spare, and untouched pages cost nothing.
const STACK: usize = 128 << 10;
/// Stacks that a carrier thread keeps between launches.
const KEPT: usize = 4096;

pub(super) type Pause = Yielder<(), ()>;

/// One GPU thread's call stack.
pub(super) struct Fiber {
    coroutine: Option<Coroutine<(), (), (), DefaultStack>>,
}

/// How a turn of a fiber ended.
pub(super) enum Turn {
    Paused,
    Ended,
    Panicked { message: String, site: Option<Site> },
}

thread_local! {
    static STACKS: RefCell<Vec<DefaultStack>> = const { RefCell::new(Vec::new()) };
    static RUNNING: Cell<bool> = const { Cell::new(false) };
    static PANIC: RefCell<Option<(String, Option<Site>)>> = const { RefCell::new(None) };
}

impl Fiber {
    /// A fiber that will run `body`, which gets the means to pause.
    pub(super) fn new(body: impl FnOnce(&Pause) + 'static) -> Result<Self, String> {
        let stack = match STACKS.with_borrow_mut(Vec::pop) {
            Some(stack) => stack,
            None => DefaultStack::new(STACK)
                .map_err(|error| format!("no memory for a fiber's stack: {error}"))?,
        };
        let coroutine = Coroutine::with_stack(stack, move |pause: &Pause, ()| body(pause));
        Ok(Self {
            coroutine: Some(coroutine),
        })
    }

    /// Runs it until it pauses or ends.
    pub(super) fn resume(&mut self) -> Turn {
        let Some(coroutine) = &mut self.coroutine else {
            return Turn::Ended;
        };
        RUNNING.set(true);
        let result = catch_unwind(AssertUnwindSafe(|| coroutine.resume(())));
        RUNNING.set(false);
        match result {
            Ok(CoroutineResult::Yield(())) => Turn::Paused,
            Ok(CoroutineResult::Return(())) => {
                self.reclaim();
                Turn::Ended
            }
            Err(_) => {
                let (message, site) = PANIC.take().unwrap_or_default();
                Turn::Panicked { message, site }
            }
        }
    }

    fn reclaim(&mut self) {
        let Some(mut coroutine) = self.coroutine.take() else {
            return;
        };
        // Unwinds a fiber that a fault has left in the middle of its kernel.
        coroutine.force_unwind();
        let stack = coroutine.into_stack();
        STACKS.with_borrow_mut(|stacks| {
            if stacks.len() < KEPT {
                stacks.push(stack);
            }
        });
    }
}

impl Drop for Fiber {
    fn drop(&mut self) {
        self.reclaim();
    }
}

/// Keeps a panic on a fiber for its [`Fault`](super::Fault) instead of printing it; all
/// other panics go on to whoever was in charge before.
pub(super) fn catch_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if !RUNNING.get() {
                return before(info);
            }
            let payload = info.payload();
            let message = payload
                .downcast_ref::<&str>()
                .map(|text| (*text).to_owned())
                .or_else(|| payload.downcast_ref::<String>().cloned())
                .unwrap_or_else(|| "(no message)".to_owned());
            PANIC.set(Some((message, info.location().map(Site::from))));
        }));
    });
}
