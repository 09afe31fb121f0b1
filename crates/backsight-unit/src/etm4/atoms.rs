//! Atoms waiting for a packet: the more of them wait, the more fit into one.

use backsight_arm::etm4::Atoms;

/// More waiting atoms than this are written.
const PLENTY: u32 = 40;

#[derive(Default)]
pub(super) struct AtomBuffer {
    /// Oldest in bit 0, 1 is `E`; bits from `count` on are 0.
    bits: u64,
    count: u32,
}

impl AtomBuffer {
    #[inline]
    pub(super) fn push(&mut self, executed: bool) {
        self.bits |= u64::from(executed) << self.count;
        self.count += 1;
    }

    /// Must some be written before the next one?
    #[inline]
    pub(super) fn is_full(&self) -> bool {
        self.count >= PLENTY
    }

    pub(super) fn len(&self) -> u32 {
        self.count
    }

    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Takes the oldest atoms that make one packet.
    pub(super) fn take(&mut self) -> Option<Atoms> {
        if self.count == 0 {
            return None;
        }
        let atoms = Atoms::longest_packet(self.bits, self.count);
        self.bits >>= atoms.count;
        self.count -= u32::from(atoms.count);
        Some(atoms)
    }

    /// How many of the newest atoms are `N`.
    pub(super) fn trailing_not_executed(&self) -> u32 {
        let free = 64 - self.count;
        if self.count == 0 { 0 } else { (self.bits << free).leading_zeros().min(self.count) }
    }

    /// Forgets the newest `count` atoms.
    pub(super) fn drop_newest(&mut self, count: u32) {
        self.count = self.count.saturating_sub(count);
        self.bits &= (1u64 << self.count) - 1;
    }

    /// The newest `count` atoms, if there are as many.
    pub(super) fn newest(&self, count: u32) -> Option<u64> {
        (self.count >= count).then(|| self.bits >> (self.count - count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use backsight_testing::Random;

    fn buffer(letters: &str) -> AtomBuffer {
        let mut buffer = AtomBuffer::default();
        letters.chars().for_each(|letter| buffer.push(letter == 'E'));
        buffer
    }

    fn packets(letters: &str) -> Vec<String> {
        let mut buffer = buffer(letters);
        core::iter::from_fn(|| buffer.take()).map(|atoms| atoms.to_string()).collect()
    }

    #[test]
    fn packets_keep_every_atom_in_order() {
        let mut random = Random(1);
        for _ in 0..2000 {
            let letters: String =
                (0..random.below(40)).map(|_| if random.below(3) > 0 { 'E' } else { 'N' }).collect();
            assert_eq!(packets(&letters).concat(), letters);
        }
    }

    #[test]
    fn the_newest_atoms_can_be_seen_and_forgotten() {
        let mut buffer = buffer("EENN");
        assert_eq!(buffer.trailing_not_executed(), 2);
        buffer.drop_newest(2);
        assert_eq!(buffer.trailing_not_executed(), 0);
        assert_eq!(buffer.newest(2), Some(0b11));
        assert_eq!(buffer.newest(3), None);
        buffer.drop_newest(2);
        assert!(buffer.is_empty());
    }
}
