//! The thread's layer: a segment of consecutive time steps, one after the other.

use super::access::{Access, OCTET, View};
use super::ring::{Composed, Glanced, Ring, SEGMENT};
use crate::simt::Shared;

/// The numbers of a lane.
pub type Values<A, const V: usize> = [<<A as Access<V>>::Ring as Ring>::Value; V];

/// One thread's segment of a tile in shared memory.
#[derive(Clone, Copy, Debug)]
pub struct Segment<T> {
    /// Gates.
    pub gates: Shared<T>,
    /// Inputs, then states.
    pub inputs: Shared<T>,
    /// Where in the tile.
    pub view: View,
    /// Time steps, a multiple of eight.
    pub steps: u32,
    /// The same number, but not known to the compiler: what runs rarely is not unrolled,
    /// and does not hold on to what the usual path read.
    pub rare_steps: u32,
}

impl<T: crate::simt::Plain> Segment<T> {
    /// The map of the whole segment; its gate is [`Ring::UNSOUND`] if it may not be used.
    ///
    /// # Safety
    /// The tile is complete and behind a barrier.
    #[inline(always)]
    #[track_caller]
    pub unsafe fn compose<A: Access<V, Element = T>, const V: usize>(
        &self,
    ) -> (Values<A, V>, Values<A, V>) {
        // SAFETY: the caller's promise.
        unsafe {
            let mut maps = [Glanced::<A::Ring>::start(); V];
            let mut octet = 0;
            while octet < self.steps / OCTET as u32 {
                let gates = A::read(self.gates, &self.view, octet);
                let inputs = A::read(self.inputs, &self.view, octet);
                unroll!(OCTET, i => {
                    unroll!(V, v => { maps[v] = maps[v].then(gates[i][v], inputs[i][v]); });
                });
                octet += 1;
            }
            let mut map = ([A::Ring::UNSOUND; V], [A::Ring::NOTHING; V]);
            let mut ordinary = true;
            unroll!(V, v => {
                match maps[v].parts(SEGMENT) {
                    Some((gate, input)) => (map.0[v], map.1[v]) = (gate, input),
                    None => ordinary = false,
                }
            });
            if ordinary {
                map
            } else {
                self.compose_watched::<A, V>()
            }
        }
    }

    /// [`compose`](Self::compose) for gates above 1, and numbers that may overflow. The
    /// numbers of the map are the same; only the judgement is finer.
    #[inline(always)]
    #[track_caller]
    unsafe fn compose_watched<A: Access<V, Element = T>, const V: usize>(
        &self,
    ) -> (Values<A, V>, Values<A, V>) {
        // SAFETY: the caller's promise.
        unsafe {
            let mut maps = [Composed::<A::Ring>::start(); V];
            let mut octet = 0;
            while octet < self.rare_steps / OCTET as u32 {
                let gates = A::read(self.gates, &self.view, octet);
                let inputs = A::read(self.inputs, &self.view, octet);
                unroll!(OCTET, i => {
                    unroll!(V, v => { maps[v] = maps[v].then(gates[i][v], inputs[i][v]); });
                });
                octet += 1;
            }
            let mut map = ([A::Ring::UNSOUND; V], [A::Ring::NOTHING; V]);
            unroll!(V, v => {
                if let Some((gate, input)) = maps[v].parts(SEGMENT) {
                    map.0[v] = gate;
                    map.1[v] = input;
                }
            });
            map
        }
    }

    /// Steps through the segment from `state`; the states take the inputs' place. Returns
    /// the last one, unrounded.
    ///
    /// # Safety
    /// As [`compose`](Self::compose); the segment's inputs are this thread's alone.
    #[inline(always)]
    #[track_caller]
    pub unsafe fn scan<A: Access<V, Element = T>, const V: usize>(
        &self,
        state: Values<A, V>,
    ) -> Values<A, V> {
        let mut state = state;
        let mut octet = 0;
        // SAFETY: the caller's promise.
        unsafe {
            while octet < self.steps / OCTET as u32 {
                let gates = A::read(self.gates, &self.view, octet);
                let mut inputs = A::read(self.inputs, &self.view, octet);
                unroll!(OCTET, i => {
                    unroll!(V, v => {
                        state[v] = A::Ring::step(gates[i][v], state[v], inputs[i][v]);
                    });
                    inputs[i] = state;
                });
                A::write(self.inputs, &self.view, octet, inputs);
                octet += 1;
            }
        }
        state
    }
}
