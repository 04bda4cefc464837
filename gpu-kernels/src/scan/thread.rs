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
    /// With `first`, the gates stand one step late: the first step's is `first`.
    ///
    /// # Safety
    /// The tile is complete and behind a barrier.
    #[inline(always)]
    #[track_caller]
    pub unsafe fn compose<A: Access<V, Element = T>, const V: usize>(
        &self,
        first: Option<Values<A, V>>,
    ) -> (Values<A, V>, Values<A, V>) {
        let mut maps = [Glanced::<A::Ring>::start(); V];
        let mut map = ([A::Ring::UNSOUND; V], [A::Ring::NOTHING; V]);
        let mut ordinary = true;
        // SAFETY: the caller's promise.
        unsafe {
            self.each_step::<A, V>(self.steps, first, |v, gate, input| {
                maps[v] = maps[v].then(gate, input);
            });
            unroll!(V, v => {
                match maps[v].parts(SEGMENT) {
                    Some((gate, input)) => (map.0[v], map.1[v]) = (gate, input),
                    None => ordinary = false,
                }
            });
            if ordinary {
                return map;
            }
            // Gates above 1, or numbers that may overflow. The numbers of the map are the
            // same; only the judgement is finer.
            let mut maps = [Composed::<A::Ring>::start(); V];
            let mut map = ([A::Ring::UNSOUND; V], [A::Ring::NOTHING; V]);
            self.each_step::<A, V>(self.rare_steps, first, |v, gate, input| {
                maps[v] = maps[v].then(gate, input);
            });
            unroll!(V, v => {
                if let Some((gate, input)) = maps[v].parts(SEGMENT) {
                    map.0[v] = gate;
                    map.1[v] = input;
                }
            });
            map
        }
    }

    /// Calls `f(channel, gate, input)` for every step.
    #[inline(always)]
    #[track_caller]
    unsafe fn each_step<A: Access<V, Element = T>, const V: usize>(
        &self,
        steps: u32,
        first: Option<Values<A, V>>,
        mut f: impl FnMut(usize, <A::Ring as Ring>::Value, <A::Ring as Ring>::Value),
    ) {
        let mut late = first;
        let mut octet = 0;
        while octet < steps / OCTET as u32 {
            // SAFETY: the caller's promise.
            let (gates, inputs) = unsafe {
                (
                    A::read(self.gates, &self.view, octet),
                    A::read(self.inputs, &self.view, octet),
                )
            };
            unroll!(OCTET, i => {
                let gate = match late {
                    Some(before) => {
                        late = Some(gates[i]);
                        before
                    }
                    None => gates[i],
                };
                unroll!(V, v => { f(v, gate[v], inputs[i][v]); });
            });
            octet += 1;
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

    /// Steps through the segment of a gradient scan, whose gates stand one step late, from
    /// `state`: the states `g` take the inputs' place, and `g[t] * others[t + 1]` the gates'.
    /// Returns the last state, unrounded.
    ///
    /// # Safety
    /// As [`scan`](Self::scan); the segment's gates are this thread's alone, too.
    #[inline(always)]
    #[track_caller]
    pub unsafe fn scan_gradients<A: Access<V, Element = T>, const V: usize>(
        &self,
        state: Values<A, V>,
        edges: &Edges<Values<A, V>>,
        others: Shared<T>,
    ) -> Values<A, V> {
        let (mut state, mut gate) = (state, edges.gate);
        let octets = self.steps / OCTET as u32;
        let mut octet = 0;
        // SAFETY: the caller's promise.
        unsafe {
            let mut next = A::read(others, &self.view, 0);
            while octet < octets {
                let gates = A::read(self.gates, &self.view, octet);
                let mut inputs = A::read(self.inputs, &self.view, octet);
                let mut factors = next;
                octet += 1;
                next = if octet < octets {
                    A::read(others, &self.view, octet)
                } else {
                    [edges.other; OCTET]
                };
                unroll!(OCTET, i => {
                    factors[i] = if i + 1 < OCTET { factors[(i + 1) % OCTET] } else { next[0] };
                });
                if edges.end / OCTET as u32 == octet - 1 {
                    unroll!(OCTET, i => {
                        if edges.end % OCTET as u32 == i as u32 {
                            factors[i] = edges.behind;
                        }
                    });
                }
                unroll!(OCTET, i => {
                    unroll!(V, v => {
                        state[v] = A::Ring::step(gate[v], state[v], inputs[i][v]);
                        factors[i][v] = A::Ring::multiply(state[v], factors[i][v]);
                    });
                    gate = gates[i];
                    inputs[i] = state;
                });
                A::write(self.inputs, &self.view, octet - 1, inputs);
                A::write(self.gates, &self.view, octet - 1, factors);
            }
        }
        state
    }
}

/// What a segment of a gradient scan takes from beyond itself.
#[derive(Clone, Copy, Debug)]
pub struct Edges<Values> {
    /// The gate that stands one step before the segment.
    pub gate: Values,
    /// The other factor one step behind the segment.
    pub other: Values,
    /// The sequence's last step, if it is in the segment: its other factor is `behind`.
    pub end: u32,
    /// The other factor behind the sequence.
    pub behind: Values,
}
