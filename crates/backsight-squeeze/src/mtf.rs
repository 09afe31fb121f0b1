//! A table that moves what was used to its front.

/// Symbols in the order of their last use.
#[derive(Clone, Debug)]
pub struct MoveToFront<T> {
    symbols: Vec<T>,
    room: usize,
}

impl<T: Copy + PartialEq> MoveToFront<T> {
    /// An empty table for `room` symbols.
    pub fn new(room: usize) -> Self {
        Self { symbols: Vec::with_capacity(room), room }
    }

    /// Where a symbol is.
    #[inline]
    pub fn position(&self, symbol: T) -> Option<usize> {
        self.symbols.iter().position(|&known| known == symbol)
    }

    /// Moves the symbol at an index to the front, and gives it.
    #[inline]
    pub fn touch(&mut self, index: usize) -> Option<T> {
        let symbol = *self.symbols.get(index)?;
        self.symbols.copy_within(0..index, 1);
        self.symbols[0] = symbol;
        Some(symbol)
    }

    /// Puts a new symbol in front; the last one falls out if there is no room.
    #[inline]
    pub fn insert(&mut self, symbol: T) {
        if self.room == 0 {
            return;
        }
        if self.symbols.len() < self.room {
            self.symbols.push(symbol);
        }
        let last = self.symbols.len() - 1;
        self.symbols.copy_within(0..last, 1);
        self.symbols[0] = symbol;
    }

    /// Looks for a symbol and puts it in front; gives where it was.
    pub fn search(&mut self, symbol: T) -> Option<usize> {
        let found = self.position(symbol);
        match found {
            Some(index) => drop(self.touch(index)),
            None => self.insert(symbol),
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn indices(table: &mut MoveToFront<char>, symbols: &str) -> Vec<Option<usize>> {
        symbols.chars().map(|symbol| table.search(symbol)).collect()
    }

    #[test]
    fn repeated_sequences_become_repeated_indices() {
        let mut table = MoveToFront::new(8);
        "ABC".chars().for_each(|symbol| table.insert(symbol));
        assert_eq!(indices(&mut table, "AABC"), [2, 0, 2, 2].map(Some));
        let after = |seen: &str, then: &str| {
            let mut table = MoveToFront::new(8);
            indices(&mut table, seen);
            indices(&mut table, then)
        };
        assert_eq!(after("AB", "ABAB"), [1, 1, 1, 1].map(Some));
        assert_eq!(after("ABC", "ABC"), [2, 2, 2].map(Some));
        assert_eq!(after("ABAC", "ABAC"), [1, 2, 1, 2].map(Some));
    }

    #[test]
    fn what_does_not_fit_falls_out_at_the_end() {
        let mut table = MoveToFront::new(2);
        assert_eq!(indices(&mut table, "ABCA"), [None, None, None, None]);
        assert_eq!(indices(&mut table, "C"), [Some(1)]);
        assert_eq!(MoveToFront::new(0).search('A'), None);
    }
}
