//! Tile sizes of the ceiling kernels and the launch shapes they are tried with.
//!
//! Which grid streams fastest differs from card to card and with the volume, so the
//! bench measures every shape listed here and takes the best: a ceiling that a kernel
//! could beat by a better grid would flatter nobody.

use crate::simt::LaunchShape;

/// Threads of a block.
pub const BLOCK: u32 = 256;

/// 16-byte accesses a thread has in flight for each array it reads. Four of them over
/// two arrays are 128 bytes a thread, 128 KiB on a multiprocessor with 1024 threads:
/// several times what covers the latency of HBM at its full rate.
pub const IN_FLIGHT: u32 = 4;

/// Shared memory of a streaming kernel that reads through it: two arrays.
const STAGE_BYTES: u32 = 2 * IN_FLIGHT * BLOCK * 16;

/// Blocks of a streaming kernel on a multiprocessor at once: leaves 64 registers a
/// thread, so that all loads of a tile stand in registers.
pub const MIN_BLOCKS: u32 = 4;

/// Blocks of an arithmetic kernel on a multiprocessor at once: 2048 threads, all it has.
pub const ARITHMETIC_BLOCKS: u32 = 8;

/// Independent chains of a thread: hides an operation's latency even with few warps.
pub const CHAINS: usize = 8;

/// Operations on each chain in one turn of the loop: makes the loop's own three
/// instructions a fortieth of the issue slots.
pub const UNROLL: usize = 16;

/// Operations of one thread in one turn of the loop.
pub const OPERATIONS_PER_TURN: u64 = (CHAINS * UNROLL) as u64;

/// Groups of four elements that a block moves in one turn of its loop.
pub const fn tile() -> u64 {
    BLOCK as u64 * IN_FLIGHT as u64
}

/// Blocks on each multiprocessor to try: resident at once, and two and four rounds.
const ROUNDS: [u32; 4] = [4, 8, 16, 32];

/// The launches to try for arrays of `groups` times four elements: a few blocks for each
/// multiprocessor that stride over the arrays, one block for each tile, and one thread for
/// each group. Empty when there is nothing to move.
pub fn stream_launches(groups: u64, multiprocessors: u32) -> impl Iterator<Item = LaunchShape> {
    // A grid has at most 2^31 - 1 blocks in x; beyond that the blocks stride.
    let tiles = groups.div_ceil(tile()).min(i32::MAX as u64) as u32;
    let blocks = groups.div_ceil(u64::from(BLOCK));
    let thin = u32::try_from(blocks)
        .ok()
        .filter(|&blocks| blocks < 1 << 31);
    ROUNDS
        .into_iter()
        .map(move |per| per.saturating_mul(multiprocessors))
        .filter(move |&blocks| 0 < blocks && blocks < tiles)
        .chain((tiles > 0).then_some(tiles))
        .chain(thin.filter(move |&blocks| blocks > tiles))
        .map(|blocks| LaunchShape::linear(blocks, BLOCK, STAGE_BYTES))
}

/// The launch of an arithmetic kernel: every thread the card has.
pub fn arithmetic_launch(multiprocessors: u32) -> LaunchShape {
    LaunchShape::linear(
        multiprocessors.saturating_mul(ARITHMETIC_BLOCKS).max(1),
        BLOCK,
        0,
    )
}

/// The launch of the empty kernel.
pub fn empty_launch() -> LaunchShape {
    LaunchShape::linear(1, BLOCK, 0)
}

/// Turns of the loop in one launch of `exp2`: about half a millisecond on a large GPU, at
/// 16 results a clock and multiprocessor.
pub const EXP2_TURNS: u32 = 64;

/// Turns of the loop in one launch of `fma`: as long, at 128 results a clock.
pub const FMA_TURNS: u32 = 512;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_launches_have_a_block_for_each_tile_and_a_thread_for_each_group() {
        assert_eq!(stream_launches(0, 132).count(), 0);
        for groups in [1, tile(), 1 << 20, u64::MAX / 16] {
            let launches: Vec<_> = stream_launches(groups, 132).collect();
            let tiles = groups.div_ceil(tile());
            assert!(!launches.is_empty());
            for pair in launches.windows(2) {
                assert!(pair[0].grid[0] < pair[1].grid[0]);
            }
            let tiles = tiles.min(i32::MAX as u64);
            assert!(
                launches
                    .iter()
                    .any(|launch| u64::from(launch.grid[0]) == tiles)
            );
            let most = u64::from(launches.last().unwrap().grid[0]);
            let threads = groups.div_ceil(u64::from(BLOCK));
            let thin = threads < 1 << 31 && threads > tiles;
            assert_eq!(most, if thin { threads } else { tiles });
        }
    }
}
