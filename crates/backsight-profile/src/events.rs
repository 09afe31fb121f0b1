//! Hardware events, attributed to the blocks in which they can have happened.
//!
//! An event packet stands between two branches of the trace. The event happened in the block between them, or a little
//! earlier: it takes time to reach the trace unit. What can have caused it is a window of blocks; of those only the ones
//! count that can cause such an event at all. So for each block three numbers are known: how many events it caused for
//! certain, how many at most, and how many one has to expect.

/// An event of the trace unit, by the number in its packets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventChoice {
    /// 0 to 3.
    pub number: u8,
    /// What the unit was programmed to signal, by the architecture's name for it.
    pub name: String,
}

/// What can cause an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EventOrigin {
    /// Loads and stores.
    Accesses,
    /// Branches.
    Branches,
    /// Every instruction.
    Instructions,
}

impl EventChoice {
    /// By the architecture's name, as far as that says it.
    pub(crate) fn origin(&self) -> EventOrigin {
        let name = self.name.to_ascii_uppercase();
        let begins = |prefixes: &[&str]| prefixes.iter().any(|prefix| name.starts_with(prefix));
        if begins(&["L1D", "LD_", "ST_", "MEM_ACCESS", "DTLB", "UNALIGNED"]) {
            EventOrigin::Accesses
        } else if begins(&["BR_", "PC_WRITE"]) {
            EventOrigin::Branches
        } else {
            EventOrigin::Instructions
        }
    }
}

/// One kind of event.
#[derive(Clone, Debug, PartialEq)]
pub struct EventProfile {
    /// Which.
    pub choice: EventChoice,
    /// How often it happened.
    pub total: u64,
    /// Those of them that no block can have caused.
    pub unattributed: u64,
    /// Blocks that can have caused each, summed over all events.
    pub window_blocks: u64,
    /// Their instructions that can have.
    pub window_instructions: u64,
    /// What blocks caused, by their number in the profile.
    pub blocks: Vec<EventShare>,
    /// What functions caused, by their number in the profile.
    pub functions: Vec<EventShare>,
}

/// What one block or function caused.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EventShare {
    /// Its number.
    pub of: u32,
    /// Events to be expected.
    pub expected: f64,
    /// Those that nothing else can have caused.
    pub certain: u64,
    /// Those that it can have caused.
    pub possible: u64,
}

impl EventProfile {
    /// Events that blocks caused.
    pub fn attributed(&self) -> u64 {
        self.total - self.unattributed
    }

    /// Blocks that can have caused an event, on average.
    pub fn mean_window(&self) -> f64 {
        self.window_blocks as f64 / self.attributed().max(1) as f64
    }

    /// The part of the attributed events, 0 to 1, of which it is not certain what caused them.
    pub fn uncertainty(shares: &[EventShare], attributed: u64) -> f64 {
        let certain: u64 = shares.iter().map(|share| share.certain).sum();
        1.0 - certain as f64 / attributed.max(1) as f64
    }

    /// Adds what another profile counted.
    pub(crate) fn merge(&mut self, other: &Self, block: &dyn Fn(u32) -> u32, function: &dyn Fn(u32) -> u32) {
        self.total += other.total;
        self.unattributed += other.unattributed;
        self.window_blocks += other.window_blocks;
        self.window_instructions += other.window_instructions;
        add(&mut self.blocks, &other.blocks, block);
        add(&mut self.functions, &other.functions, function);
    }

    /// Without numbers of blocks or functions.
    pub(crate) fn empty(choice: EventChoice) -> Self {
        let (total, unattributed, window_blocks, window_instructions) = (0, 0, 0, 0);
        let (blocks, functions) = (Vec::new(), Vec::new());
        Self { choice, total, unattributed, window_blocks, window_instructions, blocks, functions }
    }

    pub(crate) fn scale(&mut self, factor: f64, scaled: &dyn Fn(u64) -> u64) {
        for number in
            [&mut self.total, &mut self.unattributed, &mut self.window_blocks, &mut self.window_instructions]
        {
            *number = scaled(*number);
        }
        for share in self.blocks.iter_mut().chain(&mut self.functions) {
            share.expected *= factor;
            (share.certain, share.possible) = (scaled(share.certain), scaled(share.possible));
        }
        self.unattributed = self.unattributed.min(self.total);
    }
}

/// Adds shares whose owners have other numbers here.
fn add(mine: &mut Vec<EventShare>, theirs: &[EventShare], new: &dyn Fn(u32) -> u32) {
    let mut by_number: std::collections::BTreeMap<u32, EventShare> =
        mine.iter().map(|share| (share.of, *share)).collect();
    for share in theirs {
        let of = new(share.of);
        let sum = by_number.entry(of).or_insert(EventShare { of, expected: 0.0, certain: 0, possible: 0 });
        sum.expected += share.expected;
        sum.certain += share.certain;
        sum.possible += share.possible;
    }
    *mine = by_number.into_values().collect();
}
