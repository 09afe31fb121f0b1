//! Text of instructions, for people to read. Nothing decides anything by it.

mod riscv;

use backsight_core::{Address, Isa};
use backsight_isa::{Class, classify};
use yaxpeax_arch::{Decoder, U8Reader};
use yaxpeax_arm::armv7::InstDecoder as Aarch32;
use yaxpeax_arm::armv8::a64::InstDecoder as Aarch64;

/// The instruction at the start of `bytes`, as an assembler would read it; branches name their target. What is not
/// known is shown as data.
pub fn disassemble(isa: Isa, bytes: &[u8], address: Address) -> String {
    let size = size(isa, bytes).min(bytes.len());
    let bytes = &bytes[..size];
    let mut reader = U8Reader::new(bytes);
    let text = match isa {
        Isa::A64 => Aarch64::default().decode(&mut reader).ok().map(|found| found.to_string()),
        Isa::A32 => Aarch32::armv7().decode(&mut reader).ok().map(|found| found.to_string()),
        Isa::T32 => Aarch32::default_thumb().decode(&mut reader).ok().map(|found| found.to_string()),
        Isa::Rv32 => riscv::disassemble(false, bytes, address),
        Isa::Rv64 => riscv::disassemble(true, bytes, address),
    };
    text.map_or_else(|| data(bytes), |text| with_targets(&text, isa, bytes, address))
}

fn size(isa: Isa, bytes: &[u8]) -> usize {
    let Some(first) = bytes.first_chunk().map(|first| u16::from_le_bytes(*first)) else { return bytes.len() };
    match isa {
        Isa::A64 | Isa::A32 => 4,
        Isa::T32 => usize::from(backsight_isa::t32::size(first)),
        Isa::Rv32 | Isa::Rv64 => usize::from(backsight_isa::rv::size(first)),
    }
}

fn data(bytes: &[u8]) -> String {
    match *bytes {
        [a, b, c, d] => format!(".word {:#010x}", u32::from_le_bytes([a, b, c, d])),
        [a, b] => format!(".half {:#06x}", u16::from_le_bytes([a, b])),
        _ => format!(".byte {bytes:02x?}"),
    }
}

/// Replaces distances, `$+0x10` and `$-0x10`, by the address they lead to.
fn with_targets(text: &str, isa: Isa, bytes: &[u8], address: Address) -> String {
    let Some((before, rest)) = text.split_once('$') else { return text.to_owned() };
    let end =
        rest.find(|c: char| !c.is_ascii_alphanumeric() && !matches!(c, '+' | '-')).unwrap_or(rest.len());
    let (distance, behind) = rest.split_at(end);
    let branch = classify(isa, bytes, address).filter(|instruction| instruction.class == Class::DirectBranch);
    match branch.map(|branch| branch.target).or_else(|| parse_distance(distance).map(|n| address.offset(n))) {
        Some(target) => format!("{before}{target}{behind}"),
        None => text.to_owned(),
    }
}

/// `+0x10`, `-0x10`.
fn parse_distance(text: &str) -> Option<i64> {
    let digits = text.strip_prefix(['+', '-'])?.strip_prefix("0x")?;
    let distance = i64::from_str_radix(digits, 16).ok()?;
    Some(if text.starts_with('-') { -distance } else { distance })
}
