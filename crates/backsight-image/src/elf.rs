//! What memory an ELF file describes.

use std::path::Path;

use object::elf::{SHF_EXECINSTR, SHT_NOBITS};
use object::{Object, ObjectSection, SectionFlags};

use crate::ImageError;
use crate::elf_headers::{ElfHeaders, PT_LOAD};

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
        elf.build_id = object::File::parse(bytes)
            .ok()
            .and_then(|file| file.build_id().ok().flatten().map(<[u8]>::to_vec));
        Ok(elf)
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

    /// How far a file whose byte at `offset` is in memory at `address` was moved.
    pub(crate) fn bias_of(&self, offset: u64, address: u64) -> Option<u64> {
        let inside = |segment: &&ElfSegment| offset.wrapping_sub(segment.offset) < segment.length;
        let segment = self.segments.iter().find(inside)?;
        Some(address.wrapping_sub(segment.address.wrapping_add(offset - segment.offset)))
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
        let segment = ElfSegment { address: header.address, offset: header.offset, length: header.file_size };
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
    let ElfSegment { address, offset, length } = segment;
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
