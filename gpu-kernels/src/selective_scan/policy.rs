//! How the selective scan is cut: lanes, states, blocks, shared memory.
//!
//! A channel's N states lie in the registers of a few lanes of one warp. The cut decides
//! nothing about results: the sum over states has the same order in all of them. So it may
//! depend on how many channels there are in the whole batch.

use crate::simt::LaunchShape;

/// Threads of a block of the step.
pub const STEP_BLOCK: u32 = 128;
/// Batch elements of one.
pub const STEP_ROWS: u32 = 4;

/// The largest N.
pub const MAX_STATES: u32 = 256;

/// With fewer channels in the whole batch than this, 16 states are 8 lanes of 2 instead of 4
/// of 4: a channel's time steps take less time, at more instructions and loads for each.
const FEW_CHANNELS: u64 = 3072;

/// From this many channels on, a thread has two channels, of 4 or 8 states each.
///
/// What B and C cost is their way from shared memory to registers, 128 bytes a clock and
/// multiprocessor, whoever reads the same: with 4 states of one channel that takes longer
/// than the exponentials. A second channel halves it, but takes half as many threads.
const MANY_CHANNELS: u64 = 8192;

/// And from this many on, where a channel has at most 16 states: fewer leave a multiprocessor
/// too few blocks of threads that have all parts.
const MERGED_CHANNELS: u64 = 16384;

/// Words between the channels of a tile of step sizes: two for each step, and a gap so
/// that eight channels' 16-byte accesses use different banks.
pub const fn pair_stride(steps: u32) -> u32 {
    2 * steps + 4
}

/// Words between the lanes of a tile of B or C, with a gap for the same reason.
pub const fn matrix_stride(lane_states: u32, steps: u32) -> u32 {
    steps * lane_states + 4
}

/// A kernel of the scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kernel {
    /// 2 states of one channel a thread.
    Narrow,
    /// 4 states of one channel a thread, and all of a multiprocessor for a block.
    Alone,
    /// 4 states of each of two channels a thread, and every thread has all parts.
    Merged,
    /// 8 states of each of two channels a thread.
    Wide,
}

impl Kernel {
    /// Time steps of a tile: tiles take about the same time to scan.
    pub const fn steps(self) -> u32 {
        match self {
            Self::Narrow | Self::Alone => 32,
            Self::Wide | Self::Merged => 16,
        }
    }
}

/// Which states a thread holds: lane l of a channel has those from `l * lane_states` on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// The kernel that has it.
    pub kernel: Kernel,
    /// States of a lane: 2, 4 or 8.
    pub lane_states: u32,
    /// Channels of a thread: 1 or 2.
    pub thread_channels: u32,
    /// Lanes of a channel: 2 to this power, from 4 to 32.
    pub log2_lanes: u32,
}

impl Cut {
    /// The only one of [`Kernel::Merged`].
    pub const MERGED: Self = Self {
        kernel: Kernel::Merged,
        lane_states: 4,
        thread_channels: 2,
        log2_lanes: 2,
    };

    /// For `states` states of each of `channels` channels, those of all sequences together;
    /// `None` if there are no states or more than [`MAX_STATES`].
    pub fn new(states: u64, channels: u64) -> Option<Self> {
        let many = channels >= MANY_CHANNELS;
        let few = channels < FEW_CHANNELS;
        let (kernel, log2_lanes) = match states {
            1..=8 => (Kernel::Narrow, 2),
            9..=16 if few => (Kernel::Narrow, 3),
            9..=16 if channels >= MERGED_CHANNELS => (Kernel::Merged, 2),
            9..=16 => (Kernel::Alone, 2),
            17..=32 if many => (Kernel::Wide, 2),
            17..=32 => (Kernel::Alone, 3),
            33..=64 if many => (Kernel::Wide, 3),
            33..=64 => (Kernel::Alone, 4),
            65..=128 if many => (Kernel::Wide, 4),
            65..=128 => (Kernel::Alone, 5),
            129..=256 => (Kernel::Wide, 5),
            _ => return None,
        };
        let (lane_states, thread_channels) = match kernel {
            Kernel::Narrow => (2, 1),
            Kernel::Alone => (4, 1),
            Kernel::Merged => (4, 2),
            Kernel::Wide => (8, 2),
        };
        Some(Self {
            kernel,
            lane_states,
            thread_channels,
            log2_lanes,
        })
    }

    /// Time steps of a tile.
    pub const fn steps(&self) -> u32 {
        self.kernel.steps()
    }

    /// The most states of a channel.
    pub const fn states(&self) -> u64 {
        (self.lane_states << self.log2_lanes) as u64
    }

    /// Channels of a block of the scan: 2 to this power. Many lanes are many states, and the
    /// more channels share B and C, the better.
    pub const fn log2_channels(&self) -> u32 {
        match (self.kernel, self.log2_lanes) {
            (Kernel::Merged, _) => 6,
            (Kernel::Alone | Kernel::Wide, 2) => 5,
            (_, 5) => 3,
            _ => 4,
        }
    }

    /// Threads of a block of the scan: those that scan, that prepare, that finish.
    pub const fn threads(&self) -> u32 {
        let channels = 1 << self.log2_channels();
        let scanning = (channels << self.log2_lanes) / self.thread_channels;
        let workers = channels * self.steps() / ELEMENTS;
        match self.kernel {
            Kernel::Merged => scanning,
            _ => scanning + 2 * workers,
        }
    }

    /// Shared memory of a block of the scan over elements of `size` bytes.
    pub const fn shared_bytes(&self, size: u32) -> u32 {
        let (lanes, channels) = (self.log2_lanes, self.log2_channels());
        let layout = SharedLayout::new(self.lane_states, self.steps(), lanes, channels, size);
        match self.kernel {
            Kernel::Merged => layout.merged(self.steps(), channels).bytes,
            _ => layout.bytes,
        }
    }
}

/// Elements that one thread prepares, or finishes.
pub const ELEMENTS: u32 = 8;

/// Where things lie in a block's shared memory, in bytes from its beginning. Of all but the
/// raw tiles there are two, one after the other: one in use, one being written.
#[derive(Clone, Copy, Debug)]
pub struct SharedLayout {
    /// Each channel's step sizes and inputs, `(delta, delta * x)` for each time step.
    pub pairs: u32,
    /// Bytes of one of them.
    pub pair_bytes: u32,
    /// B by lanes, as f32.
    pub b: u32,
    /// C by lanes.
    pub c: u32,
    /// Bytes of one of them.
    pub matrix_bytes: u32,
    /// Each lane's share of `y`.
    pub sums: u32,
    /// Bytes of one of them.
    pub sum_bytes: u32,
    /// The next tile's B as it arrives.
    pub raw_b: u32,
    /// C likewise.
    pub raw_c: u32,
    /// Each thread's inputs as f32, kept for the skip, where the same thread prepares and
    /// finishes.
    pub inputs: u32,
    /// All of it.
    pub bytes: u32,
}

impl SharedLayout {
    /// For tiles of `steps` time steps of `2^log2_channels` channels, of elements of `size`
    /// bytes.
    #[inline(always)]
    pub const fn new(
        lane_states: u32,
        steps: u32,
        log2_lanes: u32,
        log2_channels: u32,
        size: u32,
    ) -> Self {
        let pair_bytes = (4 * pair_stride(steps)) << log2_channels;
        let matrix_bytes = (4 * matrix_stride(lane_states, steps)) << log2_lanes;
        let sum_bytes = (4 * steps) << (log2_lanes + log2_channels);
        let raw = (steps * lane_states * size) << log2_lanes;
        let b = 2 * pair_bytes;
        let c = b + 2 * matrix_bytes;
        let sums = c + 2 * matrix_bytes;
        let raw_b = sums + 2 * sum_bytes;
        let raw_c = raw_b + raw;
        Self {
            pairs: 0,
            pair_bytes,
            b,
            c,
            matrix_bytes,
            sums,
            sum_bytes,
            raw_b,
            raw_c,
            inputs: raw_c + raw,
            bytes: raw_c + raw,
        }
    }

    /// The same with one buffer instead of two of all but B and C, and room for the inputs, for
    /// threads that have all parts.
    #[inline(always)]
    pub const fn merged(self, steps: u32, log2_channels: u32) -> Self {
        let raw = self.raw_c - self.raw_b;
        let b = self.pair_bytes;
        let c = b + 2 * self.matrix_bytes;
        let sums = c + 2 * self.matrix_bytes;
        let raw_b = sums + self.sum_bytes;
        let inputs = raw_b + 2 * raw;
        Self {
            b,
            c,
            sums,
            raw_b,
            raw_c: raw_b + raw,
            inputs,
            bytes: inputs + ((4 * steps) << log2_channels),
            ..self
        }
    }
}

/// A launch as the host prepares it.
#[derive(Clone, Copy, Debug)]
pub struct Launch {
    /// Grid, block, shared memory.
    pub shape: LaunchShape,
    /// How the states are cut.
    pub cut: Cut,
    /// Blocks of a group of channels, or, of the step, of all channels.
    pub channel_blocks: u32,
}

/// The scan's launch for `sequences` sequences of at most `length` steps of `groups` groups of
/// `group_channels` channels, or `None` if it would need more blocks than a grid has, or more
/// tiles than a block counts, or N is out of range.
pub fn launch(
    sequences: u64,
    length: u64,
    groups: u64,
    group_channels: u64,
    states: u64,
    size: u32,
) -> Option<Launch> {
    let channels = groups.checked_mul(group_channels)?;
    let cut = Cut::new(states, sequences.checked_mul(channels)?)?;
    let group_blocks = group_channels.div_ceil(1 << cut.log2_channels());
    let blocks = sequences
        .checked_mul(groups)?
        .checked_mul(group_blocks)
        .filter(|&blocks| blocks < 1 << 31)?;
    let tiles = length.div_ceil(u64::from(cut.steps()));
    (tiles < 1 << 31).then_some(Launch {
        shape: LaunchShape::linear(blocks as u32, cut.threads(), cut.shared_bytes(size)),
        cut,
        channel_blocks: group_blocks as u32,
    })
}

/// The step's launch for `batch` elements of `channels` channels, or `None` as for [`launch`].
pub fn step_launch(batch: u64, channels: u64, states: u64) -> Option<Launch> {
    let cut = Cut::new(states, batch.checked_mul(channels)?)?;
    let block_channels = u64::from(STEP_BLOCK >> cut.log2_lanes);
    let channel_blocks = channels.div_ceil(block_channels);
    let blocks = batch
        .div_ceil(u64::from(STEP_ROWS))
        .checked_mul(channel_blocks)
        .filter(|&blocks| blocks < 1 << 31)?;
    Some(Launch {
        shape: LaunchShape::linear(blocks as u32, STEP_BLOCK, 0),
        cut,
        channel_blocks: channel_blocks as u32,
    })
}
