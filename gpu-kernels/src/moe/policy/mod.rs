//! Tile sizes of the MoE kernels and the launches that follow from them.

pub mod claim;
pub mod combine;
pub mod dispatch;
pub mod route;

use crate::simt::LaunchShape;

const WORD: u32 = size_of::<u32>() as u32;
const WARP: u32 = 32;

/// Most blocks of a grid in x.
const MOST_BLOCKS: u64 = (1 << 31) - 1;
/// Most blocks of a grid in y.
const MOST_BLOCKS_Y: u32 = 65_535;

/// Teams that look after `rows` rows beside `tasks` tasks, and how many rows each: at most
/// a lane's worth.
fn watch(tasks: u32, rows: u32) -> (u32, u32) {
    let teams = tasks.max(rows.div_ceil(WARP)).max(1);
    (teams, rows.div_ceil(teams))
}

/// Blocks that keep a large GPU busy.
const BUSY: u64 = 512;

/// The most units of a row: positions in it, and steps past its end, are 32-bit numbers.
const MOST_UNITS: u64 = 1 << 30;

/// How teams of threads share out rows.
#[derive(Clone, Copy, Debug)]
struct Teams {
    row_units: u32,
    log2_team: u32,
    chunk: u32,
    blocks: [u32; 2],
}

impl Teams {
    /// For `count` teams in blocks of `threads`. A thread has `in_flight` units in flight
    /// and `per_thread` of a row.
    fn new(
        count: u32,
        row_units: u64,
        threads: u32,
        in_flight: u32,
        per_thread: u32,
    ) -> Option<Self> {
        if row_units > MOST_UNITS {
            return None;
        }
        let row_units = row_units as u32;
        let fit = |units: u32| units.next_power_of_two().clamp(WARP, threads);
        let blocks = |team: u32| u64::from(count).div_ceil(u64::from(threads / team));
        // Where that leaves multiprocessors idle, larger teams with less for each thread.
        let mut team = fit(row_units.div_ceil(per_thread));
        while team < fit(row_units) && blocks(team) < BUSY {
            team *= 2;
        }
        // Then parts of a row, each as much as its threads have in flight.
        let mut chunk = row_units;
        if per_thread == 1 || blocks(team) < BUSY {
            chunk = team * in_flight;
        }
        // In a grid, parts are few.
        chunk = chunk.max(row_units.div_ceil(MOST_BLOCKS_Y).next_multiple_of(team));
        let parts = row_units.div_ceil(chunk).max(1);
        let blocks = blocks(team).max(1);
        (blocks <= MOST_BLOCKS).then_some(Self {
            row_units,
            log2_team: team.ilog2(),
            chunk,
            blocks: [blocks as u32, parts],
        })
    }

    fn shape(&self, threads: u32, shared_bytes: u32) -> LaunchShape {
        LaunchShape {
            grid: [self.blocks[0], self.blocks[1], 1],
            block: [threads, 1, 1],
            shared_bytes,
        }
    }
}
