//! The headers of an ELF file, taken apart: what it is for, and which parts of it go to memory.
//!
//! Everything that looks at an ELF file's own description of memory looks here: images, the simulator that loads a
//! program, other code only which processor a program is for. Nothing is judged: whether sizes and addresses make
//! sense is for the reader of the headers to say, who knows what they are wanted for.

use std::fmt;

/// `p_type` of a segment that is loaded.
pub const PT_LOAD: u32 = 1;
/// `p_type` of the name of the dynamic linker.
pub const PT_INTERP: u32 = 3;
/// `p_flags`: may be executed.
pub const PF_X: u32 = 1;
/// `p_flags`: may be written.
pub const PF_W: u32 = 2;

/// The beginning of an ELF file: its first 20 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ElfIdentity {
    /// 64-bit addresses.
    pub wide: bool,
    /// The low byte of a number comes first.
    pub little_endian: bool,
    /// `e_type`: 1 object file, 2 program, 3 shared object or position-independent program, 4 core file.
    pub file_type: u16,
    /// `e_machine`: 40 Arm, 183 AArch64, 243 RISC-V.
    pub machine: u16,
}

/// A program header, as it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProgramHeader {
    /// `p_type`.
    pub kind: u32,
    /// `p_flags`.
    pub flags: u32,
    /// Where its bytes are in the file.
    pub offset: u64,
    /// Where they go, in the file's own numbering.
    pub address: u64,
    /// How many bytes the file has.
    pub file_size: u64,
    /// How many bytes there are in memory.
    pub memory_size: u64,
}

/// All headers of an ELF file but those of sections.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ElfHeaders {
    /// What it is for.
    pub identity: ElfIdentity,
    /// Where execution begins, in the file's own numbering.
    pub entry: u64,
    /// Where the program headers are in the file.
    pub table: u64,
    /// The program headers.
    pub programs: Vec<ProgramHeader>,
}

/// Why there are no headers to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ElfHeaderError {
    /// It does not begin with `7F 45 4C 46`.
    NotElf,
    /// Neither 32 nor 64 bits: `EI_CLASS`.
    Class(u8),
    /// Neither little nor big end first: `EI_DATA`.
    Encoding(u8),
    /// The file ends before this offset.
    Truncated(u64),
    /// Program headers of so many bytes, which is too few.
    HeaderSize(u16),
}

impl fmt::Display for ElfHeaderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotElf => f.write_str("is no ELF file"),
            Self::Class(class) => write!(f, "class {class}; expected 1 (32 bits) or 2 (64 bits)"),
            Self::Encoding(data) => {
                write!(f, "encoding {data}; expected 1 (little-endian) or 2 (big-endian)")
            }
            Self::Truncated(offset) => write!(f, "truncated: nothing at offset {offset:#x}"),
            Self::HeaderSize(size) => write!(f, "program headers of {size} bytes are too small"),
        }
    }
}

impl std::error::Error for ElfHeaderError {}

/// Numbers in the file's own order and width.
struct HeaderFields<'a> {
    bytes: &'a [u8],
    wide: bool,
    little_endian: bool,
}

impl HeaderFields<'_> {
    fn number(&self, offset: u64, size: u64) -> Result<u64, ElfHeaderError> {
        let found =
            usize::try_from(offset).ok().and_then(|from| self.bytes.get(from..)?.get(..size as usize));
        let bytes = found.ok_or(ElfHeaderError::Truncated(offset))?;
        let join = |number: u64, byte: &u8| number << 8 | u64::from(*byte);
        Ok(if self.little_endian { bytes.iter().rev().fold(0, join) } else { bytes.iter().fold(0, join) })
    }

    fn half(&self, offset: u64) -> Result<u16, ElfHeaderError> {
        self.number(offset, 2).map(|number| number as u16)
    }

    fn word(&self, offset: u64) -> Result<u32, ElfHeaderError> {
        self.number(offset, 4).map(|number| number as u32)
    }

    /// A field that stands elsewhere in 32-bit and 64-bit files, and is as wide as an address.
    fn address(&self, narrow: u64, wide: u64) -> Result<u64, ElfHeaderError> {
        if self.wide { self.number(wide, 8) } else { self.number(narrow, 4) }
    }
}

impl ElfIdentity {
    /// Reads the identity from the first bytes of a file; 20 are enough.
    ///
    /// # Errors
    /// If it is no ELF file, or one of an unknown kind.
    pub fn parse(bytes: &[u8]) -> Result<Self, ElfHeaderError> {
        if !bytes.starts_with(b"\x7FELF") {
            return Err(ElfHeaderError::NotElf);
        }
        let mut fields = HeaderFields { bytes, wide: false, little_endian: true };
        let wide = match fields.number(4, 1)? {
            1 => false,
            2 => true,
            class => return Err(ElfHeaderError::Class(class as u8)),
        };
        fields.little_endian = match fields.number(5, 1)? {
            1 => true,
            2 => false,
            data => return Err(ElfHeaderError::Encoding(data as u8)),
        };
        let (file_type, machine) = (fields.half(16)?, fields.half(18)?);
        Ok(Self { wide, little_endian: fields.little_endian, file_type, machine })
    }
}

impl ElfHeaders {
    /// Reads the headers of a file.
    ///
    /// # Errors
    /// If it is no ELF file, or the headers are not all there.
    pub fn parse(bytes: &[u8]) -> Result<Self, ElfHeaderError> {
        let identity = ElfIdentity::parse(bytes)?;
        let ElfIdentity { wide, little_endian, .. } = identity;
        let fields = HeaderFields { bytes, wide, little_endian };
        let entry = fields.address(24, 24)?;
        let table = fields.address(28, 32)?;
        let (size_at, smallest) = if wide { (54, 56) } else { (42, 32) };
        let size = fields.half(size_at)?;
        let count = count(&fields, size_at + 2)?;
        if count > 0 && size < smallest {
            return Err(ElfHeaderError::HeaderSize(size));
        }
        let each = (0..count).map(|number| program(&fields, table, u64::from(number) * u64::from(size)));
        Ok(Self { identity, entry, table, programs: each.collect::<Result<_, _>>()? })
    }
}

/// The number of program headers: more than fit the field are counted in the first section header.
fn count(fields: &HeaderFields<'_>, offset: u64) -> Result<u32, ElfHeaderError> {
    const ELSEWHERE: u16 = 0xFFFF;
    let count = fields.half(offset)?;
    let sections = fields.address(32, 40)?;
    if count != ELSEWHERE || sections == 0 {
        return Ok(count.into());
    }
    fields.word(sections.saturating_add(if fields.wide { 44 } else { 28 }))
}

fn program(fields: &HeaderFields<'_>, table: u64, offset: u64) -> Result<ProgramHeader, ElfHeaderError> {
    let start = table.saturating_add(offset);
    let at = |offset: u64| start.saturating_add(offset);
    Ok(ProgramHeader {
        kind: fields.word(start)?,
        flags: fields.word(if fields.wide { at(4) } else { at(24) })?,
        offset: fields.address(at(4), at(8))?,
        address: fields.address(at(8), at(16))?,
        file_size: fields.address(at(16), at(32))?,
        memory_size: fields.address(at(20), at(40))?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A 32-bit big-endian Arm program with `count` in its field for program headers, of which two are there.
    fn narrow(count: u16) -> Vec<u8> {
        let mut file = b"\x7FELF\x01\x02\x01".to_vec();
        file.resize(16, 0);
        file.extend([0, 2, 0, 40, 0, 0, 0, 1]);
        // Entry, program headers, section headers (of which only the first one's count is looked at).
        [0x8004_u32, 52, 116, 0].iter().for_each(|word| file.extend(word.to_be_bytes()));
        [52_u16, 32, count, 40, 1, 0].iter().for_each(|half| file.extend(half.to_be_bytes()));
        for number in 0..2 {
            let words = [1, 0x100, 0x8000 + number, 0, 0x20, 0x30, 5, 4];
            words.iter().for_each(|word: &u32| file.extend(word.to_be_bytes()));
        }
        [0, 0, 0, 0, 0, 0, 0, 2, 0, 0].iter().for_each(|word: &u32| file.extend(word.to_be_bytes()));
        file
    }

    #[test]
    fn fields_of_a_narrow_big_endian_file_are_found() {
        let headers = ElfHeaders::parse(&narrow(2)).expect("headers");
        let identity = ElfIdentity { wide: false, little_endian: false, file_type: 2, machine: 40 };
        assert_eq!((headers.identity, headers.entry, headers.table), (identity, 0x8004, 52));
        let second = ProgramHeader {
            kind: PT_LOAD,
            flags: 5,
            offset: 0x100,
            address: 0x8001,
            file_size: 0x20,
            memory_size: 0x30,
        };
        assert_eq!(headers.programs[1], second);
    }

    #[test]
    fn more_headers_than_their_field_counts_are_counted_elsewhere() {
        let headers = ElfHeaders::parse(&narrow(0xFFFF)).expect("headers");
        assert_eq!(headers.programs.len(), 2);
    }

    #[test]
    fn what_is_missing_is_named() {
        let file = narrow(2);
        assert_eq!(ElfIdentity::parse(b"#!/bin/sh"), Err(ElfHeaderError::NotElf));
        assert_eq!(ElfIdentity::parse(b"\x7FELF\x03"), Err(ElfHeaderError::Class(3)));
        assert_eq!(ElfIdentity::parse(&file[..19]), Err(ElfHeaderError::Truncated(18)));
        assert_eq!(ElfHeaders::parse(&file[..100]), Err(ElfHeaderError::Truncated(108)));
        assert_eq!(ElfHeaders::parse(&narrow(6)), Err(ElfHeaderError::Truncated(172)));
    }
}
