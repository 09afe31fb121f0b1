//! What memory an ELF file describes.

use std::path::Path;

use object::elf::{SHF_EXECINSTR, SHT_NOBITS};
use object::{Object, ObjectSection, SectionFlags};

use crate::ImageError;
use crate::elf_headers::{ElfHeaders, PF_X, PT_LOAD};

/// How the addresses in the file relate to those in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ElfKind {
    /// Linked to the addresses it runs at (ET_EXEC).
    Fixed,
    /// Loaded anywhere: a shared object or a position-independent program (ET_DYN).
    Relocatable,
    /// A dump of a process (ET_CORE).
    Core,
}

/// A loadable segment with bytes in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ElfSegment {
    /// The address in the file's own numbering.
    pub address: u64,
    /// Where its bytes are in the file.
    pub offset: u64,
    /// How many bytes of it are in the file; memory after them is zeros.
    pub length: u64,
    /// May be executed.
    pub executable: bool,
}

/// What was read from the headers of an ELF file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Elf {
    /// Fixed or relocatable.
    pub kind: ElfKind,
    /// The machine, a number of the ELF standard (40 Arm, 183 AArch64, 243 RISC-V).
    pub machine: u16,
    /// 64-bit addresses.
    pub wide: bool,
    /// Where execution begins, in the file's own numbering.
    pub entry: u64,
    /// The loadable segments.
    pub segments: Vec<ElfSegment>,
    /// The GNU build identifier.
    pub build_id: Option<Vec<u8>>,
}

impl Elf {
    /// Do these bytes begin like an ELF file?
    pub fn is_elf(bytes: &[u8]) -> bool {
        bytes.starts_with(b"\x7FELF")
    }

    /// Reads the headers.
    ///
    /// # Errors
    /// If it is no ELF file, is cut off, or describes no memory.
    pub fn parse(name: &Path, bytes: &[u8]) -> Result<Self, ImageError> {
        if !Self::is_elf(bytes) {
            return Err(ImageError::other(name, "is no ELF file"));
        }
        if Self::is_debug_only(bytes) {
            return Err(ImageError::other(name, "has the debug information of a program, not its code"));
        }
        let headers = ElfHeaders::parse(bytes).map_err(|error| ImageError::elf(name, error))?;
        let mut elf = read(name, bytes, &headers)?;
        // A damaged section table costs the build identifier, not the code.
        elf.build_id = Self::build_id_of(bytes);
        Ok(elf)
    }

    /// Is it a relocatable file (ET_REL): an object file, a kernel module? An image links it where it is added.
    pub fn is_object(bytes: &[u8]) -> bool {
        crate::relocate::is_object(bytes)
    }

    /// The GNU build identifier of an ELF file of any kind.
    pub fn build_id_of(bytes: &[u8]) -> Option<Vec<u8>> {
        object::File::parse(bytes).ok()?.build_id().ok().flatten().map(<[u8]>::to_vec)
    }

    /// Does a file have the debug information of a program, but no code? What was code has an address and a size, and
    /// nothing in the file.
    pub fn is_debug_only(bytes: &[u8]) -> bool {
        let Ok(file) = object::File::parse(bytes) else { return false };
        let code = |section: &object::Section<'_, '_>| match section.flags() {
            SectionFlags::Elf { sh_type, sh_flags } if sh_flags.0 & SHF_EXECINSTR.0 != 0 => {
                Some(sh_type != SHT_NOBITS)
            }
            _ => None,
        };
        let mut sections = file.sections().filter_map(|section| code(&section)).peekable();
        sections.peek().is_some() && !sections.any(|in_file| in_file)
    }

    /// How far a file was moved of which `length` bytes from `offset` on are in memory at `address`.
    ///
    /// Memory is mapped by pages, and linkers such as lld pack segments without padding: one page of the file may hold
    /// the end of a segment and the beginning of the next, and is then mapped once for each. Such a mapping belongs to
    /// the segment that a fixed program does not move, else to the one that can be executed, else to the one that most
    /// of its bytes are of.
    pub(crate) fn bias_of(&self, offset: u64, length: u64, address: u64) -> Option<u64> {
        let overlap = |segment: &ElfSegment| {
            let end = offset.saturating_add(length).min(segment.offset.saturating_add(segment.length));
            end.saturating_sub(offset.max(segment.offset))
        };
        let bias = |segment: &ElfSegment| {
            let linked = segment.address.wrapping_add(offset).wrapping_sub(segment.offset);
            address.wrapping_sub(linked)
        };
        let rank = |segment: &&ElfSegment| {
            let is_unmoved = self.kind != ElfKind::Relocatable && bias(segment) == 0;
            (is_unmoved, segment.executable, overlap(segment))
        };
        // Of equals the first counts: the search takes the last.
        let overlapping = self.segments.iter().rev().filter(|segment| overlap(segment) > 0);
        overlapping.max_by_key(rank).map(bias)
    }

    /// Its segments, moved by `bias`.
    pub(crate) fn place(&self, name: &Path, bias: u64) -> Result<Vec<ElfSegment>, ImageError> {
        let place = |segment: &ElfSegment| {
            let (address, length) = (self.moved(segment.address, bias), segment.length);
            if address.checked_add(length - 1).is_none() {
                let why = format!("does not fit into memory with {length:#x} bytes at {address:#x}");
                return Err(ImageError::other(name, why));
            }
            Ok(ElfSegment { address, ..*segment })
        };
        self.segments.iter().map(place).collect()
    }

    /// The address in memory of one in the file's own numbering.
    pub(crate) fn moved(&self, address: u64, bias: u64) -> u64 {
        let moved = address.wrapping_add(bias);
        if self.wide { moved } else { moved & 0xFFFF_FFFF }
    }
}

fn read(name: &Path, bytes: &[u8], headers: &ElfHeaders) -> Result<Elf, ImageError> {
    let kind = match headers.identity.file_type {
        2 => ElfKind::Fixed,
        3 => ElfKind::Relocatable,
        4 => ElfKind::Core,
        _ => return Err(ImageError::other(name, "is not linked: expected a program or shared object")),
    };
    let mut segments = Vec::new();
    for header in headers.programs.iter().filter(|header| header.kind == PT_LOAD && header.file_size > 0) {
        let segment = ElfSegment {
            address: header.address,
            offset: header.offset,
            length: header.file_size,
            executable: header.flags & PF_X != 0,
        };
        segments.push(checked(name, segment, bytes.len() as u64)?);
    }
    if segments.is_empty() {
        return Err(ImageError::other(
            name,
            "has no loadable segment with contents (debug information only?)",
        ));
    }
    Ok(Elf {
        kind,
        machine: headers.identity.machine,
        wide: headers.identity.wide,
        entry: headers.entry,
        segments,
        build_id: None,
    })
}

fn checked(name: &Path, segment: ElfSegment, size: u64) -> Result<ElfSegment, ImageError> {
    let ElfSegment { address, offset, length, .. } = segment;
    if offset.checked_add(length).is_none_or(|end| end > size) {
        return Err(ImageError::other(
            name,
            format!(
                "is cut off: a segment needs {length:#x} bytes at offset {offset:#x}, the file has {size:#x}"
            ),
        ));
    }
    if address.checked_add(length - 1).is_none() {
        return Err(ImageError::other(
            name,
            format!("has a segment of {length:#x} bytes at {address:#x}, beyond the end of memory"),
        ));
    }
    Ok(segment)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What lld makes of a small program: read-only data and code in one page of the file, in different pages of memory.
    fn packed(kind: ElfKind) -> Elf {
        let data = ElfSegment { address: 0x20_0000, offset: 0, length: 0x9CC, executable: false };
        let code = ElfSegment { address: 0x21_09CC, offset: 0x9CC, length: 0x200, executable: true };
        let (machine, wide, entry, build_id) = (183, true, 0, None);
        Elf { kind, machine, wide, entry, segments: vec![data, code], build_id }
    }

    #[test]
    fn a_page_of_two_segments_in_a_fixed_program_is_of_the_one_that_is_not_moved() {
        let elf = packed(ElfKind::Fixed);
        assert_eq!(elf.bias_of(0, 0x1000, 0x20_0000), Some(0), "mapped for the data");
        assert_eq!(elf.bias_of(0, 0x1000, 0x21_0000), Some(0), "mapped for the code");
    }

    #[test]
    fn a_page_of_two_segments_in_a_program_that_was_moved_is_of_the_code() {
        let elf = packed(ElfKind::Relocatable);
        assert_eq!(elf.bias_of(0, 0x1000, 0x5555_0021_0000), Some(0x5555_0000_0000));
    }

    #[test]
    fn bytes_of_one_segment_only_are_of_that_one() {
        let elf = packed(ElfKind::Relocatable);
        assert_eq!(elf.bias_of(0, 0x100, 0x5555_0020_0000), Some(0x5555_0000_0000));
        assert_eq!(elf.bias_of(0xA00, 0x100, 0x31_0A00), Some(0x10_0000));
        assert_eq!(elf.bias_of(0x5000, 0x100, 0x31_0200), None, "no segment has these bytes");
    }

    #[test]
    fn of_two_segments_of_code_the_one_with_more_bytes_counts() {
        let mut elf = packed(ElfKind::Relocatable);
        elf.segments[0].executable = true;
        assert_eq!(elf.bias_of(0x900, 0x200, 0x5555_0021_0900), Some(0x5555_0000_0000));
        assert_eq!(elf.bias_of(0x800, 0x200, 0x5555_0020_0800), Some(0x5555_0000_0000));
    }
}
