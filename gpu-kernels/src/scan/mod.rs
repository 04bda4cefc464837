//! The layers of a scan over time, shared by the families that scan.
//!
//! | layer | file | what it does |
//! | --- | --- | --- |
//! | value | `ring.rs` | the arithmetic of `h = a*h + b`, and when a shortcut is sound |
//! | memory | `tile.rs` | a tile of a tensor, copied to shared memory and back |
//! | lane | `access.rs` | how a thread reads its segment of the tile, in either layout |
//! | thread | `thread.rs` | a segment of consecutive time steps |
//! | block | `block.rs` | the segments of a tile |
//! | device | `lookback.rs` | the tiles of a sequence, in one pass over memory |

pub mod access;
pub mod block;
pub mod lookback;
pub mod ring;
pub mod thread;
pub mod tile;
