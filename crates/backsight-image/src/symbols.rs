//! Names of functions.

use std::borrow::Cow;
use std::sync::OnceLock;

use addr2line::demangle_auto;
use backsight_core::{Address, Isa};
use object::elf::{EM_AARCH64, EM_ARM, EM_RISCV};
use object::{Object, ObjectSection, ObjectSymbol, ObjectSymbolTable, SectionKind, SymbolKind};

use crate::Elf;

/// A function that an address lies in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Symbol<'a> {
    /// Its name as the programmer wrote it, C++ and Rust names included.
    pub name: &'a str,
    /// Its name in the file.
    pub mangled: &'a str,
    /// Where it begins in memory.
    pub start: Address,
    /// How far into it the address is.
    pub offset: u64,
}

/// A function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Function<'a> {
    /// Its name as the programmer wrote it.
    pub name: &'a str,
    /// Its name in the file.
    pub mangled: &'a str,
    /// Where it begins in memory.
    pub start: Address,
    /// Its size in bytes; up to the next function where the file does not tell.
    pub size: u64,
}

/// What the mapping symbols ($a, $t, $x, $d) of the assembler say about an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mapping {
    /// Code of this instruction set.
    Code(Isa),
    /// Data between code.
    Data,
}

/// The names in one file, by address in its own numbering.
#[derive(Debug, Default)]
pub(crate) struct Symbols {
    functions: Vec<Entry>,
    mappings: Vec<(u64, Mapping)>,
}

#[derive(Debug)]
pub(crate) struct Entry {
    pub start: u64,
    pub size: u64,
    /// The file tells the size; else it is the distance to what comes next.
    sized: bool,
    pub mangled: Box<str>,
    demangled: OnceLock<Box<str>>,
}

impl Entry {
    /// Most names of a file are never shown: they are demangled when asked for.
    pub fn name(&self) -> &str {
        self.demangled.get_or_init(|| demangle_auto(Cow::Borrowed(&self.mangled), None).into())
    }

    fn contains(&self, address: u64) -> bool {
        address.wrapping_sub(self.start) < self.size
    }
}

impl Symbols {
    pub fn read(elf: &Elf, bytes: &[u8]) -> Self {
        let Ok(file) = object::File::parse(bytes) else { return Self::default() };
        let mut candidates = Vec::new();
        let mut mappings = Vec::new();
        let tables = [file.symbol_table(), file.dynamic_symbol_table()];
        for symbol in tables.iter().flatten().flat_map(ObjectSymbolTable::symbols) {
            let Some(section) = symbol.section_index() else { continue };
            let Ok(section) = file.section_by_index(section) else { continue };
            let Ok(name) = symbol.name() else { continue };
            match mapping(elf, name) {
                Some(mapping) => mappings.push((symbol.address(), mapping)),
                None if is_function(&symbol, section.kind(), name) => {
                    let end = section.address().saturating_add(section.size());
                    candidates.push(Candidate::new(elf, &symbol, name, end));
                }
                None => {}
            }
        }
        mappings.sort_by_key(|&(address, _)| address);
        Self { functions: entries(candidates), mappings }
    }

    /// The function at an address: of those that contain it the one that begins last.
    pub fn find(&self, address: u64) -> Option<&Entry> {
        /// How many labels inside of a function are looked through.
        const LABELS: usize = 32;
        let behind = self.functions.partition_point(|entry| entry.start <= address);
        let mut near = self.functions[..behind].iter().rev().take(LABELS);
        let nearest = self.functions[..behind].last()?;
        near.find(|entry| entry.sized && entry.contains(address))
            .or_else(|| Some(nearest).filter(|entry| !entry.sized && entry.contains(address)))
    }

    pub fn mapping(&self, address: u64) -> Option<Mapping> {
        let behind = self.mappings.partition_point(|&(start, _)| start <= address);
        self.mappings[..behind].last().map(|&(_, mapping)| mapping)
    }

    pub fn functions(&self) -> &[Entry] {
        &self.functions
    }
}

/// A symbol before the best name of each address is chosen.
struct Candidate {
    start: u64,
    size: u64,
    section_end: u64,
    /// Lower is better: functions before labels, sized before unsized, global before local.
    rank: (bool, bool, bool),
    name: Box<str>,
}

impl Candidate {
    fn new<'a>(elf: &Elf, symbol: &impl ObjectSymbol<'a>, name: &str, section_end: u64) -> Self {
        // Bit 0 of the address of an Arm function says that it is T32 code.
        let thumb = elf.machine == EM_ARM.0 && symbol.kind() == SymbolKind::Text;
        Self {
            start: if thumb { symbol.address() & !1 } else { symbol.address() },
            size: symbol.size(),
            section_end,
            rank: (symbol.kind() != SymbolKind::Text, symbol.size() == 0, !symbol.is_global()),
            name: name.into(),
        }
    }
}

/// Labels without a type are functions of assembly code.
fn is_function<'a>(symbol: &impl ObjectSymbol<'a>, section: SectionKind, name: &str) -> bool {
    let label =
        symbol.kind() == SymbolKind::Unknown && section == SectionKind::Text && !name.starts_with(".L");
    !name.is_empty() && (symbol.kind() == SymbolKind::Text || label)
}

fn mapping(elf: &Elf, name: &str) -> Option<Mapping> {
    let kind = name.strip_prefix('$')?;
    let riscv = if elf.wide { Isa::Rv64 } else { Isa::Rv32 };
    match (kind.split('.').next()?, elf.machine) {
        ("a", machine) if machine == EM_ARM.0 => Some(Mapping::Code(Isa::A32)),
        ("t", machine) if machine == EM_ARM.0 => Some(Mapping::Code(Isa::T32)),
        ("x", machine) if machine == EM_AARCH64.0 => Some(Mapping::Code(Isa::A64)),
        (kind, machine) if machine == EM_RISCV.0 && (kind == "x" || kind.starts_with("xrv")) => {
            Some(Mapping::Code(riscv))
        }
        ("d", _) => Some(Mapping::Data),
        _ => None,
    }
}

fn entries(mut candidates: Vec<Candidate>) -> Vec<Entry> {
    candidates.sort_by(|a, b| (a.start, a.rank, &a.name).cmp(&(b.start, b.rank, &b.name)));
    candidates.dedup_by_key(|candidate| candidate.start);
    let next: Vec<u64> =
        candidates.iter().skip(1).map(|candidate| candidate.start).chain([u64::MAX]).collect();
    candidates
        .into_iter()
        .zip(next)
        .map(|(candidate, next)| {
            let sized = candidate.size > 0;
            let rest = next.min(candidate.section_end).saturating_sub(candidate.start);
            Entry {
                start: candidate.start,
                size: if sized { candidate.size } else { rest },
                sized,
                mangled: candidate.name,
                demangled: OnceLock::new(),
            }
        })
        .collect()
}
