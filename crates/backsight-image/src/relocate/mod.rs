//! Files that are not linked: kernel modules and other relocatable files (ET_REL).
//!
//! A loader places their sections, and puts into branches where their targets came to lie. So does this, for code: sections
//! that can be executed lie one after the other from the load address on, in the order of the file, each at its alignment,
//! as Linux places them; sections of initialisation (`.init…`), which lie elsewhere and are gone afterwards, are left out. A
//! branch whose target is not known (a function of a kernel that was not given) is a hole in memory: nobody follows it to
//! a wrong place.

mod a64;
mod arm;
mod rv;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;

use object::elf::{EM_AARCH64, EM_ARM, EM_RISCV, SHF_ALLOC, SHF_EXECINSTR};
use object::{
    Object, ObjectSection, ObjectSymbol, RelocationFlags, RelocationTarget, SectionFlags, SectionIndex,
    SymbolKind, SymbolSection,
};

use crate::elf_headers::ElfIdentity;
use crate::{Elf, ElfKind, ElfSegment, ImageError};

/// `e_type` of a relocatable file, and of what is made of it.
const ET_REL: u16 = 1;
const ET_DYN: u16 = 3;

/// Longest file that is linked: it is copied.
const LONGEST: usize = 1 << 28;

/// Greatest alignment of a section.
const MOST_ALIGNED: u64 = 1 << 16;

/// Names of symbols that are listed.
const LISTED: usize = 6;

/// A file whose sections have addresses.
pub(crate) struct Linked {
    pub elf: Elf,
    /// The file with addresses in its tables of sections and symbols, and in its branches and debug information.
    pub bytes: Vec<u8>,
    /// Branches whose targets are not known, in words.
    pub problem: Option<String>,
}

/// Is the file a relocatable one?
pub(crate) fn is_object(bytes: &[u8]) -> bool {
    ElfIdentity::parse(bytes).is_ok_and(|identity| identity.file_type == ET_REL)
}

/// What a relocation did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Applied {
    Done,
    /// It says nothing that matters here.
    Nothing,
    /// The target cannot be reached, or is not there.
    Unreachable,
}

/// What is to be changed, and into what.
struct Place<'b> {
    /// The bytes from there on, to the end of the section.
    bytes: &'b mut [u8],
    /// Where they are.
    address: u64,
    /// The symbol that is meant; a function for T32 has bit 0 set.
    target: Option<u64>,
    is_function: bool,
    /// What is added to it; `None`: the bytes say.
    addend: Option<i64>,
    /// What is added to all addresses.
    bias: u64,
}

impl Place<'_> {
    fn get<const N: usize>(&self, offset: usize) -> Option<[u8; N]> {
        self.bytes.get(offset..offset + N)?.try_into().ok()
    }

    fn put(&mut self, offset: usize, bytes: &[u8]) -> Applied {
        match self.bytes.get_mut(offset..offset + bytes.len()) {
            Some(place) => {
                place.copy_from_slice(bytes);
                Applied::Done
            }
            None => Applied::Nothing,
        }
    }

    /// The address that is meant.
    fn value(&self) -> Option<u64> {
        Some(self.target?.wrapping_add_signed(self.addend.unwrap_or(0)))
    }

    /// How far it is away, if so many bits of a signed number can say it.
    fn distance(&self, bits: u32) -> Option<i64> {
        let distance = self.value()?.wrapping_sub(self.address) as i64;
        fits(distance, bits).then_some(distance)
    }

    /// Changes bits of a word.
    fn set_word(&mut self, offset: usize, mask: u32, bits: u32) -> Applied {
        let Some(word) = self.get(offset).map(u32::from_le_bytes) else { return Applied::Nothing };
        self.put(offset, &(word & !mask | bits & mask).to_le_bytes())
    }

    /// Writes a number of so many bytes.
    fn set_number(&mut self, size: usize, value: u64) -> Applied {
        let bytes = value.to_le_bytes();
        self.put(0, &bytes[..size])
    }

    fn number(&self, size: usize) -> u64 {
        let bytes = self.bytes.get(..size).unwrap_or_default();
        bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
    }
}

fn fits(value: i64, bits: u32) -> bool {
    value >> (bits - 1) == 0 || value >> (bits - 1) == -1
}

/// How branches and debug information of a machine are relocated.
struct Machine {
    /// Bytes of the branch that a relocation is for; `None` if it is for none.
    branch: fn(u32) -> Option<u64>,
    code: fn(u32, &mut Place<'_>) -> Applied,
    data: fn(u32, &mut Place<'_>) -> Applied,
}

/// Links a file at an address: `external` says where symbols are that it does not define.
pub(crate) fn link(
    name: &Path,
    bytes: &[u8],
    bias: u64,
    external: &dyn Fn(&str) -> Option<u64>,
) -> Result<Linked, ImageError> {
    let refuse = |why: &str| ImageError::other(name, why);
    let identity = ElfIdentity::parse(bytes).map_err(|error| ImageError::elf(name, error))?;
    let machine = match identity.machine {
        machine if machine == EM_AARCH64.0 => a64::MACHINE,
        machine if machine == EM_ARM.0 => arm::MACHINE,
        machine if machine == EM_RISCV.0 => rv::MACHINE,
        _ => return Err(refuse("is not linked, and for a processor whose relocations are not known")),
    };
    if !identity.little_endian || bytes.len() > LONGEST {
        return Err(refuse("is not linked, and is big-endian or longer than 256 MiB"));
    }
    let file = object::File::parse(bytes)
        .map_err(|error| ImageError::other(name, format!("is not linked, and damaged: {error}")))?;
    let layout =
        layout(&file).ok_or_else(|| refuse("is not linked, and has no code that could be placed"))?;
    let mut linker = Linker { file: &file, layout: &layout, bias, external, bytes: bytes.to_vec() };
    linker.set_tables(&identity);
    let (mut holes, mut unknown) = (BTreeSet::new(), BTreeMap::<String, usize>::new());
    for section in file.sections() {
        let is_debug = section.name().is_ok_and(|name| name.starts_with(".debug_"));
        let Some((offset, length)) =
            section.file_range().filter(|_| is_debug || layout.contains_key(&section.index()))
        else {
            continue;
        };
        let is_compressed = section
            .compressed_file_range()
            .is_ok_and(|range| range.format != object::CompressionFormat::None);
        let (Ok(offset), Ok(length)) = (usize::try_from(offset), usize::try_from(length)) else { continue };
        if is_compressed || offset.checked_add(length).is_none_or(|end| end > bytes.len()) {
            continue;
        }
        let base = layout.get(&section.index()).copied();
        for (at, relocation) in section.relocations() {
            let RelocationFlags::Elf { r_type } = relocation.flags() else { continue };
            let r_type = r_type.0;
            let Some(start) = usize::try_from(at).ok().filter(|start| *start < length) else { continue };
            let (target, is_function, symbol) = linker.target(relocation.target());
            let place = &mut Place {
                bytes: &mut linker.bytes[offset + start..offset + length],
                address: base.unwrap_or(0).wrapping_add(at),
                target,
                is_function,
                addend: (!relocation.has_implicit_addend()).then(|| relocation.addend()),
                bias,
            };
            match base {
                None => _ = (machine.data)(r_type, place),
                Some(base) => {
                    let branch = (machine.branch)(r_type);
                    let reached = target.is_some() && (machine.code)(r_type, place) != Applied::Unreachable;
                    if let Some(size) = branch.filter(|_| !reached) {
                        holes.insert((base + at, size));
                        *unknown.entry(symbol).or_default() += 1;
                    }
                }
            }
        }
    }
    let elf = Elf {
        kind: ElfKind::Relocatable,
        machine: identity.machine,
        wide: identity.wide,
        entry: 0,
        segments: segments(&file, &layout, &holes),
        build_id: file.build_id().ok().flatten().map(<[u8]>::to_vec),
    };
    if elf.segments.is_empty() {
        return Err(refuse("is not linked, and has no code that could be placed"));
    }
    Ok(Linked { elf, bytes: linker.bytes, problem: describe(&unknown) })
}

fn describe(unknown: &BTreeMap<String, usize>) -> Option<String> {
    let count: usize = unknown.values().sum();
    let names: Vec<&str> = unknown.keys().take(LISTED).map(String::as_str).collect();
    let more = if unknown.len() > LISTED { ", …" } else { "" };
    (count > 0).then(|| {
        format!(
            "is not linked, and {count} of its branches lead to symbols that no image has ({}{more}): there is a gap \
             where one is executed; give the file that has the symbols, such as the kernel, with --image",
            names.join(", ")
        )
    })
}

/// Where sections of code lie, from 0 on.
fn layout(file: &object::File<'_>) -> Option<HashMap<SectionIndex, u64>> {
    let (mut layout, mut end) = (HashMap::new(), 0_u64);
    for section in file.sections() {
        let SectionFlags::Elf { sh_flags, .. } = section.flags() else { continue };
        let is_code = sh_flags.0 & (SHF_ALLOC.0 | SHF_EXECINSTR.0) == SHF_ALLOC.0 | SHF_EXECINSTR.0;
        if !is_code || section.name().is_ok_and(|name| name.starts_with(".init")) {
            continue;
        }
        let align = section.align().max(1);
        if !align.is_power_of_two() || align > MOST_ALIGNED {
            return None;
        }
        let start = end.checked_next_multiple_of(align)?;
        end = start.checked_add(section.size()).filter(|end| *end < 1 << 32)?;
        layout.insert(section.index(), start);
    }
    (end > 0).then_some(layout)
}

/// The code, without branches whose targets are not known.
fn segments(
    file: &object::File<'_>,
    layout: &HashMap<SectionIndex, u64>,
    holes: &BTreeSet<(u64, u64)>,
) -> Vec<ElfSegment> {
    let mut segments = Vec::new();
    for section in file.sections() {
        let (Some(&start), Some((offset, length))) = (layout.get(&section.index()), section.file_range())
        else {
            continue;
        };
        let end = start + length;
        let mut at = start;
        let mut piece = |from: u64, to: u64| {
            if from < to {
                let (offset, length) = (offset + (from - start), to - from);
                segments.push(ElfSegment { address: from, offset, length, executable: true });
            }
        };
        for &(hole, size) in holes.range((start, 0)..(end, 0)) {
            piece(at, hole);
            at = at.max(hole + size);
        }
        piece(at, end);
    }
    segments
}

struct Linker<'f> {
    file: &'f object::File<'f>,
    layout: &'f HashMap<SectionIndex, u64>,
    bias: u64,
    external: &'f dyn Fn(&str) -> Option<u64>,
    bytes: Vec<u8>,
}

impl Linker<'_> {
    /// The address of a symbol, whether it is a function, and its name.
    fn target(&self, target: RelocationTarget) -> (Option<u64>, bool, String) {
        let RelocationTarget::Symbol(index) = target else { return (None, false, String::new()) };
        let Ok(symbol) = self.file.symbol_by_index(index) else { return (None, false, String::new()) };
        let name = symbol.name().unwrap_or_default();
        let address = match symbol.section() {
            SymbolSection::Section(section) => {
                self.base_of(section).map(|base| base.wrapping_add(symbol.address()))
            }
            SymbolSection::Absolute => Some(symbol.address().wrapping_sub(self.bias)),
            SymbolSection::Undefined => (self.external)(name).map(|address| address.wrapping_sub(self.bias)),
            _ => None,
        };
        let is_function = symbol.kind() == SymbolKind::Text || symbol.is_undefined();
        (address, is_function, name.to_owned())
    }

    /// Where a section begins. Offsets into debug information count from its own beginning.
    fn base_of(&self, section: SectionIndex) -> Option<u64> {
        let is_debug = || {
            let flags = self.file.section_by_index(section).ok()?.flags();
            matches!(flags, SectionFlags::Elf { sh_flags, .. } if sh_flags.0 & SHF_ALLOC.0 == 0).then_some(0)
        };
        self.layout.get(&section).copied().or_else(is_debug)
    }

    /// Puts addresses into the tables of sections and symbols, as if the file had been linked. What has none is taken out.
    fn set_tables(&mut self, identity: &ElfIdentity) {
        let wide = identity.wide;
        self.bytes[16..18].copy_from_slice(&ET_DYN.to_le_bytes());
        let (table, entry) = if wide { (0x28, 0x3A) } else { (0x20, 0x2E) };
        let (table, entry) = (self.number(table, width(wide)), self.number(entry, 2));
        for (section, address) in self.layout {
            let at = table.wrapping_add(entry.wrapping_mul(section.0 as u64));
            self.set(at.wrapping_add(if wide { 0x10 } else { 0x0C }), width(wide), *address);
        }
        let Some(symbols) = self.file.sections().find(|section| {
            matches!(section.flags(), SectionFlags::Elf { sh_type, .. } if sh_type == object::elf::SHT_SYMTAB)
        }) else {
            return;
        };
        let Some((start, _)) = symbols.file_range() else { return };
        let (size, value, index) = if wide { (24, 8, 6) } else { (16, 4, 14) };
        for symbol in self.file.symbols() {
            let at = start.wrapping_add(size * symbol.index().0 as u64);
            match symbol.section_index().map(|section| self.layout.get(&section)) {
                Some(Some(base)) => {
                    let address = base.wrapping_add(symbol.address());
                    self.set(at.wrapping_add(value), width(wide), address);
                }
                Some(None) => self.set(at.wrapping_add(index), 2, 0),
                None => {}
            }
        }
    }

    fn number(&self, at: u64, size: usize) -> u64 {
        let bytes =
            usize::try_from(at).ok().and_then(|at| self.bytes.get(at..)?.get(..size)).unwrap_or_default();
        bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
    }

    fn set(&mut self, at: u64, size: usize, value: u64) {
        let place = usize::try_from(at).ok().and_then(|at| self.bytes.get_mut(at..)?.get_mut(..size));
        if let Some(place) = place {
            place.copy_from_slice(&value.to_le_bytes()[..size]);
        }
    }
}

fn width(wide: bool) -> usize {
    if wide { 8 } else { 4 }
}

#[cfg(test)]
mod tests;
