//! The followers of the harts of a stream. Each has a state of its own; where code does not change, all go on with what one
//! has read of it.

use std::collections::BTreeMap;

use backsight_flow::{CodeCache, FollowHart};

/// A follower that can hand over what it has read of the code.
pub(super) trait SharesCode {
    /// What it has read of the code; `None` where it has no such thing.
    fn take_cache(&mut self) -> Option<CodeCache>;

    /// Goes on with what another one has read of the same code, or gives it back.
    fn give_cache(&mut self, cache: CodeCache) -> Result<(), CodeCache>;

    /// Exchanges what both have read of the same code, if they can.
    fn exchange_caches(&mut self, other: &mut Self);
}

impl<F: FollowHart> SharesCode for F {
    fn take_cache(&mut self) -> Option<CodeCache> {
        Some(F::take_cache(self))
    }

    fn give_cache(&mut self, cache: CodeCache) -> Result<(), CodeCache> {
        F::give_cache(self, cache)
    }

    fn exchange_caches(&mut self, other: &mut Self) {
        F::exchange_caches(self, other);
    }
}

/// One follower for each hart. That of the last one asked for is found at once: it is most often the next, too. It has what
/// was read of the code.
#[derive(Debug)]
pub(super) struct Followers<F> {
    all: Vec<(u16, F)>,
    indices: BTreeMap<u16, usize>,
    latest: Option<(u16, usize)>,
    most: usize,
    shares_code: bool,
    /// What others have read of the code, for the first hart.
    for_first: Option<CodeCache>,
}

impl<F: SharesCode> Followers<F> {
    /// For at most so many harts, which run the same code at all times if they share what was read of it.
    pub fn new(most: usize, shares_code: bool) -> Self {
        let (all, indices) = (Vec::new(), BTreeMap::new());
        Self { all, indices, latest: None, most, shares_code, for_first: None }
    }

    /// That of a hart, made when it is met first; `None` if there are too many.
    #[inline]
    pub fn of(&mut self, number: u16, make: impl FnOnce() -> F) -> Option<&mut F> {
        let index = match self.latest {
            Some((latest, index)) if latest == number => index,
            _ => self.another(number, make)?,
        };
        self.all.get_mut(index).map(|(_, one)| one)
    }

    #[inline(never)]
    fn another(&mut self, number: u16, make: impl FnOnce() -> F) -> Option<usize> {
        let index = match self.indices.get(&number) {
            Some(&index) => index,
            None if self.all.len() == self.most => return None,
            None => {
                self.all.push((number, make()));
                self.indices.insert(number, self.all.len() - 1);
                self.all.len() - 1
            }
        };
        self.turn_to(index);
        Some(index)
    }

    /// The next one asked for is this one: it gets what was read of the code.
    fn turn_to(&mut self, index: usize) {
        let before = self.latest.map(|(_, before)| before);
        match before {
            Some(before) if self.shares_code && before != index => {
                if let Ok([(_, before), (_, now)]) = self.all.get_disjoint_mut([before, index]) {
                    now.exchange_caches(before);
                }
            }
            _ => {}
        }
        let Some((number, now)) = self.all.get_mut(index) else { return };
        self.latest = Some((*number, index));
        if let Some(cache) = self.for_first.take() {
            self.for_first = now.give_cache(cache).err();
        }
    }

    /// Visits all of them with their numbers, in the order of these.
    pub fn for_each(&mut self, mut visit: impl FnMut(u16, &mut F)) {
        for index in self.indices.values().copied().collect::<Vec<_>>() {
            self.turn_to(index);
            if let Some((number, one)) = self.all.get_mut(index) {
                visit(*number, one);
            }
        }
    }

    /// All of them with their numbers, in the order of these.
    pub fn iter(&self) -> impl Iterator<Item = &(u16, F)> {
        self.indices.values().filter_map(|&index| self.all.get(index))
    }

    /// How many there are.
    pub const fn len(&self) -> usize {
        self.all.len()
    }

    /// Forgets all of them, but not what they have read of the code.
    pub fn clear(&mut self) {
        let for_first = self.take_cache();
        *self = Self { for_first, ..Self::new(self.most, self.shares_code) };
    }

    /// What was read of the code, for another stream of the same code.
    pub fn take_cache(&mut self) -> Option<CodeCache> {
        if self.for_first.is_some() {
            return self.for_first.take();
        }
        let (_, index) = self.latest?;
        self.all.get_mut(index)?.1.take_cache()
    }

    /// Goes on with what another stream has read of the same code, or gives it back.
    pub fn give_cache(&mut self, cache: CodeCache) -> Result<(), CodeCache> {
        match self.latest.and_then(|(_, index)| self.all.get_mut(index)) {
            Some((_, latest)) => latest.give_cache(cache),
            None => {
                self.for_first = Some(cache);
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts how often it was asked for; one of them has the cache.
    #[derive(Default)]
    struct Counter {
        asked: u32,
        has_cache: bool,
    }

    impl SharesCode for Counter {
        fn take_cache(&mut self) -> Option<CodeCache> {
            None
        }

        fn give_cache(&mut self, cache: CodeCache) -> Result<(), CodeCache> {
            Err(cache)
        }

        fn exchange_caches(&mut self, other: &mut Self) {
            std::mem::swap(&mut self.has_cache, &mut other.has_cache);
        }
    }

    fn ask(followers: &mut Followers<Counter>, number: u16) -> Option<u32> {
        let is_first = followers.iter().next().is_none();
        let follower = followers.of(number, || Counter { asked: 0, has_cache: is_first })?;
        follower.asked += 1;
        Some(follower.asked)
    }

    fn asked(followers: &mut Followers<Counter>) -> Vec<(u16, u32)> {
        let mut asked = Vec::new();
        followers.for_each(|number, one| asked.push((number, one.asked)));
        asked
    }

    #[test]
    fn each_has_its_own_and_there_is_an_end() {
        let mut followers = Followers::new(2, true);
        assert_eq!([7, 7, 3, 7, 3].map(|number| ask(&mut followers, number)), [1, 2, 1, 3, 2].map(Some));
        assert_eq!(ask(&mut followers, 1), None);
        assert_eq!(asked(&mut followers), [(3, 2), (7, 3)]);
    }

    #[test]
    fn who_is_asked_for_has_the_cache() {
        for shares_code in [true, false] {
            let mut followers = Followers::new(3, shares_code);
            for number in [5, 6, 6, 5, 7, 6, 7] {
                ask(&mut followers, number);
                let holders: Vec<_> = followers.all.iter().filter(|(_, one)| one.has_cache).collect();
                let expected = if shares_code { number } else { 5 };
                assert!(matches!(holders[..], [(holder, _)] if *holder == expected), "{number}");
            }
            followers.for_each(|_, one| assert!(one.has_cache || !shares_code));
        }
    }
}
