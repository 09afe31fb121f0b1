//! Programs for tests: bytes at addresses.

use std::fs;
use std::path::Path;

use backsight_core::{Address, AddressSpace};
use backsight_image::Code;

/// Pieces of memory.
#[derive(Clone, Default)]
pub struct Program(pub Vec<(u64, Vec<u8>)>);

impl Code for Program {
    fn bytes_at(&self, _: AddressSpace, address: Address) -> Option<&[u8]> {
        self.0.iter().find_map(|(start, bytes)| {
            let distance = usize::try_from(address.0.checked_sub(*start)?).ok()?;
            bytes.get(distance..).filter(|rest| !rest.is_empty())
        })
    }
}

impl Program {
    /// The loaded segments of a 64-bit little-endian ELF file, and the boot code of the reference flow at 0x1000.
    pub fn with_boot_rom(elf: &Path, rom: &Path) -> Self {
        let mut program = Self::elf(elf);
        program.0.push((0x1000, fs::read(rom).unwrap()));
        program
    }

    /// The loaded segments of a 64-bit little-endian ELF file.
    pub fn elf(path: &Path) -> Self {
        let file = fs::read(path).unwrap();
        let word = |at: usize| u64::from_le_bytes(file[at..at + 8].try_into().unwrap());
        let half = |at: usize| usize::from(u16::from_le_bytes(file[at..at + 2].try_into().unwrap()));
        let (table, size, count) = (word(0x20) as usize, half(0x36), half(0x38));
        let segment = |at: usize| {
            let (offset, length) = (word(at + 8) as usize, word(at + 0x20) as usize);
            // Traces speak of the address the code runs at.
            (word(at + 0x10), file[offset..offset + length].to_vec())
        };
        let loaded = (0..count).map(|n| table + n * size).filter(|&at| file[at] == 1);
        Self(loaded.map(segment).filter(|(_, bytes)| !bytes.is_empty()).collect())
    }
}
