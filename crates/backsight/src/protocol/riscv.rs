//! What the protocols of RISC-V share.

use backsight_image::Image;
use backsight_isa::rv;

/// Whether the program has 32-bit or 64-bit registers, by its ELF files.
pub(super) fn registers_of(code: &Image) -> Option<rv::Set> {
    let mut wide = code.modules().iter().filter_map(|module| module.elf()).map(|elf| elf.wide).peekable();
    wide.peek()?;
    Some(if wide.all(|wide| wide) { rv::Set::RV64 } else { rv::Set::RV32 })
}

/// A number as people write it: decimal, or hexadecimal with `0x`. Underscores may group digits.
pub(super) fn parse_number(text: &str) -> Result<u64, String> {
    let digits = text.trim().replace('_', "");
    let parsed = match digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
        Some(hexadecimal) => u64::from_str_radix(hexadecimal, 16),
        None => digits.parse(),
    };
    parsed.map_err(|_| format!("`{text}` is no number (decimal, or hexadecimal with 0x)"))
}
