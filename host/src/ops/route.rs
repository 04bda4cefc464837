//! Route: from each token's experts to the rows of the packed, expert-major order.
//!
//! Entries are taken in order (token by token, a token's K one after the other). An entry's
//! slot is the number of kept entries of its expert before it; with a capacity, those past
//! it are dropped. Experts follow each other in the packed rows, each expert's rows rounded
//! up to a multiple of the alignment.
//!
//! A stable counting sort with few keys: the ids are read once or twice and each entry's
//! places are written once, so the bytes are about `T * K * (2 ids + 12)`; at the sizes in
//! use it is the latency of a few dependent launches that counts.

use super::check::Check;
use super::moe::{self, Index, Status};
use crate::buffer::Buffer;
use crate::device::{Backend, Device};
use crate::error::{Error, Result};
use crate::{cpu, launch};
use gpu_kernels::moe::status;

const NAME: &str = "route";

/// What an id outside 0 to E - 1 does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum InvalidIds {
    /// It is an error that names the first such token and its id.
    #[default]
    Error,
    /// Its entry is dropped.
    Drop,
}

/// Descriptor of the routing of `expert_ids: [T, K]`.
///
/// ```
/// use ferroseq::{Device, ops::{Combine, Dispatch, Route}};
///
/// # fn main() -> ferroseq::Result<()> {
/// let device = Device::cpu();
/// // Three tokens of two elements, one expert each out of two.
/// let expert_ids = device.upload(&[1i32, 0, 1])?;
/// let hidden = device.upload(&[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0])?;
/// let plan = Route::new(3, 1, 2).run(&device, &expert_ids)?;
/// assert_eq!(plan.expert_offsets().to_vec()?, [0, 1, 3]);
///
/// let (tokens, top_k, experts, hidden_size, rows) = (3, 1, 2, 2, plan.rows()?);
/// let dispatch = Dispatch { tokens, top_k, experts, hidden: hidden_size, rows };
/// let packed = dispatch.run(&device, &hidden, &plan)?;
/// assert_eq!(packed.to_vec()?, [3.0, 4.0, 1.0, 2.0, 5.0, 6.0]);
///
/// let combine = Combine { tokens, top_k, experts, hidden: hidden_size, rows };
/// let out = combine.run(&device, &packed, &plan, None)?;
/// assert_eq!(out.to_vec()?, hidden.to_vec()?);
/// # Ok(()) }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// T, at most [`MAX_TOKENS`](super::MAX_TOKENS).
    pub tokens: usize,
    /// K, 1 to [`MAX_TOP_K`](super::MAX_TOP_K).
    pub top_k: usize,
    /// E, 1 to [`MAX_EXPERTS`](super::MAX_EXPERTS).
    pub experts: usize,
    /// The most entries that an expert keeps; the later ones are dropped. `None`: all.
    pub capacity: Option<usize>,
    /// The rows of an expert are rounded up to a multiple of this; an expert without
    /// entries has none.
    pub alignment: usize,
    /// What an id outside 0 to E - 1 does.
    pub invalid: InvalidIds,
}

/// Where every entry goes, and where every packed row comes from: [`Route`]'s outputs, on
/// the device. The arrays agree with each other, so nobody needs to check them again.
#[derive(Debug)]
pub struct RoutePlan {
    route: Route,
    filled: bool,
    pub(crate) expert_offsets: Buffer<i32>,
    pub(crate) slot_idx: Buffer<i32>,
    pub(crate) row_idx: Buffer<i32>,
    pub(crate) source_of_row: Buffer<i32>,
}

/// The arguments of one run.
#[derive(Debug)]
pub struct RouteArgs<'a, I: Index> {
    /// Expert of each entry, `[T, K]`.
    pub expert_ids: &'a Buffer<I>,
    /// Receives the plan; made by [`Route::plan`] of the same descriptor.
    pub plan: &'a mut RoutePlan,
    /// Receives what is wrong with the ids, with [`InvalidIds::Error`]. Their entries are
    /// dropped then, so that the plan is sound all the same.
    pub status: &'a mut Status,
    /// Scratch memory, [`Route::workspace_bytes`] or more; its contents do not matter.
    /// `None` where none is needed.
    pub workspace: Option<&'a mut Buffer<u8>>,
}

impl Route {
    /// Without a capacity or alignment; an invalid id is an error.
    pub const fn new(tokens: usize, top_k: usize, experts: usize) -> Self {
        Self {
            tokens,
            top_k,
            experts,
            capacity: None,
            alignment: 1,
            invalid: InvalidIds::Error,
        }
    }

    /// The same with at most `capacity` entries for each expert.
    pub const fn capacity(self, capacity: Option<usize>) -> Self {
        Self { capacity, ..self }
    }

    /// The same with each expert's rows rounded up to a multiple of `alignment`.
    pub const fn alignment(self, alignment: usize) -> Self {
        Self { alignment, ..self }
    }

    /// The same with another rule for invalid ids.
    pub const fn invalid(self, invalid: InvalidIds) -> Self {
        Self { invalid, ..self }
    }

    /// R: the most packed rows there can be, whatever the ids, and the length of
    /// `source_of_row`. How many there are is `expert_offsets[E]`.
    ///
    /// # Errors
    /// [`Error::Argument`], [`Error::TooLarge`] for 2^31 rows or more.
    pub fn rows(&self) -> Result<usize> {
        moe::limits(NAME, self.tokens, self.top_k, self.experts)?;
        if self.alignment == 0 {
            return Err(Error::Argument {
                operation: NAME,
                argument: "alignment",
                found: "0".to_owned(),
                expected: "1 or more".to_owned(),
            });
        }
        let entries = self.entries();
        let busy = entries.min(self.experts);
        let capacity = self.capacity.unwrap_or(entries).min(entries);
        // Both are bounds: every busy expert is full, or every busy expert pads as much as
        // it can.
        let full = capacity
            .checked_next_multiple_of(self.alignment)
            .and_then(|rows| rows.checked_mul(busy));
        let padded = busy
            .checked_mul(self.alignment - 1)
            .and_then(|rows| rows.checked_add(entries))
            .map(|rows| rows - rows % self.alignment);
        match (full, padded) {
            (Some(full), Some(padded)) => Some(full.min(padded)),
            (one, other) => one.or(other),
        }
        .filter(|rows| i32::try_from(*rows).is_ok())
        .ok_or_else(|| Error::TooLarge {
            operation: NAME,
            shape: format!("{self:?}"),
        })
    }

    /// T x K.
    pub(crate) fn entries(&self) -> usize {
        self.tokens * self.top_k
    }

    /// An empty plan for this routing.
    ///
    /// # Errors
    /// As [`rows`](Self::rows); [`Error::OutOfMemory`]; the device's error.
    pub fn plan(&self, device: &Device) -> Result<RoutePlan> {
        let rows = self.rows()?;
        Ok(RoutePlan {
            route: *self,
            filled: false,
            expert_offsets: device.alloc(self.experts + 1)?,
            slot_idx: device.alloc(self.entries())?,
            row_idx: device.alloc(self.entries())?,
            source_of_row: device.alloc(rows)?,
        })
    }

    /// Bytes of scratch memory that a run on `device` needs.
    ///
    /// # Errors
    /// As [`rows`](Self::rows).
    pub fn workspace_bytes(&self, device: &Device) -> Result<usize> {
        self.rows()?;
        match &device.backend {
            Backend::Cpu => Ok(0),
            _ => launch::route::workspace_bytes(self),
        }
    }

    /// Routes and waits: a plan of its own, or what is wrong with the ids.
    ///
    /// # Errors
    /// As [`run_with`](Self::run_with); [`Error::Argument`] naming the first invalid id,
    /// with [`InvalidIds::Error`].
    pub fn run<I: Index>(&self, device: &Device, expert_ids: &Buffer<I>) -> Result<RoutePlan> {
        let mut plan = self.plan(device)?;
        let mut status = Status::new(device)?;
        let mut workspace = device.alloc(self.workspace_bytes(device)?)?;
        self.run_with(
            device,
            RouteArgs {
                expert_ids,
                plan: &mut plan,
                status: &mut status,
                workspace: Some(&mut workspace),
            },
        )?;
        status.finish()?;
        Ok(plan)
    }

    /// Routes. On a GPU it is started, not awaited, and may be captured in a graph; what is
    /// wrong with the ids is told by [`Status::finish`].
    ///
    /// # Errors
    /// [`Error::Length`], [`Error::Argument`], [`Error::WrongDevice`], [`Error::TooLarge`]
    /// before anything is touched; the device's error.
    pub fn run_with<I: Index>(&self, device: &Device, args: RouteArgs<'_, I>) -> Result<()> {
        self.rows()?;
        let check = Check {
            operation: NAME,
            device,
        };
        check.buffer("expert_ids", args.expert_ids, self.entries(), || {
            format!("[T, K] = [{}, {}]", self.tokens, self.top_k)
        })?;
        if args.plan.route != *self {
            return Err(Error::Argument {
                operation: NAME,
                argument: "plan",
                found: format!("for {:?}", args.plan.route),
                expected: format!("one for {self:?}"),
            });
        }
        check.device("plan", &args.plan.expert_offsets)?;
        args.status.check(&check)?;
        let bytes = self.workspace_bytes(device)?;
        moe::workspace(&check, args.workspace.as_deref(), bytes)?;
        args.status.expect(status::EXPERT_ID, NAME, self.experts);
        args.plan.filled = true;
        match &device.backend {
            Backend::Cpu => cpu::route::run(self, args),
            Backend::Cuda(cuda) => launch::route::run(self, cuda.as_ref(), args),
            Backend::Emulated(device) => launch::route::run(self, device.as_ref(), args),
        }
    }
}

impl RoutePlan {
    /// The routing that it is for.
    pub fn route(&self) -> &Route {
        &self.route
    }

    /// First row of each expert, and the end of the last one's, `[E + 1]`.
    pub fn expert_offsets(&self) -> &Buffer<i32> {
        &self.expert_offsets
    }

    /// Each entry's place among its expert's rows, `[T, K]`; -1 where it is dropped.
    pub fn slot_idx(&self) -> &Buffer<i32> {
        &self.slot_idx
    }

    /// Each entry's packed row, `[T, K]`: the offset of its expert plus its slot; -1 where
    /// it is dropped.
    pub fn row_idx(&self) -> &Buffer<i32> {
        &self.row_idx
    }

    /// The entry (`t * K + k`) of each packed row, `[R]`, with R as [`Route::rows`] says;
    /// -1 for padding and for rows from `expert_offsets[E]` on.
    pub fn source_of_row(&self) -> &Buffer<i32> {
        &self.source_of_row
    }

    /// Packed rows there are, padding included: `expert_offsets[E]`. Waits for the device.
    ///
    /// # Errors
    /// The device's error.
    pub fn rows(&self) -> Result<usize> {
        let offsets = self.expert_offsets.to_vec()?;
        Ok(offsets.last().map_or(0, |last| *last as usize))
    }

    /// Overwrites the arrays with what no plan holds, for measurements that must not take an
    /// earlier run's result for their own.
    pub(crate) fn poison(&mut self) -> Result<()> {
        for array in [
            &mut self.expert_offsets,
            &mut self.slot_idx,
            &mut self.row_idx,
            &mut self.source_of_row,
        ] {
            array.write(&vec![i32::MIN; array.len()])?;
        }
        Ok(())
    }

    /// Whether a run was started into it.
    pub(crate) fn is_filled(&self) -> bool {
        self.filled
    }
}
