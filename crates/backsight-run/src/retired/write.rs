//! From items to bytes.

use super::item::{put_access, put_context, put_distance, put_end, put_input, put_number, put_trap};
use super::table::{Entry, FoundCode, Slot, Table};
use super::{Checksum, LONGEST_RUN, MAGIC, TABLE_BITS, VERSION, isa_number, kind, other};
use backsight_core::{Access, Address, Execution, Input, Isa, Retired, RetiredBlock};
use std::io::{self, Write};

/// Bytes are handed on when there are this many.
const PIECE: usize = 1 << 16;

/// Bits of the first byte of an instruction that is described in full: its instruction set, then these.
pub(super) const WIDE: u8 = 8;
pub(super) const TAKEN: u8 = 16;
pub(super) const STRAIGHT: u8 = 32;

/// Blocks that are remembered at a time.
const BLOCKS: usize = 1 << 13;

/// A block whose instructions were found in the table as they are, those before the last with nothing that they ever did
/// but continue.
#[derive(Clone, Copy)]
struct KnownBlock {
    number: u64,
    code: FoundCode,
    /// It was found so.
    holds: bool,
}

/// Writes items; [`finish`](Self::finish) completes the file.
pub struct RetiredWriter<W> {
    output: W,
    encoder: Encoder,
}

/// Makes bytes of items.
struct Encoder {
    bytes: Vec<u8>,
    checksum: Checksum,
    table: Table,
    blocks: Box<[KnownBlock]>,
    /// Where the next instruction should be.
    expected: u64,
    cycle: u64,
    /// Address of the last access.
    access: u64,
    /// Instructions that did what they did the last time, not yet written.
    run: u32,
    instructions: u64,
}

impl<W: Write> RetiredWriter<W> {
    /// Begins a file. `isa`: the instruction set that the program starts in, for those who look at the header.
    pub fn new(output: W, isa: Isa) -> io::Result<Self> {
        Ok(Self { output, encoder: Encoder::new(isa) })
    }

    /// Writes an item. An instruction of a size other than 2 or 4, and an access of more than 8 bytes or of none,
    /// is an error.
    pub fn push(&mut self, item: &Execution) -> io::Result<()> {
        self.encoder.push(item)?;
        self.hand_on()
    }

    /// Writes straight-line code that retired: the same as its instructions one by one.
    pub fn push_block(&mut self, block: &RetiredBlock<'_>) -> io::Result<()> {
        self.encoder.push_block(block)?;
        self.hand_on()
    }

    #[inline]
    fn hand_on(&mut self) -> io::Result<()> {
        if self.encoder.bytes.len() >= PIECE { self.hand_on_all() } else { Ok(()) }
    }

    fn hand_on_all(&mut self) -> io::Result<()> {
        self.output.write_all(self.encoder.checked())?;
        self.encoder.bytes.clear();
        Ok(())
    }

    /// Hands on what is written so far: a file that ends there has all items up to a few of the last.
    pub fn flush(&mut self) -> io::Result<()> {
        self.hand_on_all()?;
        self.output.flush()
    }

    /// Instructions written so far.
    pub fn instructions(&self) -> u64 {
        self.encoder.instructions
    }

    /// Completes the file; gives back what was written to.
    pub fn finish(mut self) -> io::Result<W> {
        self.encoder.token(kind::OTHER);
        self.hand_on_all()?;
        let Encoder { bytes, instructions, checksum, .. } = &mut self.encoder;
        put_end(bytes, *instructions, *checksum);
        self.output.write_all(bytes)?;
        self.output.flush()?;
        Ok(self.output)
    }
}

impl Encoder {
    fn new(isa: Isa) -> Self {
        let mut bytes = Vec::with_capacity(PIECE + 256);
        bytes.extend(MAGIC);
        bytes.extend(VERSION.to_le_bytes());
        bytes.extend([isa_number(isa), TABLE_BITS]);
        let table = Table::new(TABLE_BITS);
        let none = KnownBlock { number: 0, code: FoundCode::new(&table, 0, 0), holds: false };
        Self {
            bytes,
            checksum: Checksum::NEW,
            table,
            blocks: vec![none; BLOCKS].into(),
            expected: 0,
            cycle: 0,
            access: 0,
            run: 0,
            instructions: 0,
        }
    }

    fn push(&mut self, item: &Execution) -> io::Result<()> {
        match item {
            Execution::Instruction(retired) => self.instruction(retired),
            other => self.rest(other),
        }
    }

    fn push_block(&mut self, block: &RetiredBlock<'_>) -> io::Result<()> {
        let count = block.code.len() as u32;
        let Some(last) = self.known(block.number).filter(|_| self.run + count < LONGEST_RUN) else {
            return self.unknown_block(block);
        };
        let (next, taken) = (block.next.0, block.taken);
        let entry = self.table.in_slot(last);
        if (next, taken) == (entry.next, entry.taken) {
            self.run += count;
        } else if entry.varies() && (next, taken) == entry.flipped() {
            entry.went(next, taken);
            self.run += count - 1;
            self.token(kind::FLIP);
        } else if entry.varies() && taken {
            let distance = next.wrapping_sub(entry.target);
            entry.went(next, taken);
            self.run += count - 1;
            self.token(kind::ELSEWHERE);
            put_distance(&mut self.bytes, distance);
        } else {
            return self.unknown_block(block);
        }
        self.expected = next;
        self.instructions += u64::from(count);
        Ok(())
    }

    /// What is to be handed on, which is in the checksum now.
    fn checked(&mut self) -> &[u8] {
        self.checksum.add(&self.bytes);
        &self.bytes
    }

    /// Where the table has the last instruction of the block of this number, if that block comes next and its instructions
    /// are known.
    #[inline(always)]
    fn known(&mut self, number: u64) -> Option<Slot> {
        let KnownBlock { number: known, code, holds } = &mut self.blocks[number as usize % BLOCKS];
        if *known != number || code.start != self.expected || !*holds || self.cycle != 0 {
            return None;
        }
        code.is_there(&self.table).then_some(code.last)
    }

    /// Writes a block instruction by instruction, and remembers it.
    #[cold]
    #[inline(never)]
    fn unknown_block(&mut self, block: &RetiredBlock<'_>) -> io::Result<()> {
        let (Some(first), Some((before, last))) = (block.code.first(), block.split_last()) else {
            return Ok(());
        };
        block.instructions().try_for_each(|retired| self.instruction(&retired))?;
        let (start, last) = (first.address.0, last.address.0);
        let is_steady = |retired: &Retired| {
            self.table.steady(retired.address.0).is_some_and(|entry| entry.retired(0) == *retired)
        };
        let is_known = |retired: &Retired| {
            self.table
                .find(retired.address.0)
                .is_some_and(|entry| entry.cycles == 0 && entry.straight() == *retired)
        };
        let follow = block.code.windows(2).all(|pair| pair[0].next == pair[1].address);
        let holds = Table::is_short(start, last)
            && follow
            && before.iter().all(is_steady)
            && block.code.last().is_some_and(is_known);
        let code = FoundCode::new(&self.table, start, last);
        self.blocks[block.number as usize % BLOCKS] = KnownBlock { number: block.number, code, holds };
        Ok(())
    }

    #[inline]
    fn instruction(&mut self, retired: &Retired) -> io::Result<()> {
        let cycles = retired.cycle.wrapping_sub(self.cycle);
        let entry = self.table.get(retired.address.0);
        let as_before = retired.address.0 == self.expected
            && entry.address == retired.address.0
            && entry.opcode == retired.opcode
            && entry.next == retired.next.0
            && entry.cycles == cycles
            && entry.size == retired.size
            && entry.isa == retired.isa
            && entry.taken == retired.taken
            && entry.size != 0;
        if !as_before {
            if self.goes_the_other_way(retired, cycles) {
                self.token(kind::FLIP);
            } else {
                self.unlike_before(retired, cycles)?;
            }
        } else {
            self.run += 1;
            if self.run == LONGEST_RUN {
                self.token(kind::RUN);
            }
        }
        self.expected = retired.next.0;
        self.cycle = retired.cycle;
        self.instructions += 1;
        Ok(())
    }

    /// Does it only go the other way, as it has done before? This is what branches do; all else is rare.
    #[inline]
    fn goes_the_other_way(&mut self, retired: &Retired, cycles: u64) -> bool {
        let Some(entry) = self.table.find_varying(retired.address.0) else { return false };
        let flips = retired.address.0 == self.expected
            && entry.opcode == retired.opcode
            && entry.cycles == cycles
            && entry.size == retired.size
            && entry.isa == retired.isa
            && entry.flipped() == (retired.next.0, retired.taken);
        if flips {
            entry.went(retired.next.0, retired.taken);
        }
        flips
    }

    #[inline(never)]
    fn unlike_before(&mut self, retired: &Retired, cycles: u64) -> io::Result<()> {
        if !matches!(retired.size, 2 | 4) {
            let error = format!("an instruction of {} bytes at {}", retired.size, retired.address);
            return Err(io::Error::new(io::ErrorKind::InvalidInput, error));
        }
        let (address, next) = (retired.address.0, retired.next.0);
        if address != self.expected {
            let distance = address.wrapping_sub(self.expected);
            self.token(kind::AT);
            put_distance(&mut self.bytes, distance);
        }
        let mut entry = *self.table.get(address);
        let known = entry.size == retired.size
            && entry.address == address
            && entry.opcode == retired.opcode
            && entry.isa == retired.isa
            && (retired.taken || [(entry.next, entry.taken), entry.flipped()].contains(&(next, false)));
        if !known {
            entry = Entry::new(retired, 0);
        }
        if cycles != entry.cycles {
            self.token(kind::CYCLE);
            put_distance(&mut self.bytes, cycles);
        }
        if known {
            self.goes(&entry, next, retired.taken)
        } else {
            self.full(retired)
        }
        entry.cycles = cycles;
        entry.went(next, retired.taken);
        self.table.put(entry);
        Ok(())
    }

    /// Writes where a known instruction went.
    fn goes(&mut self, entry: &Entry, next: u64, taken: bool) {
        if (next, taken) == (entry.next, entry.taken) {
            self.run += 1;
            if self.run == LONGEST_RUN {
                self.token(kind::RUN);
            }
        } else if (next, taken) == entry.flipped() {
            self.token(kind::FLIP);
        } else {
            self.token(kind::ELSEWHERE);
            put_distance(&mut self.bytes, next.wrapping_sub(entry.target));
        }
    }

    fn full(&mut self, retired: &Retired) {
        self.token(kind::FULL);
        let straight = retired.next == retired.end();
        let flags = if retired.size == 4 { WIDE } else { 0 }
            | if retired.taken { TAKEN } else { 0 }
            | if straight { STRAIGHT } else { 0 };
        self.bytes.push(isa_number(retired.isa) | flags);
        put_number(&mut self.bytes, u64::from(retired.opcode));
        if !straight {
            put_distance(&mut self.bytes, retired.next.0.wrapping_sub(retired.address.0));
        }
    }

    fn rest(&mut self, item: &Execution) -> io::Result<()> {
        match item {
            Execution::Access(access) => return self.access(access),
            Execution::Input(Input::Memory { size, address, .. }) => check_size(*size, *address)?,
            _ => {}
        }
        self.token(kind::OTHER);
        match item {
            Execution::Thread(number) => {
                self.bytes.push(other::THREAD);
                put_number(&mut self.bytes, u64::from(*number));
            }
            Execution::Context(context) => put_context(&mut self.bytes, context),
            Execution::Trap(trap) => {
                put_trap(&mut self.bytes, trap, self.expected, self.cycle);
                self.expected = trap.handler.0;
                self.cycle = trap.cycle;
            }
            Execution::Input(input) => {
                put_input(&mut self.bytes, input, self.access);
                if let Input::Memory { address, .. } = input {
                    self.access = address.0;
                }
            }
            _ => self.bytes.push(other::GAP),
        }
        Ok(())
    }

    fn access(&mut self, access: &Access) -> io::Result<()> {
        check_size(access.size, access.address)?;
        self.token(kind::ACCESS);
        put_access(&mut self.bytes, access, self.access);
        self.access = access.address.0;
        Ok(())
    }

    /// The run so far, and what follows it.
    #[inline]
    fn token(&mut self, kind: u8) {
        let run = core::mem::take(&mut self.run);
        match run {
            0..=29 => self.bytes.push((run as u8) << 3 | kind),
            30..=285 => self.bytes.extend([30 << 3 | kind, (run - 30) as u8]),
            _ => {
                let [low, high, ..] = run.to_le_bytes();
                self.bytes.extend([31 << 3 | kind, low, high]);
            }
        }
    }
}

fn check_size(size: u8, address: Address) -> io::Result<()> {
    if (1..=8).contains(&size) {
        return Ok(());
    }
    let error = format!("an access of {size} bytes at {address}");
    Err(io::Error::new(io::ErrorKind::InvalidInput, error))
}
