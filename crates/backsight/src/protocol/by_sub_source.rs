//! Something for each sub-source of a stream: harts share one, and each has a state of its own.

use std::collections::BTreeMap;

/// One `T` for each sub-source. That of the last one asked for is found at once: it is most often the next, too.
#[derive(Debug)]
pub(super) struct BySubSource<T> {
    all: Vec<(u16, T)>,
    indices: BTreeMap<u16, usize>,
    latest: Option<(u16, usize)>,
    most: usize,
}

impl<T> BySubSource<T> {
    /// For at most so many.
    pub const fn new(most: usize) -> Self {
        Self { all: Vec::new(), indices: BTreeMap::new(), latest: None, most }
    }

    /// That of a sub-source, made when it is met first; `None` if there are too many.
    #[inline]
    pub fn of(&mut self, number: u16, make: impl FnOnce() -> T) -> Option<&mut T> {
        let index = match self.latest {
            Some((latest, index)) if latest == number => index,
            _ => self.another(number, make)?,
        };
        self.all.get_mut(index).map(|(_, one)| one)
    }

    #[inline(never)]
    fn another(&mut self, number: u16, make: impl FnOnce() -> T) -> Option<usize> {
        let index = match self.indices.get(&number) {
            Some(&index) => index,
            None if self.all.len() == self.most => return None,
            None => {
                self.all.push((number, make()));
                self.indices.insert(number, self.all.len() - 1);
                self.all.len() - 1
            }
        };
        self.latest = Some((number, index));
        Some(index)
    }

    /// All of them, in the order in which they were met.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.all.iter().map(|(_, one)| one)
    }

    /// All of them with their numbers.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (u16, &mut T)> {
        self.all.iter_mut().map(|(number, one)| (*number, one))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_has_its_own_and_there_is_an_end() {
        let mut counts = BySubSource::new(2);
        for number in [7, 7, 3, 7, 3] {
            *counts.of(number, || 0).unwrap() += 1;
        }
        assert!(counts.of(1, || 0).is_none());
        assert_eq!(counts.of(3, || 0), Some(&mut 2));
        assert_eq!(
            counts.iter_mut().map(|(number, count)| (number, *count)).collect::<Vec<_>>(),
            [(7, 3), (3, 2)]
        );
    }
}
