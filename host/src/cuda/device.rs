//! An open GPU: its primary context, its one stream, the modules loaded into it.
//!
//! Everything that is started on a device goes to one stream, in the order of the calls,
//! from whatever thread. That order is what buffers, scratch memory and timing rely on.

use super::error::{check, check_cust, while_capturing};
use super::graph;
use super::module::Modules;
use super::properties::{self, Properties};
use super::scratch::Scratch;
use crate::error::Result;
use cust::context::{Context, CurrentContext};
use cust::sys::{self, CUcontext, CUstream, CUstream_flags_enum as StreamFlags};
use std::collections::HashMap;
use std::ptr;
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// A driver handle (`CUstream`, `CUfunction`, ...).
#[derive(Clone, Copy, Debug)]
pub(super) struct Handle<P>(pub(super) P);

// SAFETY: a handle is a name for an object of the driver, valid in every thread of the
// process; the driver locks what it names. Nothing here dereferences one.
unsafe impl<T> Send for Handle<*mut T> {}
// SAFETY: as above.
unsafe impl<T> Sync for Handle<*mut T> {}

/// An open GPU.
///
/// It uses the device's primary context, which other CUDA libraries of the process share,
/// and one stream that does not wait for the legacy default stream.
#[derive(Debug)]
pub struct CudaDevice {
    properties: Properties,
    stream: Handle<CUstream>,
    pub(super) modules: Modules,
    pub(super) scratch: Scratch,
    // Last: the context is released after everything that lives in it.
    context: Context,
}

/// The open devices. There is at most one `CudaDevice` for a GPU, so that two buffers of
/// "the same device" are ordered by the same stream.
static OPEN: Mutex<Option<HashMap<usize, Weak<CudaDevice>>>> = Mutex::new(None);

impl CudaDevice {
    /// GPU `ordinal`: the one that is open, or newly opened.
    pub(crate) fn open(ordinal: usize) -> Result<Arc<Self>> {
        let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
        let open = open.get_or_insert_default();
        if let Some(device) = open.get(&ordinal).and_then(Weak::upgrade) {
            return Ok(device);
        }
        let device = Arc::new(Self::new(ordinal)?);
        open.insert(ordinal, Arc::downgrade(&device));
        Ok(device)
    }

    fn new(ordinal: usize) -> Result<Self> {
        let device = properties::find(ordinal)?;
        let properties = Properties::query(ordinal)?;
        let before = current()?;
        let context = check_cust(Context::new(device))
            .map_err(|code| code.of(format!("cuDevicePrimaryCtxRetain of GPU {ordinal}")))?;
        let _entered = Entered::from(before, &context)?;
        Ok(Self {
            properties,
            stream: new_stream()?,
            modules: Modules::default(),
            scratch: Scratch::default(),
            context,
        })
    }

    /// The driver's number for it.
    pub fn ordinal(&self) -> usize {
        self.properties.ordinal
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.properties.name
    }

    /// What the driver says of it.
    pub fn properties(&self) -> &Properties {
        &self.properties
    }

    /// Waits until everything that was started on it has ended.
    ///
    /// # Errors
    /// The driver's error: the first of anything that failed since the last wait.
    pub fn synchronize(&self) -> Result<()> {
        self.refuse_in_capture("synchronize")?;
        let _entered = self.enter()?;
        self.wait("cuStreamSynchronize")
    }

    /// Waits for the stream; the context is current.
    pub(super) fn wait(&self, call: &str) -> Result<()> {
        // SAFETY: the stream lives as long as `self`.
        check(unsafe { sys::cuStreamSynchronize(self.stream.0) }).map_err(|code| code.of(call))
    }

    /// The device's stream.
    pub(super) fn stream(&self) -> CUstream {
        self.stream.0
    }

    /// Where this thread's launches go: the stream, or the graph it is capturing.
    pub(super) fn launch_stream(&self) -> CUstream {
        graph::capture_stream(self).unwrap_or(self.stream.0)
    }

    /// An error if this thread is capturing a graph on this device.
    pub(super) fn refuse_in_capture(&self, call: &str) -> Result<()> {
        match graph::capture_stream(self) {
            Some(_) => Err(while_capturing(call)),
            None => Ok(()),
        }
    }

    /// Makes the context current on this thread until the guard is dropped.
    pub(super) fn enter(&self) -> Result<Entered> {
        Entered::from(current()?, &self.context)
    }

    /// A name like that of [`Device`](crate::Device), for errors.
    pub(super) fn label(&self) -> String {
        format!("cuda:{} ({})", self.ordinal(), self.name())
    }
}

impl Drop for CudaDevice {
    fn drop(&mut self) {
        let Ok(_entered) = self.enter() else { return };
        // A failure here is that of a launch whose result nobody waited for, or of a context
        // that is gone; there is nothing left to do about either.
        let _ = self.wait("cuStreamSynchronize");
        self.scratch.free(self);
        self.modules.unload();
        // SAFETY: the stream was created by `new`, is idle, and not used after this.
        let _ = unsafe { sys::cuStreamDestroy_v2(self.stream.0) };
    }
}

/// While it lives, a device's context is current on this thread. Dropped, it puts back the
/// context of whoever was there before.
pub(super) struct Entered {
    before: Option<Handle<CUcontext>>,
}

impl Entered {
    fn from(before: CUcontext, context: &Context) -> Result<Self> {
        if before == context.as_raw() {
            return Ok(Self { before: None });
        }
        check_cust(CurrentContext::set_current(context))
            .map_err(|code| code.of("cuCtxSetCurrent"))?;
        Ok(Self {
            // With no context before there is nobody to give the thread back to, and the
            // next call finds this one in place.
            before: (!before.is_null()).then_some(Handle(before)),
        })
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        if let Some(Handle(before)) = self.before {
            // SAFETY: it was current on this thread a moment ago.
            let _ = unsafe { sys::cuCtxSetCurrent(before) };
        }
    }
}

fn current() -> Result<CUcontext> {
    let mut context = ptr::null_mut();
    // SAFETY: the driver writes one handle.
    check(unsafe { sys::cuCtxGetCurrent(&mut context) })
        .map_err(|code| code.of("cuCtxGetCurrent"))?;
    Ok(context)
}

/// A new stream in the current context. `cust::stream::Stream::new` drops the flag.
pub(super) fn new_stream() -> Result<Handle<CUstream>> {
    let mut stream = ptr::null_mut();
    let flags = StreamFlags::CU_STREAM_NON_BLOCKING as u32;
    // SAFETY: the driver writes one handle.
    check(unsafe { sys::cuStreamCreate(&mut stream, flags) })
        .map_err(|code| code.of("cuStreamCreate"))?;
    Ok(Handle(stream))
}
