//! Straight code, read once and remembered.
//!
//! A stretch begins anywhere and ends with the first instruction that may go elsewhere than to the next one. Of those
//! whose addresses fall on the same place the latest is kept: memory is bounded, and no search is needed.

use backsight_core::{Address, AddressSpace};
use backsight_image::Code;
use backsight_isa::rv::{self, Decoded, Operation, Set};

/// Places for stretches.
const PLACES: usize = 1 << 12;
/// Instructions of the longest stretch.
const LONGEST: u16 = 256;

/// Instructions that follow one another.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stretch {
    start: Address,
    /// Address of the last instruction.
    pub last: Address,
    /// That instruction.
    pub decoded: Decoded,
    /// How many there are.
    pub instructions: u16,
    /// Half-words of all.
    pub half_words: u16,
}

pub(super) struct Stretches<'c, C> {
    code: &'c C,
    set: Set,
    places: Vec<Option<Stretch>>,
}

impl<'c, C: Code> Stretches<'c, C> {
    pub fn new(code: &'c C, set: Set) -> Self {
        Self { code, set, places: vec![None; PLACES] }
    }

    /// The stretch that begins at `pc`; `None` if no instruction is there.
    #[inline]
    pub fn at(&mut self, pc: Address) -> Option<Stretch> {
        let place = (pc.0 >> 1) as usize % PLACES;
        match self.places.get(place) {
            Some(Some(stretch)) if stretch.start == pc => Some(*stretch),
            _ => self.read(pc, place),
        }
    }

    #[inline(never)]
    fn read(&mut self, start: Address, place: usize) -> Option<Stretch> {
        let decoded = self.fetch(start)?;
        let half_words = u16::from(decoded.instruction.size / 2);
        let mut stretch = Stretch { start, last: start, decoded, instructions: 1, half_words };
        while is_plain(&stretch.decoded) && stretch.instructions < LONGEST {
            let next = stretch.last.plus(u64::from(stretch.decoded.instruction.size));
            let Some(decoded) = self.fetch(next) else { break };
            (stretch.last, stretch.decoded) = (next, decoded);
            stretch.instructions += 1;
            stretch.half_words += u16::from(decoded.instruction.size / 2);
        }
        if let Some(slot) = self.places.get_mut(place) {
            *slot = Some(stretch);
        }
        Some(stretch)
    }

    /// The instruction at `pc`.
    pub fn fetch(&self, pc: Address) -> Option<Decoded> {
        let bytes = self.code.bytes_at(AddressSpace::ANY, pc)?;
        Some(rv::decode(self.set, rv::opcode(bytes)?, pc))
    }
}

fn is_plain(decoded: &Decoded) -> bool {
    !matches!(decoded.operation, Operation::Branch | Operation::Jump { .. } | Operation::TrapReturn)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Bytes(Vec<u8>);

    impl Code for Bytes {
        fn bytes_at(&self, _: AddressSpace, address: Address) -> Option<&[u8]> {
            self.0.get(usize::try_from(address.0).ok()?..).filter(|bytes| !bytes.is_empty())
        }
    }

    #[test]
    fn a_stretch_ends_at_a_jump_where_code_ends_and_at_its_longest() {
        // c.nop, nop, ret, c.nop
        let mut bytes = vec![0x01, 0x00, 0x13, 0, 0, 0, 0x82, 0x80, 0x01, 0x00];
        let code = Bytes(bytes.clone());
        let mut stretches = Stretches::new(&code, Set::RV64);
        let told = |stretch: Stretch| (stretch.last.0, stretch.instructions, stretch.half_words);
        assert_eq!(stretches.at(Address(0)).map(told), Some((6, 3, 4)));
        assert_eq!(stretches.at(Address(8)).map(told), Some((8, 1, 1)));
        assert_eq!(stretches.at(Address(10)).map(told), None);
        bytes.clear();
        bytes.resize(4 * PLACES, 0x01);
        (1..bytes.len()).step_by(2).for_each(|n| bytes[n] = 0);
        let code = Bytes(bytes);
        let mut stretches = Stretches::new(&code, Set::RV64);
        // Both fall on the same place: each is read when its turn comes.
        for start in [0, 2 * PLACES as u64, 0] {
            let stretch = stretches.at(Address(start)).map(told);
            assert_eq!(stretch, Some((start + 2 * u64::from(LONGEST) - 2, LONGEST, LONGEST)));
        }
    }
}
