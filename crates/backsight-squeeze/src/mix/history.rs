//! What came before a branch: outcomes, the path, and what the branch itself did.

/// Mixes bits so that every one of them matters to the upper half.
#[inline]
pub fn hash(a: u64, b: u64) -> u64 {
    let x = (a ^ b.rotate_left(29)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (x ^ x >> 29).wrapping_mul(0xBF58_476D_1CE4_E5B9)
}

/// What one branch did lately.
#[derive(Clone, Copy, Debug, Default)]
pub struct Local {
    /// Outcomes, the last in bit 0.
    pub outcomes: u16,
    /// How many times in a row the last outcome came, 255 at most.
    pub run: u8,
    /// How long the run before it was.
    pub before: u8,
}

impl Local {
    fn update(&mut self, taken: bool) {
        if taken == (self.outcomes & 1 == 1) {
            self.run = self.run.saturating_add(1);
        } else {
            self.before = self.run;
            self.run = 1;
        }
        self.outcomes = self.outcomes << 1 | u16::from(taken);
    }
}

/// Longest path that is kept.
pub const PATH: usize = 32;

/// What came before.
#[derive(Clone, Debug)]
pub struct History {
    /// Outcomes of conditional branches, the last in bit 0.
    pub outcomes: u64,
    /// Where the last branches went, the last first.
    path: [u16; PATH],
    at: usize,
    locals: Vec<Local>,
}

impl History {
    /// With `1 << local_bits` entries for single branches.
    pub fn new(local_bits: u32) -> Self {
        Self { outcomes: 0, path: [0; PATH], at: 0, locals: vec![Local::default(); 1 << local_bits] }
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

    /// A conditional branch was executed.
    #[inline]
    pub fn outcome(&mut self, address: u64, taken: bool) {
        self.outcomes = self.outcomes << 1 | u64::from(taken);
        let slot = self.slot(address);
        self.locals[slot].update(taken);
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
