//! The order in which things run, drawn from a seed.

/// A small generator (splitmix64): the same sequence from the same seed, everywhere.
#[derive(Clone, Debug)]
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        mix(self.0)
    }

    /// A number below `bound`, which is not 0.
    pub(super) fn below(&mut self, bound: u32) -> u32 {
        (((self.next() >> 32) * u64::from(bound)) >> 32) as u32
    }

    fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last as u32 + 1) as usize);
        }
    }
}

pub(super) const fn mix(word: u64) -> u64 {
    let word = (word ^ (word >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    word ^ (word >> 31)
}

#[derive(Clone, Copy, Debug)]
enum Sequence {
    Ascending,
    Descending,
    Shuffled,
    /// Shuffled groups of 32, each in order: warps, for threads.
    Groups,
}

/// One launch's schedule.
#[derive(Clone, Debug)]
pub(super) struct Schedule {
    pub(super) random: Random,
    threads: Sequence,
    blocks: Sequence,
    /// Blocks that run at once.
    pub(super) resident: u32,
    /// Memory accesses between two forced switches, on average; 0 for none.
    switch_every: u32,
}

impl Schedule {
    /// Seed 0 is the plain one: everything in ascending order, no forced switches.
    pub(super) fn new(seed: u64) -> Self {
        let mut random = Random::new(seed);
        if seed == 0 {
            return Self {
                random,
                threads: Sequence::Ascending,
                blocks: Sequence::Ascending,
                resident: 4,
                switch_every: 0,
            };
        }
        let mut sequence = || match random.below(4) {
            0 => Sequence::Ascending,
            1 => Sequence::Descending,
            2 => Sequence::Shuffled,
            _ => Sequence::Groups,
        };
        let (threads, blocks) = (sequence(), sequence());
        Self {
            threads,
            blocks,
            resident: 1 + random.below(8),
            switch_every: [0, 0, 7, 61][random.below(4) as usize],
            random,
        }
    }

    /// The order in which `blocks` blocks start.
    pub(super) fn block_order(&mut self, blocks: u32) -> Box<dyn Iterator<Item = u32>> {
        match self.blocks {
            Sequence::Ascending => Box::new(0..blocks),
            Sequence::Descending => Box::new((0..blocks).rev()),
            Sequence::Shuffled => {
                let mut order: Vec<u32> = (0..blocks).collect();
                self.random.shuffle(&mut order);
                Box::new(order.into_iter())
            }
            Sequence::Groups => {
                let mut groups: Vec<u32> = (0..blocks.div_ceil(32)).collect();
                self.random.shuffle(&mut groups);
                Box::new(
                    groups
                        .into_iter()
                        .flat_map(move |group| group * 32..blocks.min(group * 32 + 32)),
                )
            }
        }
    }

    /// Puts the threads that can run into the order in which they do.
    pub(super) fn order_threads(&mut self, threads: &mut [u16]) {
        match self.threads {
            Sequence::Ascending => threads.sort_unstable(),
            Sequence::Descending => {
                threads.sort_unstable();
                threads.reverse();
            }
            Sequence::Shuffled => self.random.shuffle(threads),
            Sequence::Groups => {
                let salt = self.random.next();
                threads.sort_unstable_by_key(|thread| {
                    (mix(salt ^ u64::from(thread / 32)) as u32, *thread)
                });
            }
        }
    }

    /// Accesses until the next forced switch.
    pub(super) fn until_switch(&mut self) -> u32 {
        // Without forced switches, still one now and then: a loop that waits without
        // `spin_hint` must not keep everyone else from running.
        match self.switch_every {
            0 => 1 << 12,
            every => 1 + self.random.below(2 * every),
        }
    }
}
