//! What a reader knows, and what tokens do to it.

use super::blocks::{Block, Blocks, Place};
use super::item::{Bad, Cursor, take_access, take_context, take_input, take_trap};
use super::table::{Entry, Table};
use super::write::{STRAIGHT, TAKEN, WIDE};
use super::{LONGEST_RUN, isa_from_number, kind, other};
use backsight_core::{Address, Execution, ExecutionSink, Input, Retired, RetiredBlock};

/// What a token says beside its run.
pub(super) enum Then {
    Nothing,
    Item(Execution),
    End { instructions: u64, checksum: u64 },
}

/// A token that is not used up.
#[derive(Clone, Copy)]
pub(super) struct Token {
    /// Instructions of its run that are still to come.
    pub run: u32,
    /// What comes after the run; `None`: that was taken already.
    pub kind: Option<u8>,
}

impl Token {
    /// Before the first one.
    pub const NONE: Self = Self { run: 0, kind: None };

    #[inline(always)]
    pub fn take(bytes: &mut Cursor<'_>) -> Result<Self, Bad> {
        let byte = bytes.byte()?;
        let run = match byte >> 3 {
            30 => 30 + u32::from(bytes.byte()?),
            31 => u32::from(bytes.byte()?) | u32::from(bytes.byte()?) << 8,
            run => u32::from(run),
        };
        if run > LONGEST_RUN {
            return Err(Bad::Wrong("a run that is too long"));
        }
        Ok(Self { run, kind: Some(byte & 7) })
    }

    /// Lets an instruction that varies go where this token says, and takes the next token. False: it does not say so, or the
    /// next token is not whole, and nothing was done.
    #[inline(always)]
    fn leads(&mut self, entry: &mut Entry, bytes: &mut Cursor<'_>) -> bool {
        let mut ahead = *bytes;
        let (next, taken) = match self.kind {
            Some(kind::FLIP) => entry.flipped(),
            Some(kind::ELSEWHERE) => match ahead.distance() {
                Ok(distance) => (entry.target.wrapping_add(distance), true),
                Err(_) => return false,
            },
            _ => return false,
        };
        let Ok(following) = Self::take(&mut ahead) else { return false };
        entry.went(next, taken);
        (*self, *bytes) = (following, ahead);
        true
    }
}

/// What both sides know.
pub(super) struct State {
    table: Table,
    blocks: Blocks,
    expected: u64,
    cycle: u64,
    /// Cycles of the next instruction, if they are not those of the last time.
    cycles: Option<u64>,
    access: u64,
    instructions: u64,
}

const UNKNOWN: Bad = Bad::Wrong("an instruction that was not described");

impl State {
    /// `bits`: log2 of the number of instructions in the table.
    pub fn new(bits: u8) -> Self {
        let table = Table::new(bits);
        let blocks = Blocks::new(&table);
        Self { table, blocks, expected: 0, cycle: 0, cycles: None, access: 0, instructions: 0 }
    }

    /// Instructions so far.
    pub fn instructions(&self) -> u64 {
        self.instructions
    }

    /// Hands out whole blocks, `room` instructions at most, as long as no instruction in them does anything unusual. What it
    /// takes of the tokens, [`run`](Self::run) and [`then`](Self::then) would take in the same way, but instruction by
    /// instruction. Gives the number of instructions.
    #[inline]
    pub fn blocks(
        &mut self,
        token: &mut Token,
        bytes: &mut Cursor<'_>,
        room: usize,
        sink: &mut dyn ExecutionSink,
    ) -> usize {
        // Cycles of blocks are not known.
        if self.cycle != 0 || self.cycles.is_some() {
            return 0;
        }
        // Copies, which need not be in memory in between.
        let (mut now, mut ahead, mut start, mut left) = (*token, *bytes, self.expected, room);
        let mut place = Place::of(start);
        while let Some(Block { number, code, last }) = self.blocks.at(start, place, &self.table)
            && code.len() <= left
        {
            let entry = self.table.in_slot(last);
            let run = now.run as usize;
            let flips = run < code.len();
            if !flips {
                now.run = (run - code.len()) as u32;
            } else if run + 1 != code.len() || !entry.varies() || !now.leads(entry, &mut ahead) {
                break;
            }
            let (next, taken) = (entry.next, entry.taken);
            left -= code.len();
            sink.block(&RetiredBlock { number, code, next: Address(next), taken });
            let guess = self.blocks.after(place, flips);
            (start, place) = (next, self.blocks.place(next, guess, place));
        }
        (*token, *bytes, self.expected) = (now, ahead, start);
        self.instructions += (room - left) as u64;
        room - left
    }

    /// The next instruction does what it did the last time.
    #[inline(always)]
    pub fn as_before(&mut self) -> Result<Retired, Bad> {
        let mut entry = *self.table.find(self.expected).ok_or(UNKNOWN)?;
        if let Some(cycles) = self.cycles.take() {
            entry.cycles = cycles;
            self.table.put(entry);
        }
        self.cycle = self.cycle.wrapping_add(entry.cycles);
        self.expected = entry.next;
        self.instructions += 1;
        Ok(entry.retired(self.cycle))
    }

    /// The next `count` instructions do what they did the last time.
    #[inline]
    pub fn run(&mut self, count: u32, sink: &mut dyn ExecutionSink) -> Result<(), Bad> {
        let mut left = count as usize;
        while left > 0 {
            // A cycle that was announced is that of the next instruction alone.
            if self.cycles.is_none()
                && let Some(block) = self.blocks.at(self.expected, Place::of(self.expected), &self.table)
            {
                // Those before the last are all straight.
                let count = left.min(block.code.len() - 1);
                for retired in &block.code[..count] {
                    sink.item(Execution::Instruction(Retired { cycle: self.cycle, ..*retired }));
                    self.expected = retired.next.0;
                }
                self.instructions += count as u64;
                left -= count;
                if left == 0 {
                    break;
                }
            }
            sink.item(Execution::Instruction(self.as_before()?));
            left -= 1;
        }
        Ok(())
    }

    /// The next instruction is known, but goes elsewhere.
    fn goes(&mut self, where_to: impl FnOnce(&Entry) -> (u64, bool)) -> Result<Retired, Bad> {
        let mut entry = *self.table.find(self.expected).ok_or(UNKNOWN)?;
        let (next, taken) = where_to(&entry);
        entry.went(next, taken);
        self.table.put(entry);
        self.as_before()
    }

    fn full(&mut self, bytes: &mut Cursor<'_>) -> Result<Execution, Bad> {
        let flags = bytes.byte()?;
        if flags > 7 | WIDE | TAKEN | STRAIGHT {
            return Err(Bad::Wrong("reserved bits of an instruction are set"));
        }
        let isa = isa_from_number(flags & 7).ok_or(Bad::Wrong("an unknown instruction set"))?;
        let opcode = bytes.number32()?;
        let size = if flags & WIDE != 0 { 4 } else { 2 };
        let distance = if flags & STRAIGHT != 0 { u64::from(size) } else { bytes.distance()? };
        let retired = Retired {
            address: Address(self.expected),
            next: Address(self.expected.wrapping_add(distance)),
            cycle: 0,
            opcode,
            size,
            isa,
            taken: flags & TAKEN != 0,
        };
        self.table.put(Entry::new(&retired, 0));
        self.as_before().map(Execution::Instruction)
    }

    /// What follows the run of a token of this kind.
    pub fn then(&mut self, kind: u8, bytes: &mut Cursor<'_>) -> Result<Then, Bad> {
        Ok(Then::Item(match kind {
            kind::RUN => return Ok(Then::Nothing),
            kind::FLIP => Execution::Instruction(self.goes(Entry::flipped)?),
            kind::ELSEWHERE => {
                let distance = bytes.distance()?;
                Execution::Instruction(self.goes(|entry| (entry.target.wrapping_add(distance), true))?)
            }
            kind::FULL => self.full(bytes)?,
            kind::AT => {
                self.expected = self.expected.wrapping_add(bytes.distance()?);
                return Ok(Then::Nothing);
            }
            kind::ACCESS => {
                let access = take_access(bytes, self.access)?;
                self.access = access.address.0;
                Execution::Access(access)
            }
            kind::CYCLE => {
                self.cycles = Some(bytes.distance()?);
                return Ok(Then::Nothing);
            }
            _ => return self.other(bytes),
        }))
    }

    fn other(&mut self, bytes: &mut Cursor<'_>) -> Result<Then, Bad> {
        Ok(Then::Item(match bytes.byte()? {
            other::END => {
                return Ok(Then::End { instructions: bytes.number()?, checksum: bytes.word()? });
            }
            other::THREAD => Execution::Thread(bytes.number32()?),
            other::CONTEXT => Execution::Context(take_context(bytes)?),
            other::TRAP => {
                let trap = take_trap(bytes, self.expected, self.cycle)?;
                self.expected = trap.handler.0;
                self.cycle = trap.cycle;
                Execution::Trap(trap)
            }
            other::GAP => Execution::Gap,
            other::INPUT => {
                let input = take_input(bytes, self.access)?;
                if let Input::Memory { address, .. } = input {
                    self.access = address.0;
                }
                Execution::Input(input)
            }
            _ => return Err(Bad::Wrong("an unknown item")),
        }))
    }
}
