//! Numbers that grow by little from row to row, as where packets are in the trace: a byte for each row.
//!
//! Rows come by the path, and the rows of a path are always at the same distances from one another: they are appended as they
//! are, without a look at any of them. In files such numbers are differences anyway.

use std::ops::Range;

/// A number for each row.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Steps {
    /// By how much each is larger than the one before it; 0 of those that are in `far`.
    small: Vec<u8>,
    /// Rows whose numbers are smaller than the one before, or much larger, with the difference, which wraps around. Before the first
    /// number is 0.
    far: Vec<(u32, u64)>,
    /// The number of the last row.
    last: u64,
}

impl Steps {
    pub fn len(&self) -> usize {
        self.small.len()
    }

    /// The number of the next row.
    #[inline(always)]
    pub fn push(&mut self, number: u64) {
        self.extend(number, &[0], 0);
    }

    /// The numbers of the next rows: the first one, and by how much each is larger than the one before it (of the first: 0),
    /// together so much.
    #[inline(always)]
    pub fn extend(&mut self, first: u64, small: &[u8], together: u64) {
        let row = self.small.len();
        let difference = first.wrapping_sub(self.last);
        self.small.extend_from_slice(small);
        match u8::try_from(difference) {
            Ok(difference) => self.small.get_mut(row).into_iter().for_each(|step| *step = difference),
            Err(_) => self.far.push((row as u32, difference)),
        }
        self.last = first.wrapping_add(together);
    }

    pub fn clear(&mut self) {
        self.small.clear();
        self.far.clear();
        self.last = 0;
    }

    /// Only the first rows.
    pub fn truncate(&mut self, rows: usize) {
        if rows < self.len() {
            self.last = self.before(rows);
            self.small.truncate(rows);
            self.far.truncate(self.far.partition_point(|(row, _)| (*row as usize) < rows));
        }
    }

    /// The number before that of a row: from the end, because nobody asks for what is long past.
    fn before(&self, row: usize) -> u64 {
        let rows = row..self.len();
        self.last.wrapping_sub(self.sum_of(rows))
    }

    /// How much larger the last of some rows is than the one before the first; it wraps around.
    pub fn sum_of(&self, rows: Range<usize>) -> u64 {
        let far = self.far_of(rows.clone()).iter();
        far.fold(sum(self.small_of(rows)), |sum, (_, step)| sum.wrapping_add(*step))
    }

    /// The small differences of some rows, each from the one before it.
    pub fn small_of(&self, rows: Range<usize>) -> &[u8] {
        self.small.get(rows).unwrap_or_default()
    }

    /// Those of some rows that are not small, by row.
    pub fn far_of(&self, rows: Range<usize>) -> &[(u32, u64)] {
        let index = |row: usize| self.far.partition_point(|(other, _)| (*other as usize) < row);
        self.far.get(index(rows.start)..index(rows.end)).unwrap_or_default()
    }

    /// The numbers of all rows from this one on.
    pub fn numbers_from(&self, row: usize) -> Vec<u64> {
        let mut numbers = Vec::new();
        self.put_numbers(row, self.before(row), &mut numbers);
        numbers
    }

    /// The numbers of all rows, in memory that was needed before.
    #[cfg(feature = "arrow")]
    pub fn numbers(&self, mut room: Vec<u64>) -> Vec<u64> {
        room.clear();
        self.put_numbers(0, 0, &mut room);
        room
    }

    /// The numbers of all rows from this one on, after this one.
    fn put_numbers(&self, row: usize, mut number: u64, out: &mut Vec<u64>) {
        out.reserve(self.len().saturating_sub(row));
        self.each_stretch(row..self.len(), |first, small| {
            number = number.wrapping_add(first);
            out.extend(small.iter().map(|&step| {
                number = number.wrapping_add(step.into());
                number
            }));
        });
    }

    /// Rows between those that are far from one another: the difference of the first, where that is far, and the small ones.
    fn each_stretch(&self, rows: Range<usize>, mut each: impl FnMut(u64, &[u8])) {
        let (mut at, mut first) = (rows.start, 0);
        for &(row, difference) in self.far_of(rows.clone()) {
            each(first, self.small_of(at..row as usize));
            (at, first) = (row as usize, difference);
        }
        each(first, self.small_of(at..rows.end));
    }

    /// The lowest and the highest number.
    #[cfg(feature = "export")]
    pub fn bounds(&self) -> Option<(u64, u64)> {
        let (mut number, mut bounds) = (0_u64, None);
        self.each_stretch(0..self.len(), |first, small| {
            let Some((own, rest)) = small.split_first() else { return };
            let least = number.wrapping_add(first).wrapping_add((*own).into());
            number = least.wrapping_add(sum(rest));
            // Numbers that pass the largest one begin again with 0.
            let (least, most) = if number < least { (0, u64::MAX) } else { (least, number) };
            bounds = Some(
                bounds.map_or((least, most), |(low, high): (u64, u64)| (low.min(least), high.max(most))),
            );
        });
        bounds
    }

    /// The same rows, whose numbers are larger by what holds from some of them on; it wraps around.
    pub fn displaced(&self, by: &[(u32, u64)]) -> Self {
        let mut displaced =
            Self { small: self.small.clone(), far: Vec::with_capacity(self.far.len()), last: self.last };
        let mut far = self.far.iter().copied().peekable();
        let mut before = 0;
        for &(row, displacement) in by {
            displaced.far.extend(std::iter::from_fn(|| far.next_if(|(other, _)| *other < row)));
            let Some(small) = displaced.small.get_mut(row as usize) else { break };
            let own =
                far.next_if(|(other, _)| *other == row).map_or((*small).into(), |(_, difference)| difference);
            let difference = own.wrapping_add(displacement).wrapping_sub(before);
            match u8::try_from(difference) {
                Ok(difference) => *small = difference,
                Err(_) => {
                    *small = 0;
                    displaced.far.push((row, difference));
                }
            }
            before = displacement;
        }
        displaced.far.extend(far);
        displaced.last = displaced.last.wrapping_add(before);
        displaced
    }
}

/// The sum of bytes: eight at a time, in two times four sums of sixteen bits, which bytes from 128 times eight cannot fill.
fn sum(bytes: &[u8]) -> u64 {
    const EVERY_OTHER: u64 = 0x00FF_00FF_00FF_00FF;
    let (eights, rest) = bytes.as_chunks::<8>();
    let of_some = |some: &[[u8; 8]]| {
        let sums = some.iter().fold(0, |sums: u64, eight| {
            let eight = u64::from_le_bytes(*eight);
            sums + (eight & EVERY_OTHER) + (eight >> 8 & EVERY_OTHER)
        });
        (0..4).map(|lane| sums >> (16 * lane) & 0xFFFF).sum::<u64>()
    };
    eights.chunks(128).map(of_some).sum::<u64>() + rest.iter().map(|&byte| u64::from(byte)).sum::<u64>()
}

#[cfg(test)]
mod tests {
    use super::*;
    use backsight_testing::Random;

    /// Numbers that mostly grow by little.
    fn numbers(count: usize, random: &mut Random) -> Vec<u64> {
        let mut number = random.below(1 << 40);
        let mut next = |_| {
            number = match random.below(40) {
                0 => random.next(),
                1 => number.wrapping_sub(random.below(300)),
                2 => number.wrapping_add(random.below(600)),
                _ => number.wrapping_add(random.below(2)),
            };
            number
        };
        (0..count).map(&mut next).collect()
    }

    fn steps_of(numbers: &[u64]) -> Steps {
        let mut steps = Steps::default();
        numbers.iter().for_each(|&number| steps.push(number));
        steps
    }

    #[test]
    fn what_was_pushed_comes_out_again() {
        let mut random = Random(6);
        for count in [0, 1, 2, 50, 1000] {
            let numbers = numbers(count, &mut random);
            let mut steps = steps_of(&numbers);
            assert_eq!(steps.len(), count);
            for row in [0, count / 3, count] {
                assert_eq!(steps.numbers_from(row), numbers[row..]);
            }
            steps.truncate(count / 2);
            assert_eq!(steps.numbers_from(0), numbers[..count / 2]);
            // What comes next does not depend on what is gone.
            steps.push(7);
            assert_eq!(steps.numbers_from(count / 2), [7]);
            steps.clear();
            assert_eq!(steps, Steps::default());
        }
    }

    #[test]
    fn rows_that_come_together_are_those_that_come_one_by_one() {
        let mut random = Random(7);
        let (mut together, mut single) = (Steps::default(), Steps::default());
        for first in numbers(300, &mut random) {
            let mut small: Vec<u8> = (0..1 + random.below(20)).map(|_| random.next() as u8).collect();
            small[0] = 0;
            together.extend(first, &small, small.iter().map(|&step| u64::from(step)).sum());
            let mut number = first;
            for step in small {
                number = number.wrapping_add(step.into());
                single.push(number);
            }
        }
        assert_eq!(together, single);
    }

    #[test]
    fn displaced_numbers_are_larger_from_some_rows_on() {
        let mut random = Random(8);
        for _ in 0..50 {
            let numbers = numbers(200, &mut random);
            let mut by = vec![(0, random.below(1 << 30))];
            while let Some(&(last, displacement)) = by.last() {
                let row = last + 1 + random.below(30) as u32;
                if row >= 200 {
                    break;
                }
                let more = [1, 16, 1000, u64::MAX][random.below(4) as usize];
                by.push((row, displacement.wrapping_add(more)));
            }
            let displacement = |row: u32| by.iter().rev().find(|(first, _)| *first <= row).unwrap().1;
            let expected: Vec<_> =
                (0..).zip(&numbers).map(|(row, number)| number.wrapping_add(displacement(row))).collect();
            assert_eq!(steps_of(&numbers).displaced(&by), steps_of(&expected));
        }
        assert_eq!(steps_of(&[5, 6]).displaced(&[]), steps_of(&[5, 6]));
    }

    #[test]
    fn sums_are_those_of_single_bytes() {
        let mut random = Random(10);
        for count in [0, 1, 7, 8, 9, 1023, 1024, 1025, 5000] {
            assert_eq!(sum(&vec![255; count]), 255 * count as u64);
            let bytes: Vec<u8> = (0..count).map(|_| random.next() as u8).collect();
            assert_eq!(sum(&bytes), bytes.iter().map(|&byte| u64::from(byte)).sum::<u64>());
        }
    }

    #[cfg(feature = "export")]
    #[test]
    fn bounds_are_the_lowest_and_the_highest() {
        let mut random = Random(9);
        assert_eq!(Steps::default().bounds(), None);
        for count in [1, 2, 10, 1000] {
            let numbers = numbers(count, &mut random);
            let bounds = numbers.iter().min().copied().zip(numbers.iter().max().copied());
            assert_eq!(steps_of(&numbers).bounds(), bounds);
        }
    }
}
