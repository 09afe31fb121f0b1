//! How often things happened, in the file of an index.

use std::iter;

use super::file::{MOST_INSTRUCTIONS, Read, Written};
use super::sums::{Counts, Part, Sums};

impl Written {
    pub(super) fn sums(&mut self, Sums { functions, parts }: &Sums) {
        self.number(functions.len() as u64);
        let mut last = 0;
        for &start in functions {
            self.signed(start.wrapping_sub(last));
            last = start;
        }
        self.number(parts.len() as u64);
        let mut end = 0;
        for part in parts {
            let Counts { exceptions, gaps, contexts, functions } = &part.counts;
            self.number(part.end - end);
            end = part.end;
            self.number(*exceptions);
            self.number(*gaps);
            self.times(contexts.iter().copied());
            self.times(functions.iter().map(|&(number, times)| (number.into(), times)));
        }
    }

    /// Sorted keys, by their distances, and how often.
    fn times(&mut self, list: impl ExactSizeIterator<Item = (u64, u64)>) {
        self.number(list.len() as u64);
        let mut last = 0;
        for (key, times) in list {
            self.number(key - last);
            self.number(times);
            last = key;
        }
    }

    /// A difference that may be negative.
    fn signed(&mut self, difference: u64) {
        self.number((difference << 1) ^ (((difference as i64) >> 63) as u64));
    }
}

impl Read<'_> {
    /// Of a source with so many instructions.
    pub(super) fn sums(&mut self, instructions: u64) -> Option<Sums> {
        let mut last = 0_u64;
        let count = self.count()?;
        let starts = iter::repeat_with(|| {
            last = last.wrapping_add(self.signed()?);
            Some(last)
        });
        let functions: Vec<u64> = starts.take(count).collect::<Option<_>>()?;
        let count = self.count()?;
        let (mut parts, mut end) = (Vec::new(), 0_u64);
        for _ in 0..count {
            end = end.checked_add(self.number()?).filter(|&end| end <= instructions)?;
            let (exceptions, gaps) = (self.counted()?, self.counted()?);
            let contexts = self.times()?;
            let entered = self.times()?.into_iter().map(|(number, times)| {
                let number =
                    u32::try_from(number).ok().filter(|&number| functions.len() > number as usize)?;
                Some((number, times))
            });
            let functions = entered.collect::<Option<_>>()?;
            parts.push(Part { end, counts: Counts { exceptions, gaps, contexts, functions } });
        }
        Some(Sums { functions, parts })
    }

    fn times(&mut self) -> Option<Vec<(u64, u64)>> {
        let mut last = None;
        let count = self.count()?;
        let list = iter::repeat_with(|| {
            let distance = self.number()?;
            let key = match last {
                None => distance,
                Some(last) if distance > 0 => u64::checked_add(last, distance)?,
                Some(_) => return None,
            };
            last = Some(key);
            Some((key, self.counted()?))
        });
        list.take(count).collect()
    }

    /// How often something was: not so often that sums of it do not fit.
    fn counted(&mut self) -> Option<u64> {
        self.number().filter(|&times| times <= MOST_INSTRUCTIONS >> 20)
    }

    fn signed(&mut self) -> Option<u64> {
        let number = self.number()?;
        Some((number >> 1) ^ (number & 1).wrapping_neg())
    }
}
