//! One thread, one column: the definition, with adjacent lanes on adjacent channels.
//!
//! Bytes: reads `a` and `b` once, writes `h` once. Operations: one fused multiply-add an
//! element, in the definition's order, so the result is the sequential recurrence's own.

use super::{LinearScanParams, policy};
use crate::simt::Element;
use crate::simt::math::fma;
use crate::simt::thread::{block_idx_x, thread_idx_x};

/// # Safety
/// The buffers cover what `params` describes; launched as [`policy::launch`] says.
#[inline(always)]
pub unsafe fn scan_columns<T: Element>(params: LinearScanParams<T>) {
    let column = u64::from(block_idx_x()) * u64::from(policy::BLOCK) + u64::from(thread_idx_x());
    if column >= params.sequences * params.channels {
        return;
    }
    let (sequence, channel) = (column / params.channels, column % params.channels);
    // SAFETY: `sequence` and `channel` are in range, and so are the rows below; each
    // thread has a column of its own.
    unsafe {
        let (first, rows) = if params.offsets.is_null() {
            (0, params.length)
        } else {
            let first = params.offsets.load(sequence as usize) as u64;
            (
                first,
                params.offsets.load(sequence as usize + 1) as u64 - first,
            )
        };
        let mut at = sequence * params.sequence_stride
            + first * params.time_stride
            + channel * params.channel_stride;
        let mut step = params.time_stride;
        if params.reverse != 0 && rows > 0 {
            at += (rows - 1) * step;
            step = step.wrapping_neg();
        }
        let mut state = if params.h0.is_null() {
            0.0
        } else {
            params.h0.load(column as usize)
        };
        let mut row = 0;
        while row < rows {
            let (a, b) = (params.a.load(at as usize), params.b.load(at as usize));
            state = fma(a.to_f32(), state, b.to_f32());
            params.h.store(at as usize, T::from_f32(state));
            at = at.wrapping_add(step);
            row += 1;
        }
        if !params.final_state.is_null() {
            params.final_state.store(column as usize, state);
        }
    }
}
