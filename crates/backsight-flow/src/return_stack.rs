//! The return stack: where returns go without the trace saying so.
//!
//! The trace unit keeps the return addresses of the last calls. An indirect branch that goes where the newest
//! entry says needs no address in the trace; the decoder keeps the same stack and finds the target there.

use backsight_core::{Address, Isa};

/// No hardware has more entries than this.
const DEPTH: usize = 16;

/// Return addresses of calls, newest on top. When it is full the oldest entry is lost.
#[derive(Clone, Debug)]
pub struct ReturnStack {
    entries: [(Address, Isa); DEPTH],
    top: usize,
    length: usize,
}

impl Default for ReturnStack {
    fn default() -> Self {
        Self { entries: [(Address(0), Isa::A64); DEPTH], top: 0, length: 0 }
    }
}

impl ReturnStack {
    /// A call: it will return to `address`, in the instruction set of the caller.
    #[inline]
    pub fn push(&mut self, address: Address, isa: Isa) {
        self.top = (self.top + 1) % DEPTH;
        self.entries[self.top] = (address, isa);
        self.length = (self.length + 1).min(DEPTH);
    }

    /// A return: takes the newest entry.
    #[inline]
    pub fn pop(&mut self) -> Option<(Address, Isa)> {
        self.length = self.length.checked_sub(1)?;
        let entry = self.entries[self.top];
        self.top = (self.top + DEPTH - 1) % DEPTH;
        Some(entry)
    }

    /// Forgets all entries.
    pub fn clear(&mut self) {
        self.length = 0;
    }

    /// The number of entries.
    pub fn len(&self) -> usize {
        self.length
    }

    /// Is it empty?
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_call_returns_first() {
        let mut stack = ReturnStack::default();
        stack.push(Address(4), Isa::A32);
        stack.push(Address(6), Isa::T32);
        assert_eq!(stack.pop(), Some((Address(6), Isa::T32)));
        assert_eq!(stack.pop(), Some((Address(4), Isa::A32)));
        assert_eq!(stack.pop(), None);
    }

    #[test]
    fn a_full_stack_loses_its_oldest_entry() {
        let mut stack = ReturnStack::default();
        for n in 0..=DEPTH as u64 {
            stack.push(Address(n), Isa::A64);
        }
        assert_eq!(stack.len(), DEPTH);
        for n in (1..=DEPTH as u64).rev() {
            assert_eq!(stack.pop(), Some((Address(n), Isa::A64)));
        }
        assert!(stack.is_empty() && stack.pop().is_none());
    }

    #[test]
    fn a_cleared_stack_is_usable_again() {
        let mut stack = ReturnStack::default();
        stack.push(Address(8), Isa::A64);
        stack.clear();
        assert_eq!(stack.pop(), None);
        stack.push(Address(12), Isa::A64);
        assert_eq!(stack.pop(), Some((Address(12), Isa::A64)));
    }
}
