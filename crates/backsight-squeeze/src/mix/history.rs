//! What came before a branch: outcomes, the path, what the branch itself did, and the loop it is in.

/// Mixes bits so that every one of them matters to the upper half.
#[inline]
pub fn hash(a: u64, b: u64) -> u64 {
    let x = (a ^ b.rotate_left(29)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (x ^ x >> 29).wrapping_mul(0xBF58_476D_1CE4_E5B9)
}

/// What one branch did lately. A run is a number of times in a row with the same outcome.
#[derive(Clone, Copy, Debug, Default)]
pub struct Local {
    /// Outcomes, the last in bit 0.
    pub outcomes: u16,
    /// The run at hand.
    pub run: u16,
    /// The run before it, of the other outcome.
    pub other: u16,
    /// The run before that, of the same outcome.
    pub before: u16,
    /// How many runs were as long as the last ones of their outcome, 3 at most.
    pub same: u8,
}

impl Local {
    fn update(&mut self, taken: bool, limit: u16) {
        if taken == (self.outcomes & 1 == 1) {
            self.run = (self.run + 1).min(limit);
        } else {
            self.same = if self.run == self.before { (self.same + 1).min(3) } else { 0 };
            self.before = self.other;
            self.other = self.run;
            self.run = 1;
        }
        self.outcomes = self.outcomes << 1 | u16::from(taken);
    }

    /// Is the run at hand shorter than the last one of its outcome, as long, or longer; and the outcome: 0 to 5.
    #[inline]
    pub fn phase(&self) -> u64 {
        let length: u64 = match self.run.cmp(&self.before) {
            std::cmp::Ordering::Less => 0,
            std::cmp::Ordering::Equal => 1,
            std::cmp::Ordering::Greater => 2,
        };
        2 * length + u64::from(self.outcomes & 1)
    }
}

/// Longest path that is kept.
pub const PATH: usize = 32;
/// Most iterations that are counted.
const ITERATIONS: u16 = 1023;

/// What came before.
#[derive(Clone, Debug)]
pub struct History {
    /// Outcomes of conditional branches, the last in bit 0.
    pub outcomes: u64,
    /// How often the innermost loop was repeated: its backward branch was taken so many times in a row.
    pub iterations: u16,
    /// The backward branch of that loop.
    inner: u64,
    /// Where the last branches went, the last first.
    path: [u16; PATH],
    at: usize,
    locals: Vec<Local>,
    run_limit: u16,
}

impl History {
    /// With `1 << local_bits` entries for single branches, and runs of up to `run_limit`.
    pub fn new(local_bits: u32, run_limit: u16) -> Self {
        Self {
            outcomes: 0,
            iterations: 0,
            inner: 0,
            path: [0; PATH],
            at: 0,
            locals: vec![Local::default(); 1 << local_bits],
            run_limit,
        }
    }

    fn slot(&self, address: u64) -> usize {
        (hash(address, 0) >> 40) as usize & (self.locals.len() - 1)
    }

    /// What the branch at this address did.
    #[inline]
    pub fn local(&self, address: u64) -> Local {
        self.locals[self.slot(address)]
    }

    /// A hash of the last `length` steps of the path.
    #[inline]
    pub fn path(&self, length: u8) -> u64 {
        (0..usize::from(length)).fold(0, |sum, back| {
            let step = self.path[(self.at + PATH - back) % PATH];
            (sum.rotate_left(11) ^ u64::from(step)).wrapping_mul(0x9E37_79B9_7F4A_7C15)
        })
    }

    /// A conditional branch was executed; `backward` says where it goes when it is taken.
    #[inline]
    pub fn outcome(&mut self, address: u64, backward: bool, taken: bool) {
        self.outcomes = self.outcomes << 1 | u64::from(taken);
        let slot = self.slot(address);
        self.locals[slot].update(taken, self.run_limit);
        if backward && taken {
            self.iterations = if self.inner == address { (self.iterations + 1).min(ITERATIONS) } else { 1 };
            self.inner = address;
        } else if backward && self.inner == address {
            self.iterations = 0;
        }
        if taken {
            self.step(address);
        }
    }

    /// Control went somewhere: one step on the path.
    #[inline]
    pub fn step(&mut self, address: u64) {
        self.at = (self.at + 1) % PATH;
        self.path[self.at] = (address >> 1) as u16 ^ (address >> 15) as u16;
    }
}
