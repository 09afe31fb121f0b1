//! Which code was at an address: ELF files, memory dumps, symbols, source lines.
//!
//! Trace says only which way branches went; the instructions come from here. An [`Image`] is put together from the
//! files that the traced memory was loaded from and from dumps of it. Large files are mapped, and bytes are handed
//! out where they are.
//!
//! # What is where
//!
//! Code memory: ELF files and dumps, mapped, in spaces of views and processes, patched and unmapped as it changes;
//! `timeline`: which bytes were at an address, in a process, at a time; names (stubs, separate debug files), `dwarf/`
//! source lines, discriminators and inlined functions, unit by unit or all of them, within a budget; `allowed/`: which
//! files names in a capture may lead to, and the one place that opens them (docs/security.md); `relocate/`: files that are
//! not linked, such as kernel modules; text of instructions by fARM64, Capstone and disc-v.

#![deny(unsafe_code)]

mod allowed;
mod budget;
mod contents;
mod debug_files;
#[cfg(feature = "disassemble")]
mod disassemble;
mod dwarf;
mod elf;
pub mod elf_headers;
mod error;
mod image;
mod intervals;
mod lines;
mod lookup;
mod memory;
mod module;
mod plt;
mod relocate;
mod sorted;
mod spec;
mod symbols;
mod timeline;

pub use allowed::{AllowedFiles, GivenFolder, HostImageError, SourceFolders, is_same_id};
pub use budget::{Budget, OverBudget};
pub use contents::Contents;
#[cfg(feature = "disassemble")]
pub use disassemble::{Disassembler, Disassembly, disassemble, encoding};
pub use dwarf::{DebugInfo, DescribedFunction, InlineFrame, Line};
pub use elf::{Elf, ElfKind, ElfSegment};
pub use error::ImageError;
pub use image::{Change, Image};
pub use lines::{Frame, SourceLine, SourceRow};
pub use lookup::{Naming, Region};
pub use module::{DebugInfoError, DebugSource, Module};
pub use sorted::SortedMap;
pub use spec::ImageSpec;
pub use symbols::{Function, Mapping, Symbol};
pub use timeline::{Lookup, MappingId, TimedChange, Timeline, Window};

use backsight_core::{Address, AddressSpace, Context};

/// Anything that knows the code of the traced program.
pub trait Code {
    /// The bytes from `address` on, as many as lie together, as seen from `space`; `None` where there is none.
    /// Never empty.
    fn bytes_at(&self, space: AddressSpace, address: Address) -> Option<&[u8]>;

    /// The space that execution in this context fetches its code from. Code that knows which process a context belongs to
    /// answers with the space of that process.
    fn space_of(&self, context: &Context) -> AddressSpace {
        context.space()
    }

    /// Up to four bytes from `address` on, and how many there are: enough for one instruction, also where it lies
    /// across the border of two pieces of memory.
    fn opcode_at(&self, space: AddressSpace, address: Address) -> ([u8; 4], usize) {
        let mut opcode = [0; 4];
        let mut length = 0;
        while length < opcode.len() {
            let Some(bytes) = self.bytes_at(space, address.plus(length as u64)) else { break };
            let take = bytes.len().min(opcode.len() - length);
            opcode[length..length + take].copy_from_slice(&bytes[..take]);
            length += take;
        }
        (opcode, length)
    }
}

impl<T: Code + ?Sized> Code for &T {
    fn bytes_at(&self, space: AddressSpace, address: Address) -> Option<&[u8]> {
        (**self).bytes_at(space, address)
    }

    fn space_of(&self, context: &Context) -> AddressSpace {
        (**self).space_of(context)
    }
}
