//! The return stack of the trace unit.
//!
//! A decoder with a stack of its own knows where a return goes if the call is in its trace. The unit keeps the same
//! stack, and leaves out the target of an indirect branch that equals the newest entry. A decoder keeps more entries
//! than any unit and forgets fewer, which is harmless: it takes one only when the unit did.

use backsight_core::{Address, Isa};

const LARGEST: usize = 16;

pub(super) struct ReturnStack {
    entries: [(Address, Isa); LARGEST],
    /// Position of the next entry; older ones are before it, round the array.
    next: usize,
    count: usize,
    depth: usize,
}

impl ReturnStack {
    /// A stack of `depth` entries; with 0 nothing is ever kept.
    pub(super) fn new(depth: u8) -> Self {
        Self {
            entries: [(Address(0), Isa::A64); LARGEST],
            next: 0,
            count: 0,
            depth: usize::from(depth).min(LARGEST),
        }
    }

    /// A branch with link was taken. The oldest entry of a full stack is lost.
    #[inline]
    pub(super) fn push(&mut self, address: Address, isa: Isa) {
        if self.depth == 0 {
            return;
        }
        self.entries[self.next % LARGEST] = (address, isa);
        self.next = (self.next + 1) % LARGEST;
        self.count = (self.count + 1).min(self.depth);
    }

    /// Takes the newest entry if it is this one.
    #[inline]
    pub(super) fn pop_if(&mut self, address: Address, isa: Isa) -> bool {
        let newest = self.next.wrapping_sub(1) % LARGEST;
        if self.count == 0 || self.entries[newest] != (address, isa) {
            return false;
        }
        self.next = newest;
        self.count -= 1;
        true
    }

    pub(super) fn clear(&mut self) {
        self.count = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_newest_entry_matches_and_only_in_its_instruction_set() {
        let mut stack = ReturnStack::new(4);
        stack.push(Address(0x10), Isa::T32);
        stack.push(Address(0x20), Isa::A32);
        assert!(!stack.pop_if(Address(0x10), Isa::T32));
        assert!(!stack.pop_if(Address(0x20), Isa::T32));
        assert!(stack.pop_if(Address(0x20), Isa::A32));
        assert!(stack.pop_if(Address(0x10), Isa::T32));
        assert!(!stack.pop_if(Address(0x10), Isa::T32));
    }

    #[test]
    fn a_full_stack_loses_its_oldest_entry() {
        let mut stack = ReturnStack::new(3);
        for address in 1..=40 {
            stack.push(Address(address), Isa::A64);
        }
        let popped = (1..=40).rev().take_while(|&address| stack.pop_if(Address(address), Isa::A64)).count();
        assert_eq!(popped, 3);
    }
}
