//! How often things happened, in the file of an index.

use std::iter;

use super::file::{MOST_INSTRUCTIONS, Read, Written};
use super::sums::{Counts, FunctionCounts, Part, Sums};

impl Written {
    pub(super) fn sums(&mut self, Sums { functions, parts }: &Sums) {
        self.number(functions.len() as u64);
        let mut last = 0;
        for &start in functions {
            self.signed(start.wrapping_sub(last));
            last = start;
        }
        self.number(parts.len() as u64);
        let (mut end, mut last_time) = (0, 0);
        for Part { end: part_end, time, depths, counts } in parts {
            let Counts { exceptions, gaps, breaks, messages, contexts, functions } = counts;
            self.number(part_end - end);
            end = *part_end;
            self.optional(time.map(|time| time.wrapping_sub(last_time)));
            last_time = time.unwrap_or(last_time);
            for number in [depths.0, depths.1, *exceptions, *gaps, *breaks, *messages] {
                self.number(number);
            }
            self.number(contexts.len() as u64);
            let mut last = 0;
            for &(id, times) in contexts {
                self.number(id - last);
                self.number(times);
                last = id;
            }
            self.number(functions.len() as u64);
            let mut last = 0;
            for &FunctionCounts { function, entered, instructions } in functions {
                self.number(u64::from(function - last));
                self.number(entered);
                self.number(instructions);
                last = function;
            }
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
        let (mut parts, mut end, mut last_time) = (Vec::new(), 0_u64, 0_u64);
        for _ in 0..count {
            end = end.checked_add(self.number()?).filter(|&end| end <= instructions)?;
            let time = self.optional()?.map(|more| last_time.wrapping_add(more));
            last_time = time.unwrap_or(last_time);
            let depths = (self.counted()?, self.counted()?);
            let (exceptions, gaps, breaks, messages) =
                (self.counted()?, self.counted()?, self.counted()?, self.counted()?);
            let contexts = self.list(|read, id| Some((id, read.counted()?)))?;
            let functions = self.list(|read, number| {
                let function = u32::try_from(number).ok().filter(|&one| functions.len() > one as usize)?;
                let (entered, instructions) = (read.counted()?, read.counted()?);
                Some(FunctionCounts { function, entered, instructions })
            })?;
            let counts = Counts { exceptions, gaps, breaks, messages, contexts, functions };
            parts.push(Part { end, time, depths, counts });
        }
        Some(Sums { functions, parts })
    }

    /// What there is for sorted keys, which are written by their distances.
    fn list<T>(&mut self, mut each: impl FnMut(&mut Self, u64) -> Option<T>) -> Option<Vec<T>> {
        let (mut last, mut list) = (None, Vec::new());
        for _ in 0..self.count()? {
            let distance = self.number()?;
            let key = match last {
                None => distance,
                Some(last) if distance > 0 => u64::checked_add(last, distance)?,
                Some(_) => return None,
            };
            last = Some(key);
            list.push(each(self, key)?);
        }
        Some(list)
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
