//! Return stack and call counter of implicit return mode.

use alloc::vec;
use alloc::vec::Vec;

use super::super::{ImplicitReturn, Params};

#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    address: u64,
    repeats: u32,
}

/// Return addresses of the calls under way; when full, the oldest is dropped.
///
/// With `return_stack_size` it has 2^n entries, and an encoder compares what it pops with the real target. With
/// `call_counter_size` alone the encoder only counts, and the decoder keeps as many addresses as the counter counts
/// levels. With both (draft) an entry counts how often the same call was repeated.
#[derive(Clone, Debug)]
pub struct ReturnStack {
    entries: Vec<Entry>,
    /// Position after the newest entry.
    top: usize,
    depth: usize,
    most_repeats: u32,
    checked: bool,
}

impl ReturnStack {
    /// The structure that the parameters describe; with neither size it stays empty.
    pub fn new(params: &Params) -> Self {
        let (stack, counter) = (params.return_stack_size.min(16), params.call_counter_size.min(16));
        let capacity = match (stack, counter) {
            (0, 0) => 0,
            (0, counter) => 1 << counter,
            (stack, _) => 1 << stack,
        };
        let repeats = stack > 0 && counter > 0 && params.implicit_return == ImplicitReturn::Returns;
        Self {
            entries: vec![Entry::default(); capacity],
            top: 0,
            depth: 0,
            most_repeats: if repeats { (1 << counter) - 1 } else { 0 },
            checked: stack > 0,
        }
    }

    /// Does the encoder compare with the real target?
    pub const fn is_checked(&self) -> bool {
        self.checked
    }

    /// Forgets everything.
    #[inline]
    pub fn reset(&mut self) {
        self.depth = 0;
    }

    /// Number of entries.
    #[inline]
    pub const fn depth(&self) -> usize {
        self.depth
    }

    #[inline]
    fn newest(&mut self) -> Option<&mut Entry> {
        if self.depth == 0 {
            return None;
        }
        let index = self.top.checked_sub(1).unwrap_or(self.entries.len() - 1);
        self.entries.get_mut(index)
    }

    /// The address that the next return goes to.
    #[inline]
    pub fn peek(&mut self) -> Option<u64> {
        self.newest().map(|entry| entry.address)
    }

    /// A call was made.
    #[inline]
    pub fn push(&mut self, address: u64) {
        let most = self.most_repeats;
        if let Some(entry) = self.newest()
            && entry.address == address
            && entry.repeats < most
        {
            entry.repeats += 1;
            return;
        }
        let capacity = self.entries.len();
        if let Some(entry) = self.entries.get_mut(self.top) {
            *entry = Entry { address, repeats: 0 };
            self.top = if self.top + 1 == capacity { 0 } else { self.top + 1 };
            self.depth = (self.depth + 1).min(capacity);
        }
    }

    /// A return was made: where it goes to.
    #[inline]
    pub fn pop(&mut self) -> Option<u64> {
        let entry = self.newest()?;
        let address = entry.address;
        if entry.repeats > 0 {
            entry.repeats -= 1;
            return Some(address);
        }
        self.depth -= 1;
        self.top = self.top.checked_sub(1).unwrap_or(self.entries.len() - 1);
        Some(address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_stack_drops_its_oldest_entry() {
        let mut stack = ReturnStack::new(&Params { return_stack_size: 1, ..Params::default() });
        for address in [1, 2, 3] {
            stack.push(address);
        }
        assert_eq!((stack.depth(), stack.is_checked()), (2, true));
        assert_eq!([stack.pop(), stack.pop(), stack.pop()], [Some(3), Some(2), None]);
    }

    #[test]
    fn a_repeated_call_is_counted_in_the_draft_only() {
        let ratified = Params { return_stack_size: 1, call_counter_size: 2, ..Params::default() };
        let draft = Params { implicit_return: ImplicitReturn::Returns, ..ratified };
        for (params, pops) in [(ratified, 2), (draft, 5)] {
            let mut stack = ReturnStack::new(&params);
            (0..5).for_each(|_| stack.push(7));
            assert_eq!(core::iter::from_fn(|| stack.pop()).count(), pops);
        }
    }

    #[test]
    fn a_counter_alone_has_a_level_for_each_value() {
        let mut stack = ReturnStack::new(&Params { call_counter_size: 2, ..Params::default() });
        (0..9).for_each(|n| stack.push(n));
        assert_eq!((stack.depth(), stack.peek(), stack.is_checked()), (4, Some(8), false));
        let mut none = ReturnStack::new(&Params::default());
        none.push(1);
        assert_eq!(none.pop(), None);
    }
}
