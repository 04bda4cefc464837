//! What warp operations compute, once every lane of the mask is there (PTX ISA:
//! `shfl.sync`, `vote.sync`, `match.sync`, `redux.sync`), but for matrix products.

use super::fault::FaultKind;

/// A warp operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WarpOp {
    Sync,
    ShuffleIdx,
    ShuffleUp,
    ShuffleDown,
    ShuffleXor,
    Ballot,
    MatchAny,
    ReduceAdd,
    ReduceMin,
    ReduceMax,
    MultiplyTf32,
    MultiplyBf16,
    MultiplyF16,
}

/// What one lane passes to it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Operands {
    pub(crate) value: u32,
    /// Lane, delta or bits of a shuffle.
    pub(crate) lane: u32,
    /// Third operand of a shuffle: segment mask in bits 8 to 12, bound in bits 0 to 4.
    pub(crate) clamp: u32,
}

impl WarpOp {
    pub(super) fn is_product(self) -> bool {
        matches!(
            self,
            Self::MultiplyTf32 | Self::MultiplyBf16 | Self::MultiplyF16
        )
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Sync => "sync_warp",
            Self::ShuffleIdx => "shuffle_idx",
            Self::ShuffleUp => "shuffle_up",
            Self::ShuffleDown => "shuffle_down",
            Self::ShuffleXor => "shuffle_xor",
            Self::Ballot => "ballot",
            Self::MatchAny => "match_any",
            Self::ReduceAdd => "reduce_add",
            Self::ReduceMin => "reduce_min",
            Self::ReduceMax => "reduce_max",
            Self::MultiplyTf32 => "multiply_tf32",
            Self::MultiplyBf16 => "multiply_bf16",
            Self::MultiplyF16 => "multiply_f16",
        }
    }

    /// The results of all lanes of `mask`; or the lane at fault and its fault.
    pub(super) fn evaluate(
        self,
        mask: u32,
        lanes: &[Operands; 32],
    ) -> Result<[u32; 32], (u32, FaultKind)> {
        let mut results = [0; 32];
        let members = || (0..32).filter(|lane| mask >> lane & 1 != 0);
        let value = |lane: u32| lanes[lane as usize].value;
        let fold = |with: fn(u32, u32) -> u32| members().map(value).reduce(with).unwrap_or(0);
        let everyone = match self {
            // What a product gives does not fit a word: `Block::multiply` hands it out.
            Self::Sync | Self::MultiplyTf32 | Self::MultiplyBf16 | Self::MultiplyF16 => 0,
            Self::Ballot => members()
                .filter(|lane| value(*lane) != 0)
                .fold(0, |bits, lane| bits | 1 << lane),
            Self::ReduceAdd => fold(u32::wrapping_add),
            Self::ReduceMin => fold(u32::min),
            Self::ReduceMax => fold(u32::max),
            Self::MatchAny => {
                for lane in members() {
                    results[lane as usize] = members()
                        .filter(|other| value(*other) == value(lane))
                        .fold(0, |bits, other| bits | 1 << other);
                }
                return Ok(results);
            }
            Self::ShuffleIdx | Self::ShuffleUp | Self::ShuffleDown | Self::ShuffleXor => {
                for lane in members() {
                    let source = self.source(lane, &lanes[lane as usize]);
                    if mask >> source & 1 == 0 {
                        return Err((
                            lane,
                            FaultKind::InactiveLane {
                                operation: self.name(),
                                mask,
                                source,
                            },
                        ));
                    }
                    results[lane as usize] = value(source);
                }
                return Ok(results);
            }
        };
        for lane in members() {
            results[lane as usize] = everyone;
        }
        Ok(results)
    }

    /// The lane that `lane` reads in a shuffle: its own where the computed one is out of range.
    fn source(self, lane: u32, operands: &Operands) -> u32 {
        let offset = operands.lane & 31;
        let segment = operands.clamp >> 8 & 31;
        let first = lane & segment;
        let bound = first | (operands.clamp & 31 & !segment);
        let (source, in_range) = match self {
            Self::ShuffleUp => (
                lane.wrapping_sub(offset),
                i64::from(lane) - i64::from(offset) >= i64::from(bound),
            ),
            Self::ShuffleDown => (lane + offset, lane + offset <= bound),
            Self::ShuffleXor => (lane ^ offset, lane ^ offset <= bound),
            _ => {
                let source = first | (offset & !segment);
                (source, source <= bound)
            }
        };
        if in_range { source } else { lane }
    }
}
