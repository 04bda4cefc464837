//! The device's layer: the tiles of a sequence, chained in a single pass over memory.
//!
//! Decoupled look-back (Merrill and Garland, "Single-pass Parallel Prefix Scan with
//! Decoupled Look-back", 2016), made deterministic. A block draws its tile from a counter,
//! so that every tile before its own has been drawn by a block that runs or has run. It
//! publishes the map of its tile, finds the nearest tile before it whose end state is
//! known, and steps from there through the maps between, in order. Maps are never composed
//! with one another: the state before tile `t` is the same chain of roundings wherever the
//! steps began, so the result depends neither on timing nor on the batch.
//!
//! Values and their validity travel in one 64-bit word (value, tag), so that no fence is
//! needed. The tag is the number of the launch: nothing has to be cleared between
//! launches. The counter's word holds the launch's number and the next ticket; who draws
//! the last ticket begins the next launch. (It counts to 2^31; a word that no launch has
//! written for exactly that many launches would count as new.)
//!
//! Cost a tile: one atomic, 3 words written and about as many read a channel, and when
//! the neighbour's state is not there yet a wait of an L2 round trip or two.

use super::ring::{Ring, TILE};
use crate::simt::thread::{spin_hint, thread_idx_x};
use crate::simt::warp::{FULL_MASK, ballot};
use crate::simt::{Global, Shared, Word, atomic};

/// Words before the hints: the counter's, on a cache line of its own.
const HEADER: u64 = 16;

/// The sizes of a launch's scratch memory.
#[derive(Clone, Copy, Debug)]
pub struct Scratch {
    /// Chains: groups of up to 32 lanes, one warp, that step together.
    pub chains: u32,
    /// Tiles of a chain, all sequences together.
    pub tiles: u32,
    /// Channels of a chain.
    pub channels: u32,
}

impl Scratch {
    /// Tiles of all chains.
    const fn links(&self) -> u64 {
        self.chains as u64 * self.tiles as u64
    }

    /// 64-bit words of it, zero before the first launch and never cleared again.
    pub const fn words(&self) -> u64 {
        HEADER + self.links() * (1 + 3 * self.channels as u64)
    }
}

/// Shared memory for the maps of `window` tiles, in bytes.
pub const fn window_bytes(window: u32, channels: u32) -> u32 {
    window * channels * 2 * size_of::<u32>() as u32
}

/// Draws a ticket: the counter as it was, for [`drawn`].
///
/// # Safety
/// One thread of each of the launch's blocks, until there are no more tickets; `words` is
/// scratch memory.
#[inline(always)]
#[track_caller]
pub unsafe fn draw(words: Global<u64>) -> u64 {
    // SAFETY: the counter is accessed only here and in `drawn`.
    unsafe { atomic::fetch_add64(words, 0, 1) }
}

/// What was drawn: a ticket and the launch's tag. A ticket of `tickets` or more says that
/// there are no more, and that the block must not draw again.
///
/// # Safety
/// As [`draw`]; the launch has `blocks` blocks.
#[inline(always)]
#[track_caller]
pub unsafe fn drawn(words: Global<u64>, counter: u64, tickets: u32, blocks: u32) -> (u32, u32) {
    let (ticket, launch) = (counter as u32, (counter >> 32) as u32);
    // Every block draws once in vain; the last one begins the next launch.
    let draws = tickets + blocks;
    if ticket == draws - 1 {
        // SAFETY: the caller's promise.
        unsafe { atomic::fetch_add64(words, 0, (1 << 32) - u64::from(draws)) };
    }
    // Never 0, which is what memory holds before the first launch.
    (ticket, launch | 1 << 31)
}

/// What a tile has published so far.
const NOTHING: u32 = 0;
const MAP: u32 = 1;
const STATE: u32 = 2;

/// One tile's place in its chain.
#[derive(Clone, Copy, Debug)]
pub struct Link {
    words: Global<u64>,
    /// Its hint; those of the tiles before it stand before it.
    hint: usize,
    /// The map of its first channel (gate and input, channel after channel); likewise.
    maps: usize,
    /// The end state of its first channel; likewise.
    states: usize,
    channels: usize,
    tag: u32,
}

impl Link {
    /// The place of tile `tile` of chain `chain`.
    #[inline(always)]
    pub fn new(words: Global<u64>, scratch: Scratch, tag: u32, chain: u32, tile: u32) -> Self {
        let link = u64::from(chain) * u64::from(scratch.tiles) + u64::from(tile);
        let channels = u64::from(scratch.channels);
        let maps = HEADER + scratch.links();
        let states = maps + scratch.links() * 2 * channels;
        Self {
            words,
            hint: (HEADER + link) as usize,
            maps: (maps + link * 2 * channels) as usize,
            states: (states + link * channels) as usize,
            channels: channels as usize,
            tag,
        }
    }

    #[inline(always)]
    #[track_caller]
    unsafe fn put(&self, index: usize, bits: u32) {
        let word = u64::from(self.tag) << 32 | u64::from(bits);
        // SAFETY: this launch's scratch memory, accessed only by whole words.
        unsafe { atomic::store_relaxed64(self.words, index, word) }
    }

    #[inline(always)]
    fn is_there(&self, word: u64) -> bool {
        (word >> 32) as u32 == self.tag
    }

    /// Waits for a word that is certain to come.
    #[inline(always)]
    #[track_caller]
    unsafe fn wait<T: Word>(&self, index: usize) -> T {
        loop {
            // SAFETY: as in `put`.
            let word = unsafe { atomic::load_relaxed64(self.words, index) };
            if self.is_there(word) {
                return T::from_bits(word as u32);
            }
            spin_hint();
        }
    }

    /// Publishes the map of one of the tile's channels.
    ///
    /// # Safety
    /// One thread of this tile's block.
    #[inline(always)]
    #[track_caller]
    pub unsafe fn put_map<R: Ring>(&self, channel: u32, (gate, input): (R::Value, R::Value)) {
        let at = self.maps + 2 * channel as usize;
        // SAFETY: the caller's promise.
        unsafe {
            self.put(at, gate.to_bits());
            self.put(at + 1, input.to_bits());
        }
    }

    /// Publishes the end state of one of the tile's channels.
    ///
    /// # Safety
    /// One thread of this tile's block.
    #[inline(always)]
    #[track_caller]
    pub unsafe fn put_state<R: Ring>(&self, channel: u32, state: R::Value) {
        // SAFETY: the caller's promise.
        unsafe { self.put(self.states + channel as usize, state.to_bits()) }
    }

    /// Says that the maps of all the tile's channels are on their way.
    ///
    /// # Safety
    /// One thread of this tile's block.
    #[inline(always)]
    #[track_caller]
    pub unsafe fn hint_maps(&self) {
        // SAFETY: the caller's promise.
        unsafe { self.put(self.hint, MAP) }
    }

    /// Says that the end states of all the tile's channels are on their way.
    ///
    /// # Safety
    /// One thread of this tile's block.
    #[inline(always)]
    #[track_caller]
    pub unsafe fn hint_states(&self) {
        // SAFETY: the caller's promise.
        unsafe { self.put(self.hint, STATE) }
    }

    /// How many of the tiles before this one to step through: those since the nearest
    /// whose end state is known, or else the `window` nearest. All of them have published
    /// their maps. `before` is the number of tiles in the sequence before this one.
    ///
    /// # Safety
    /// The first warp of this tile's block.
    #[inline(always)]
    #[track_caller]
    pub unsafe fn look_back(&self, before: u32, window: u32) -> u32 {
        let lane = thread_idx_x() & 31;
        let farthest = before.min(window);
        let mut passed = 0;
        loop {
            // What lies beyond is as good as known: it is waited for anyway.
            let mut level = STATE;
            if passed + lane < farthest {
                let at = self.hint - 1 - (passed + lane) as usize;
                // SAFETY: a tile of this sequence.
                let word = unsafe { atomic::load_relaxed64(self.words, at) };
                level = if self.is_there(word) {
                    word as u32
                } else {
                    NOTHING
                };
            }
            let states = ballot(FULL_MASK, level == STATE);
            let maps = ballot(FULL_MASK, level >= MAP);
            let back = states.trailing_zeros();
            if maps.trailing_ones() < back {
                spin_hint();
                continue;
            }
            // Every tile as far as the nearest state, or 32 of them, has its map.
            passed += back;
            if states != 0 {
                return passed;
            }
        }
    }

    /// The end state of channel `channel` of the tile `back` tiles before this one's
    /// predecessor.
    ///
    /// # Safety
    /// A tile of this sequence.
    #[inline(always)]
    #[track_caller]
    pub unsafe fn state_before<R: Ring>(&self, channel: u32, back: u32) -> R::Value {
        let at = self.states - (back as usize + 1) * self.channels + channel as usize;
        // SAFETY: the caller's promise; every tile publishes its end state.
        unsafe { self.wait(at) }
    }

    /// Asks for the end state of channel `channel` of the tile before this one.
    ///
    /// # Safety
    /// This tile has a predecessor.
    #[inline(always)]
    #[track_caller]
    pub unsafe fn ask(&self, channel: u32) -> u64 {
        let at = self.states - self.channels + channel as usize;
        // SAFETY: the caller's promise.
        unsafe { atomic::load_relaxed64(self.words, at) }
    }

    /// What was [asked](Self::ask) for, if it was there.
    #[inline(always)]
    pub fn answer<T: Word>(&self, word: u64) -> Option<T> {
        self.is_there(word).then(|| T::from_bits(word as u32))
    }

    /// Copies the maps of the `back` tiles before this one to `window`, in the order of
    /// the tiles.
    ///
    /// # Safety
    /// All `threads` threads of the block; `back` is [`look_back`](Self::look_back)'s answer.
    #[inline(always)]
    #[track_caller]
    pub unsafe fn fetch_maps<R: Ring>(&self, threads: u32, back: u32, window: Shared<R::Value>) {
        let words = back * 2 * self.channels as u32;
        let first = self.maps - words as usize;
        let mut word = thread_idx_x();
        while word < words {
            // SAFETY: one word of a map that is on its way; one slot a thread.
            unsafe { window.store(word, self.wait(first + word as usize)) };
            word += threads;
        }
    }

    /// Steps channel `channel` from `state` through the fetched maps.
    ///
    /// # Safety
    /// After the barrier behind [`fetch_maps`](Self::fetch_maps).
    #[inline(always)]
    #[track_caller]
    pub unsafe fn step_through<R: Ring>(
        &self,
        channel: u32,
        back: u32,
        window: Shared<R::Value>,
        state: R::Value,
    ) -> R::Value {
        let (mut state, mut sound, mut tile) = (state, true, 0);
        while tile < back {
            let at = tile * 2 * self.channels as u32 + 2 * channel;
            sound &= R::within(state, TILE);
            // SAFETY: written before the barrier.
            unsafe { state = R::step(window.load(at), state, window.load(at + 1)) };
            tile += 1;
        }
        if sound {
            return state;
        }
        // A tile on the way could not be stepped over from there; its own end state, and
        // with it that of every tile behind it, is found element by element.
        // SAFETY: `back` is at least 1, so this tile has a predecessor.
        unsafe { self.state_before::<R>(channel, 0) }
    }
}
