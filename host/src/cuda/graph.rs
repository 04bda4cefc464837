//! Graphs: launches recorded once and started again and again with one call.
//!
//! While a thread captures, its launches on that device go to a stream of the capture's
//! own; other threads go on as before. Every buffer that a recorded launch uses is kept
//! by the graph, so that dropping the buffer does not pull the memory from under it.

use super::buffer::Memory;
use super::device::{CudaDevice, Handle, new_stream};
use super::error::{check, while_capturing};
use crate::error::Result;
use cust::sys::{self, CUgraph, CUgraphExec, CUstream, CUstreamCaptureMode};
use std::cell::{Cell, RefCell};
use std::marker::PhantomData;
use std::ptr;
use std::sync::Arc;

thread_local! {
    static CAPTURE: RefCell<Option<Capture>> = const { RefCell::new(None) };
}

/// What this thread is capturing.
#[derive(Debug)]
struct Capture {
    device: Arc<CudaDevice>,
    stream: Handle<CUstream>,
    memory: Vec<Arc<Memory>>,
}

/// The stream of this thread's capture, if it captures on `device`.
pub(super) fn capture_stream(device: &CudaDevice) -> Option<CUstream> {
    CAPTURE.with_borrow(|capture| {
        let capture = capture.as_ref()?;
        ptr::eq(capture.device.as_ref(), device).then_some(capture.stream.0)
    })
}

/// Keeps `memory` for the graph that this thread is capturing on its device, if it is.
pub(super) fn keep(memory: &Arc<Memory>) {
    CAPTURE.with_borrow_mut(|capture| {
        if let Some(capture) = capture
            && ptr::eq(capture.device.as_ref(), memory.device())
        {
            capture.memory.push(Arc::clone(memory));
        }
    });
}

/// Launches that were recorded, ready to be started.
#[derive(Debug)]
pub struct Graph {
    device: Arc<CudaDevice>,
    executable: Handle<CUgraphExec>,
    /// Kept alive for the launches, not used otherwise.
    _memory: Vec<Arc<Memory>>,
    /// One executable graph must not be launched from two threads at once: not `Sync`.
    marker: PhantomData<Cell<()>>,
}

impl Graph {
    /// Records what `body` starts on `device` from this thread, without running it.
    ///
    /// In `body`, operations on existing buffers are recorded; allocating, copying to or from
    /// the host, and waiting are errors. Run the operation once before: what it loads and
    /// allocates on first use is not recorded, and need not happen during the capture.
    ///
    /// # Errors
    /// That of `body`; the driver's error; a capture inside a capture.
    pub fn capture(device: &Arc<CudaDevice>, body: impl FnOnce() -> Result<()>) -> Result<Self> {
        if CAPTURE.with_borrow(Option::is_some) {
            return Err(while_capturing("capturing a graph"));
        }
        let _entered = device.enter()?;
        let recording = Recording::begin(device)?;
        let done = body();
        let ended = recording.end();
        // A body that fails may also spoil the capture; its own error says more.
        done?;
        let (template, memory) = ended?;
        let mut executable = ptr::null_mut();
        // SAFETY: the template was just captured; the driver writes one handle.
        check(unsafe { sys::cuGraphInstantiateWithFlags(&mut executable, template.0, 0) })
            .map_err(|code| code.of("cuGraphInstantiateWithFlags"))?;
        Ok(Self {
            device: Arc::clone(device),
            executable: Handle(executable),
            _memory: memory,
            marker: PhantomData,
        })
    }

    /// Starts the recorded launches, after everything that was started before.
    ///
    /// # Errors
    /// The driver's error; while this thread captures a graph.
    pub fn launch(&self) -> Result<()> {
        self.device.refuse_in_capture("launching a graph")?;
        let _entered = self.device.enter()?;
        // SAFETY: graph and stream are of this device; the graph keeps its buffers, and the
        // device its modules and scratch memory. `Graph` is not `Sync`, so no other thread
        // is in this call with the same graph.
        check(unsafe { sys::cuGraphLaunch(self.executable.0, self.device.stream()) })
            .map_err(|code| code.of("cuGraphLaunch"))
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        let Ok(_entered) = self.device.enter() else {
            return;
        };
        // SAFETY: instantiated by `capture`; a run under way ends before the driver frees it,
        // and freeing the buffers waits for the stream.
        let _ = unsafe { sys::cuGraphExecDestroy(self.executable.0) };
    }
}

/// A captured graph before it is made executable.
struct Template(CUgraph);

impl Drop for Template {
    fn drop(&mut self) {
        if !self.0.is_null() {
            // SAFETY: made by `cuStreamEndCapture`, and nobody else's.
            let _ = unsafe { sys::cuGraphDestroy(self.0) };
        }
    }
}

/// A capture under way on this thread. Dropped (an error, a panic), it is abandoned.
struct Recording;

impl Recording {
    fn begin(device: &Arc<CudaDevice>) -> Result<Self> {
        let stream = new_stream()?;
        // Relaxed: first use of a kernel inside the capture loads its module, which the
        // stricter modes forbid. What must not happen meanwhile is refused by our own calls.
        let mode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;
        // SAFETY: the stream was just created.
        if let Err(code) = check(unsafe { sys::cuStreamBeginCapture_v2(stream.0, mode) }) {
            // SAFETY: as above; it is not used after this.
            let _ = unsafe { sys::cuStreamDestroy_v2(stream.0) };
            return Err(code.of("cuStreamBeginCapture_v2"));
        }
        CAPTURE.set(Some(Capture {
            device: Arc::clone(device),
            stream,
            memory: Vec::new(),
        }));
        Ok(Self)
    }

    fn end(self) -> Result<(Template, Vec<Arc<Memory>>)> {
        std::mem::forget(self);
        Self::finish()
    }

    fn finish() -> Result<(Template, Vec<Arc<Memory>>)> {
        let capture = CAPTURE.take().expect("a recording is under way");
        let mut graph: CUgraph = ptr::null_mut();
        // SAFETY: the stream is capturing since `begin`; the driver writes one handle, null
        // where the capture failed.
        let result = check(unsafe { sys::cuStreamEndCapture(capture.stream.0, &mut graph) });
        // SAFETY: created by `begin`; captured work is not pending work.
        let _ = unsafe { sys::cuStreamDestroy_v2(capture.stream.0) };
        let template = Template(graph);
        result.map_err(|code| code.of("cuStreamEndCapture"))?;
        Ok((template, capture.memory))
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        let _ = Self::finish();
    }
}
