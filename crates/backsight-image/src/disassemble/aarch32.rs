//! A32 and T32 text, by Capstone.

use std::cell::OnceCell;

use backsight_core::Address;
use capstone::Capstone;
use capstone::arch::arm::{ArchExtraMode, ArchMode};
use capstone::arch::{BuildsCapstone, BuildsCapstoneExtraMode};

use super::addresses::number;

/// An engine for each set of instructions, as version 8 of the architecture has it and, for what that no longer has,
/// as version 7 and the microcontroller profile do. Engines cannot be sent between threads: each thread has its own.
struct Engines {
    a32: Vec<Capstone>,
    t32: Vec<Capstone>,
}

thread_local! {
    static ENGINES: OnceCell<Engines> = const { OnceCell::new() };
}

impl Engines {
    fn new() -> Self {
        let engine = |mode, extra: &[ArchExtraMode]| {
            Capstone::new().arm().mode(mode).extra_mode(extra.iter().copied()).build().ok()
        };
        let (v8, m) = ([ArchExtraMode::V8], [ArchExtraMode::V8, ArchExtraMode::MClass]);
        Self {
            a32: [engine(ArchMode::Arm, &v8), engine(ArchMode::Arm, &[])].into_iter().flatten().collect(),
            t32: [engine(ArchMode::Thumb, &v8), engine(ArchMode::Thumb, &[]), engine(ArchMode::Thumb, &m)]
                .into_iter()
                .flatten()
                .collect(),
        }
    }
}

/// The text of an A32 instruction.
pub(super) fn a32(bytes: &[u8], address: Address, branch: Option<Address>) -> Option<String> {
    ENGINES.with(|engines| {
        let engines = &engines.get_or_init(Engines::new).a32;
        let text = engines.iter().find_map(|engine| text(engine, bytes, address, 0))?;
        Some(respelled(&text, address.plus(8), branch))
    })
}

/// The text of a T32 instruction; with a condition where an IT instruction gives it one.
pub(super) fn t32(
    bytes: &[u8],
    address: Address,
    branch: Option<Address>,
    condition: Option<u8>,
) -> Option<String> {
    ENGINES.with(|engines| {
        let engines = &engines.get_or_init(Engines::new).t32;
        let text = match condition {
            None => engines.iter().find_map(|engine| text(engine, bytes, address, 0))?,
            Some(condition) => {
                // An IT instruction before it that speaks of one instruction.
                let block = u16::to_le_bytes(0xBF08 | u16::from(condition) << 4);
                let both: Vec<u8> = block.into_iter().chain(bytes.iter().copied()).collect();
                engines.iter().find_map(|engine| text(engine, &both, address.offset(-2), 1))?
            }
        };
        Some(respelled(&text, address.plus(4), branch))
    })
}

/// The text of the instruction after the first `skip`.
fn text(engine: &Capstone, bytes: &[u8], address: Address, skip: usize) -> Option<String> {
    let found = engine.disasm_count(bytes, address.0, skip + 1).ok()?;
    let instruction = found.get(skip)?;
    Some(format!("{} {}", instruction.mnemonic()?, instruction.op_str()?).trim_end().to_owned())
}

/// Addresses without the mark of a constant, `adr` with the address, and r9 by its number: only one of the calling
/// conventions has a base register there.
fn respelled(text: &str, pc: Address, branch: Option<Address>) -> String {
    let mut text = text.to_owned();
    if let Some(target) = branch
        && let Some((before, _)) = text.rsplit_once('#')
    {
        text = format!("{before}{target}");
    }
    if text.starts_with("adr")
        && let Some((before, distance)) = text.split_once('#')
        && let Some(distance) = number(distance)
    {
        let result = (pc.0 & !3).wrapping_add_signed(distance) & 0xFFFF_FFFF;
        text = format!("{before}{result:#x}");
    }
    replace_word(&text, "sb", "r9")
}

fn replace_word(text: &str, word: &str, by: &str) -> String {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '.';
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(word) {
        let (before, from) = rest.split_at(at);
        let after = &from[word.len()..];
        let alone = !before.ends_with(is_word) && !after.starts_with(is_word);
        out.push_str(before);
        out.push_str(if alone { by } else { word });
        rest = after;
    }
    out + rest
}
