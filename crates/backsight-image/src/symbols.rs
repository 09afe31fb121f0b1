//! Names of functions.

use std::borrow::Cow;
use std::sync::OnceLock;

use addr2line::demangle_auto;
use backsight_core::{Address, Isa};
use object::elf::{EM_AARCH64, EM_ARM, EM_RISCV, SHF_EXECINSTR};
use object::{Object, ObjectSection, ObjectSymbol, ObjectSymbolTable, SectionFlags, SymbolKind};

use crate::plt::{self, Callee};
use crate::{Budget, Elf, OverBudget};

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
    functions: Vec<FunctionEntry>,
    /// Variables and tables.
    objects: Vec<FunctionEntry>,
    mappings: Vec<(u64, Mapping)>,
}

#[derive(Debug)]
pub(crate) struct FunctionEntry {
    pub start: u64,
    pub size: u64,
    /// The file tells the size; else it is the distance to what comes next.
    sized: bool,
    pub mangled: Box<str>,
    demangled: OnceLock<Box<str>>,
}

impl FunctionEntry {
    /// Most names of a file are never shown: they are demangled when asked for.
    pub fn name(&self) -> &str {
        self.demangled.get_or_init(|| demangled(&self.mangled).into())
    }

    fn contains(&self, address: u64) -> bool {
        address.wrapping_sub(self.start) < self.size
    }
}

impl Symbols {
    /// Reads the names of a file and of the one that has its debug information. What is more than the budget allows
    /// is left out, with the reason.
    pub fn read(elf: &Elf, files: &[&[u8]], budget: &Budget) -> (Self, Option<OverBudget>) {
        let mut reader =
            SymbolReader { elf, budget, candidates: Vec::new(), objects: Vec::new(), mappings: Vec::new() };
        let outcome = files.iter().try_for_each(|bytes| reader.read(bytes));
        let SymbolReader { candidates, objects, mut mappings, .. } = reader;
        mappings.sort_by_key(|&(address, _)| address);
        mappings.dedup();
        (Self { functions: entries(candidates), objects: entries(objects), mappings }, outcome.err())
    }

    /// The function at an address: of those that contain it the one that begins last.
    pub fn find(&self, address: u64) -> Option<&FunctionEntry> {
        /// How many labels inside of a function are looked through.
        const LABELS: usize = 32;
        let after = self.functions.partition_point(|entry| entry.start <= address);
        let mut near = self.functions[..after].iter().rev().take(LABELS);
        let nearest = self.functions[..after].last()?;
        near.find(|entry| entry.sized && entry.contains(address))
            .or_else(|| Some(nearest).filter(|entry| !entry.sized && entry.contains(address)))
    }

    /// The variable or table at an address.
    pub fn find_object(&self, address: u64) -> Option<&FunctionEntry> {
        let after = self.objects.partition_point(|entry| entry.start <= address);
        self.objects[..after].last().filter(|entry| entry.contains(address))
    }

    pub fn mapping(&self, address: u64) -> Option<Mapping> {
        let after = self.mappings.partition_point(|&(start, _)| start <= address);
        self.mappings[..after].last().map(|&(_, mapping)| mapping)
    }

    pub fn functions(&self) -> &[FunctionEntry] {
        &self.functions
    }
}

/// Collects the symbols of files.
struct SymbolReader<'a> {
    elf: &'a Elf,
    budget: &'a Budget,
    candidates: Vec<Candidate>,
    objects: Vec<Candidate>,
    mappings: Vec<(u64, Mapping)>,
}

impl SymbolReader<'_> {
    fn read(&mut self, bytes: &[u8]) -> Result<(), OverBudget> {
        let Ok(file) = object::File::parse(bytes) else { return Ok(()) };
        let tables = [file.symbol_table(), file.dynamic_symbol_table()];
        for symbol in tables.iter().flatten().flat_map(ObjectSymbolTable::symbols) {
            let Some(section) = symbol.section_index() else { continue };
            let Ok(section) = file.section_by_index(section) else { continue };
            let Ok(name) = symbol.name() else { continue };
            let code = matches!(section.flags(), SectionFlags::Elf { sh_flags, .. } if sh_flags.0 & SHF_EXECINSTR.0 != 0);
            match mapping(self.elf, name) {
                Some(mapping) => {
                    self.budget.take("a table of symbols", size_of::<(u64, Mapping)>() as u64)?;
                    self.mappings.push((symbol.address(), mapping));
                }
                None if is_function(&symbol, code, name) => {
                    let end = section.address().saturating_add(section.size());
                    self.add(Candidate::new(self.elf, &symbol, name, end))?;
                }
                // A size is asked for: labels between objects would hide them.
                None if symbol.kind() == SymbolKind::Data && symbol.size() > 0 && !name.is_empty() => {
                    let object = Candidate::new(self.elf, &symbol, name, u64::MAX);
                    self.take_budget(&object)?;
                    self.objects.push(object);
                }
                None => {}
            }
        }
        for stub in plt::stubs(self.elf, bytes) {
            let function = match stub.function {
                Callee::Named(name) => name,
                Callee::Resolved(address) => self.name_at(address).unwrap_or_else(|| format!("{address:#x}")),
            };
            let name = format!("{function}@plt").into();
            self.add(Candidate {
                start: stub.start,
                size: 0,
                section_end: stub.section_end,
                rank: (false, true, true),
                name,
            })?;
        }
        Ok(())
    }

    fn take_budget(&self, candidate: &Candidate) -> Result<(), OverBudget> {
        let size = size_of::<Candidate>() + size_of::<FunctionEntry>() + candidate.name.len();
        self.budget.take("a table of symbols", size as u64)
    }

    fn add(&mut self, candidate: Candidate) -> Result<(), OverBudget> {
        self.take_budget(&candidate)?;
        self.candidates.push(candidate);
        Ok(())
    }

    fn name_at(&self, address: u64) -> Option<String> {
        let there = self.candidates.iter().filter(|candidate| candidate.start == address);
        there.min_by_key(|candidate| candidate.rank).map(|candidate| candidate.name.to_string())
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

/// A name as the programmer wrote it. Of a stub, the name of its function, and that it is one.
pub(crate) fn demangled(name: &str) -> String {
    /// Names that compilers make are shorter: longer ones cost time and memory that nobody asked for.
    const LONGEST: usize = 1 << 16;
    if name.len() > LONGEST {
        return name.to_owned();
    }
    let (name, suffix) = name.strip_suffix("@plt").map_or((name, ""), |name| (name, "@plt"));
    demangle_auto(Cow::Borrowed(name), None).into_owned() + suffix
}

/// Labels without a type in sections of code are functions of assembly code.
fn is_function<'a>(symbol: &impl ObjectSymbol<'a>, code: bool, name: &str) -> bool {
    let label = symbol.kind() == SymbolKind::Unknown && code && !name.starts_with(".L");
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

fn entries(mut candidates: Vec<Candidate>) -> Vec<FunctionEntry> {
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
            FunctionEntry {
                start: candidate.start,
                size: if sized { candidate.size } else { rest },
                sized,
                mangled: candidate.name,
                demangled: OnceLock::new(),
            }
        })
        .collect()
}
