//! What route, dispatch and combine share: index and payload types, where the rows of a
//! token lie, the status that the device reports through, and the checks of shapes.
//!
//! An entry is one of a token's K copies; entries are ordered as they lie in `[T, K]`.

use super::check::{Check, rows_elements};
use super::{Route, RoutePlan};
use crate::buffer::Buffer;
use crate::device::Device;
use crate::dtype::{Data, Element};
use crate::error::{Error, Result};
use gpu_kernels::moe::status;

pub use gpu_kernels::moe::status::{MAX_EXPERTS, MAX_TOKENS, MAX_TOP_K};

/// The type of expert ids: i32 or i64.
pub trait Index: Data + Into<i64> {}

impl Index for i32 {}
impl Index for i64 {}

/// What a packed row is made of: f32, f16, bf16, or opaque bytes (u8).
pub trait Payload: Data {}

impl<T: Element> Payload for T {}
impl Payload for u8 {}

/// Which packed row each entry has, as a caller's own router says.
///
/// Entry `(t, k)` has row `expert_offsets[e] + slot_idx[t, k]`, with `e = expert_ids[t, k]`.
/// The device checks it: offsets begin with 0, never decrease and end within the packed
/// rows; a slot lies inside its expert. A slot of -1 is a dropped entry, whatever its id.
#[derive(Clone, Copy, Debug)]
pub struct Slots<'a, I: Index> {
    /// Expert of each entry, `[T, K]`.
    pub expert_ids: &'a Buffer<I>,
    /// Place among the expert's rows, `[T, K]`.
    pub slot_idx: &'a Buffer<i32>,
    /// First row of each expert, and the end of the last one's, `[E + 1]`.
    pub expert_offsets: &'a Buffer<i32>,
}

/// Where the rows lie: a plan from [`Route`], or [`Slots`].
#[derive(Clone, Copy, Debug)]
pub enum Routing<'a, I: Index = i32> {
    /// What [`Route`] found: nothing is left to check.
    Plan(&'a RoutePlan),
    /// What the caller says; checked by the device.
    Slots(Slots<'a, I>),
}

impl<'a> From<&'a RoutePlan> for Routing<'a> {
    fn from(plan: &'a RoutePlan) -> Self {
        Self::Plan(plan)
    }
}

impl<'a, I: Index> From<Slots<'a, I>> for Routing<'a, I> {
    fn from(slots: Slots<'a, I>) -> Self {
        Self::Slots(slots)
    }
}

/// What the device found wrong with the data, kept on the device until somebody asks.
///
/// Operations only add to it, so one status can serve a whole graph of them; the first
/// fault of each kind is kept. [`finish`](Self::finish) waits, tells and resets. An
/// operation that finds a fault there, its own or an earlier one, may leave its outputs
/// unwritten or half written; it never leaves its buffers.
#[derive(Debug)]
pub struct Status {
    words: Buffer<i64>,
    /// For the message: operation, and the limit it set, where a fault of this kind may
    /// come from.
    sources: [Option<(&'static str, usize)>; status::WORDS],
}

impl Status {
    /// A status without a fault.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`]; the device's error.
    pub fn new(device: &Device) -> Result<Self> {
        Ok(Self {
            words: device.upload(&[status::NONE as i64; status::WORDS])?,
            sources: [None; status::WORDS],
        })
    }

    /// Waits for what was started on the device and reports the faults that it found, the
    /// gravest kind's first one. The status is as new afterwards.
    ///
    /// # Errors
    /// [`Error::Argument`] naming the argument, the token and the value; the device's error.
    pub fn finish(&mut self) -> Result<()> {
        let words = self.words.to_vec()?;
        let found = words.iter().position(|word| *word as u64 != status::NONE);
        let Some(kind) = found else {
            return Ok(());
        };
        self.words.write(&[status::NONE as i64; status::WORDS])?;
        let (operation, limit) = self.sources[kind].unwrap_or(("MoE", 0));
        Err(message(operation, limit, kind, words[kind] as u64))
    }

    /// The words on the device, `gpu_kernels::moe::status::WORDS` of them, each seen as `u64`.
    pub(crate) fn words(&mut self) -> &mut Buffer<i64> {
        &mut self.words
    }

    /// Notes that `operation` may report faults of this kind.
    pub(crate) fn expect(&mut self, kind: usize, operation: &'static str, limit: usize) {
        self.sources[kind] = Some((operation, limit));
    }

    pub(crate) fn check(&self, check: &Check<'_>) -> Result<()> {
        check.device("status", &self.words)
    }
}

fn message(operation: &'static str, limit: usize, kind: usize, word: u64) -> Error {
    let (position, value) = status::position_and_value(word);
    let (token, k) = status::token_and_k(position);
    let entry = |value: String| format!("{value} at token {token}, k {k}");
    // Ids of 64 bits arrive as the nearest of 32.
    let id = match value {
        i32::MAX => format!("{value} or more"),
        i32::MIN => format!("{value} or less"),
        _ => value.to_string(),
    };
    let (argument, found, expected) = match kind {
        status::OFFSETS => (
            "expert_offsets",
            format!("{value} at position {position}"),
            format!("0 at position 0, then no decrease, and at most {limit} rows"),
        ),
        status::EXPERT_ID => (
            "expert_ids",
            entry(id),
            format!("0 to {}", limit.saturating_sub(1)),
        ),
        status::SLOT => (
            "slot_idx",
            entry(value.to_string()),
            "a row of the entry's expert (0 to expert_offsets[e + 1] - expert_offsets[e] - 1), \
             or -1 for none"
                .to_owned(),
        ),
        status::ROW => (
            "routing",
            entry(format!("row {value}")),
            format!("a row below {limit}, the packed rows"),
        ),
        _ => (
            "slot_idx",
            entry(format!("row {value}")),
            "a row of its own: a later entry has it, too".to_owned(),
        ),
    };
    Error::Argument {
        operation,
        argument,
        found,
        expected,
    }
}

/// The sizes of dispatch and combine.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sizes {
    pub operation: &'static str,
    pub tokens: usize,
    pub top_k: usize,
    pub experts: usize,
    pub hidden: usize,
    pub rows: usize,
}

impl Sizes {
    /// Checks the limits, and that tokens and packed rows have addresses.
    pub(crate) fn check(&self) -> Result<()> {
        limits(self.operation, self.tokens, self.top_k, self.experts)?;
        within(self.operation, "rows", self.rows, 0, i32::MAX as usize)?;
        self.token_elements()?;
        self.row_elements().map(drop)
    }

    /// T x K.
    pub(crate) fn entries(&self) -> usize {
        self.tokens * self.top_k
    }

    /// T x H.
    pub(crate) fn token_elements(&self) -> Result<usize> {
        rows_elements(self.operation, self.tokens, self.hidden, || {
            self.token_shape()
        })
    }

    /// R x H.
    pub(crate) fn row_elements(&self) -> Result<usize> {
        rows_elements(self.operation, self.rows, self.hidden, || self.row_shape())
    }

    pub(crate) fn token_shape(&self) -> String {
        format!("[T, H] = [{}, {}]", self.tokens, self.hidden)
    }

    pub(crate) fn row_shape(&self) -> String {
        format!("[R, H] = [{}, {}]", self.rows, self.hidden)
    }

    pub(crate) fn entry_shape(&self) -> String {
        format!("[T, K] = [{}, {}]", self.tokens, self.top_k)
    }

    /// Checks where the rows lie, and notes what the device may find wrong there.
    pub(crate) fn routing<I: Index>(
        &self,
        check: &Check<'_>,
        routing: &Routing<'_, I>,
        status: &mut Status,
    ) -> Result<()> {
        status.check(check)?;
        match routing {
            Routing::Plan(plan) => {
                let route = plan.route();
                let fits = (route.tokens, route.top_k, route.experts)
                    == (self.tokens, self.top_k, self.experts);
                if !fits {
                    return Err(self.wrong_plan(route));
                }
                check.device("plan", plan.expert_offsets())?;
                if !plan.is_filled() {
                    return Err(Error::Argument {
                        operation: self.operation,
                        argument: "plan",
                        found: "empty".to_owned(),
                        expected: "a plan that route has filled".to_owned(),
                    });
                }
                status.expect(status::ROW, self.operation, self.rows);
            }
            Routing::Slots(slots) => {
                let entries = self.entries();
                check.buffer("expert_ids", slots.expert_ids, entries, || {
                    self.entry_shape()
                })?;
                check.buffer("slot_idx", slots.slot_idx, entries, || self.entry_shape())?;
                check.buffer(
                    "expert_offsets",
                    slots.expert_offsets,
                    self.experts + 1,
                    || format!("[E + 1] = [{}]", self.experts + 1),
                )?;
                status.expect(status::OFFSETS, self.operation, self.rows);
                status.expect(status::EXPERT_ID, self.operation, self.experts);
                status.expect(status::SLOT, self.operation, 0);
            }
        }
        Ok(())
    }

    fn wrong_plan(&self, route: &Route) -> Error {
        let shape = |tokens, top_k, experts| format!("[T, K, E] = [{tokens}, {top_k}, {experts}]");
        Error::Argument {
            operation: self.operation,
            argument: "plan",
            found: format!("for {}", shape(route.tokens, route.top_k, route.experts)),
            expected: format!("one for {}", shape(self.tokens, self.top_k, self.experts)),
        }
    }
}

/// Checks T, K and E.
pub(crate) fn limits(
    operation: &'static str,
    tokens: usize,
    top_k: usize,
    experts: usize,
) -> Result<()> {
    within(operation, "tokens", tokens, 0, MAX_TOKENS)?;
    within(operation, "top_k", top_k, 1, MAX_TOP_K)?;
    within(operation, "experts", experts, 1, MAX_EXPERTS)
}

pub(crate) fn within(
    operation: &'static str,
    argument: &'static str,
    found: usize,
    least: usize,
    most: usize,
) -> Result<()> {
    if (least..=most).contains(&found) {
        return Ok(());
    }
    Err(Error::Argument {
        operation,
        argument,
        found: found.to_string(),
        expected: format!("{least} to {most}"),
    })
}

/// Checks that the caller's scratch memory is large enough.
pub(crate) fn workspace(
    check: &Check<'_>,
    workspace: Option<&Buffer<u8>>,
    bytes: usize,
) -> Result<()> {
    let found = match workspace {
        Some(buffer) => {
            check.device("workspace", buffer)?;
            buffer.len()
        }
        None => 0,
    };
    if found >= bytes {
        return Ok(());
    }
    Err(Error::Argument {
        operation: check.operation,
        argument: "workspace",
        found: format!("{found} bytes"),
        expected: format!("at least {bytes} bytes (workspace_bytes)"),
    })
}

/// An argument that another one needs.
pub(crate) fn missing(
    operation: &'static str,
    argument: &'static str,
    expected: &'static str,
) -> Error {
    Error::Argument {
        operation,
        argument,
        found: "absent".to_owned(),
        expected: expected.to_owned(),
    }
}
