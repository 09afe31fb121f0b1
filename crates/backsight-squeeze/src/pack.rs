//! Packing executed instructions into chunks that each restore exactly what went in, and unpacking them.
//!
//! A chunk has the records of a scheme, the notes, the cycles, the accesses and the code that was seen for the first time. Tables go
//! on from chunk to chunk, so that chunks must be unpacked in order; each is complete, so that no more than one needs
//! to be in memory.

use crate::block::{Block, Compressor, Decompressor, Records, Share};
use crate::code::{Code, Kind, Op};
use crate::cycles::{CycleReader, CycleWriter};
use crate::data::accesses::{AccessReader, AccessWriter, DataScheme};
use crate::expand::Expander;
use crate::notes::{Cursor, Note, NoteWriter, put_distance, put_number};
use crate::scheme::{AnyCompressor, AnyDecompressor, Scheme};
use crate::split::{Parts, Pushed, Splitter};
use crate::{Damage, Unfit};
use backsight_core::{Address, EachItem, Execution, ExecutionSink, Isa, Retired, RetiredBlock};

/// A part of the trace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Chunk {
    /// Code seen for the first time, or changed.
    pub code: Vec<u8>,
    /// The notes.
    pub notes: Vec<u8>,
    /// The cycles.
    pub cycles: Vec<u8>,
    /// Loads and stores.
    pub accesses: Vec<u8>,
    /// The records.
    pub records: Records,
}

/// A chunk ends when one of its parts has this many bytes …
const PART_BYTES: usize = 1 << 20;
/// … or it stands for this many instructions.
const MOST_INSTRUCTIONS: u64 = 1 << 26;

/// Every 65536 instructions it is looked whether a chunk is full.
const FULL_MASK: u64 = 0xFFFF;

struct Sorted<'a> {
    compressor: &'a mut AnyCompressor,
    notes: &'a mut NoteWriter,
}

impl Parts for Sorted<'_> {
    #[inline]
    fn block(&mut self, block: &Block, code: &mut Code) {
        self.compressor.push(block, code);
    }

    fn note(&mut self, at: u64, note: &Note) {
        self.notes.put(at, note);
    }
}

/// Packs.
#[derive(Clone, Debug)]
pub struct Packer {
    code: Code,
    splitter: Splitter,
    compressor: AnyCompressor,
    notes: NoteWriter,
    cycles: CycleWriter,
    accesses: AccessWriter,
    new_code: CodeWriter,
    known: Box<[KnownBlock]>,
}

/// Blocks that are remembered.
const KNOWN: usize = 1 << 12;

/// Straight-line code that was looked at.
#[derive(Clone, Copy, Debug)]
struct KnownBlock {
    number: u64,
    /// It holds while the code has had so many changes; `None`: nothing is known.
    changes: Option<u64>,
    /// What its last instruction does. All others are plain.
    last: Kind,
}

impl Packer {
    /// With schemes that passed their checks, and the code that the other side has too.
    pub fn new(scheme: &Scheme, data: DataScheme, code: Code) -> Self {
        Self {
            code,
            splitter: Splitter::new(scheme.address_bits()),
            compressor: scheme.compressor(),
            notes: NoteWriter::default(),
            cycles: CycleWriter::new(),
            accesses: AccessWriter::new(data),
            new_code: CodeWriter::default(),
            known: vec![KnownBlock { number: 0, changes: None, last: Kind::Plain }; KNOWN].into(),
        }
    }

    /// Takes straight-line code if that is easy: all of it is known, and follows what was before. Nearly all does and is.
    /// `false`, and nothing was done: its instructions are to be [pushed](Self::push) one by one.
    #[inline]
    pub fn push_block(&mut self, block: &RetiredBlock<'_>) -> bool {
        let count = block.code.len() as u64;
        let instructions = self.splitter.instructions();
        let may_be_full = (instructions ^ (instructions + count)) & !FULL_MASK != 0;
        if may_be_full || self.accesses.is_active() || !self.cycles.is_untimed() {
            return false;
        }
        let known = self.known[block.number as usize % KNOWN];
        let holds = known.number == block.number && known.changes == Some(self.code.changes());
        let last = if holds { Some(known.last) } else { self.look_at(block) };
        let Some(last) = last else { return false };
        let mut parts = Sorted { compressor: &mut self.compressor, notes: &mut self.notes };
        let taken = self.splitter.push_known(block, last, &mut self.code, &mut parts);
        if taken {
            self.cycles.put_all_untimed(count);
        }
        taken
    }

    /// What the last instruction of a block does, if all of its code is known and the others are plain.
    #[cold]
    fn look_at(&mut self, block: &RetiredBlock<'_>) -> Option<Kind> {
        let (last, before) = block.code.split_last()?;
        for retired in before {
            let op = self.code.at(retired.address.0)?;
            let plain = op.kind == Kind::Plain && retired.taken && retired.next == retired.end();
            if !op.is(retired) || !plain {
                return None;
            }
        }
        let op = self.code.at(last.address.0).filter(|op| op.is(last))?;
        let changes = Some(self.code.changes());
        self.known[block.number as usize % KNOWN] =
            KnownBlock { number: block.number, changes, last: op.kind };
        Some(op.kind)
    }

    /// Takes an item. Gives a chunk when one is full.
    #[inline]
    pub fn push(&mut self, item: &Execution) -> Result<Option<Box<Chunk>>, Unfit> {
        if let Execution::Instruction(retired) = item
            && !self.accesses.is_active()
            && self.splitter.push_plain(retired, &self.code)
        {
            if !self.cycles.put_untimed(retired.cycle) {
                self.cycles.put(retired.address.0, retired.cycle);
            }
            return if self.splitter.instructions() & FULL_MASK == 0 { Ok(self.full()) } else { Ok(None) };
        }
        self.push_other(item)
    }

    /// Whatever is not a plain instruction after another.
    #[inline(never)]
    fn push_other(&mut self, item: &Execution) -> Result<Option<Box<Chunk>>, Unfit> {
        if self.accesses.is_active() {
            return self.push_with_accesses(item);
        }
        if let Execution::Access(_) = item {
            self.accesses.activate(self.splitter.instructions());
        }
        self.push_item(item)
    }

    fn push_with_accesses(&mut self, item: &Execution) -> Result<Option<Box<Chunk>>, Unfit> {
        if let Execution::Access(access) = item
            && self.accesses.hold(access)
        {
            return Ok(None);
        }
        self.end_accesses();
        let chunk = self.push_item(item)?;
        if let Execution::Instruction(retired) = item {
            self.accesses.begin(retired);
        }
        Ok(chunk)
    }

    /// Accesses that are not as their instruction should have them are notes.
    fn end_accesses(&mut self) {
        for access in self.accesses.end() {
            let mut parts = Sorted { compressor: &mut self.compressor, notes: &mut self.notes };
            self.splitter.note(&Execution::Access(access), &mut parts);
        }
    }

    #[inline]
    fn push_item(&mut self, item: &Execution) -> Result<Option<Box<Chunk>>, Unfit> {
        let mut parts = Sorted { compressor: &mut self.compressor, notes: &mut self.notes };
        let pushed = self.splitter.push(item, &mut self.code, &mut parts)?;
        let Execution::Instruction(retired) = item else { return Ok(self.full()) };
        match pushed {
            Pushed::Done => {}
            Pushed::New => self.new_code.put(retired),
            Pushed::Changed => {
                let chunk = self.flush();
                self.splitter.forget(retired, &mut self.code)?;
                self.new_code.put(retired);
                self.push_item(item)?;
                return Ok(Some(Box::new(chunk)));
            }
        }
        self.cycles.put(retired.address.0, retired.cycle);
        if self.splitter.instructions() & FULL_MASK == 0 { Ok(self.full()) } else { Ok(None) }
    }

    fn full(&mut self) -> Option<Box<Chunk>> {
        let parts = [self.notes.len(), self.cycles.len(), self.accesses.len(), self.new_code.bytes.len()];
        let full = parts.into_iter().any(|bytes| bytes >= PART_BYTES)
            || self.compressor.waiting() >= PART_BYTES as u64 * 8
            || self.splitter.instructions() >= MOST_INSTRUCTIONS;
        full.then(|| Box::new(self.flush()))
    }

    /// Gives what was taken since the last chunk.
    pub fn flush(&mut self) -> Chunk {
        self.end_accesses();
        let mut parts = Sorted { compressor: &mut self.compressor, notes: &mut self.notes };
        self.splitter.flush(&mut self.code, &mut parts);
        Chunk {
            records: self.compressor.flush(&mut self.code),
            notes: self.notes.take(),
            cycles: self.cycles.take(),
            accesses: self.accesses.take(),
            code: self.new_code.take(),
        }
    }

    /// What the records so far are for.
    pub fn shares(&self) -> Vec<Share> {
        self.compressor.shares()
    }
}

/// Unpacks.
#[derive(Clone, Debug)]
pub struct Unpacker {
    code: Code,
    decompressor: AnyDecompressor,
    cycles: CycleReader,
    accesses: AccessReader,
}

impl Unpacker {
    /// With the schemes and the code of the [`Packer`].
    pub fn new(scheme: &Scheme, data: DataScheme, code: Code) -> Self {
        let (decompressor, accesses) = (scheme.decompressor(), AccessReader::new(data));
        Self { code, decompressor, cycles: CycleReader::new(), accesses }
    }

    /// Gives the items of the next chunk. What comes before damage is right, as far as can be told.
    pub fn unpack(&mut self, chunk: &Chunk, sink: &mut dyn FnMut(Execution)) -> Result<(), Damage> {
        self.unpack_blocks(chunk, &mut EachItem(sink))
    }

    /// The same, with straight-line code as blocks where nothing lies between its instructions.
    pub fn unpack_blocks(&mut self, chunk: &Chunk, sink: &mut dyn ExecutionSink) -> Result<(), Damage> {
        take_code(&chunk.code, &mut self.code)?;
        if self.cycles.is_untimed() && chunk.cycles.is_empty() && chunk.accesses.is_empty() {
            return self.restore(chunk, sink);
        }
        let mut reader = std::mem::take(&mut self.cycles);
        let mut cycles = reader.begin(&chunk.cycles)?;
        let mut accesses = self.accesses.begin(&chunk.accesses)?;
        let mut damaged = Ok(());
        let mut timed = |mut item| {
            let Execution::Instruction(retired) = &mut item else { return sink.item(item) };
            match cycles.cycle(retired.address.0) {
                Ok(cycle) => retired.cycle = cycle,
                Err(damage) => damaged = Err(damage),
            }
            let retired = *retired;
            sink.item(item);
            if let Some(accesses) = &mut accesses
                && damaged.is_ok()
            {
                damaged = accesses.after(&retired, &mut |item| sink.item(item));
            }
        };
        self.restore(chunk, &mut EachItem(&mut timed))?;
        damaged?;
        cycles.finish()?;
        self.cycles = reader;
        accesses.map_or(Ok(()), |accesses| self.accesses.end(accesses))
    }

    /// Gives the items of a chunk without cycles and accesses.
    fn restore(&mut self, chunk: &Chunk, sink: &mut dyn ExecutionSink) -> Result<(), Damage> {
        let mut expander = Expander::new(&chunk.notes)?;
        expander.begin(sink)?;
        self.decompressor.unpack(&chunk.records, &mut self.code, &mut |path, code| {
            expander.push(path, code, sink);
        })?;
        expander.finish(&mut self.code, sink)
    }
}

/// Writes code: `flags, distance of the address, opcode`.
#[derive(Clone, Debug, Default)]
struct CodeWriter {
    bytes: Vec<u8>,
    at: u64,
}

const ISAS: [Isa; 5] = [Isa::A64, Isa::A32, Isa::T32, Isa::Rv32, Isa::Rv64];

impl CodeWriter {
    fn put(&mut self, retired: &Retired) {
        self.bytes.push(retired.isa as u8 | retired.size << 3);
        put_distance(&mut self.bytes, retired.address.0.wrapping_sub(self.at));
        put_number(&mut self.bytes, u64::from(retired.opcode));
        self.at = retired.end().0;
    }

    fn take(&mut self) -> Vec<u8> {
        self.at = 0;
        std::mem::take(&mut self.bytes)
    }
}

fn take_code(bytes: &[u8], code: &mut Code) -> Result<(), Damage> {
    let mut bytes = Cursor::new(bytes);
    let mut at = 0u64;
    while !bytes.is_empty() {
        let flags = bytes.byte()?;
        let isa = ISAS.into_iter().find(|&isa| isa as u8 == flags & 7);
        let isa = isa.ok_or(Damage::Record("code of an unknown instruction set"))?;
        let size = flags >> 3;
        if size != 2 && size != 4 {
            return Err(Damage::Record("an instruction that is neither 2 nor 4 bytes long"));
        }
        let address = at.wrapping_add(bytes.distance()?);
        if address % 2 != 0 {
            return Err(Damage::Record("an instruction at an odd address"));
        }
        let op = Op { opcode: bytes.number32()?, size, isa, kind: Kind::Plain };
        let retired = op.retired(address, 0, true);
        code.insert(&retired).ok_or(Damage::Record("more code than there is room for"))?;
        at = Address(address).plus(u64::from(size)).0;
    }
    Ok(())
}
