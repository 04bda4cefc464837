//! What a GPU thread knows to have happened: two vector clocks, one over blocks and one
//! over threads, as persistent tries. A copy costs a reference count, a join skips what
//! the two sides share, so a look-back chain over thousands of blocks stays cheap.

use std::rc::Rc;

const FAN: usize = 32;

/// A map from a number to a clock, 0 where nothing is known. Only ever grows.
#[derive(Clone, Debug, Default)]
pub(super) struct Clocks {
    root: Option<Rc<Node>>,
    /// Levels of inner nodes above the leaves.
    height: u32,
}

#[derive(Debug)]
enum Node {
    Leaf([u32; FAN]),
    Inner([Option<Rc<Node>>; FAN]),
}

const fn digit(leaf: u32, level: u32) -> usize {
    // The first six levels above a leaf cover all 27 bits of a leaf's number.
    (leaf >> (5 * level)) as usize % FAN
}

impl Clocks {
    pub(super) fn get(&self, key: u32) -> u32 {
        let leaf = key >> 5;
        if !self.reaches(leaf) {
            return 0;
        }
        let mut node = self.root.as_deref();
        let mut level = self.height;
        while let Some(Node::Inner(children)) = node {
            level -= 1;
            node = children[digit(leaf, level)].as_deref();
        }
        match node {
            Some(Node::Leaf(clocks)) => clocks[key as usize % FAN],
            _ => 0,
        }
    }

    /// Raises the clock of one key to at least `clock`.
    pub(super) fn raise(&mut self, key: u32, clock: u32) {
        let mut clocks = [0; FAN];
        clocks[key as usize % FAN] = clock;
        self.raise_leaf(key >> 5, clocks);
    }

    /// Raises the clocks of the keys `leaf * 32 ..` to at least `clocks`.
    pub(super) fn raise_leaf(&mut self, leaf: u32, clocks: [u32; FAN]) {
        let mut height = 0;
        while height < 6 && leaf >> (5 * height) != 0 {
            height += 1;
        }
        let mut node = Rc::new(Node::Leaf(clocks));
        for level in 0..height {
            let mut children: [Option<Rc<Node>>; FAN] = Default::default();
            children[digit(leaf, level)] = Some(node);
            node = Rc::new(Node::Inner(children));
        }
        self.join(&Self {
            root: Some(node),
            height,
        });
    }

    /// Raises every clock to at least `other`'s.
    pub(super) fn join(&mut self, other: &Self) {
        let Some(theirs) = &other.root else { return };
        let Some(mut ours) = self.root.take() else {
            *self = other.clone();
            return;
        };
        let mut theirs = theirs.clone();
        let lift = |node: Rc<Node>| {
            let mut children: [Option<Rc<Node>>; FAN] = Default::default();
            children[0] = Some(node);
            Rc::new(Node::Inner(children))
        };
        for _ in self.height..other.height {
            ours = lift(ours);
        }
        for _ in other.height..self.height {
            theirs = lift(theirs);
        }
        self.height = self.height.max(other.height);
        self.root = Some(join(&ours, &theirs));
    }

    fn reaches(&self, leaf: u32) -> bool {
        self.height >= 6 || leaf >> (5 * self.height) == 0
    }
}

/// The join of two nodes of one height; one of the two themselves where it covers the other.
fn join(a: &Rc<Node>, b: &Rc<Node>) -> Rc<Node> {
    if Rc::ptr_eq(a, b) {
        return a.clone();
    }
    match (&**a, &**b) {
        (Node::Leaf(x), Node::Leaf(y)) => {
            let both: [u32; FAN] = std::array::from_fn(|i| x[i].max(y[i]));
            if both == *x {
                a.clone()
            } else if both == *y {
                b.clone()
            } else {
                Rc::new(Node::Leaf(both))
            }
        }
        (Node::Inner(x), Node::Inner(y)) => {
            let (mut is_a, mut is_b) = (true, true);
            let both: [Option<Rc<Node>>; FAN] = std::array::from_fn(|i| {
                let child = match (&x[i], &y[i]) {
                    (Some(p), Some(q)) => Some(join(p, q)),
                    (p, q) => p.as_ref().or(q.as_ref()).cloned(),
                };
                is_a &= same(&child, &x[i]);
                is_b &= same(&child, &y[i]);
                child
            });
            if is_a {
                a.clone()
            } else if is_b {
                b.clone()
            } else {
                Rc::new(Node::Inner(both))
            }
        }
        _ => unreachable!("nodes of one height"),
    }
}

fn same(a: &Option<Rc<Node>>, b: &Option<Rc<Node>>) -> bool {
    match (a, b) {
        (Some(a), Some(b)) => Rc::ptr_eq(a, b),
        (None, None) => true,
        _ => false,
    }
}

/// What has happened before: of a block, everything its threads did before its clock; of
/// a thread, what it alone did before its own.
#[derive(Clone, Debug, Default)]
pub(super) struct Knowledge {
    pub(super) blocks: Clocks,
    pub(super) threads: Clocks,
}

impl Knowledge {
    pub(super) fn join(&mut self, other: &Self) {
        self.blocks.join(&other.blocks);
        self.threads.join(&other.threads);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.blocks.root.is_none() && self.threads.root.is_none()
    }

    /// Whether what thread `thread` of block `block` did at `clock` is known.
    pub(super) fn covers(&self, block: u32, thread: u32, clock: u32) -> bool {
        self.blocks.get(block) > clock || self.threads.get(thread) > clock
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    #[test]
    fn clocks_are_a_map_with_maximum() {
        let mut state = 7u64;
        let mut random = move || {
            state = state
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            (state >> 33) as u32
        };
        for span in [32, 1000, 1 << 20, u32::MAX] {
            let mut tries = [Clocks::default(), Clocks::default()];
            let mut maps = [HashMap::new(), HashMap::new()];
            for _ in 0..500 {
                let (side, key, clock) = (random() as usize % 2, random() % span, random());
                tries[side].raise(key, clock);
                let entry = maps[side].entry(key).or_insert(0);
                *entry = clock.max(*entry);
            }
            let mut joined = tries[0].clone();
            joined.join(&tries[1]);
            for key in maps[0]
                .keys()
                .chain(maps[1].keys())
                .chain(&[0, 5, u32::MAX])
            {
                let each = [0, 1].map(|side| maps[side].get(key).copied().unwrap_or(0));
                assert_eq!(tries[0].get(*key), each[0]);
                assert_eq!(joined.get(*key), each[0].max(each[1]));
            }
            let before = joined.clone();
            joined.join(&tries[0]);
            assert!(
                same(&before.root, &joined.root),
                "a covered join changes nothing"
            );
        }
    }
}
