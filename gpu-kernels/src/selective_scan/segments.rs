//! Whether, and in how many segments, a long sequence is scanned (how, is in `split.rs`): what is
//! decided here decides nothing about results.

use super::SelectiveScanParams;
use super::policy::{Cut, Kernel, Launch, launch};
use crate::simt::{LaunchShape, Multiprocessors};

/// Channels of a block whose sequence is split: 2 to this power, four lanes of four states each.
pub(super) const LOG2_CHANNELS: u32 = 6;

/// Tiles that a warm-up becomes longer by.
pub(super) const WARM_UP_BATCH: u32 = 4;

/// Nanoseconds that a time step of a whole scan takes on an H200 for each block on a
/// multiprocessor, one at a time.
const NARROW: u64 = 27;
const ALONE: u64 = 43;
/// And that one takes of so many blocks of [`Kernel::Merged`] at a time.
const MERGED: [u64; 5] = [150, 160, 195, 244, 297];

/// Nanoseconds for the check of what a warm-up takes, and for the one at the end.
const CHECKS: u64 = 10_000;

/// A scan that takes less than this is not split: one that then has to be done again would take
/// too much longer. Nor is one that is expected to become shorter by less than an eighth.
const LEAST: u64 = 200_000;

/// How sequences are split, and the launch that comes before the whole one's.
#[derive(Clone, Copy, Debug)]
pub struct Split {
    /// The launch of [`Kernel::Merged`].
    pub launch: Launch,
    /// Segments of a sequence.
    pub segments: u32,
    /// Tiles of each but the last.
    pub segment_tiles: u32,
    /// Words of 64 bits for counters: nothing else may ever be written there.
    pub counter_words: u64,
    /// Words of 32 bits for states.
    pub state_words: u64,
}

impl Split {
    /// The parameters of its launch, from those of the whole one's.
    pub fn params<T>(&self, whole: SelectiveScanParams<T>) -> SelectiveScanParams<T> {
        SelectiveScanParams {
            channel_blocks: self.launch.channel_blocks,
            log2_lanes: self.launch.cut.log2_lanes,
            log2_channels: self.launch.cut.log2_channels(),
            segments: self.segments,
            segment_tiles: self.segment_tiles,
            ..whole
        }
    }
}

/// What is scanned, as [`launch`] takes it.
#[derive(Clone, Copy, Debug)]
pub struct Scan {
    /// Sequences.
    pub sequences: u64,
    /// Time steps of each.
    pub length: u64,
    /// Groups of channels.
    pub groups: u64,
    /// Channels of each.
    pub group_channels: u64,
    /// States of a channel.
    pub states: u64,
    /// Bytes of an element.
    pub size: u32,
}

impl Scan {
    /// Blocks that a segment takes.
    fn columns(&self) -> Option<u64> {
        let blocks = self.group_channels.div_ceil(1 << LOG2_CHANNELS);
        self.sequences.checked_mul(self.groups)?.checked_mul(blocks)
    }

    fn tiles(&self) -> u64 {
        self.length.div_ceil(u64::from(Cut::MERGED.steps()))
    }

    /// Nanoseconds that it takes as a whole on `count` multiprocessors.
    fn whole(&self, count: u64) -> Option<u64> {
        let Scan {
            sequences,
            length,
            groups,
            group_channels,
            states,
            size,
        } = *self;
        let whole = launch(sequences, length, groups, group_channels, states, size)?;
        let blocks = u64::from(whole.shape.grid[0]).div_ceil(count);
        let step = match whole.cut.kernel {
            Kernel::Narrow => NARROW * blocks,
            Kernel::Alone => ALONE * blocks,
            Kernel::Merged => *MERGED.get(blocks as usize - 1)?,
            Kernel::Wide => return None,
        };
        length.checked_mul(step)
    }

    /// In at most `segments` segments; `None` if that is one, or too many blocks.
    pub fn split(&self, segments: u64) -> Option<Split> {
        let columns = self.columns()?;
        let segment_tiles = self.tiles().div_ceil(segments.max(1)).max(1);
        let segments = self.tiles().div_ceil(segment_tiles);
        let blocks = columns.checked_mul(segments)?;
        let is_split = segments > 1 && segment_tiles >= u64::from(WARM_UP_BATCH);
        let shared_bytes = Cut::MERGED.shared_bytes(self.size);
        (is_split && blocks < 1 << 31).then(|| Split {
            launch: Launch {
                shape: LaunchShape::linear(blocks as u32, Cut::MERGED.threads(), shared_bytes),
                cut: Cut::MERGED,
                channel_blocks: self.group_channels.div_ceil(1 << LOG2_CHANNELS) as u32,
            },
            segments: segments as u32,
            segment_tiles: segment_tiles as u32,
            counter_words: 2 + 2 * columns,
            state_words: (2 * blocks * Cut::MERGED.states()) << LOG2_CHANNELS,
        })
    }

    /// The best split, if one is expected to be worth it.
    pub fn best_split(&self, multiprocessors: Multiprocessors) -> Option<Split> {
        let count = u64::from(multiprocessors.count);
        let columns = self.columns()?;
        if columns == 0 || self.states > Cut::MERGED.states() || count == 0 {
            return None;
        }
        let whole = self.whole(count).filter(|&whole| whole >= LEAST)?;
        let most =
            u64::from(multiprocessors.blocks(Cut::MERGED.shared_bytes(self.size), 5)) / count;
        let time = |split: &Split, blocks: u64| {
            let tiles = u64::from(split.segment_tiles + WARM_UP_BATCH);
            CHECKS + tiles * u64::from(Cut::MERGED.steps()) * MERGED[blocks as usize - 1]
        };
        (1..=most)
            .filter_map(|blocks| {
                let split = self.split(blocks * count / columns)?;
                Some((time(&split, blocks), split))
            })
            .min_by_key(|(time, _)| *time)
            .filter(|(time, _)| *time < whole - whole / 8)
            .map(|(_, split)| split)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const H200: Multiprocessors = Multiprocessors {
        count: 132,
        shared_bytes: 228 << 10,
    };

    fn segments([sequences, length, channels, states]: [u64; 4]) -> u32 {
        let scan = Scan {
            sequences,
            length,
            groups: 1,
            group_channels: channels,
            states,
            size: 2,
        };
        scan.best_split(H200).map_or(1, |split| split.segments)
    }

    #[test]
    fn few_channels_are_split() {
        assert_eq!(segments([1, 65536, 2048, 16]), 20);
        assert_eq!(segments([4, 2048, 4096, 16]), 2);
        assert_eq!(segments([1, 7000, 64, 16]), 1);
        assert!(segments([1, 1 << 20, 64, 4]) > 100);
    }

    #[test]
    fn many_channels_short_or_empty_sequences_and_many_states_are_not() {
        for shape in [
            [8, 2048, 5120, 16],
            [16, 2048, 256, 16],
            [1, 1000, 64, 16],
            [1, 0, 64, 16],
            [0, 65536, 64, 16],
            [1, 65536, 0, 16],
            [1, 65536, 64, 17],
            [u64::MAX, 65536, 64, 16],
            [1, u64::MAX, 64, 16],
        ] {
            assert_eq!(segments(shape), 1, "{shape:?}");
        }
    }
}
