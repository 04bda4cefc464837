//! What is known of a register: how far across the block it is the same.
//!
//! The lattice of the divergence analysis. `Aligned(k)` makes `threadIdx.x >> 5` and
//! `threadIdx.x < 64` uniform over a warp: a block's threads are numbered along x, and a
//! warp is 32 of them in a row. That holds for blocks of one dimension, and for others
//! when x is a multiple of 32.

/// How many threads a value or a place in the program is the same for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Divergence {
    /// The same for all threads of the block.
    #[default]
    None,
    /// The same for the threads of a warp; warps differ.
    Warps,
    /// Threads of a warp differ.
    Lanes,
}

/// What is known of a register. Grows from `Unset` to `Lanes` and never back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value {
    /// No definition seen yet.
    Unset,
    /// The same over the block (`warps` false) or over the warp; a multiple of 2^`zeros`.
    Uniform {
        /// Warps may differ.
        warps: bool,
        /// Trailing zero bits, at least.
        zeros: u32,
    },
    /// `value >> k` (with the value's own sign) is the same over the warp.
    Aligned(u32),
    /// Lanes differ, in any bit.
    Lanes,
}

use Value::{Aligned, Lanes, Uniform, Unset};

/// Of a value with all bits zero.
const ALL_ZEROS: u32 = 64;

impl Value {
    /// The same over the block, otherwise unknown.
    pub const BLOCK: Self = Uniform {
        warps: false,
        zeros: 0,
    };
    /// The same over the warp, otherwise unknown.
    pub const WARP: Self = Uniform {
        warps: true,
        zeros: 0,
    };

    /// A constant.
    pub fn constant(value: i64) -> Self {
        Uniform {
            warps: false,
            zeros: value.trailing_zeros(),
        }
    }

    /// How far it differs, as the condition of a branch.
    pub fn divergence(self) -> Divergence {
        match self {
            Unset | Uniform { warps: false, .. } => Divergence::None,
            Uniform { warps: true, .. } => Divergence::Warps,
            Aligned(_) | Lanes => Divergence::Lanes,
        }
    }

    /// The value of a register that one of two definitions set, the same one for all threads.
    pub fn join(self, other: Self) -> Self {
        match (self, other) {
            (Unset, v) | (v, Unset) => v,
            (Lanes, _) | (_, Lanes) => Lanes,
            (Aligned(a), Aligned(b)) => Aligned(a.max(b)),
            (Aligned(k), Uniform { .. }) | (Uniform { .. }, Aligned(k)) => Aligned(k),
            (Uniform { warps: a, zeros: x }, Uniform { warps: b, zeros: y }) => Uniform {
                warps: a || b,
                zeros: x.min(y),
            },
        }
    }

    /// The result of an operation of which nothing is known but its operands.
    pub fn mix(self, other: Self) -> Self {
        match (self, other) {
            (Unset, _) | (_, Unset) => Unset,
            (Uniform { warps: a, .. }, Uniform { warps: b, .. }) => Uniform {
                warps: a || b,
                zeros: 0,
            },
            _ => Lanes,
        }
    }

    /// The value where `divergence` decides which threads have it.
    pub fn under(self, divergence: Divergence) -> Self {
        match (divergence, self) {
            (Divergence::None, v) | (_, v @ (Unset | Lanes)) => v,
            (Divergence::Lanes, _) => Lanes,
            (Divergence::Warps, Uniform { zeros, .. }) => Uniform { warps: true, zeros },
            (Divergence::Warps, v) => v,
        }
    }

    /// What is known of a value of which both are known.
    pub fn better(self, other: Self) -> Self {
        match (self, other) {
            (Unset, _) | (_, Unset) => Unset,
            _ if other.divergence() < self.divergence() => other,
            _ => self,
        }
    }

    /// Forgets everything but how far it differs.
    pub fn opaque(self) -> Self {
        self.mix(Self::BLOCK)
    }

    /// `self + other`, or `self - other`.
    pub fn add(self, other: Self, minus: bool) -> Self {
        match (self, other) {
            (Uniform { zeros: x, .. }, Uniform { zeros: y, .. }) => {
                self.mix(other).with_zeros(x.min(y))
            }
            (Aligned(k), Uniform { zeros, .. }) if zeros >= k => self,
            (Uniform { zeros, .. }, Aligned(k)) if zeros >= k && !minus => other,
            _ => self.mix(other),
        }
    }

    /// `self * other`, with no bits lost at the top but those of the type.
    pub fn mul(self, other: Self, factor: Option<i64>) -> Self {
        match (self, other) {
            (Uniform { zeros: x, .. }, Uniform { zeros: y, .. }) => {
                self.mix(other).with_zeros((x + y).min(ALL_ZEROS))
            }
            (Aligned(k), Uniform { zeros, .. })
                if factor.is_some_and(|f| f.count_ones() == 1 && f > 0) =>
            {
                aligned(k + zeros)
            }
            _ => self.mix(other),
        }
    }

    /// `self << other`.
    pub fn shl(self, other: Self, by: Option<i64>) -> Self {
        match (self, by.and_then(|n| u32::try_from(n).ok())) {
            (Uniform { warps, zeros }, Some(n)) => Uniform {
                warps,
                zeros: zeros.saturating_add(n).min(ALL_ZEROS),
            },
            (Aligned(k), Some(n)) => aligned(k.saturating_add(n)),
            // However far: no zero gets lost at the bottom.
            (Uniform { zeros, .. }, None) => self.mix(other).with_zeros(zeros),
            _ => self.mix(other),
        }
    }

    /// `self >> other`, with or without sign.
    pub fn shr(self, other: Self, by: Option<i64>) -> Self {
        match (self, by.and_then(|n| u32::try_from(n).ok())) {
            (Uniform { warps, zeros }, Some(n)) => Uniform {
                warps,
                zeros: zeros.saturating_sub(n),
            },
            (Aligned(k), Some(n)) if n >= k => Self::WARP,
            (Aligned(k), Some(n)) => Aligned(k - n),
            _ => self.mix(other),
        }
    }

    /// `self & other`; `mask` is `other` where that is a constant.
    pub fn and(self, other: Self, mask: Option<i64>) -> Self {
        let bits = mask.filter(|m| *m >= 0).map(|m| 64 - m.leading_zeros());
        match (self, other) {
            (Uniform { zeros: x, .. }, Uniform { zeros: y, .. }) => {
                self.mix(other).with_zeros(x.max(y))
            }
            (Aligned(k), Uniform { zeros, .. }) | (Uniform { zeros, .. }, Aligned(k)) => {
                if zeros >= k {
                    Self::WARP.with_zeros(zeros)
                } else {
                    Aligned(bits.map_or(k, |b| b.min(k)))
                }
            }
            (Aligned(a), Aligned(b)) => Aligned(a.max(b)),
            // Above the mask's bits the result is zero for every lane.
            (Lanes, Uniform { .. }) => bits.map_or(Lanes, aligned),
            _ => self.mix(other),
        }
    }

    /// `self | other` or `self ^ other`.
    pub fn or(self, other: Self) -> Self {
        match (self, other) {
            (Uniform { .. }, Uniform { .. })
            | (Aligned(_), Uniform { .. } | Aligned(_))
            | (Uniform { .. }, Aligned(_)) => self.join(other),
            _ => self.mix(other),
        }
    }

    /// The smaller or the larger of two integers.
    pub fn min_max(self, other: Self) -> Self {
        // Both keep the order of the upper bits.
        self.or(other)
    }

    /// `self / other` of unsigned integers.
    pub fn div(self, other: Self) -> Self {
        match (self, other) {
            (Aligned(k), Uniform { zeros, .. }) if zeros >= k => Self::WARP,
            _ => self.mix(other),
        }
    }

    /// `self % other` of unsigned integers.
    pub fn rem(self, other: Self) -> Self {
        match (self, other) {
            (Aligned(k), Uniform { zeros, .. }) if zeros >= k => self,
            _ => self.mix(other),
        }
    }

    /// `self < bound` or `self >= bound`: uniform where the bound falls between two groups.
    /// With `or_equal`, `self <= bound` or `self > bound`.
    pub fn compare(self, bound: Self, or_equal: Option<i64>) -> Self {
        match (self, bound) {
            (Aligned(k), Uniform { zeros, .. }) => {
                let zeros = or_equal.map_or(zeros, |c| c.wrapping_add(1).trailing_zeros());
                if zeros >= k { Self::WARP } else { Lanes }
            }
            _ => self.mix(bound),
        }
    }

    fn with_zeros(self, zeros: u32) -> Self {
        match self {
            Uniform { warps, .. } => Uniform { warps, zeros },
            other => other,
        }
    }
}

fn aligned(k: u32) -> Value {
    if k < ALL_ZEROS { Aligned(k) } else { Lanes }
}
