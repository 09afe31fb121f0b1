//! A map whose entries lie in order in vectors of some hundreds, one after the other.
//!
//! Logs and captures give most keys in ascending order: a tree leaves every second place of its nodes free then, and this map
//! takes little more memory than its entries.

/// Entries of a vector at most.
const CHUNK: usize = 256;

/// A map by ascending keys that takes little more memory than its entries.
#[derive(Clone, Debug)]
pub struct SortedMap<K, V> {
    /// None of them is empty.
    chunks: Vec<Vec<(K, V)>>,
    length: usize,
}

impl<K, V> Default for SortedMap<K, V> {
    fn default() -> Self {
        Self { chunks: Vec::new(), length: 0 }
    }
}

/// The chunk and the index in it where a key is, or where it would be.
type Place = (usize, Result<usize, usize>);

impl<K: Ord, V> SortedMap<K, V> {
    /// How many entries there are.
    pub fn len(&self) -> usize {
        self.length
    }

    /// Is there no entry?
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    fn place(&self, key: &K) -> Place {
        let begins_before = |chunk: &Vec<(K, V)>| chunk.first().is_some_and(|(first, _)| first <= key);
        let chunk = self.chunks.partition_point(begins_before).saturating_sub(1);
        let search = |entries: &Vec<(K, V)>| entries.binary_search_by(|(other, _)| other.cmp(key));
        (chunk, self.chunks.get(chunk).map_or(Err(0), search))
    }

    /// The value of a key.
    pub fn get(&self, key: &K) -> Option<&V> {
        let (chunk, index) = self.place(key);
        self.chunks.get(chunk)?.get(index.ok()?).map(|(_, value)| value)
    }

    /// The same, to be changed.
    pub fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        let (chunk, index) = self.place(key);
        self.chunks.get_mut(chunk)?.get_mut(index.ok()?).map(|(_, value)| value)
    }

    /// Gives a key a value. Returns the one that it had.
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        match self.place(&key) {
            (chunk, Ok(index)) => Some(std::mem::replace(&mut self.chunks[chunk][index].1, value)),
            (chunk, Err(index)) => {
                self.insert_at(chunk, index, (key, value));
                None
            }
        }
    }

    /// The value of a key, which gets one if it has none.
    pub fn get_or_insert_with(&mut self, key: K, value: impl FnOnce() -> V) -> &mut V {
        let (chunk, index) = match self.place(&key) {
            (chunk, Ok(index)) => (chunk, index),
            (chunk, Err(index)) => self.insert_at(chunk, index, (key, value())),
        };
        &mut self.chunks[chunk][index].1
    }

    /// Gives where the entry is afterwards.
    fn insert_at(&mut self, chunk: usize, index: usize, entry: (K, V)) -> (usize, usize) {
        self.length += 1;
        let is_last = chunk + 1 >= self.chunks.len();
        let Some(entries) = self.chunks.get_mut(chunk) else {
            self.chunks.push(vec![entry]);
            return (chunk, 0);
        };
        if entries.len() < CHUNK {
            entries.insert(index, entry);
            return (chunk, index);
        }
        // Keys that ascend leave full chunks behind.
        if is_last && index == entries.len() {
            let mut next = Vec::with_capacity(CHUNK);
            next.push(entry);
            self.chunks.push(next);
            return (chunk + 1, 0);
        }
        let mut upper = entries.split_off(CHUNK / 2);
        let place = match index.checked_sub(CHUNK / 2) {
            Some(index) => {
                upper.insert(index, entry);
                (chunk + 1, index)
            }
            None => {
                entries.insert(index, entry);
                (chunk, index)
            }
        };
        self.chunks.insert(chunk + 1, upper);
        place
    }

    /// Takes a key out.
    pub fn remove(&mut self, key: &K) -> Option<V> {
        let (chunk, Ok(index)) = self.place(key) else { return None };
        let entries = &mut self.chunks[chunk];
        let (_, value) = entries.remove(index);
        if entries.is_empty() {
            self.chunks.remove(chunk);
        }
        self.length -= 1;
        Some(value)
    }

    /// Where the last entry is whose key is not above this one.
    fn place_up_to(&self, key: &K) -> Option<(usize, usize)> {
        let (chunk, index) = self.place(key);
        Some((chunk, index.or_else(|after| after.checked_sub(1).ok_or(())).ok()?))
    }

    /// The last entry whose key is not above this one.
    pub fn up_to(&self, key: &K) -> Option<(&K, &V)> {
        let (chunk, index) = self.place_up_to(key)?;
        self.chunks[chunk].get(index).map(|(key, value)| (key, value))
    }

    /// The same, to be changed.
    pub fn up_to_mut(&mut self, key: &K) -> Option<(&K, &mut V)> {
        let (chunk, index) = self.place_up_to(key)?;
        self.chunks[chunk].get_mut(index).map(|(key, value)| (&*key, value))
    }

    /// All entries from a key on, in ascending order.
    pub fn starting_at<'m>(&'m self, key: &K) -> impl Iterator<Item = (&'m K, &'m V)> + use<'m, K, V> {
        let (chunk, index) = self.place(key);
        let skipped = index.unwrap_or_else(|index| index);
        let entries = self.chunks.get(chunk..).unwrap_or_default().iter().flatten();
        entries.skip(skipped).map(|(key, value)| (key, value))
    }

    /// The same, to be changed.
    pub fn starting_at_mut<'m>(
        &'m mut self,
        key: &K,
    ) -> impl Iterator<Item = (&'m K, &'m mut V)> + use<'m, K, V> {
        let (chunk, index) = self.place(key);
        let skipped = index.unwrap_or_else(|index| index);
        let entries = self.chunks.get_mut(chunk..).unwrap_or_default().iter_mut().flatten();
        entries.skip(skipped).map(|(key, value)| (&*key, value))
    }

    /// All entries, in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.chunks.iter().flatten().map(|(key, value)| (key, value))
    }

    /// All values, to be changed.
    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut V> {
        self.chunks.iter_mut().flatten().map(|(_, value)| value)
    }
}

impl<K: Ord, V> FromIterator<(K, V)> for SortedMap<K, V> {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(entries: I) -> Self {
        let mut map = Self::default();
        for (key, value) in entries {
            map.insert(key, value);
        }
        map
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use backsight_testing::Random;
    use std::collections::BTreeMap;

    #[test]
    fn it_says_what_a_tree_says() {
        for (seed, bound) in [(1, 50), (2, 700), (3, 5000), (4, 1 << 20)] {
            let (mut random, mut map, mut tree) = (Random(seed), SortedMap::default(), BTreeMap::new());
            for step in 0..6000_u64 {
                let key = if step % 3 == 0 { step } else { random.below(bound) };
                match random.below(4) {
                    0 => assert_eq!(map.remove(&key), tree.remove(&key)),
                    1 => *map.get_or_insert_with(key, || 0) += 1,
                    _ => assert_eq!(map.insert(key, step), tree.insert(key, step)),
                }
                if let Some(&value) = map.get(&key) {
                    tree.insert(key, value);
                }
                let near = random.below(bound);
                assert_eq!(map.get(&near), tree.get(&near));
                assert_eq!(map.up_to(&near), tree.range(..=near).next_back());
                assert!(map.starting_at(&near).take(5).eq(tree.range(near..).take(5)));
                assert_eq!(map.len(), tree.len());
            }
            assert!(map.iter().eq(tree.iter()), "seed {seed}");
            map.starting_at_mut(&100).for_each(|(_, value)| *value += 7);
            map.up_to_mut(&99).into_iter().for_each(|(_, value)| *value = 3);
            tree.range_mut(100..).for_each(|(_, value)| *value += 7);
            tree.range_mut(..=99).next_back().into_iter().for_each(|(_, value)| *value = 3);
            assert!(map.values_mut().map(|value| *value).eq(tree.values().copied()), "seed {seed}");
        }
    }

    #[test]
    fn keys_that_ascend_leave_no_place_free() {
        let map: SortedMap<u32, u32> = (0..100_000).map(|key| (key, key)).collect();
        let room: usize = map.chunks.iter().map(Vec::capacity).sum();
        assert!(room < 100_000 + 2 * CHUNK, "{room} places for 100000 entries");
    }
}
