//! What the MoE kernels report about the caller's data: a word of 64 bits for each kind of
//! fault. It holds the first fault of its kind (atomic minimum), position above value, and
//! all ones while there is none. Kernels only ever lower a word; the host reads and resets.

/// `expert_offsets` does not begin with 0, decreases, or ends past the packed rows; the
/// position is that in `expert_offsets`, the value what stands there.
pub const OFFSETS: usize = 0;
/// An expert id outside 0 to E - 1; the position is an [`entry`], the value the id
/// ([`saturate`]d).
pub const EXPERT_ID: usize = 1;
/// A slot that is neither -1 nor inside its expert; the position is an [`entry`].
pub const SLOT: usize = 2;
/// A row outside the packed rows; the position is an [`entry`], the value the row.
pub const ROW: usize = 3;
/// A row that a later entry claims, too, where that has no meaning; the position is that of
/// the earlier [`entry`], the value the row.
pub const CLAIMED: usize = 4;

/// Words of a status.
pub const WORDS: usize = 5;

/// A word without a fault.
pub const NONE: u64 = u64::MAX;

/// The most tokens, entries of a token and experts: what positions and counters hold.
pub const MAX_TOKENS: usize = 1 << 24;
/// See [`MAX_TOKENS`].
pub const MAX_TOP_K: usize = 32;
/// See [`MAX_TOKENS`].
pub const MAX_EXPERTS: usize = 1024;

/// The position of entry `k` of `token`. Positions are ordered as the entries are.
#[inline(always)]
pub const fn entry(token: u32, k: u32) -> u32 {
    token * MAX_TOP_K as u32 + k
}

/// Token and k of an [`entry`].
pub const fn token_and_k(position: u32) -> (u32, u32) {
    let top_k = MAX_TOP_K as u32;
    (position / top_k, position % top_k)
}

/// The word of a fault. The smaller one is the earlier one.
#[inline(always)]
pub const fn word(position: u32, value: i32) -> u64 {
    (position as u64) << 32 | value as u32 as u64
}

/// Position and value of a word that is not [`NONE`].
pub const fn position_and_value(word: u64) -> (u32, i32) {
    ((word >> 32) as u32, word as u32 as i32)
}

/// An id of 64 bits as a value of 32: the nearest one.
#[inline(always)]
pub const fn saturate(id: i64) -> i32 {
    if id > i32::MAX as i64 {
        i32::MAX
    } else if id < i32::MIN as i64 {
        i32::MIN
    } else {
        id as i32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_keep_position_and_value_and_order_by_position() {
        let last = entry(MAX_TOKENS as u32 - 1, MAX_TOP_K as u32 - 1);
        for position in [0, 1, 33, last] {
            for value in [0, -1, i32::MIN, i32::MAX] {
                let word = word(position, value);
                assert_eq!(position_and_value(word), (position, value));
                assert!(word < NONE);
            }
        }
        assert!(word(1, i32::MIN) < word(2, i32::MAX));
        assert_eq!(token_and_k(entry(7, 31)), (7, 31));
        assert_eq!(token_and_k(last), (MAX_TOKENS as u32 - 1, 31));
    }

    #[test]
    fn wide_ids_become_the_nearest_value() {
        assert_eq!(saturate(-1), -1);
        assert_eq!(saturate(1 << 40), i32::MAX);
        assert_eq!(saturate(-(1 << 40)), i32::MIN);
    }
}
