//! Conditions that T32 instructions get from an IT instruction before them.

use backsight_core::{Address, AddressSpace};

use crate::{Code, Image, Mapping};

/// ITSTATE: the condition of the next instruction in bits 7:4, what is left of the block in bits 3:0; 0 outside of a
/// block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ItBlock(u8);

impl ItBlock {
    /// The condition of the next instruction.
    pub fn condition(self) -> Option<u8> {
        (self.0 & 0xF != 0).then_some(self.0 >> 4)
    }

    /// After an instruction that begins with this half-word.
    pub fn after(self, first: u16) -> Self {
        if first & 0xFF00 == 0xBF00 && first & 0xF != 0 {
            return Self(first as u8);
        }
        match self.0 & 7 {
            0 => Self(0),
            _ => Self(self.0 & 0xE0 | self.0 << 1 & 0x1F),
        }
    }
}

/// An IT instruction, and four of up to two half-words each.
const LONGEST_BLOCK: usize = 9;

/// How many half-words before a block are read to find where an instruction begins.
const LOOK_BACK: usize = 16;

/// The state before the instruction at `address`, from what its function has before it. Where no function is known
/// there may be data, and none is assumed: branches do not lead into a block.
pub(super) fn before(code: &impl Code, names: &Image, space: AddressSpace, address: Address) -> ItBlock {
    let Some(function) = names.symbolise(space, address) else { return ItBlock::default() };
    let mut halves = [0; LONGEST_BLOCK + LOOK_BACK];
    let mut first = halves.len();
    while first > 0 {
        let at = address.offset(-2 * (halves.len() - first + 1) as i64);
        let bytes = code.bytes_at(space, at).and_then(|bytes| bytes.first_chunk());
        let data = names.mapping(space, at) == Some(Mapping::Data);
        let Some(&[low, high]) = bytes.filter(|_| at.0 >= function.start.0 && !data) else { break };
        first -= 1;
        halves[first] = u16::from_le_bytes([low, high]);
    }
    at_end_of(&halves[first..])
}

/// The state after these half-words.
///
/// A half-word that does not look like the first of two always ends an instruction, so code can be read backwards up
/// to such a one and forwards from there.
fn at_end_of(halves: &[u16]) -> ItBlock {
    let far = halves.len().saturating_sub(LONGEST_BLOCK);
    let mut at = halves[..far].iter().rposition(|&half| !is_first_of_two(half)).map_or(0, |end| end + 1);
    let mut state = ItBlock::default();
    while let Some(&half) = halves.get(at) {
        state = state.after(half);
        at += if is_first_of_two(half) { 2 } else { 1 };
    }
    state
}

fn is_first_of_two(half: u16) -> bool {
    backsight_isa::t32::size(half) == 4
}

#[cfg(test)]
mod tests {
    use super::*;

    const ITTE_EQ: u16 = 0xBF06;

    #[test]
    fn the_conditions_are_those_of_the_block() {
        let mut state = ItBlock::default().after(ITTE_EQ);
        let mut conditions = Vec::new();
        for _ in 0..4 {
            conditions.push(state.condition());
            state = state.after(0x2000);
        }
        assert_eq!(conditions, [Some(0), Some(0), Some(1), None]);
    }

    #[test]
    fn code_before_an_address_tells_its_state() {
        // After bl, whose second half looks like the first of two, an IT block with a long instruction in it.
        let code = [0x4770, 0xF000, 0xF800, ITTE_EQ, 0xF04F, 0x0001, 0x2000];
        assert_eq!(at_end_of(&code).condition(), Some(1));
        assert_eq!(at_end_of(&code[..6]).condition(), Some(0));
        assert_eq!(at_end_of(&code[..4]).condition(), Some(0));
        assert_eq!(at_end_of(&code[..3]).condition(), None);
        // The second half of a long instruction may look like an IT instruction.
        assert_eq!(at_end_of(&[0x4770, 0xF8D0, ITTE_EQ]).condition(), None);
        assert_eq!(at_end_of(&[]).condition(), None);
    }
}
