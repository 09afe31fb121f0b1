//! What happens to bytes on their way.

use backsight_testing::Random;

use crate::compare::{Listing, Subject};

/// Some bytes of a stream are replaced by others.
#[derive(Clone, Debug)]
pub struct Harm {
    /// The first byte that is replaced.
    pub start: usize,
    /// The first byte after those.
    pub end: usize,
    /// What stands there instead.
    pub instead: Vec<u8>,
    /// Packets after it are where they were: only the contents of one were changed.
    pub keeps_frames: bool,
}

impl Harm {
    /// Any damage in the first three quarters of a stream.
    pub fn new(random: &mut Random, subject: &dyn Subject, intact: &Listing) -> Self {
        let bytes = subject.bytes();
        let start = bytes.len() / 10 + random.below(bytes.len() as u64 * 6 / 10) as usize;
        let packet = intact.marks.iter().find(|mark| mark.start <= start && start < mark.end);
        let keeps_frames = packet.is_some_and(|mark| subject.is_payload(mark, start));
        // Where nothing would find the frames again, only what is in them is damaged.
        if !keeps_frames && !subject.realigns() {
            return Self::new(random, subject, intact);
        }
        let any = |random: &mut Random| random.below(256) as u8;
        let few = 1 + random.below(6) as usize;
        match random.below(6) {
            0..=2 => {
                let turned = bytes[start] ^ 1 << random.below(8);
                Self { start, end: start + 1, instead: vec![turned], keeps_frames }
            }
            3 => Self { start, end: start + 1, instead: vec![any(random)], keeps_frames },
            _ if !subject.realigns() => {
                Self { start, end: start + 1, instead: vec![!bytes[start]], keeps_frames }
            }
            4 => Self { start, end: start + few, instead: Vec::new(), keeps_frames: false },
            _ => {
                let instead = (0..few).map(|_| any(random)).collect();
                Self { start, end: start, instead, keeps_frames: false }
            }
        }
    }

    /// The stream with the damage.
    pub fn apply(&self, bytes: &[u8]) -> Vec<u8> {
        [&bytes[..self.start], &self.instead, &bytes[self.end..]].concat()
    }

    /// Where a position after the damage is in the damaged stream.
    pub fn moved(&self, position: usize) -> usize {
        position - (self.end - self.start) + self.instead.len()
    }
}
