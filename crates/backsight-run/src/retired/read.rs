//! From bytes to items.

use super::error::RetiredError;
use super::item::{Bad, Cursor};
use super::state::{State, Then, Token};
use super::{Checksum, MAGIC, MOST_TABLE_BITS, VERSION, isa_from_number};
use backsight_core::{EachItem, Execution, ExecutionSink, Isa};
use std::io::{self, Read};

/// Bytes are fetched in pieces of this size.
const PIECE: usize = 1 << 16;
/// No token is longer.
const LONGEST_TOKEN: usize = 96;

/// Reads items.
pub struct RetiredReader<'r> {
    input: Box<dyn Read + Send + 'r>,
    buffer: Vec<u8>,
    /// Bytes of the buffer that were taken, and whether nothing follows what is in it.
    taken: usize,
    at_end: bool,
    /// Offset in the file of the first byte in the buffer.
    offset: u64,
    checksum: Checksum,
    isa: Isa,
    state: State,
    token: Token,
    ended: bool,
}

impl<'r> RetiredReader<'r> {
    /// Begins to read: checks the header.
    pub fn new(input: impl Read + Send + 'r) -> Result<Self, RetiredError> {
        Self::of(Box::new(input))
    }

    fn of(mut input: Box<dyn Read + Send + 'r>) -> Result<Self, RetiredError> {
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
        Ok(Self {
            input,
            buffer: Vec::new(),
            taken: 0,
            at_end: false,
            offset: header.len() as u64,
            checksum,
            isa,
            state: State::new(bits),
            token: Token::NONE,
            ended: false,
        })
    }

    /// The instruction set that the program started in.
    pub fn isa(&self) -> Isa {
        self.isa
    }

    /// Reads everything to the end.
    pub fn read(&mut self, sink: &mut dyn FnMut(Execution)) -> Result<(), RetiredError> {
        while self.read_some(usize::MAX, sink)? {}
        Ok(())
    }

    /// Reads `most` items at most. False: that was the end.
    pub fn read_some(&mut self, most: usize, sink: &mut dyn FnMut(Execution)) -> Result<bool, RetiredError> {
        self.read_blocks(most, &mut EachItem(sink))
    }

    /// Reads `most` items at most, code that comes again as blocks where cycles are not known: that is faster. False: that was
    /// the end.
    pub fn read_blocks(&mut self, most: usize, sink: &mut dyn ExecutionSink) -> Result<bool, RetiredError> {
        let mut room = most;
        while !self.ended && room > 0 {
            let mut bytes = Cursor::new(&self.buffer[self.taken..]);
            room -= self.state.blocks(&mut self.token, &mut bytes, room, sink);
            self.taken += bytes.taken();
            let now = room.min(self.token.run as usize);
            if let Err(bad) = self.state.run(now as u32, sink) {
                return Err(self.wrong(bad));
            }
            self.token.run -= now as u32;
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
            if self.token.run > 0 {
                self.token.run -= 1;
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
        let Some(kind) = self.token.kind.take() else {
            let token = Token::take(&mut bytes);
            let taken = bytes.taken();
            self.token = token.map_err(|bad| self.wrong(bad))?;
            self.taken += taken;
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
        } else if instructions != self.state.instructions() {
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
impl Iterator for RetiredReader<'_> {
    type Item = Result<Execution, RetiredError>;

    fn next(&mut self) -> Option<Self::Item> {
        let item = self.next_item();
        self.ended |= item.is_err();
        item.transpose()
    }
}
