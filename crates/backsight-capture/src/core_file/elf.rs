//! The headers of an ELF file: segments and sections, in either size and byte order.

use std::io::{self, Read, Seek, SeekFrom};

use crate::store::{Extent, ReadSeek, Store};

const CORE: u16 = 4;
const HEADER: usize = 64;
/// Segments and sections at most: a core file has one for each mapping of a process.
const MOST: u64 = 1 << 17;
/// Longest table of names.
const LONGEST_NAMES: u64 = 1 << 24;
/// A number that has no room in its field: section 0 has it.
const MANY: u64 = 0xFFFF;
const NO_BITS: u32 = 8;

/// What is in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Segment {
    pub kind: u32,
    pub is_executable: bool,
    pub address: u64,
    pub extent: Extent,
}

/// A named part of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Section {
    pub name: String,
    pub extent: Extent,
}

/// Numbers of a file, by its size and byte order.
#[derive(Clone, Copy, Debug)]
pub(super) struct Numbers {
    pub is_64: bool,
    pub is_big: bool,
}

impl Numbers {
    pub fn u16(self, bytes: &[u8], at: usize) -> Option<u16> {
        let bytes = *bytes.get(at..)?.first_chunk()?;
        Some(if self.is_big { u16::from_be_bytes(bytes) } else { u16::from_le_bytes(bytes) })
    }

    pub fn u32(self, bytes: &[u8], at: usize) -> Option<u32> {
        let bytes = *bytes.get(at..)?.first_chunk()?;
        Some(if self.is_big { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) })
    }

    pub fn u64(self, bytes: &[u8], at: usize) -> Option<u64> {
        let bytes = *bytes.get(at..)?.first_chunk()?;
        Some(if self.is_big { u64::from_be_bytes(bytes) } else { u64::from_le_bytes(bytes) })
    }

    /// A number of the size of an address.
    pub fn word(self, bytes: &[u8], at: usize) -> Option<u64> {
        if self.is_64 { self.u64(bytes, at) } else { self.u32(bytes, at).map(u64::from) }
    }

    /// Bytes of such a number.
    pub const fn word_size(self) -> usize {
        if self.is_64 { 8 } else { 4 }
    }
}

/// The headers of a core file.
#[derive(Debug)]
pub(super) struct Headers {
    pub numbers: Numbers,
    pub segments: Vec<Segment>,
    pub sections: Vec<Section>,
    pub length: u64,
}

/// Does a file begin as a core file does?
pub(crate) fn is_core(start: &[u8]) -> bool {
    let kind = numbers_of(start).and_then(|numbers| numbers.u16(start, 16));
    kind == Some(CORE)
}

fn numbers_of(start: &[u8]) -> Option<Numbers> {
    let rest = start.strip_prefix(b"\x7FELF")?;
    let is_64 = match rest.first()? {
        1 => false,
        2 => true,
        _ => return None,
    };
    match rest.get(1)? {
        1 => Some(Numbers { is_64, is_big: false }),
        2 => Some(Numbers { is_64, is_big: true }),
        _ => None,
    }
}

fn damaged(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

/// Reads some bytes of the file, all of which have to be there.
pub(super) fn read_at(file: &mut dyn ReadSeek, extent: Extent) -> io::Result<Vec<u8>> {
    file.seek(SeekFrom::Start(extent.position))?;
    let mut bytes = Vec::new();
    file.take(extent.length).read_to_end(&mut bytes)?;
    match bytes.len() as u64 == extent.length {
        true => Ok(bytes),
        false => Err(damaged("the file ends within its headers")),
    }
}

impl Headers {
    pub fn read(store: &Store) -> io::Result<Self> {
        let mut file = store.open()?;
        let length = file.seek(SeekFrom::End(0))?;
        let first = Extent { position: 0, length: (HEADER as u64).min(length) };
        let header = read_at(&mut *file, first)?;
        let numbers =
            numbers_of(&header).filter(|_| is_core(&header)).ok_or_else(|| damaged("is no ELF core file"))?;
        let tables = Tables::read(numbers, &header).ok_or_else(|| damaged("the ELF header is cut off"))?;
        let (segments, sections) = Reader { file, numbers, length }.read(tables)?;
        Ok(Self { numbers, segments, sections, length })
    }
}

struct Reader {
    file: Box<dyn ReadSeek>,
    numbers: Numbers,
    length: u64,
}

/// A table of segments or sections.
#[derive(Clone, Copy)]
struct Table {
    position: u64,
    /// Bytes of an entry.
    size: u64,
    count: u64,
}

/// What the header of the file says.
struct Tables {
    segments: Table,
    sections: Table,
    /// The section with the names of sections.
    names: u64,
}

impl Tables {
    /// `None` where the header is too short.
    fn read(numbers: Numbers, header: &[u8]) -> Option<Self> {
        // After the address of the entry come both tables, then flags, and the sizes and numbers of entries.
        let at = |words: usize| 24 + words * numbers.word_size();
        let small = |index: usize| numbers.u16(header, at(3) + 4 + 2 * index).map(u64::from);
        Some(Self {
            segments: Table { position: numbers.word(header, at(1))?, size: small(1)?, count: small(2)? },
            sections: Table { position: numbers.word(header, at(2))?, size: small(3)?, count: small(4)? },
            names: small(5)?,
        })
    }
}

impl Reader {
    fn read(&mut self, tables: Tables) -> io::Result<(Vec<Segment>, Vec<Section>)> {
        let Tables { mut segments, mut sections, mut names } = tables;
        if sections.position == 0 {
            sections.count = 0;
        } else if let Some(first) = self.table(Table { count: 1, ..sections })?.first() {
            // Section 0 has the numbers that have no room in the header.
            let (numbers, word) = (self.numbers, self.numbers.word_size());
            if sections.count == 0 {
                sections.count = numbers.word(first, 8 + 3 * word).unwrap_or(0);
            }
            if segments.count == MANY {
                segments.count = numbers.u32(first, 12 + 4 * word).unwrap_or(0).into();
            }
            if names == MANY {
                names = numbers.u32(first, 8 + 4 * word).unwrap_or(0).into();
            }
        }
        let entries = self.table(segments)?;
        let segments = entries.iter().filter_map(|entry| self.segment(entry)).collect();
        let entries = self.table(sections)?;
        Ok((segments, self.named(&entries, names)?))
    }

    /// The entries of a table.
    fn table(&mut self, Table { position, size, count }: Table) -> io::Result<Vec<Vec<u8>>> {
        if count == 0 {
            return Ok(Vec::new());
        }
        if count > MOST || size < 8 {
            return Err(damaged("a table of segments or sections makes no sense"));
        }
        let bytes = read_at(&mut *self.file, Extent { position, length: size * count })?;
        Ok(bytes.chunks(size as usize).map(<[u8]>::to_vec).collect())
    }

    /// What of some bytes is in the file.
    fn clip(&self, position: u64, length: u64) -> Extent {
        Extent { position, length: length.min(self.length.saturating_sub(position)) }
    }

    fn segment(&self, entry: &[u8]) -> Option<Segment> {
        let (numbers, word) = (self.numbers, self.numbers.word_size());
        let flags = numbers.u32(entry, if numbers.is_64 { 4 } else { 24 })?;
        let fields = if numbers.is_64 { 8 } else { 4 };
        let field = |index: usize| numbers.word(entry, fields + index * word);
        Some(Segment {
            kind: numbers.u32(entry, 0)?,
            is_executable: flags & 1 != 0,
            address: field(1)?,
            extent: self.clip(field(0)?, field(3)?),
        })
    }

    fn named(&mut self, sections: &[Vec<u8>], names: u64) -> io::Result<Vec<Section>> {
        let (numbers, word) = (self.numbers, self.numbers.word_size());
        let place = |entry: &[u8]| {
            let field = |index: usize| numbers.word(entry, 8 + index * word);
            Some((field(2)?, field(3)?))
        };
        let table = usize::try_from(names).ok().and_then(|names| sections.get(names));
        let Some((position, length)) = table.and_then(|entry| place(entry)) else { return Ok(Vec::new()) };
        let extent = self.clip(position, length.min(LONGEST_NAMES));
        let names = read_at(&mut *self.file, extent)?;
        let section = |entry: &Vec<u8>| {
            let name = names.get(numbers.u32(entry, 0)? as usize..)?;
            let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
            let (position, length) = place(entry).filter(|_| numbers.u32(entry, 4) != Some(NO_BITS))?;
            let name = String::from_utf8_lossy(name).into_owned();
            Some(Section { name, extent: self.clip(position, length) })
        };
        Ok(sections.iter().filter_map(section).collect())
    }
}
