//! The parts of a branch predictor, as a trace module has them: outcomes, return addresses, indirect targets.

/// Outcomes of conditional branches: two-bit counters indexed by address and recent outcomes (gshare).
#[derive(Clone, Debug)]
pub struct Gshare {
    counters: Vec<u8>,
    history: u64,
    history_mask: u64,
    shift: u32,
}

impl Gshare {
    /// `1 << index_bits` counters; `history_bits` outcomes; the index takes address bits from `shift` on.
    pub fn new(index_bits: u32, history_bits: u32, shift: u32) -> Self {
        let history_mask = (1 << history_bits) - 1;
        Self { counters: vec![1; 1 << index_bits], history: 0, history_mask, shift }
    }

    #[inline]
    fn index(&self, address: u64) -> usize {
        (self.history ^ address >> self.shift) as usize & (self.counters.len() - 1)
    }

    /// Will the branch at this address be taken?
    #[inline]
    pub fn predict(&self, address: u64) -> bool {
        self.counters[self.index(address)] >= 2
    }

    /// Notes what the branch did.
    #[inline]
    pub fn update(&mut self, address: u64, taken: bool) {
        let index = self.index(address);
        let counter = &mut self.counters[index];
        *counter = if taken { (*counter + 1).min(3) } else { counter.saturating_sub(1) };
        self.history = (self.history << 1 | u64::from(taken)) & self.history_mask;
    }
}

/// Return addresses; when it is full, the oldest is dropped.
#[derive(Clone, Debug)]
pub struct ReturnStack {
    addresses: Vec<u64>,
    top: usize,
    depth: usize,
}

impl ReturnStack {
    /// Room for `room` addresses.
    pub fn new(room: usize) -> Self {
        Self { addresses: vec![0; room], top: 0, depth: 0 }
    }

    /// A call was made.
    #[inline]
    pub fn push(&mut self, address: u64) {
        if self.addresses.is_empty() {
            return;
        }
        self.top = (self.top + 1) % self.addresses.len();
        self.addresses[self.top] = address;
        self.depth = (self.depth + 1).min(self.addresses.len());
    }

    /// Where a return goes to; `None` if nothing is left.
    #[inline]
    pub fn pop(&mut self) -> Option<u64> {
        if self.depth == 0 {
            return None;
        }
        let address = self.addresses[self.top];
        self.depth -= 1;
        self.top = (self.top + self.addresses.len() - 1) % self.addresses.len();
        Some(address)
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct TargetEntry {
    target: u64,
    tag: u8,
    valid: bool,
}

/// Targets of indirect branches by address and path (iBTB).
#[derive(Clone, Debug)]
pub struct TargetBuffer {
    entries: Vec<TargetEntry>,
    /// For each set, the way used last.
    recent: Vec<u8>,
    ways: usize,
    path: u64,
    shift: u32,
}

/// Bits of the path register.
const PATH_BITS: u32 = 13;

impl TargetBuffer {
    /// `sets` (a power of two, or 0 for no table) of `ways` entries; the path takes address bits from `shift` on.
    pub fn new(sets: usize, ways: usize, shift: u32) -> Self {
        Self {
            entries: vec![TargetEntry::default(); sets * ways],
            recent: vec![0; sets],
            ways,
            path: 0,
            shift,
        }
    }

    #[inline]
    fn locate(&self, address: u64) -> (usize, u8) {
        let tag = (self.path ^ address >> (self.shift + 6)) as u8;
        let set = (self.path >> 8 ^ address >> self.shift) as usize & (self.recent.len() - 1);
        (set, tag)
    }

    fn find(&self, set: usize, tag: u8) -> Option<usize> {
        let first = set * self.ways;
        (first..first + self.ways).find(|&at| self.entries[at].valid && self.entries[at].tag == tag)
    }

    /// Where the branch at this address will go, if it is known.
    pub fn predict(&self, address: u64) -> Option<u64> {
        if self.recent.is_empty() {
            return None;
        }
        let (set, tag) = self.locate(address);
        self.find(set, tag).map(|at| self.entries[at].target)
    }

    /// Notes where the branch went.
    pub fn update(&mut self, address: u64, target: u64) {
        if self.recent.is_empty() {
            return;
        }
        let (set, tag) = self.locate(address);
        let first = set * self.ways;
        let at = self.find(set, tag).unwrap_or_else(|| {
            let recent = first + usize::from(self.recent[set]);
            let free = (first..first + self.ways).find(|&at| !self.entries[at].valid);
            free.or_else(|| (first..first + self.ways).find(|&at| at != recent)).unwrap_or(first)
        });
        self.entries[at] = TargetEntry { target, tag, valid: true };
        self.recent[set] = (at - first) as u8;
    }

    /// A branch was executed: the path goes on.
    #[inline]
    pub fn step(&mut self, address: u64, outcome: bool) {
        let bits = address >> self.shift & ((1 << PATH_BITS) - 1);
        self.path = (self.path << 2 ^ bits | u64::from(outcome)) & ((1 << PATH_BITS) - 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_alternating_branch_is_learnt_by_its_history() {
        let mut gshare = Gshare::new(9, 9, 4);
        let mut wrong = 0;
        for n in 0..200 {
            let taken = n % 2 == 0;
            wrong += u32::from(n >= 40 && gshare.predict(0x1000) != taken);
            gshare.update(0x1000, taken);
        }
        assert_eq!(wrong, 0);
    }

    #[test]
    fn a_full_return_stack_loses_its_oldest_address() {
        let mut stack = ReturnStack::new(2);
        (1..=3).for_each(|address| stack.push(address));
        assert_eq!([stack.pop(), stack.pop(), stack.pop()], [Some(3), Some(2), None]);
        assert_eq!(ReturnStack::new(0).pop(), None);
    }

    #[test]
    fn targets_are_known_again_on_the_same_path_only() {
        let mut buffer = TargetBuffer::new(32, 2, 4);
        buffer.update(0x4000, 0x5000);
        assert_eq!(buffer.predict(0x4000), Some(0x5000));
        buffer.step(0x123_4560, true);
        assert_eq!(buffer.predict(0x4000), None);
        assert_eq!(TargetBuffer::new(0, 2, 4).predict(0x4000), None);
    }
}
