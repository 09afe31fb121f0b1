//! Compressed traces in a file: which scheme made it, for which program, and every chunk with its checksum.
//!
//! ```text
//! "BSQUEEZE" version:2
//! header     length, then: instruction set, scheme as text, data scheme as text, program's name and identity (0: the
//!            code is in the chunks)
//! chunk      'C' instructions bits, lengths of code, notes, cycles, accesses, records; the five parts
//!            'R' the same of a part that is executed again ([`crate::data::unified`])
//! end        'E' chunks instructions
//! ```
//! Header, chunks and end each end with a CRC-32 of their bytes. Numbers have seven bits a byte, low ones first; the
//! version and checksums are little-endian. The format is described in `docs/compressed-trace.md`.

use crate::Damage;
use crate::block::Records;
use crate::code::{Code, Section};
use crate::data::accesses::DataScheme;
use crate::data::unified::{Part, UnifiedPacker, UnifiedUnpacker};
use crate::notes::{Cursor, put_number};
use crate::pack::{Chunk, Packer, Unpacker};
use crate::parameters::BadScheme;
use crate::program::Program;
use crate::scheme::Scheme;
use crate::split::Unfit;
use backsight_core::{EachItem, Execution, ExecutionSink, Isa, RetiredBlock};
use flate2::Crc;
use std::fmt;
use std::io::{self, Read, Write};

const MAGIC: [u8; 8] = *b"BSQUEEZE";
const VERSION: u16 = 2;
/// No header and no part of a chunk is longer.
const LONGEST: u64 = 1 << 25;
/// No chunk stands for more instructions.
const LONGEST_CHUNK: u64 = 1 << 27;

/// What a file is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// The scheme with all its parameters.
    pub scheme: Scheme,
    /// How loads and stores are compressed, where there are any.
    pub data: DataScheme,
    /// The instruction set that the program started in.
    pub isa: Isa,
    /// The name of the program's file; empty if the code is in the chunks.
    pub program: String,
    /// The [identity](Program::identity) of the program's file; 0 if the code is in the chunks.
    pub identity: u64,
}

/// Why a file cannot be written or read on. What came before is right, as far as can be told.
#[derive(Debug)]
pub enum ContainerError {
    /// The system says so.
    Io(io::Error),
    /// It does not begin as such a file does.
    NotAContainer,
    /// A version of the format that is not known.
    Version(u16),
    /// The scheme is not known here, or its parameters are not.
    Scheme(BadScheme),
    /// Loads and stores are compressed in a way that is not known here.
    Data(&'static str),
    /// The file is for another program.
    OtherProgram {
        /// The name of the right one.
        program: String,
    },
    /// The program's file is needed.
    NoProgram {
        /// Its name.
        program: String,
    },
    /// It ends before its end mark.
    Truncated {
        /// Where the file ends.
        offset: u64,
        /// Instructions before that.
        instructions: u64,
    },
    /// What is there is damaged.
    Damaged {
        /// Where the damaged part begins.
        offset: u64,
        /// Instructions before it.
        instructions: u64,
        /// What is wrong.
        damage: Damage,
    },
    /// An item cannot be compressed.
    Unfit(Unfit),
}

impl fmt::Display for ContainerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => write!(f, "{error}"),
            Self::NotAContainer => f.write_str("not a compressed trace: expected it to begin with BSQUEEZE"),
            Self::Version(version) => write!(f, "version {version} of the format; expected {VERSION}"),
            Self::Scheme(bad) => write!(f, "made with a scheme that is not known here: {bad}"),
            Self::Data(why) => write!(f, "loads and stores in a way that is not known here: {why}"),
            Self::OtherProgram { program } => {
                write!(f, "made with another program, or another build of it: `{program}` is needed")
            }
            Self::NoProgram { program } => write!(f, "the program `{program}` is needed"),
            Self::Truncated { offset, instructions } => write!(
                f,
                "truncated: ends at offset {offset:#x} without its end mark, after {instructions} instructions"
            ),
            Self::Damaged { offset, instructions, damage } => {
                write!(f, "damaged at offset {offset:#x}, after {instructions} instructions: {damage}")
            }
            Self::Unfit(unfit) => write!(f, "{unfit}"),
        }
    }
}

impl std::error::Error for ContainerError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io(error) => Some(error),
            _ => None,
        }
    }
}

impl From<io::Error> for ContainerError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<Unfit> for ContainerError {
    fn from(unfit: Unfit) -> Self {
        Self::Unfit(unfit)
    }
}

const ISAS: [Isa; 5] = [Isa::A64, Isa::A32, Isa::T32, Isa::Rv32, Isa::Rv64];

fn checksum(bytes: &[u8]) -> u32 {
    let mut crc = Crc::new();
    crc.update(bytes);
    crc.sum()
}

/// Parts of a file: a chunk, one that is executed again, the end.
const CHUNK: u8 = b'C';
const EXECUTED: u8 = b'R';
const END: u8 = b'E';

/// Compresses into a file.
pub struct Writer<W> {
    output: W,
    encoder: Encoder,
    bytes: u64,
}

/// Makes the bytes of a file.
struct Encoder {
    /// What is not written yet.
    ready: Vec<u8>,
    packer: Packer,
    unified: Option<UnifiedPacker>,
    chunks: u64,
    instructions: u64,
}

impl<W: Write> Writer<W> {
    /// Begins a file; `sections` are the program's, or none.
    pub fn new(output: W, header: &Header, sections: Vec<Section>) -> Result<Self, ContainerError> {
        let mut writer = Self { output, encoder: Encoder::new(header, sections)?, bytes: 0 };
        writer.hand_on()?;
        Ok(writer)
    }

    /// Takes an item.
    pub fn push(&mut self, item: &Execution) -> Result<(), ContainerError> {
        self.encoder.push(item)?;
        self.hand_on()
    }

    /// Takes straight-line code: the same file as from its instructions one by one.
    pub fn push_block(&mut self, block: &RetiredBlock<'_>) -> Result<(), ContainerError> {
        self.encoder.push_block(block)?;
        self.hand_on()
    }

    fn hand_on(&mut self) -> Result<(), ContainerError> {
        let ready = &mut self.encoder.ready;
        if !ready.is_empty() {
            self.output.write_all(ready)?;
            self.bytes += ready.len() as u64;
            ready.clear();
        }
        Ok(())
    }

    /// Ends the file. Gives the output, the number of instructions and of bytes.
    pub fn finish(mut self) -> Result<(W, u64, u64), ContainerError> {
        self.encoder.finish()?;
        self.hand_on()?;
        self.output.flush()?;
        Ok((self.output, self.encoder.instructions, self.bytes))
    }
}

impl Encoder {
    fn new(header: &Header, sections: Vec<Section>) -> Result<Self, ContainerError> {
        header.scheme.check().map_err(|why| ContainerError::Scheme(BadScheme::Build(why)))?;
        header.data.check().map_err(ContainerError::Data)?;
        if header.data.replay && (sections.is_empty() || header.isa != Isa::Rv64) {
            return Err(ContainerError::Data("what is executed again needs the program's file, for RV64"));
        }
        let mut bytes = vec![header.isa as u8];
        for text in [&header.scheme.to_string(), &header.data.to_string(), &header.program] {
            put_number(&mut bytes, text.len() as u64);
            bytes.extend(text.as_bytes());
        }
        put_number(&mut bytes, header.identity);
        let mut all = MAGIC.to_vec();
        all.extend(VERSION.to_le_bytes());
        put_number(&mut all, bytes.len() as u64);
        all.extend(bytes);
        let sum = checksum(&all);
        all.extend(sum.to_le_bytes());
        let unified = header.data.replay.then(|| UnifiedPacker::new(sections.clone(), header.data.values()));
        let packer = Packer::new(&header.scheme, header.data, Code::new(header.isa, sections));
        Ok(Self { ready: all, packer, unified, chunks: 0, instructions: 0 })
    }

    fn push(&mut self, item: &Execution) -> Result<(), ContainerError> {
        match &mut self.unified {
            None => self.pack(item),
            Some(unified) => unified.push(item).map_or(Ok(()), |part| self.put_part(&part)),
        }
    }

    #[inline]
    fn pack(&mut self, item: &Execution) -> Result<(), ContainerError> {
        if let Some(chunk) = self.packer.push(item)? {
            self.write(CHUNK, &chunk);
        }
        Ok(())
    }

    fn put_part(&mut self, part: &Part) -> Result<(), ContainerError> {
        match part {
            Part::Items(items) => items.iter().try_for_each(|item| self.pack(item)),
            Part::Executed(chunk) => {
                self.flush();
                self.write(EXECUTED, chunk);
                Ok(())
            }
        }
    }

    /// Writes what is packed.
    fn flush(&mut self) {
        let chunk = self.packer.flush();
        if chunk != Chunk::default() {
            self.write(CHUNK, &chunk);
        }
    }

    fn push_block(&mut self, block: &RetiredBlock<'_>) -> Result<(), ContainerError> {
        if self.unified.is_none() && self.packer.push_block(block) {
            return Ok(());
        }
        block.instructions().try_for_each(|retired| self.push(&Execution::Instruction(retired)))
    }

    fn write(&mut self, tag: u8, chunk: &Chunk) {
        let mut bytes = vec![tag];
        put_number(&mut bytes, chunk.records.instructions);
        put_number(&mut bytes, chunk.records.bits);
        let parts = [&chunk.code, &chunk.notes, &chunk.cycles, &chunk.accesses, &chunk.records.bytes];
        parts.iter().for_each(|part| put_number(&mut bytes, part.len() as u64));
        parts.iter().for_each(|part| bytes.extend(*part));
        self.chunks += 1;
        self.instructions += chunk.records.instructions;
        self.put(&bytes);
    }

    fn put(&mut self, bytes: &[u8]) {
        self.ready.extend(bytes);
        self.ready.extend(checksum(bytes).to_le_bytes());
    }

    fn finish(&mut self) -> Result<(), ContainerError> {
        if let Some(part) = self.unified.as_mut().and_then(UnifiedPacker::flush) {
            self.put_part(&part)?;
        }
        self.flush();
        let mut bytes = vec![END];
        put_number(&mut bytes, self.chunks);
        put_number(&mut bytes, self.instructions);
        self.put(&bytes);
        Ok(())
    }
}

/// Decompresses a file.
pub struct Reader<'r> {
    input: Input<'r>,
    header: Header,
    unpacker: Unpacker,
    unified: Option<UnifiedUnpacker>,
    chunks: u64,
    instructions: u64,
}

/// Bytes with their offset, and what was read since the last checksum.
struct Input<'r> {
    input: Box<dyn Read + 'r>,
    offset: u64,
    seen: Vec<u8>,
}

/// A part of the file could not be read.
enum Stop {
    Io(io::Error),
    End,
    Damage(Damage),
}

impl Input<'_> {
    fn take(&mut self, length: usize) -> Result<usize, Stop> {
        let from = self.seen.len();
        // No more memory than there is input.
        let got = (&mut self.input).take(length as u64).read_to_end(&mut self.seen).map_err(Stop::Io)?;
        self.offset += got as u64;
        if got == length { Ok(from) } else { Err(Stop::End) }
    }

    fn byte(&mut self) -> Result<u8, Stop> {
        let at = self.take(1)?;
        Ok(self.seen[at])
    }

    fn number(&mut self) -> Result<u64, Stop> {
        let from = self.seen.len();
        while self.byte()? >= 0x80 {
            if self.seen.len() - from == 10 {
                break;
            }
        }
        Cursor::new(&self.seen[from..]).number().map_err(Stop::Damage)
    }

    fn length(&mut self) -> Result<usize, Stop> {
        let length = self.number()?;
        if length > LONGEST {
            return Err(Stop::Damage(Damage::Record("a part that is too long")));
        }
        Ok(length as usize)
    }

    /// Checks what was read since the last time.
    fn check(&mut self) -> Result<(), Stop> {
        let sum = checksum(&self.seen);
        let at = self.take(4)?;
        let right = self.seen[at..] == sum.to_le_bytes();
        self.seen.clear();
        if right { Ok(()) } else { Err(Stop::Damage(Damage::Record("the checksum does not fit"))) }
    }
}

impl<'r> Reader<'r> {
    /// Begins to read, with the program where it is needed.
    pub fn new(input: impl Read + 'r, program: Option<&Program>) -> Result<Self, ContainerError> {
        Self::of(Box::new(input), program)
    }

    fn of(input: Box<dyn Read + 'r>, program: Option<&Program>) -> Result<Self, ContainerError> {
        let mut input = Input { input, offset: 0, seen: Vec::new() };
        let header = match read_header(&mut input) {
            Ok(header) => header?,
            Err(Stop::Io(error)) => return Err(error.into()),
            Err(Stop::End) if input.offset < MAGIC.len() as u64 => return Err(ContainerError::NotAContainer),
            Err(Stop::End) => {
                return Err(ContainerError::Truncated { offset: input.offset, instructions: 0 });
            }
            Err(Stop::Damage(damage)) => {
                return Err(ContainerError::Damaged { offset: 0, instructions: 0, damage });
            }
        };
        let name = || header.program.clone();
        let sections = match (header.identity, program) {
            (0, _) => Vec::new(),
            (_, None) => return Err(ContainerError::NoProgram { program: name() }),
            (wanted, Some(program)) if program.identity != wanted => {
                return Err(ContainerError::OtherProgram { program: name() });
            }
            (_, Some(program)) => program.sections.clone(),
        };
        let unified =
            header.data.replay.then(|| UnifiedUnpacker::new(sections.clone(), header.data.values()));
        let code = Code::new(header.isa, sections);
        let unpacker = Unpacker::new(&header.scheme, header.data, code);
        Ok(Self { input, header, unpacker, unified, chunks: 0, instructions: 0 })
    }

    /// What the file is about.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Instructions read so far, in whole chunks.
    pub fn instructions(&self) -> u64 {
        self.instructions
    }

    /// Gives the items of the next chunk; `false` at the end.
    pub fn next_chunk(&mut self, sink: &mut dyn FnMut(Execution)) -> Result<bool, ContainerError> {
        self.next_blocks(&mut EachItem(sink))
    }

    /// The same, with straight-line code as blocks where nothing lies between its instructions.
    pub fn next_blocks(&mut self, sink: &mut dyn ExecutionSink) -> Result<bool, ContainerError> {
        let offset = self.input.offset;
        let instructions = self.instructions;
        let damaged = |damage| ContainerError::Damaged { offset, instructions, damage };
        let (tag, chunk) = match self.chunk() {
            Ok(Some(chunk)) => chunk,
            Ok(None) => return Ok(false),
            Err(Stop::Io(error)) => return Err(error.into()),
            Err(Stop::End) => {
                return Err(ContainerError::Truncated { offset: self.input.offset, instructions });
            }
            Err(Stop::Damage(damage)) => return Err(damaged(damage)),
        };
        match &mut self.unified {
            None if tag == EXECUTED => return Err(damaged(Damage::Record("a part that nobody asked for"))),
            None => self.unpacker.unpack_blocks(&chunk, sink),
            Some(unified) if tag == EXECUTED => unified.unpack(&chunk, &mut |item| sink.item(item)),
            Some(unified) => self.unpacker.unpack(&chunk, &mut |item| {
                unified.see(&item);
                sink.item(item);
            }),
        }
        .map_err(damaged)?;
        self.chunks += 1;
        self.instructions += chunk.records.instructions;
        Ok(true)
    }

    /// Reads everything to the end.
    pub fn read(&mut self, sink: &mut dyn FnMut(Execution)) -> Result<(), ContainerError> {
        while self.next_chunk(sink)? {}
        Ok(())
    }

    fn chunk(&mut self) -> Result<Option<(u8, Chunk)>, Stop> {
        let input = &mut self.input;
        match input.byte()? {
            tag @ (CHUNK | EXECUTED) => {
                let (instructions, bits) = (input.number()?, input.number()?);
                // What a few bytes can make of themselves has a limit.
                if instructions > LONGEST_CHUNK {
                    return Err(Stop::Damage(Damage::Record("a chunk of too many instructions")));
                }
                let mut lengths = [0; 5];
                for length in &mut lengths {
                    *length = input.length()?;
                }
                let mut parts: [Vec<u8>; 5] = Default::default();
                for (part, length) in parts.iter_mut().zip(lengths) {
                    let at = input.take(length)?;
                    *part = input.seen[at..].to_vec();
                }
                input.check()?;
                let [code, notes, cycles, accesses, bytes] = parts;
                let records = Records { bytes, bits, instructions };
                Ok(Some((tag, Chunk { code, notes, cycles, accesses, records })))
            }
            END => {
                let counts = (input.number()?, input.number()?);
                input.check()?;
                if counts != (self.chunks, self.instructions) {
                    return Err(Stop::Damage(Damage::Record("chunks are missing")));
                }
                match input.byte() {
                    Err(Stop::End) => Ok(None),
                    Ok(_) => Err(Stop::Damage(Damage::Record("there is more after the end mark"))),
                    Err(stop) => Err(stop),
                }
            }
            _ => Err(Stop::Damage(Damage::Record("neither a chunk nor the end mark"))),
        }
    }
}

fn read_header(input: &mut Input<'_>) -> Result<Result<Header, ContainerError>, Stop> {
    let at = input.take(MAGIC.len())?;
    if input.seen[at..] != MAGIC {
        return Ok(Err(ContainerError::NotAContainer));
    }
    let at = input.take(2)?;
    let version = u16::from_le_bytes([input.seen[at], input.seen[at + 1]]);
    if version != VERSION {
        return Ok(Err(ContainerError::Version(version)));
    }
    let length = input.length()?;
    let at = input.take(length)?;
    let bytes = input.seen[at..].to_vec();
    input.check()?;
    let mut bytes = Cursor::new(&bytes);
    let isa = bytes.byte().map_err(Stop::Damage)?;
    let isa = ISAS.into_iter().find(|&known| known as u8 == isa);
    let isa = isa.ok_or(Stop::Damage(Damage::Record("an unknown instruction set")))?;
    let mut text = || -> Result<String, Damage> {
        let length = bytes.number()?;
        Ok(String::from_utf8_lossy(bytes.slice(length)?).into_owned())
    };
    let scheme = text().map_err(Stop::Damage)?;
    let data = text().map_err(Stop::Damage)?;
    let program = text().map_err(Stop::Damage)?;
    let identity = bytes.number().map_err(Stop::Damage)?;
    Ok(match (Scheme::parse(&scheme), DataScheme::parse(&data)) {
        (Ok(scheme), Ok(data)) => Ok(Header { scheme, data, isa, program, identity }),
        (Err(bad), _) => Err(ContainerError::Scheme(bad)),
        (_, Err(why)) => Err(ContainerError::Data(why)),
    })
}
