//! The program that a trace is of: its code, and a number that stands for its file.

use crate::code::Section;
use std::fmt;

/// A program's file, as far as compressors need it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// Stands for the file's contents and where it was loaded; never 0.
    pub identity: u64,
    /// What may be executed.
    pub sections: Vec<Section>,
}

/// Why a file is no program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotAProgram {
    /// It is no little-endian ELF file.
    NotElf,
    /// A program header lies outside of it.
    Corrupt,
    /// It has nothing to execute.
    NoCode,
}

impl fmt::Display for NotAProgram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotElf => "not a little-endian ELF file",
            Self::Corrupt => "its program headers are corrupt",
            Self::NoCode => "it has no segment that may be executed",
        })
    }
}

impl std::error::Error for NotAProgram {}

/// FNV-1a, 64 bits.
fn hash(begin: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(begin, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3))
}

const EXECUTE: u64 = 1;
const LOAD: u64 = 1;

impl Program {
    /// Reads an ELF file. `address` is added to the addresses in it: where a relocatable one was loaded.
    pub fn read(file: &[u8], address: u64) -> Result<Self, NotAProgram> {
        let [0x7F, b'E', b'L', b'F', class @ (1 | 2), 1, ..] = file else { return Err(NotAProgram::NotElf) };
        let wide = *class == 2;
        let field = |at: u64, size: usize| -> Result<u64, NotAProgram> {
            let at = usize::try_from(at).map_err(|_| NotAProgram::Corrupt)?;
            let bytes = file.get(at..).and_then(|rest| rest.get(..size)).ok_or(NotAProgram::Corrupt)?;
            let mut value = [0; 8];
            value[..size].copy_from_slice(bytes);
            Ok(u64::from_le_bytes(value))
        };
        let word = if wide { 8 } else { 4 };
        let table = field(if wide { 32 } else { 28 }, word)?;
        let (size, count) = (field(if wide { 54 } else { 42 }, 2)?, field(if wide { 56 } else { 44 }, 2)?);
        let mut sections = Vec::new();
        for number in 0..count {
            let at = table.checked_add(number * size).ok_or(NotAProgram::Corrupt)?;
            let flags = field(at + if wide { 4 } else { 24 }, 4)?;
            if field(at, 4)? != LOAD || flags & EXECUTE == 0 {
                continue;
            }
            let offset = field(at + if wide { 8 } else { 4 }, word)?;
            let start = field(at + if wide { 16 } else { 8 }, word)?;
            let length = field(at + if wide { 32 } else { 16 }, word)?;
            let end = offset.checked_add(length).ok_or(NotAProgram::Corrupt)?;
            let bytes = usize::try_from(offset).ok().zip(usize::try_from(end).ok());
            let bytes = bytes.and_then(|(from, to)| file.get(from..to)).ok_or(NotAProgram::Corrupt)?;
            sections.push(Section { address: start.wrapping_add(address), bytes: bytes.to_vec() });
        }
        if sections.is_empty() {
            return Err(NotAProgram::NoCode);
        }
        let identity = hash(hash(0xCBF2_9CE4_8422_2325, file), &address.to_le_bytes()).max(1);
        Ok(Self { identity, sections })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bundled_programs_have_code_and_differ() {
        let folder = backsight_testing::repository().join("testdata/programs");
        let read = |name: &str| Program::read(&std::fs::read(folder.join(name)).unwrap(), 0).unwrap();
        let programs = ["riscv64/sort", "riscv64/vm", "aarch64/sort", "arm/sort"].map(read);
        assert!(programs.iter().all(|program| program.sections.iter().any(|code| code.bytes.len() > 1000)));
        assert!((1..4).all(|n| programs[n].identity != programs[0].identity));
        assert_eq!(Program::read(b"#!/bin/sh", 0), Err(NotAProgram::NotElf));
        assert_eq!(Program::read(b"\x7FELF\x02\x01", 0), Err(NotAProgram::Corrupt));
    }
}
