//! Names of PLT stubs: the jumps by which a program calls functions of shared objects.
//!
//! A stub loads the address of its function from a slot of a table that the dynamic linker fills in; the relocation of
//! that slot names the function. Which slot it is stands in the instructions of the stub:
//!
//! ```text
//! A64     adrp x16, PAGE          RISC-V  auipc t3, HIGH          A32  add ip, pc, #A
//!         ldr  x17, [x16, #LOW]           ld    t3, LOW(t3)            add ip, ip, #B
//!         …                               …                            ldr pc, [ip, #C]!
//! ```

use std::collections::HashMap;

use object::elf::{EM_AARCH64, EM_ARM, EM_RISCV, FileHeader32, FileHeader64, RelocationType};
use object::elf::{R_AARCH64_IRELATIVE, R_RISCV_IRELATIVE};
use object::read::elf::{FileHeader, Rel, Rela, SectionHeader, Sym};
use object::{Endianness, Object, ObjectSection};

use crate::Elf;

/// A stub.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Stub {
    pub start: u64,
    /// Where the section that it is in ends.
    pub section_end: u64,
    pub function: Callee,
}

/// What a stub leads to.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Callee {
    /// A function of this name.
    Named(String),
    /// What the function at this address chooses.
    Resolved(u64),
}

/// The stubs of a file, by address.
pub(crate) fn stubs(elf: &Elf, bytes: &[u8]) -> Vec<Stub> {
    let Ok(file) = object::File::parse(bytes) else { return Vec::new() };
    let mut slots = HashMap::new();
    for section in file.sections() {
        let named = section.name().is_ok_and(|name| name.starts_with(".plt") || name.starts_with(".iplt"));
        let Some(code) = section.data().ok().filter(|_| named) else { continue };
        let end = section.address().saturating_add(section.size());
        for (start, slot) in slots_of(elf, code, section.address()) {
            slots.insert(slot, (start, end));
        }
    }
    if slots.is_empty() {
        return Vec::new();
    }
    let found = if elf.wide {
        callees::<FileHeader64<Endianness>>(elf, bytes, &slots)
    } else {
        callees::<FileHeader32<Endianness>>(elf, bytes, &slots)
    };
    let mut stubs = found.unwrap_or_default();
    stubs.sort_by_key(|stub| stub.start);
    stubs
}

/// Where each stub of a section begins, and the address of its slot.
fn slots_of(elf: &Elf, code: &[u8], address: u64) -> Vec<(u64, u64)> {
    let words: Vec<u32> =
        code.chunks_exact(4).map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]])).collect();
    let at = |index: usize| address.wrapping_add(4 * index as u64);
    let mut found = Vec::new();
    for index in 0..words.len() {
        let slot = match elf.machine {
            machine if machine == EM_AARCH64.0 => a64_slot(&words[index..], at(index)),
            machine if machine == EM_RISCV.0 => riscv_slot(&words[index..], at(index)),
            machine if machine == EM_ARM.0 => a32_slot(&words[index..], at(index)),
            _ => None,
        };
        let Some(slot) = slot else { continue };
        let before = index.checked_sub(1).map(|before| words[before]);
        // bti c; or, from T32, bx pc and a branch that is never reached.
        let longer = matches!(
            (elf.machine == EM_ARM.0, before),
            (false, Some(0xD503_245F)) | (true, Some(0xE7FD_4778 | 0x46C0_4778))
        );
        let start = at(index - usize::from(longer));
        found.push((start, if elf.wide { slot } else { slot & 0xFFFF_FFFF }));
    }
    found
}

fn a64_slot(words: &[u32], pc: u64) -> Option<u64> {
    let &[adrp, ldr, ..] = words else { return None };
    if adrp & 0x9F00_001F != 0x9000_0010 || ldr & 0xFFC0_03FF != 0xF940_0211 {
        return None;
    }
    let pages = (adrp >> 5 & 0x7_FFFF) << 2 | adrp >> 29 & 3;
    let distance = i64::from((pages << 11) as i32 >> 11) << 12;
    Some((pc & !0xFFF).wrapping_add_signed(distance).wrapping_add(u64::from(ldr >> 10 & 0xFFF) << 3))
}

fn riscv_slot(words: &[u32], pc: u64) -> Option<u64> {
    let &[auipc, load, ..] = words else { return None };
    if auipc & 0xFFF != 0xE17 || !matches!(load & 0xF_FFFF, 0xE_3E03 | 0xE_2E03) {
        return None;
    }
    let high = i64::from((auipc & !0xFFF) as i32);
    Some(pc.wrapping_add_signed(high).wrapping_add_signed(i64::from(load as i32 >> 20)))
}

fn a32_slot(words: &[u32], pc: u64) -> Option<u64> {
    let constant = |opcode: u32| u64::from((opcode & 0xFF).rotate_right(opcode >> 7 & 30));
    let first = words.first().filter(|first| *first & 0xFFFF_F000 == 0xE28F_C000)?;
    let mut slot = pc.wrapping_add(8).wrapping_add(constant(*first));
    for &word in words.iter().skip(1).take(3) {
        match word & 0xFFFF_F000 {
            0xE28C_C000 => slot = slot.wrapping_add(constant(word)),
            0xE5BC_F000 => return Some(slot.wrapping_add(u64::from(word & 0xFFF))),
            _ => return None,
        }
    }
    None
}

/// Stubs by the address of their slot: where they begin, where their section ends.
type Slots = HashMap<u64, (u64, u64)>;

/// What the relocations say about the slots.
fn callees<Header: FileHeader<Endian = Endianness>>(
    elf: &Elf,
    bytes: &[u8],
    slots: &Slots,
) -> Option<Vec<Stub>> {
    let header = Header::parse(bytes).ok()?;
    let endian = header.endian().ok()?;
    let sections = header.sections(endian, bytes).ok()?;
    let mut stubs = HashMap::new();
    for section in sections.iter() {
        let mut add = |slot: u64, link, symbol: Option<object::SymbolIndex>, resolver: Option<u64>| {
            let Some(&(start, section_end)) = slots.get(&slot) else { return };
            let named = symbol.and_then(|symbol| {
                let table = sections.symbol_table_by_index(endian, bytes, link).ok()?;
                let name = table.symbol(symbol).ok()?.name(endian, table.strings()).ok()?;
                Some(Callee::Named(String::from_utf8_lossy(name).into_owned()))
            });
            if let Some(function) = named.or(resolver.map(Callee::Resolved)) {
                stubs.insert(slot, Stub { start, section_end, function });
            }
        };
        if let Ok(Some((relocations, link))) = section.rela(endian, bytes) {
            for relocation in relocations {
                let resolver = is_resolver(elf, relocation.r_type(endian, false))
                    .then(|| relocation.r_addend(endian).into() as u64);
                add(relocation.r_offset(endian).into(), link, relocation.symbol(endian, false), resolver);
            }
        } else if let Ok(Some((relocations, link))) = section.rel(endian, bytes) {
            for relocation in relocations {
                add(relocation.r_offset(endian).into(), link, relocation.symbol(endian), None);
            }
        }
    }
    Some(stubs.into_values().collect())
}

fn is_resolver(elf: &Elf, kind: RelocationType) -> bool {
    elf.machine == EM_AARCH64.0 && kind == R_AARCH64_IRELATIVE
        || elf.machine == EM_RISCV.0 && kind == R_RISCV_IRELATIVE
}
