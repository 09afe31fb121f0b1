//! What the protocols of RISC-V share.

use backsight_isa::rv;

use crate::code::SourceCode;

/// Whether the program has 32-bit or 64-bit registers, by its ELF files.
pub(super) fn registers_of(code: &SourceCode<'_>) -> Option<rv::Set> {
    Some(if code.is_wide()? { rv::Set::RV64 } else { rv::Set::RV32 })
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
