//! What a builder knows of straight-line code that it was given before.

use backsight_core::{Address, RetiredBlock};
use backsight_isa::rv::{self, Decoded, Operation, QuickLook};

use super::Itype;
use super::builder::set_of;

/// Straight-line code.
#[derive(Clone, Copy, Debug)]
pub(super) struct KnownCode {
    /// Address of the first instruction.
    pub start: u64,
    /// Where the last instruction leads according to the one before it.
    pub sequential_target: Option<Address>,
    /// Bytes of all instructions together.
    pub length: u32,
    pub last_size: u8,
    /// The type of the last instruction: not taken, taken.
    pub itypes: [Itype; 2],
    /// There is only one instruction: the one before it is not known.
    pub is_alone: bool,
    /// No instruction before the last is special, and the last one says nothing about the one after it.
    pub is_straight: bool,
    /// The same, and the last one ends a block for an encoder.
    pub is_whole: bool,
}

impl KnownCode {
    #[cold]
    pub fn new(block: &RetiredBlock<'_>) -> Self {
        let none = Self {
            start: block.code.first().map_or(0, |first| first.address.0),
            sequential_target: None,
            length: 0,
            last_size: 0,
            itypes: [Itype::None; 2],
            is_alone: false,
            is_straight: false,
            is_whole: false,
        };
        let [before @ .., last] = block.code else { return none };
        let mut upper: Option<(Decoded, Address)> = None;
        let mut length = 0;
        let mut is_straight = block.code.windows(2).all(|pair| pair[0].end() == pair[1].address);
        for retired in before {
            let decoded = rv::decode(set_of(retired), retired.opcode, retired.address);
            is_straight &= Itype::of(&decoded, true) == Itype::None;
            upper = is_upper(&decoded).then_some((decoded, retired.address));
            length += u32::from(retired.size);
        }
        let set = set_of(last);
        let decoded = rv::decode(set, last.opcode, last.address);
        let is_branch = rv::quick_look(set, last.opcode) == QuickLook::Branch;
        let upper = upper.filter(|_| !is_branch);
        let itypes = [false, true].map(|taken| Itype::of(&decoded, taken));
        is_straight &= !is_upper(&decoded);
        Self {
            sequential_target: upper.and_then(|(before, at)| decoded.sequential_target(set, &before, at)),
            length: length + u32::from(last.size),
            last_size: last.size,
            itypes,
            is_alone: before.is_empty(),
            is_straight,
            is_whole: is_straight && !itypes.contains(&Itype::None),
            ..none
        }
    }
}

fn is_upper(decoded: &Decoded) -> bool {
    matches!(decoded.operation, Operation::UpperImmediate { .. })
}
