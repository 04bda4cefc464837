//! Who touched each piece of memory last: the record from which data races are found.
//!
//! A piece is four bytes until something smaller is accessed; then the array is recorded
//! at that size. Of each piece it keeps the last write, and the last readers since that
//! write from two warps. Recording less than every reader can miss a race, never invent one.

use super::order::Order;

/// Marks a clock as that of an atomic access.
const ATOMIC: u32 = 1 << 31;
const CHUNK: usize = 256;

#[derive(Clone, Copy, Debug, Default)]
struct Cell {
    writer: u32,
    written: u32,
    readers: [Readers; 2],
}

/// Lanes of one warp that read at one clock.
#[derive(Clone, Copy, Debug, Default)]
struct Readers {
    warp: u32,
    clock: u32,
    lanes: u32,
}

/// How memory is accessed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// A load.
    Load,
    /// A store.
    Store,
    /// An atomic load.
    AtomicLoad,
    /// An atomic store.
    AtomicStore,
    /// An atomic read-modify-write.
    AtomicUpdate,
    /// An asynchronous copy into shared memory.
    AsyncCopy,
}

impl Access {
    pub(super) fn writes(self) -> bool {
        matches!(
            self,
            Self::Store | Self::AtomicStore | Self::AtomicUpdate | Self::AsyncCopy
        )
    }

    pub(super) fn reads(self) -> bool {
        matches!(self, Self::Load | Self::AtomicLoad | Self::AtomicUpdate)
    }

    fn atomic(self) -> bool {
        matches!(
            self,
            Self::AtomicLoad | Self::AtomicStore | Self::AtomicUpdate
        )
    }
}

/// What an access collides with.
#[derive(Clone, Copy, Debug)]
pub(super) struct Conflict {
    /// Byte in the array.
    pub(super) offset: usize,
    /// Key of the thread that accessed it before.
    pub(super) key: u32,
    /// Whether that one wrote.
    pub(super) wrote: bool,
}

/// The record of one array.
#[derive(Debug, Default)]
pub(super) struct Shadow {
    bytes: usize,
    /// Base-2 logarithm of a piece's bytes.
    shift: u32,
    chunks: Vec<Option<Box<[Cell; CHUNK]>>>,
}

impl Shadow {
    pub(super) fn new(bytes: usize) -> Self {
        Self {
            bytes,
            shift: 2,
            chunks: Vec::new(),
        }
    }

    /// Forgets everything, keeping the memory.
    pub(super) fn clear(&mut self) {
        for chunk in self.chunks.iter_mut().flatten() {
            chunk.fill(Cell::default());
        }
    }

    /// Records that `thread` of the block that `order` belongs to accesses `size` bytes.
    #[inline]
    pub(super) fn access(
        &mut self,
        order: &Order,
        thread: usize,
        offset: usize,
        size: usize,
        access: Access,
    ) -> Option<Conflict> {
        let needed = (offset | size | 4).trailing_zeros();
        if needed < self.shift || self.chunks.is_empty() {
            self.refine(needed);
        }
        let (first, last) = (offset >> self.shift, (offset + size - 1) >> self.shift);
        for index in first..=last {
            let cell = &mut self.chunks[index / CHUNK]
                .get_or_insert_with(|| Box::new([Cell::default(); CHUNK]))[index % CHUNK];
            let found = if access.writes() {
                cell.write(order, thread, access)
            } else {
                cell.read(order, thread, access)
            };
            if let Some((key, wrote)) = found {
                return Some(Conflict {
                    offset: index << self.shift,
                    key,
                    wrote,
                });
            }
        }
        None
    }

    /// Records pieces of `1 << shift` bytes from now on.
    #[cold]
    fn refine(&mut self, shift: u32) {
        let old = std::mem::take(&mut self.chunks);
        let (was, times) = (self.shift, 1 << (self.shift - shift.min(self.shift)));
        self.shift = shift.min(was);
        let pieces = self.bytes.div_ceil(1 << self.shift);
        self.chunks.resize_with(pieces.div_ceil(CHUNK), || None);
        for (number, chunk) in old.into_iter().enumerate() {
            let Some(chunk) = chunk else { continue };
            for (index, cell) in chunk.iter().enumerate() {
                let start = (number * CHUNK + index) * times;
                for piece in start..(start + times).min(pieces) {
                    self.chunks[piece / CHUNK]
                        .get_or_insert_with(|| Box::new([Cell::default(); CHUNK]))[piece % CHUNK] =
                        *cell;
                }
            }
        }
    }
}

/// Key of the other thread, and whether it wrote.
type Found = Option<(u32, bool)>;

impl Cell {
    #[inline]
    fn read(&mut self, order: &Order, thread: usize, access: Access) -> Found {
        let written = self.written & !ATOMIC;
        let both_atomic = access.atomic() && self.written & ATOMIC != 0;
        if !both_atomic && !order.before(thread, self.writer, written) {
            return Some((self.writer, true));
        }
        let new = Readers {
            warp: order.key(thread) >> 5,
            clock: order.clock(thread) | if access.atomic() { ATOMIC } else { 0 },
            lanes: 1 << (thread % 32),
        };
        let [recent, older] = &mut self.readers;
        if recent.warp == new.warp && recent.clock == new.clock {
            recent.lanes |= new.lanes;
        } else if older.warp == new.warp && older.clock == new.clock {
            older.lanes |= new.lanes;
            std::mem::swap(recent, older);
        } else {
            if recent.race(order, thread, false).is_some() {
                *older = *recent;
            }
            *recent = new;
        }
        None
    }

    #[inline]
    fn write(&mut self, order: &Order, thread: usize, access: Access) -> Found {
        let atomic = access.atomic();
        let both_atomic = atomic && self.written & ATOMIC != 0;
        if !both_atomic && !order.before(thread, self.writer, self.written & !ATOMIC) {
            return Some((self.writer, true));
        }
        for readers in &self.readers {
            if let Some(key) = readers.race(order, thread, atomic) {
                return Some((key, false));
            }
        }
        *self = Self {
            writer: order.key(thread),
            written: order.clock(thread) | if atomic { ATOMIC } else { 0 },
            readers: Default::default(),
        };
        None
    }
}

impl Readers {
    /// A reader that did not happen before what `thread` does now.
    #[inline]
    fn race(&self, order: &Order, thread: usize, atomic: bool) -> Option<u32> {
        let clock = self.clock & !ATOMIC;
        if clock < order.start() || (atomic && self.clock & ATOMIC != 0) {
            return None;
        }
        (0..32)
            .filter(|lane| self.lanes >> lane & 1 != 0)
            .map(|lane| self.warp << 5 | lane)
            .find(|key| !order.before(thread, *key, clock))
    }
}
