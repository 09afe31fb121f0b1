//! A64 text, by fARM64.

use std::sync::OnceLock;

use backsight_core::Address;
use fARM64::format::{FmtFormatter, Formatter, FormatterOptions};
use fARM64::{Decoder, DecoderOptions, Feature, FeatureSet};

/// The text of an instruction; `None` where the architecture has none.
pub(super) fn text(opcode: u32, address: Address) -> Option<String> {
    // What one vendor added for itself is no part of the architecture.
    let vendor = 1 << Feature::AppleAmx as u64 | 1 << Feature::Gxf as u64;
    let features = FeatureSet { features0: !vendor, features1: !vendor };
    let bytes = opcode.to_le_bytes();
    let instruction = Decoder::new(&bytes, address.0, DecoderOptions { features }).decode();
    if instruction.is_invalid() {
        return None;
    }
    let options = FormatterOptions { first_operand_char_index: 0, ..FormatterOptions::default() };
    let mut text = String::new();
    FmtFormatter::with_options(options).format(&instruction, &mut text);
    Some(corrected(text, opcode))
}

/// What fARM64 0.1 gets wrong, or leaves to numbers.
fn corrected(text: String, opcode: u32) -> String {
    let is = |mask: u32, value: u32| opcode & mask == value;
    if text.starts_with("mrs ") || text.starts_with("msr s") {
        return with_system_register(text, opcode);
    }
    // LD1RO: the distance is in units of 32 bytes.
    if is(0xFE70_E000, 0xA420_2000) {
        let distance = (opcode << 12) as i32 >> 28 << 5;
        let (sign, size) = if distance < 0 { ("-", -distance) } else { ("", distance) };
        return match text.split_once('#') {
            Some((before, _)) => format!("{before}#{sign}{size:#x}]"),
            None => text,
        };
    }
    // ADR of vectors: an extension without a shift.
    if is(0xFFA0_FC00, 0x0420_A000) && !text.contains("xtw") {
        let extension = if opcode & 1 << 22 == 0 { "sxtw" } else { "uxtw" };
        return text.replace(']', &format!(", {extension}]"));
    }
    // EXT with two consecutive registers has no third.
    if is(0xFFE0_E000, 0x0560_0000) {
        return text.replace("}, z0.b,", "},");
    }
    if is(0xDC00_0000, 0x8000_0000) || is(0xFE00_0000, 0xC000_0000) || is(0xFE00_0000, 0xE000_0000) {
        return with_tile(text, opcode);
    }
    text
}

/// Names the tile of the matrix register that an SME instruction works on: `za3.s`, `za3h.s[w12, 1]`.
fn with_tile(text: String, opcode: u32) -> String {
    let Some((name, operands)) = text.split_once(' ') else { return text };
    if name.contains("mop") || matches!(name, "addha" | "addva") {
        return match operands.strip_prefix('z') {
            Some(rest) if !rest.starts_with('a') => format!("{name} za{rest}"),
            _ => text,
        };
    }
    // A slice: its size in the name, and tile and index together in four bits.
    let Some(bracket) = operands.find("[w1").filter(|at| *at > 3) else { return text };
    let (before, after) = operands.split_at(bracket);
    let Some(start) = before.rfind([' ', '{']).map(|at| at + 1).or(Some(0)) else {
        return text;
    };
    let [direction @ (b'h' | b'v'), b'.', size] = before.as_bytes()[before.len() - 3..] else { return text };
    let Some(bits) = b"bhsdq".iter().position(|&known| known == size) else { return text };
    // Moves to a vector have the slice in the place of the second operand.
    let field = if opcode & 0xFF3E_0200 == 0xC002_0000 { opcode >> 5 } else { opcode } & 15;
    let (tile, index) = (field >> (4 - bits), field & ((1 << (4 - bits)) - 1));
    let Some((_, rest)) = after.split_once(']') else { return text };
    let register = 12 + (opcode >> 13 & 3);
    let slice = format!("za{tile}{}.{}[w{register}, {index}]", char::from(direction), char::from(size));
    let slice = if name.starts_with("mov") { slice } else { format!("{{{slice}}}") };
    format!("{name} {}{slice}{rest}", &operands[..start])
}

/// Names the system register of an `mrs` or `msr` that fARM64 shows by its numbers: `s3_3_c0_c0_7`.
fn with_system_register(text: String, opcode: u32) -> String {
    static NAMES: OnceLock<Vec<(u16, &str)>> = OnceLock::new();
    let names = NAMES.get_or_init(|| {
        let lines = include_str!("system_registers.txt").lines().filter_map(|line| line.split_once(' '));
        lines.filter_map(|(number, name)| Some((u16::from_str_radix(number, 16).ok()?, name))).collect()
    });
    // Bit 20 of the opcode is always set here; op0 is 2 or 3.
    let number = (opcode >> 5) as u16 & 0x7FFF | 0x8000;
    let Ok(place) = names.binary_search_by_key(&number, |&(number, _)| number) else { return text };
    // The one register that has another name when it is written.
    let name = match names[place].1 {
        "dbgdtrrx_el0" if text.starts_with("msr") => "dbgdtrtx_el0",
        name => name,
    };
    let (op0, op1) = (number >> 14, number >> 11 & 7);
    let numbers = format!("s{op0}_{op1}_c{}_c{}_{}", number >> 7 & 15, number >> 3 & 15, number & 7);
    text.replace(&numbers, name)
}
