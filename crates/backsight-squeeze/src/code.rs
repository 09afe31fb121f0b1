//! The code of the program: what compressor and decompressor both know.
//!
//! A compressor leaves out what follows from the code: the length of a straight piece, the target of a direct branch.
//! Instructions come from the program's file where it is given; those that are not in it (or are another there) are
//! added as they are seen, and travel in the container.

use backsight_core::{Address, Isa, Retired};
use backsight_isa::{Class, Instruction, classify, classify_retired};
use std::collections::HashMap;

/// What an instruction does to control flow, as compressors see it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Goes on to the next instruction.
    #[default]
    Plain,
    /// An unconditional branch to a target in the opcode.
    Jump,
    /// The same, and it leaves a return address.
    Call,
    /// A conditional branch to a target in the opcode.
    Conditional,
    /// A branch to a target that is not in the opcode.
    Indirect,
    /// The same, and it leaves a return address.
    IndirectCall,
    /// A return.
    Return,
}

impl Kind {
    /// Of a classified instruction.
    pub fn of(instruction: &Instruction) -> Self {
        let flags = &instruction.flags;
        match instruction.class {
            Class::DirectBranch if flags.conditional => Self::Conditional,
            Class::DirectBranch if flags.link => Self::Call,
            Class::DirectBranch => Self::Jump,
            Class::IndirectBranch if flags.link => Self::IndirectCall,
            Class::IndirectBranch if flags.returns => Self::Return,
            Class::IndirectBranch => Self::Indirect,
            _ => Self::Plain,
        }
    }

    /// Its target is not in the opcode.
    #[inline]
    pub const fn is_indirect(self) -> bool {
        matches!(self, Self::Indirect | Self::IndirectCall | Self::Return)
    }

    /// It always goes to the target in its opcode.
    #[inline]
    pub const fn is_direct(self) -> bool {
        matches!(self, Self::Jump | Self::Call)
    }
}

/// An instruction of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Op {
    /// As fetched; see [`Retired::opcode`].
    pub opcode: u32,
    /// 2 or 4.
    pub size: u8,
    /// Its instruction set.
    pub isa: Isa,
    /// What it does to control flow.
    pub kind: Kind,
}

const UNKNOWN: Op = Op { opcode: 0, size: 0, isa: Isa::A64, kind: Kind::Plain };

impl Op {
    /// Is it this instruction?
    #[inline]
    pub fn is(&self, retired: &Retired) -> bool {
        self.opcode == retired.opcode && self.size == retired.size && self.isa == retired.isa
    }

    fn of(retired: &Retired) -> Self {
        let kind = Kind::of(&classify_retired(retired));
        Self { opcode: retired.opcode, size: retired.size, isa: retired.isa, kind }
    }

    /// The instruction as it retires at an address.
    #[inline]
    pub const fn retired(&self, address: u64, next: u64, taken: bool) -> Retired {
        Retired {
            address: Address(address),
            next: Address(next),
            cycle: 0,
            opcode: self.opcode,
            size: self.size,
            isa: self.isa,
            taken,
        }
    }
}

/// Straight code up to the next branch.
#[derive(Clone, Copy, Debug)]
pub struct Straight {
    /// Where it begins.
    pub start: u64,
    /// Instructions, the branch included.
    pub count: u32,
    /// What the last instruction does; plain if what follows is not known or too far.
    pub kind: Kind,
    /// Address of the last instruction.
    pub last: u64,
    /// The address after it.
    pub end: u64,
    /// Its target if that is in the opcode, else `end`.
    pub target: u64,
    /// Where its instructions lie side by side, once somebody asked for them.
    retired: Option<u32>,
    /// It holds as long as [`Code::changes`] is this.
    changes: u64,
}

const PAGE: u64 = 4096;
const PAGE_OPS: usize = 2048;
/// Pages that may be in use: 64 MB of code.
const MOST_PAGES: usize = 1 << 14;
/// Pages that are found quickly.
const RECENT: usize = 16;
const CACHE: usize = 1 << 12;
/// The longest piece of straight code that is looked at in one go.
const LONGEST: u32 = 4096;

/// Instructions that may lie side by side; beyond, all are forgotten.
const MOST_RETIRED: usize = 1 << 16;

/// An address that no lookup of an instruction asks for.
const NOWHERE: u64 = u64::MAX;

const NOTHING: Straight = Straight {
    start: NOWHERE,
    count: 0,
    kind: Kind::Plain,
    last: 0,
    end: 0,
    target: 0,
    retired: None,
    changes: 0,
};

/// Bytes of the program's file, and where they are in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Section {
    /// The first address.
    pub address: u64,
    /// What is there.
    pub bytes: Vec<u8>,
}

/// The instructions of a program by address.
#[derive(Clone, Debug)]
pub struct Code {
    isa: Isa,
    sections: Vec<Section>,
    pages: Vec<Box<[Op; PAGE_OPS]>>,
    numbers: HashMap<u64, u32>,
    /// Pages looked at lately, and their numbers: by the low bits of the page.
    recent: [(u64, usize); RECENT],
    straights: Box<[Straight]>,
    targets: Box<[(u64, u64)]>,
    /// Instructions of straight code, side by side.
    retired: Vec<Retired>,
    /// How often what was worked out from the code was forgotten.
    changes: u64,
}

/// Straight code with its instructions.
#[derive(Clone, Copy, Debug)]
pub struct Instructions<'a> {
    /// The same number stands for the same instructions.
    pub number: u64,
    /// As they retire if each is followed by the next one in memory.
    pub code: &'a [Retired],
    /// What the last one does.
    pub last: Kind,
}

impl Code {
    /// Code in `isa` from the sections of a program's file; those that come first win.
    pub fn new(isa: Isa, sections: Vec<Section>) -> Self {
        let none = NOTHING;
        Self {
            isa,
            sections,
            pages: Vec::new(),
            numbers: HashMap::new(),
            recent: [(NOWHERE, 0); RECENT],
            straights: vec![none; CACHE].into(),
            targets: vec![(NOWHERE, 0); CACHE].into(),
            retired: Vec::new(),
            changes: 0,
        }
    }

    /// What was found out about code holds as long as this stays the same.
    #[inline]
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// The instruction set of the program's file.
    pub fn isa(&self) -> Isa {
        self.isa
    }

    /// The number of a page, made if it may be.
    #[inline]
    fn page(&mut self, address: u64) -> Option<usize> {
        let page = address / PAGE;
        let recent = self.recent[page as usize % RECENT];
        if recent.0 == page {
            return Some(recent.1);
        }
        self.find_page(page)
    }

    fn find_page(&mut self, page: u64) -> Option<usize> {
        let number = match self.numbers.get(&page) {
            Some(&number) => number as usize,
            None if self.pages.len() < MOST_PAGES => {
                self.pages.push(Box::new([UNKNOWN; PAGE_OPS]));
                self.numbers.insert(page, self.pages.len() as u32 - 1);
                self.pages.len() - 1
            }
            None => return None,
        };
        self.recent[page as usize % RECENT] = (page, number);
        Some(number)
    }

    /// The instruction at an address, if it is known.
    #[inline]
    pub fn at(&mut self, address: u64) -> Option<Op> {
        match self.recent(address).first() {
            Some(&op) if op.size != 0 => Some(op),
            _ => self.look(address),
        }
    }

    /// The instructions of a page looked at lately, from this address on: every two bytes one, those that are not known of
    /// size 0. Empty for an address in another page.
    #[inline]
    pub fn recent(&self, address: u64) -> &[Op] {
        let (page, number) = self.recent[(address / PAGE) as usize % RECENT];
        if page != address / PAGE {
            return &[];
        }
        &self.pages[number][(address % PAGE / 2) as usize..]
    }

    /// [`at`](Self::at) where it is not in a page looked at lately.
    fn look(&mut self, address: u64) -> Option<Op> {
        let slot = (address % PAGE / 2) as usize;
        let in_file = |code: &Self| code.sections.iter().any(|section| section.piece(address).is_some());
        if !self.numbers.contains_key(&(address / PAGE)) && !in_file(self) {
            return None;
        }
        let page = self.page(address)?;
        let op = self.pages[page][slot];
        if op.size != 0 {
            return Some(op);
        }
        let op = self.fetch(address)?;
        self.pages[page][slot] = op;
        Some(op)
    }

    fn fetch(&self, address: u64) -> Option<Op> {
        let bytes = self.sections.iter().find_map(|section| section.piece(address))?;
        let instruction = classify(self.isa, bytes, Address(address))?;
        let low = bytes.first_chunk().map(|&bytes| u32::from(u16::from_le_bytes(bytes)))?;
        let high = || bytes.get(2..)?.first_chunk().map(|&bytes| u32::from(u16::from_le_bytes(bytes)));
        let opcode = match (instruction.size, self.isa) {
            (2, _) => low,
            (_, Isa::T32) => low << 16 | high()?,
            _ => low | high()? << 16,
        };
        Some(Op { opcode, size: instruction.size, isa: self.isa, kind: Kind::of(&instruction) })
    }

    /// Notes an instruction. Says what was known before at its address. `None` for the second part: there is no room.
    pub fn insert(&mut self, retired: &Retired) -> Option<()> {
        let address = retired.address.0;
        let page = self.page(address)?;
        self.pages[page][(address % PAGE / 2) as usize] = Op::of(retired);
        // What was worked out from the code before may not be true of the new.
        self.forget_straights();
        self.targets[Self::slot(address)].0 = NOWHERE;
        Some(())
    }

    fn forget_straights(&mut self) {
        self.retired.clear();
        self.changes += 1;
    }

    #[inline]
    fn slot(address: u64) -> usize {
        (address >> 1 ^ address >> 13) as usize & (CACHE - 1)
    }

    /// The target in the opcode of the branch at an address; the following instruction if it has none.
    #[inline]
    pub fn target(&mut self, address: u64) -> u64 {
        let slot = Self::slot(address);
        if self.targets[slot].0 == address {
            return self.targets[slot].1;
        }
        let Some(op) = self.at(address) else { return address };
        let end = address.wrapping_add(u64::from(op.size));
        let target = match op.kind {
            Kind::Jump | Kind::Call | Kind::Conditional => {
                classify_retired(&op.retired(address, end, true)).target.0
            }
            _ => end,
        };
        self.targets[slot] = (address, target);
        target
    }

    /// The straight code at an address; `None` if nothing is known there.
    #[inline]
    pub fn straight(&mut self, start: u64) -> Option<Straight> {
        let slot = Self::slot(start);
        let known = self.straights[slot];
        if known.start == start && known.changes == self.changes {
            return Some(known);
        }
        let mut straight = Straight { start, last: start, end: start, changes: self.changes, ..NOTHING };
        while straight.kind == Kind::Plain && straight.count < LONGEST {
            let Some(op) = self.at(straight.end) else { break };
            straight.last = straight.end;
            straight.end = straight.end.wrapping_add(u64::from(op.size));
            straight.kind = op.kind;
            straight.count += 1;
        }
        if straight.count == 0 {
            return None;
        }
        straight.target =
            if straight.kind == Kind::Plain { straight.end } else { self.target(straight.last) };
        self.straights[slot] = straight;
        Some(straight)
    }

    /// The instructions of the straight code at an address, if there are so many.
    #[inline]
    pub fn instructions(&mut self, start: u64, count: u32) -> Option<Instructions<'_>> {
        let straight = self.straight(start).filter(|straight| straight.count == count)?;
        let first = match straight.retired {
            Some(first) => first,
            None => self.lay_out(&straight)?,
        };
        Some(Instructions {
            number: self.changes << 32 | u64::from(first),
            code: self.retired.get(first as usize..)?.get(..count as usize)?,
            last: straight.kind,
        })
    }

    /// Puts the instructions of straight code side by side; says where.
    #[cold]
    fn lay_out(&mut self, straight: &Straight) -> Option<u32> {
        if self.retired.len() + straight.count as usize > MOST_RETIRED {
            self.forget_straights();
        }
        let first = self.retired.len() as u32;
        let mut at = straight.start;
        for _ in 0..straight.count {
            let op = self.at(at)?;
            let next = at.wrapping_add(u64::from(op.size));
            self.retired.push(op.retired(at, next, true));
            at = next;
        }
        self.straights[Self::slot(straight.start)] =
            Straight { retired: Some(first), changes: self.changes, ..*straight };
        Some(first)
    }

    /// The address `count` instructions further on in straight code.
    pub fn after(&mut self, start: u64, count: u32) -> Option<u64> {
        (0..count).try_fold(start, |at, _| Some(at.wrapping_add(u64::from(self.at(at)?.size))))
    }
}

impl Section {
    fn piece(&self, address: u64) -> Option<&[u8]> {
        let at = usize::try_from(address.checked_sub(self.address)?).ok()?;
        self.bytes.get(at..).filter(|bytes| !bytes.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// addi, addi (compressed), bne back to the start, ret (compressed).
    pub fn small_loop() -> Vec<u8> {
        [
            &0x0015_0513u32.to_le_bytes()[..],
            &0x0505u16.to_le_bytes(),
            &0xFEB5_1DE3u32.to_le_bytes(),
            &[0x82, 0x80],
        ]
        .concat()
    }

    #[test]
    fn straight_code_goes_to_the_next_branch_and_knows_its_target() {
        let mut code = Code::new(Isa::Rv64, vec![Section { address: 0x1000, bytes: small_loop() }]);
        let straight = code.straight(0x1000).unwrap();
        assert_eq!((straight.count, straight.last, straight.end), (3, 0x1006, 0x100A));
        assert_eq!((straight.kind, straight.target), (Kind::Conditional, 0x1000));
        assert_eq!(code.straight(0x100A).unwrap().kind, Kind::Return);
        assert!(code.straight(0x100C).is_none() && code.at(0x2000).is_none());
        assert_eq!(code.after(0x1000, 2), Some(0x1006));
    }

    #[test]
    fn code_that_was_added_hides_what_was_worked_out_before() {
        let mut code = Code::new(Isa::Rv64, vec![Section { address: 0x1000, bytes: small_loop() }]);
        assert_eq!(code.straight(0x1000).unwrap().count, 3);
        let jump = Op { opcode: 0xA001, size: 2, isa: Isa::Rv64, kind: Kind::Jump };
        code.insert(&jump.retired(0x1004, 0x1004, true)).unwrap();
        let straight = code.straight(0x1000).unwrap();
        assert_eq!((straight.count, straight.kind, straight.target), (2, Kind::Jump, 0x1004));
    }
}
