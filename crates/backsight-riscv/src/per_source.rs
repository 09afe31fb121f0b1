//! Something for each source of a stream.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

/// One `T` for each source. That of the source before is found at once: it is most often the next, too.
#[derive(Clone, Debug)]
pub struct PerSource<T> {
    all: Vec<T>,
    indices: BTreeMap<u16, usize>,
    latest: Option<(u16, usize)>,
    most: usize,
}

impl<T> PerSource<T> {
    /// For at most so many sources.
    pub const fn new(most: usize) -> Self {
        Self { all: Vec::new(), indices: BTreeMap::new(), latest: None, most }
    }

    /// That of a source, made when the source is met first; `None` if there are too many.
    #[inline]
    pub fn of(&mut self, source: u16, make: impl FnOnce() -> T) -> Option<&mut T> {
        match self.latest {
            Some((latest, index)) if latest == source => self.all.get_mut(index),
            _ => self.another(source, make),
        }
    }

    /// That of a source, if it is the one that was asked for before.
    #[inline(always)]
    pub fn latest(&mut self, source: u16) -> Option<&mut T> {
        match self.latest {
            Some((latest, index)) if latest == source => self.all.get_mut(index),
            _ => None,
        }
    }

    #[inline(never)]
    fn another(&mut self, source: u16, make: impl FnOnce() -> T) -> Option<&mut T> {
        let index = match self.indices.get(&source) {
            Some(&index) => index,
            None if self.all.len() == self.most => return None,
            None => {
                self.all.push(make());
                self.indices.insert(source, self.all.len() - 1);
                self.all.len() - 1
            }
        };
        self.latest = Some((source, index));
        self.all.get_mut(index)
    }

    /// All of them, in the order in which they were met.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.all.iter()
    }

    /// All of them, in the order in which they were met.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.all.iter_mut()
    }
}

/// Equal if each source has the same, in whichever order they were met.
impl<T: PartialEq> PartialEq for PerSource<T> {
    fn eq(&self, other: &Self) -> bool {
        let has_same = |(source, &index): (&u16, &usize)| {
            let other = other.indices.get(source).and_then(|&index| other.all.get(index));
            other.is_some_and(|other| self.all.get(index) == Some(other))
        };
        self.all.len() == other.all.len() && self.indices.iter().all(has_same)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_source_has_its_own_and_there_is_an_end() {
        let mut counts = PerSource::new(2);
        for source in [7, 7, 3, 7, 3] {
            *counts.of(source, || 0).unwrap() += 1;
        }
        assert!(counts.of(1, || 0).is_none());
        assert_eq!(counts.of(3, || 0), Some(&mut 2));
        assert_eq!(counts.iter().copied().collect::<Vec<_>>(), [3, 2]);
    }
}
