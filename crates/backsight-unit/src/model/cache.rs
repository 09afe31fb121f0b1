//! A cache of one level: sets of lines, the line that was not used for longest leaves first.

/// The shape of a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheShape {
    /// Size in bytes.
    pub size: u64,
    /// Lines in a set.
    pub ways: u32,
    /// Bytes in a line, a power of two.
    pub line: u64,
}

/// Largest cache: its lines are kept in memory here.
const LARGEST: u64 = 1 << 26;

impl CacheShape {
    /// The number of sets, if there can be such a cache.
    fn sets(self) -> Option<u64> {
        let set = self.line.checked_mul(self.ways.into())?;
        let possible = self.line.is_power_of_two()
            && (4..=4096).contains(&self.line)
            && (1..=64).contains(&self.ways)
            && self.size <= LARGEST
            && self.size.checked_rem(set)? == 0;
        let sets = self.size.checked_div(set)?;
        (possible && sets.is_power_of_two()).then_some(sets)
    }

    /// Can there be such a cache?
    pub fn is_possible(self) -> bool {
        self.sets().is_some()
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct CacheLine {
    /// Address divided by the size of a line, plus one; 0: empty.
    tag: u64,
    dirty: bool,
}

/// What an access did to a cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct CacheOutcome {
    /// A line was not there and was filled.
    pub refill: bool,
    /// A line that had been written had to leave for it.
    pub write_back: bool,
}

/// A cache.
#[derive(Debug)]
pub(super) struct Cache {
    shape: CacheShape,
    sets: u64,
    /// Set by set; within a set the line that was used last comes first.
    lines: Vec<CacheLine>,
}

impl Cache {
    /// An empty cache; `None` if there can be none of this shape.
    pub fn new(shape: CacheShape) -> Option<Self> {
        let sets = shape.sets()?;
        let lines = vec![CacheLine::default(); (sets * u64::from(shape.ways)) as usize];
        Some(Self { shape, sets, lines })
    }

    /// Bytes are read or, with `store`, written.
    pub fn access(&mut self, address: u64, size: u64, store: bool) -> CacheOutcome {
        let first = address / self.shape.line;
        let last = address.wrapping_add(size.max(1) - 1) / self.shape.line;
        let mut all = self.touch(first, store);
        if last != first {
            let more = self.touch(last, store);
            all.refill |= more.refill;
            all.write_back |= more.write_back;
        }
        all
    }

    fn touch(&mut self, number: u64, store: bool) -> CacheOutcome {
        let ways = self.shape.ways as usize;
        let begin = (number % self.sets) as usize * ways;
        let Some(set) = self.lines.get_mut(begin..begin + ways) else { return CacheOutcome::default() };
        let tag = number + 1;
        let known = set.iter().position(|line| line.tag == tag);
        let index = known.unwrap_or(ways - 1);
        set[..=index].rotate_right(1);
        let line = &mut set[0];
        match known {
            Some(_) => {
                line.dirty |= store;
                CacheOutcome::default()
            }
            None => {
                let write_back = line.dirty;
                *line = CacheLine { tag, dirty: store };
                CacheOutcome { refill: true, write_back }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: CacheShape = CacheShape { size: 256, ways: 2, line: 64 };

    #[test]
    fn a_line_is_filled_once_and_leaves_when_it_was_not_used_for_longest() {
        let mut cache = Cache::new(SMALL).expect("a cache");
        let refills = |cache: &mut Cache, addresses: &[u64]| -> Vec<bool> {
            addresses.iter().map(|&address| cache.access(address, 4, false).refill).collect()
        };
        assert_eq!(refills(&mut cache, &[0, 4, 60, 64]), [true, false, false, true]);
        // Lines 0, 2 and 4 share a set of two: line 0 is used again, so that line 2 leaves for line 4.
        assert_eq!(refills(&mut cache, &[128, 0, 256, 0, 128]), [true, false, true, false, true]);
    }

    #[test]
    fn a_written_line_is_written_back_when_it_leaves() {
        let mut cache = Cache::new(SMALL).expect("a cache");
        assert!(!cache.access(0, 4, true).write_back);
        cache.access(128, 4, false);
        assert_eq!(cache.access(256, 4, false), CacheOutcome { refill: true, write_back: true });
    }

    #[test]
    fn an_access_across_lines_touches_both() {
        let mut cache = Cache::new(SMALL).expect("a cache");
        cache.access(60, 8, false);
        assert!(!cache.access(64, 4, false).refill);
        assert!(cache.access(u64::MAX, 8, false).refill, "the top of memory wraps");
    }

    #[test]
    fn shapes_that_no_cache_has_are_refused() {
        for (size, ways, line) in [(0, 1, 64), (256, 0, 64), (256, 1, 48), (300, 1, 64), (192, 1, 64)] {
            assert!(!CacheShape { size, ways, line }.is_possible(), "{size}:{ways}:{line}");
        }
    }
}
