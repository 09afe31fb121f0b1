//! The text of executed instructions.

use std::io::{self, Write};

use backsight_core::{Address, AddressSpace, Isa, Printable};
#[cfg(feature = "disassemble")]
use backsight_image::Disassembler;
use backsight_image::{Naming, SourceLine};

use super::instructions::RangeInstruction;
use crate::SourceCode;

/// Puts instructions into words, in the order of their execution: what one means may depend on those before it
/// (conditions of an IT block, addresses that are formed in two steps).
#[derive(Clone, Debug, Default)]
pub(super) struct InstructionText {
    #[cfg(feature = "disassemble")]
    disassembler: Disassembler,
}

/// An instruction as it is listed.
pub(super) struct Words {
    /// Its bytes, as manuals write them.
    pub encoding: String,
    /// Its text, with the names of the addresses that it speaks of; empty where nothing knows it.
    pub words: String,
}

impl InstructionText {
    /// The instruction at a step.
    #[cfg(feature = "disassemble")]
    pub fn text(
        &mut self,
        naming: Naming,
        code: &SourceCode<'_>,
        space: AddressSpace,
        isa: Isa,
        step: &RangeInstruction,
    ) -> Words {
        let bytes = step.bytes.get(..usize::from(step.size)).unwrap_or_default();
        let names = code.names_at(space, step.address);
        let found = self.disassembler.disassemble_at(isa, code, names, space, step.address);
        let name = |target| code.names_at(space, target).describe(space, target, naming);
        let words = found.map(|text| text.with_name(name));
        Words { encoding: backsight_image::encoding(isa, bytes), words: words.unwrap_or_default() }
    }

    /// The instruction at a step.
    #[cfg(not(feature = "disassemble"))]
    pub fn text(
        &mut self,
        _: Naming,
        _: &SourceCode<'_>,
        _: AddressSpace,
        _: Isa,
        step: &RangeInstruction,
    ) -> Words {
        let bytes = step.bytes.get(..usize::from(step.size)).unwrap_or_default();
        let encoding = bytes.iter().rev().map(|byte| format!("{byte:02x}")).collect();
        Words { encoding, words: String::new() }
    }
}

impl Words {
    /// One line: address, bytes, text, and the line of source where it is given.
    pub fn write(
        &self,
        out: &mut dyn Write,
        address: Address,
        source: Option<&SourceLine>,
    ) -> io::Result<()> {
        let Self { encoding, words } = self;
        let (address, words) = (address.0, Printable(words));
        match source {
            Some(SourceLine { file, line, .. }) => {
                writeln!(out, "      {address:#x}  {encoding:<9}  {words:<44}  ; {}:{line}", Printable(file))
            }
            None if self.words.is_empty() => writeln!(out, "      {address:#x}  {encoding}"),
            None => writeln!(out, "      {address:#x}  {encoding:<9}  {words}"),
        }
    }
}
