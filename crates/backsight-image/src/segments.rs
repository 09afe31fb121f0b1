//! Memory as a sorted row of pieces that do not overlap.

use crate::Contents;

/// A piece of memory: addresses `start..=last` hold `contents[offset..]`. The last address rather than the one behind
/// it, since that does not exist at the top of memory.
#[derive(Clone, Debug)]
pub struct Segment {
    pub start: u64,
    pub last: u64,
    pub contents: Contents,
    pub offset: usize,
    /// Which of the files that memory is made from it belongs to.
    pub source: u32,
}

impl Segment {
    /// `contents[offset..offset + length]` at `start`; `None` if that is nothing, or goes beyond the contents or the
    /// top of memory.
    pub fn new(start: u64, contents: Contents, offset: usize, length: usize, source: u32) -> Option<Self> {
        let beyond = u64::try_from(length).ok()?.checked_sub(1)?;
        (offset.checked_add(length)? <= contents.len()).then_some(Self {
            start,
            last: start.checked_add(beyond)?,
            contents,
            offset,
            source,
        })
    }

    /// The part of it that lies in `start..=last`, which must overlap.
    fn part(&self, start: u64, last: u64) -> Self {
        let start = start.max(self.start);
        let mut part = self.clone();
        part.offset += (start - self.start) as usize;
        part.start = start;
        part.last = last.min(self.last);
        part
    }

    fn bytes_from(&self, address: u64) -> Option<&[u8]> {
        let length = usize::try_from(self.last - address).ok()? + 1;
        let offset = self.offset + (address - self.start) as usize;
        self.contents.get(offset..offset + length)
    }
}

/// The pieces of one view of memory.
#[derive(Clone, Debug, Default)]
pub struct Segments(Vec<Segment>);

impl Segments {
    /// Lays `segment` over what is there.
    pub fn insert(&mut self, segment: Segment) {
        self.clear(segment.start, segment.last);
        let place = self.0.partition_point(|other| other.start < segment.start);
        self.0.insert(place, segment);
    }

    /// Takes away what is in `start..=last`.
    pub fn clear(&mut self, start: u64, last: u64) {
        let from = self.0.partition_point(|other| other.last < start);
        let to = self.0.partition_point(|other| other.start <= last);
        if from >= to {
            return;
        }
        let (first, end) = (&self.0[from], &self.0[to - 1]);
        let before = (first.start < start).then(|| first.part(first.start, start - 1));
        let behind = (end.last > last).then(|| end.part(last + 1, end.last));
        self.0.splice(from..to, before.into_iter().chain(behind));
    }

    pub fn find(&self, address: u64) -> Option<&Segment> {
        let place = self.0.partition_point(|segment| segment.last < address);
        self.0.get(place).filter(|segment| segment.start <= address)
    }

    /// The bytes from `address` to the end of the piece it lies in.
    pub fn bytes_at(&self, address: u64) -> Option<&[u8]> {
        self.find(address)?.bytes_from(address)
    }

    /// Where the first piece behind `address` begins.
    pub fn next_start(&self, address: u64) -> Option<u64> {
        self.0.get(self.0.partition_point(|segment| segment.start <= address)).map(|segment| segment.start)
    }

    pub fn iter(&self) -> impl Iterator<Item = &Segment> {
        self.0.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn segment(start: u64, byte: u8, length: usize) -> Segment {
        let bytes: Vec<u8> = (0..length).map(|place| byte.wrapping_add(place as u8)).collect();
        Segment::new(start, bytes.into(), 0, length, u32::from(byte)).unwrap()
    }

    #[test]
    fn memory_reaches_to_the_top() {
        let mut segments = Segments::default();
        segments.insert(segment(u64::MAX - 3, 7, 4));
        assert_eq!(segments.bytes_at(u64::MAX - 1), Some(&[9, 10][..]));
        assert!(Segment::new(u64::MAX - 3, vec![0; 5].into(), 0, 5, 0).is_none());
        segments.clear(u64::MAX, u64::MAX);
        assert_eq!(segments.bytes_at(u64::MAX), None);
        assert_eq!(segments.bytes_at(u64::MAX - 1), Some(&[9][..]));
    }

    #[test]
    fn a_piece_laid_into_another_cuts_it_in_two() {
        let mut segments = Segments::default();
        segments.insert(segment(10, 0, 10));
        segments.insert(segment(14, 100, 2));
        assert_eq!(segments.bytes_at(12), Some(&[2, 3][..]));
        assert_eq!(segments.bytes_at(15), Some(&[101][..]));
        assert_eq!(segments.bytes_at(16), Some(&[6, 7, 8, 9][..]));
        assert_eq!(segments.bytes_at(20), None);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]

        #[test]
        fn pieces_are_what_an_array_of_bytes_would_hold(
            steps in prop::collection::vec((0u64..60, 1usize..30, any::<u8>(), any::<bool>()), 1..20)
        ) {
            let mut segments = Segments::default();
            let mut naive = [None; 100];
            for (start, length, byte, insert) in steps {
                let (from, to) = (start as usize, start as usize + length);
                if insert {
                    segments.insert(segment(start, byte, length));
                    for (distance, slot) in naive[from..to].iter_mut().enumerate() {
                        *slot = Some(byte.wrapping_add(distance as u8));
                    }
                } else {
                    segments.clear(start, start + length as u64 - 1);
                    naive[from..to].fill(None);
                }
            }
            for (place, byte) in naive.iter().enumerate() {
                prop_assert_eq!(segments.bytes_at(place as u64).map(|bytes| bytes[0]), *byte);
            }
            for pair in segments.0.windows(2) {
                prop_assert!(pair[0].last < pair[1].start);
            }
        }
    }
}
