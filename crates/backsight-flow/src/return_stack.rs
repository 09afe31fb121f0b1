//! The return stack: where returns go without the trace saying so.
//!
//! The trace unit keeps the return addresses of the last calls. A return that goes where the newest entry says needs no
//! address in the trace; the decoder keeps the same stack and finds the target there. How deep it is, and whether calls
//! from the same place share an entry, is the business of the protocol.

use backsight_core::{Address, Isa};

/// One call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    address: Address,
    /// The same call was made so many times more.
    repeats: u32,
    isa: Isa,
}

impl Entry {
    const NONE: Self = Self { address: Address(0), repeats: 0, isa: Isa::A64 };
}

/// Return addresses of calls, newest on top. When it is full the oldest entry is lost. A stack of a fixed depth is kept
/// where its owner is.
#[derive(Clone, Debug)]
pub(crate) struct ReturnStack<S = Vec<Entry>> {
    /// As many as a power of two, or none.
    entries: S,
    /// Counts up with each entry; the newest one is just before it.
    top: usize,
    depth: usize,
    most_repeats: u32,
}

impl<const DEPTH: usize> ReturnStack<[Entry; DEPTH]> {
    /// A stack of `DEPTH` entries.
    pub const fn fixed() -> Self {
        const { assert!(DEPTH.is_power_of_two()) };
        Self { entries: [Entry::NONE; DEPTH], top: 0, depth: 0, most_repeats: 0 }
    }
}

impl ReturnStack {
    /// A stack of `depth` entries, or the power of two above it; with 0 it stays empty.
    pub fn new(depth: usize) -> Self {
        let depth = if depth == 0 { 0 } else { depth.next_power_of_two() };
        Self { entries: vec![Entry::NONE; depth], top: 0, depth: 0, most_repeats: 0 }
    }

    /// The newest entry takes calls from the same place up to so many times more.
    #[must_use]
    pub fn with_repeats(self, most: u32) -> Self {
        Self { most_repeats: most, ..self }
    }
}

/// Two stacks are equal if they hold the same calls; where these stand in memory is no matter.
impl<S: AsRef<[Entry]>> PartialEq for ReturnStack<S> {
    fn eq(&self, other: &Self) -> bool {
        self.depth == other.depth
            && self.most_repeats == other.most_repeats
            && self.newest_first().eq(other.newest_first())
    }
}

impl<S: AsRef<[Entry]>> ReturnStack<S> {
    fn newest_first(&self) -> impl Iterator<Item = &Entry> {
        let entries = self.entries.as_ref();
        let index = |back: usize| self.top.wrapping_sub(back) & (entries.len().wrapping_sub(1));
        (1..=self.depth).filter_map(move |back| entries.get(index(back)))
    }
}

impl ReturnStack {
    /// The calls in it, the newest first: a stack that is nearly empty takes little to keep.
    pub fn calls(&self) -> Vec<Entry> {
        self.newest_first().copied().collect()
    }

    /// Holds these calls, the newest first, instead of its own: as many of them as it has room for.
    pub fn hold(&mut self, calls: &[Entry]) {
        (self.top, self.depth) = (0, 0);
        for (entry, call) in self.entries.iter_mut().zip(calls.iter().rev()) {
            *entry = *call;
            self.depth += 1;
        }
        self.top = self.depth;
    }
}

impl<S: AsMut<[Entry]>> ReturnStack<S> {
    #[inline]
    fn newest(&mut self) -> Option<&mut Entry> {
        if self.depth == 0 {
            return None;
        }
        let entries = self.entries.as_mut();
        let index = self.top.wrapping_sub(1) & (entries.len().wrapping_sub(1));
        entries.get_mut(index)
    }

    /// A call: it will return to `address`, in the instruction set of the caller.
    #[inline]
    pub fn push(&mut self, address: Address, isa: Isa) {
        let most = self.most_repeats;
        if most > 0
            && let Some(entry) = self.newest()
            && entry.address == address
            && entry.repeats < most
        {
            entry.repeats += 1;
            return;
        }
        let entries = self.entries.as_mut();
        let capacity = entries.len();
        if let Some(entry) = entries.get_mut(self.top & (capacity.wrapping_sub(1))) {
            *entry = Entry { address, repeats: 0, isa };
            self.top = self.top.wrapping_add(1);
            self.depth = (self.depth + 1).min(capacity);
        }
    }

    /// A return: takes the newest entry.
    #[inline]
    pub fn pop(&mut self) -> Option<(Address, Isa)> {
        let entry = self.newest()?;
        let found = (entry.address, entry.isa);
        if entry.repeats > 0 {
            entry.repeats -= 1;
        } else {
            self.depth -= 1;
            self.top = self.top.wrapping_sub(1);
        }
        Some(found)
    }

    /// Where the next return goes.
    #[inline]
    pub fn peek(&mut self) -> Option<Address> {
        self.newest().map(|entry| entry.address)
    }

    /// The number of entries.
    #[inline]
    pub fn depth(&self) -> usize {
        self.depth
    }

    /// Forgets all entries.
    #[inline]
    pub fn clear(&mut self) {
        self.depth = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pop_all<S: AsMut<[Entry]>>(stack: &mut ReturnStack<S>) -> Vec<u64> {
        std::iter::from_fn(|| stack.pop()).map(|(address, _)| address.0).collect()
    }

    #[test]
    fn the_newest_call_returns_first() {
        let mut stack = ReturnStack::new(16);
        stack.push(Address(4), Isa::A32);
        stack.push(Address(6), Isa::T32);
        assert_eq!((stack.depth(), stack.peek()), (2, Some(Address(6))));
        assert_eq!(stack.pop(), Some((Address(6), Isa::T32)));
        assert_eq!(stack.pop(), Some((Address(4), Isa::A32)));
        assert_eq!((stack.pop(), stack.peek()), (None, None));
    }

    #[test]
    fn a_full_stack_loses_its_oldest_entry() {
        let mut stack = ReturnStack::<[Entry; 4]>::fixed();
        (0..7).for_each(|n| stack.push(Address(n), Isa::A64));
        assert_eq!(pop_all(&mut stack), [6, 5, 4, 3]);
        stack.push(Address(1), Isa::A64);
        stack.clear();
        assert_eq!(stack.pop(), None);
    }

    #[test]
    fn a_repeated_call_shares_an_entry_where_it_may() {
        for (most, expected) in [(0, [7, 7].as_slice()), (3, &[7, 7, 7, 7, 7])] {
            let mut stack = ReturnStack::new(2).with_repeats(most);
            (0..5).for_each(|_| stack.push(Address(7), Isa::Rv64));
            assert_eq!(pop_all(&mut stack), expected);
        }
    }

    #[test]
    fn stacks_of_the_same_calls_are_equal_whatever_they_held_before() {
        let (mut one, mut other) = (ReturnStack::new(4), ReturnStack::new(4));
        (0..9).for_each(|n| one.push(Address(n), Isa::A64));
        pop_all(&mut one);
        assert!(one == other);
        one.push(Address(3), Isa::A64);
        assert!(one != other);
        other.push(Address(3), Isa::A32);
        assert!(one != other);
        other.pop();
        other.push(Address(3), Isa::A64);
        assert!(one == other);
        (0..9).for_each(|n| one.push(Address(n), Isa::A64));
        other.hold(&one.calls());
        assert!(one == other);
        assert_eq!(pop_all(&mut other), [8, 7, 6, 5]);
    }

    #[test]
    fn a_stack_without_entries_stays_empty() {
        let mut stack = ReturnStack::new(0);
        stack.push(Address(7), Isa::Rv64);
        assert_eq!((stack.depth(), stack.pop()), (0, None));
    }
}
