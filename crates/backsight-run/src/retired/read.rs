//! From bytes to items.

use super::item::{Bad, Cursor, take_access, take_context, take_input, take_trap};
use super::straight::{Straight, StraightCode};
use super::table::{Entry, Table};
use super::write::{STRAIGHT, TAKEN, WIDE};
use super::{Checksum, LONGEST_RUN, MAGIC, MOST_TABLE_BITS, VERSION, isa_from_number, kind, other};
use backsight_core::{Address, EachItem, Execution, ExecutionSink, Input, Isa, Retired, RetiredBlock};
use std::fmt;
use std::io::{self, Read};

/// Bytes are fetched in pieces of this size.
const PIECE: usize = 1 << 16;
/// No token is longer.
const LONGEST_TOKEN: usize = 96;

/// Why a file cannot be read on. What came before is right, as far as can be told.
#[derive(Debug)]
pub enum RetiredError {
    /// The system says so.
    Io(io::Error),
    /// It does not begin as such a file does.
    NotAStream,
    /// A version of the format that is not known.
    Version(u16),
    /// What is there makes no sense.
    Corrupt {
        /// Where in the file.
        offset: u64,
        /// Why not.
        why: &'static str,
    },
    /// It ends before its end: writing it was cut off.
    Truncated {
        /// Where the file ends.
        offset: u64,
    },
}

impl fmt::Display for RetiredError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => write!(f, "cannot be read: {error}"),
            Self::NotAStream => {
                f.write_str("not a file of retired instructions: expected it to begin with BSRETIRE")
            }
            Self::Version(version) => write!(f, "version {version} of the format; expected {VERSION}"),
            Self::Corrupt { offset, why } => write!(f, "corrupt at offset {offset:#x}: {why}"),
            Self::Truncated { offset } => {
                write!(f, "truncated: ends at offset {offset:#x} without its end mark")
            }
        }
    }
}

impl std::error::Error for RetiredError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io(error) => Some(error),
            _ => None,
        }
    }
}

/// What a token says beside its run.
enum Then {
    Nothing,
    Item(Execution),
    End { instructions: u64, checksum: u64 },
}

/// Reads items.
pub struct RetiredReader<R> {
    input: R,
    buffer: Vec<u8>,
    /// Bytes of the buffer that were taken, and whether nothing follows what is in it.
    taken: usize,
    at_end: bool,
    /// Offset in the file of the first byte in the buffer.
    offset: u64,
    checksum: Checksum,
    isa: Isa,
    state: State,
    /// Instructions of the run that are still to come, and the token that they stand in.
    run: u32,
    token: Option<u8>,
    ended: bool,
}

/// Takes what the reader finds: straight-line code at once.
trait RunSink: ExecutionSink {
    /// The first `count` instructions of straight-line code, in this cycle.
    #[inline(always)]
    fn straight(&mut self, straight: Straight<'_>, count: usize, cycle: u64) {
        for retired in &straight.code[..count] {
            self.item(Execution::Instruction(Retired { cycle, ..*retired }));
        }
    }
}

impl<F: FnMut(Execution)> RunSink for EachItem<'_, F> {}

/// Blocks, for a sink that takes them.
struct Blocks<'a, S>(&'a mut S);

impl<S: ExecutionSink> ExecutionSink for Blocks<'_, S> {
    #[inline(always)]
    fn item(&mut self, item: Execution) {
        self.0.item(item);
    }
}

impl<S: ExecutionSink> RunSink for Blocks<'_, S> {
    #[inline(always)]
    fn straight(&mut self, straight: Straight<'_>, count: usize, cycle: u64) {
        for (number, code) in straight.blocks(count) {
            match (number, code.last()) {
                // Cycles of blocks are not known.
                (Some(number), Some(&Retired { next, taken, .. })) if cycle == 0 => {
                    self.0.block(&RetiredBlock { number, code, next, taken });
                }
                _ => code
                    .iter()
                    .for_each(|retired| self.item(Execution::Instruction(Retired { cycle, ..*retired }))),
            }
        }
    }
}

/// What both sides know.
struct State {
    table: Table,
    straight: StraightCode,
    expected: u64,
    cycle: u64,
    /// Cycles of the next instruction, if they are not those of the last time.
    cycles: Option<u64>,
    access: u64,
    instructions: u64,
}

const UNKNOWN: Bad = Bad::Wrong("an instruction that was not described");

impl State {
    /// The next instruction does what it did the last time.
    #[inline(always)]
    fn as_before(&mut self) -> Result<Retired, Bad> {
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
    fn run<S: RunSink>(&mut self, count: u32, sink: &mut S) -> Result<(), Bad> {
        let mut left = count as usize;
        while left > 0 {
            // A cycle that was announced is that of the next instruction alone.
            if self.cycles.is_none() {
                let straight = self.straight.at(self.expected, &self.table);
                let code = &straight.code[..straight.code.len().min(left)];
                if let Some(last) = code.last() {
                    sink.straight(straight, code.len(), self.cycle);
                    self.expected = last.next.0;
                    self.instructions += code.len() as u64;
                    left -= code.len();
                    if left == 0 {
                        break;
                    }
                }
            }
            sink.item(Execution::Instruction(self.as_before()?));
            left -= 1;
        }
        Ok(())
    }

    /// The next instruction goes the other way.
    #[inline(always)]
    fn flips(&mut self) -> Result<Retired, Bad> {
        match self.table.find_varying(self.expected) {
            Some(entry) if self.cycles.is_none() => {
                let (next, taken) = entry.flipped();
                entry.went(next, taken);
                self.cycle = self.cycle.wrapping_add(entry.cycles);
                self.expected = next;
                self.instructions += 1;
                Ok(entry.retired(self.cycle))
            }
            _ => self.goes(Entry::flipped),
        }
    }

    /// The next instruction is known, but goes elsewhere.
    #[inline(never)]
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
    fn then(&mut self, kind: u8, bytes: &mut Cursor<'_>) -> Result<Then, Bad> {
        Ok(Then::Item(match kind {
            kind::RUN => return Ok(Then::Nothing),
            kind::FLIP => Execution::Instruction(self.flips()?),
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

/// A token: its run and its kind.
fn token(bytes: &mut Cursor<'_>) -> Result<(u32, u8), Bad> {
    let byte = bytes.byte()?;
    let run = match byte >> 3 {
        30 => 30 + u32::from(bytes.byte()?),
        31 => u32::from(bytes.byte()?) | u32::from(bytes.byte()?) << 8,
        run => u32::from(run),
    };
    if run > LONGEST_RUN {
        return Err(Bad::Wrong("a run that is too long"));
    }
    Ok((run, byte & 7))
}

impl<R: Read> RetiredReader<R> {
    /// Begins to read: checks the header.
    pub fn new(mut input: R) -> Result<Self, RetiredError> {
        let mut header = [0; 12];
        let mut got = 0;
        while got < header.len() {
            match input.read(&mut header[got..]) {
                Ok(0) => break,
                Ok(count) => got += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(RetiredError::Io(error)),
            }
        }
        let [magic @ .., v0, v1, isa, bits] = header;
        if got < MAGIC.len() || magic != MAGIC {
            return Err(RetiredError::NotAStream);
        }
        if got < header.len() {
            return Err(RetiredError::Truncated { offset: got as u64 });
        }
        let version = u16::from_le_bytes([v0, v1]);
        if version != VERSION {
            return Err(RetiredError::Version(version));
        }
        let isa = isa_from_number(isa)
            .ok_or(RetiredError::Corrupt { offset: 10, why: "an unknown instruction set" })?;
        if bits > MOST_TABLE_BITS {
            return Err(RetiredError::Corrupt { offset: 11, why: "a table that is too large" });
        }
        let mut checksum = Checksum::NEW;
        checksum.add(&header);
        let table = Table::new(bits);
        let straight = StraightCode::new();
        let state =
            State { table, straight, expected: 0, cycle: 0, cycles: None, access: 0, instructions: 0 };
        Ok(Self {
            input,
            buffer: Vec::new(),
            taken: 0,
            at_end: false,
            offset: header.len() as u64,
            checksum,
            isa,
            state,
            run: 0,
            token: None,
            ended: false,
        })
    }

    /// The instruction set that the program started in.
    pub fn isa(&self) -> Isa {
        self.isa
    }

    /// Reads everything to the end.
    pub fn read(&mut self, sink: &mut impl FnMut(Execution)) -> Result<(), RetiredError> {
        while self.read_some(usize::MAX, sink)? {}
        Ok(())
    }

    /// Reads `most` items at most. False: that was the end.
    pub fn read_some(&mut self, most: usize, sink: &mut impl FnMut(Execution)) -> Result<bool, RetiredError> {
        self.read_runs(most, &mut EachItem(sink))
    }

    /// Reads `most` items at most, straight-line code as blocks where cycles are not known: that is faster. False: that was
    /// the end.
    pub fn read_blocks(&mut self, most: usize, sink: &mut impl ExecutionSink) -> Result<bool, RetiredError> {
        self.read_runs(most, &mut Blocks(sink))
    }

    fn read_runs(&mut self, most: usize, sink: &mut impl RunSink) -> Result<bool, RetiredError> {
        let mut room = most;
        while !self.ended && room > 0 {
            let now = room.min(self.run as usize);
            if let Err(bad) = self.state.run(now as u32, sink) {
                return Err(self.wrong(bad));
            }
            self.run -= now as u32;
            room -= now;
            if room > 0
                && let Some(item) = self.step()?
            {
                sink.item(item);
                room -= 1;
            }
        }
        Ok(!self.ended)
    }

    /// The next item, `None` at the end.
    pub fn next_item(&mut self) -> Result<Option<Execution>, RetiredError> {
        while !self.ended {
            if self.run > 0 {
                self.run -= 1;
                return match self.state.as_before() {
                    Ok(retired) => Ok(Some(Execution::Instruction(retired))),
                    Err(bad) => Err(self.wrong(bad)),
                };
            }
            if let Some(item) = self.step()? {
                return Ok(Some(item));
            }
        }
        Ok(None)
    }

    /// Takes what follows the run, or else the next token.
    fn step(&mut self) -> Result<Option<Execution>, RetiredError> {
        self.fetch()?;
        let mut bytes = Cursor::new(&self.buffer[self.taken..]);
        let Some(kind) = self.token.take() else {
            let token = token(&mut bytes);
            let taken = bytes.taken();
            let (run, kind) = token.map_err(|bad| self.wrong(bad))?;
            self.taken += taken;
            self.run = run;
            self.token = Some(kind);
            return Ok(None);
        };
        let then = self.state.then(kind, &mut bytes);
        let taken = bytes.taken();
        match then {
            Ok(Then::Nothing) => {}
            Ok(Then::Item(item)) => {
                self.taken += taken;
                return Ok(Some(item));
            }
            Ok(Then::End { instructions, checksum }) => self.end(instructions, checksum)?,
            Err(bad) => return Err(self.wrong(bad)),
        }
        self.taken += taken;
        Ok(None)
    }

    fn end(&mut self, instructions: u64, checksum: u64) -> Result<(), RetiredError> {
        self.checksum.add(&self.buffer[..self.taken]);
        let why = if checksum != self.checksum.0 {
            "the checksum of the file does not fit"
        } else if instructions != self.state.instructions {
            "the number of instructions does not fit"
        } else {
            self.ended = true;
            return Ok(());
        };
        Err(RetiredError::Corrupt { offset: self.place(), why })
    }

    fn place(&self) -> u64 {
        self.offset + self.taken as u64
    }

    #[cold]
    fn wrong(&mut self, bad: Bad) -> RetiredError {
        self.ended = true;
        match bad {
            Bad::Short => RetiredError::Truncated { offset: self.offset + self.buffer.len() as u64 },
            Bad::Wrong(why) => RetiredError::Corrupt { offset: self.place(), why },
        }
    }

    /// Makes sure that a whole token is in the buffer, unless the file ends.
    #[inline]
    fn fetch(&mut self) -> Result<(), RetiredError> {
        if self.buffer.len() - self.taken >= LONGEST_TOKEN || self.at_end {
            Ok(())
        } else {
            self.fetch_more()
        }
    }

    fn fetch_more(&mut self) -> Result<(), RetiredError> {
        self.checksum.add(&self.buffer[..self.taken]);
        self.offset += self.taken as u64;
        self.buffer.drain(..self.taken);
        self.taken = 0;
        let limit = PIECE as u64;
        let got = (&mut self.input).take(limit).read_to_end(&mut self.buffer).map_err(RetiredError::Io)?;
        self.at_end = (got as u64) < limit;
        Ok(())
    }
}

/// The items; the first error is the last of them.
impl<R: Read> Iterator for RetiredReader<R> {
    type Item = Result<Execution, RetiredError>;

    fn next(&mut self) -> Option<Self::Item> {
        let item = self.next_item();
        self.ended |= item.is_err();
        item.transpose()
    }
}
