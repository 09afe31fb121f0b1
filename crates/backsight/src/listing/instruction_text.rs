//! One line for each executed instruction.

use std::io::{self, Write};

use backsight_core::{AddressSpace, Isa};
#[cfg(feature = "disassemble")]
use backsight_image::Disassembler;
use backsight_image::Image;

use super::Style;
use super::instructions::Step;

/// Writes instructions in the order of their execution: what one means may depend on those before it (conditions of an
/// IT block, addresses that are formed in two steps).
#[derive(Clone, Debug, Default)]
pub(super) struct InstructionText {
    #[cfg(feature = "disassemble")]
    disassembler: Disassembler,
}

impl InstructionText {
    /// Writes the address, the encoding and the text of an instruction, with the names of the addresses that it speaks
    /// of; and its line of source, where that is wanted and known.
    pub fn write(
        &mut self,
        out: &mut dyn Write,
        style: Style,
        image: &Image,
        space: AddressSpace,
        isa: Isa,
        step: &Step,
    ) -> io::Result<()> {
        let (encoding, text) = self.words(style, image, space, isa, step);
        let address = step.address.0;
        let line = style.source_lines.then(|| image.source_line(space, step.address)).flatten();
        match line {
            Some(line) => {
                writeln!(out, "      {address:#x}  {encoding:<9}  {text:<44}  ; {}:{}", line.file, line.line)
            }
            None if text.is_empty() => writeln!(out, "      {address:#x}  {encoding}"),
            None => writeln!(out, "      {address:#x}  {encoding:<9}  {text}"),
        }
    }

    #[cfg(feature = "disassemble")]
    fn words(
        &mut self,
        style: Style,
        image: &Image,
        space: AddressSpace,
        isa: Isa,
        step: &Step,
    ) -> (String, String) {
        let encoding = backsight_image::encoding(isa, &step.bytes[..usize::from(step.size)]);
        let Some(text) = self.disassembler.disassemble_at(isa, image, space, step.address) else {
            return (encoding, String::new());
        };
        (encoding, text.with_name(|target| image.describe(space, target, style.naming)))
    }

    #[cfg(not(feature = "disassemble"))]
    fn words(&mut self, _: Style, _: &Image, _: AddressSpace, _: Isa, step: &Step) -> (String, String) {
        let bytes = &step.bytes[..usize::from(step.size)];
        (bytes.iter().rev().map(|byte| format!("{byte:02x}")).collect(), String::new())
    }
}
