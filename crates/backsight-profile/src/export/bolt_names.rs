//! The names that BOLT gives to functions.
//!
//! Global symbols keep their names. Local ones of any type are numbered by name, in the order of their addresses: `NAME/1`,
//! `NAME/2`. A symbol inside of a function is another entry of it, and no function of its own.

use std::collections::HashMap;

use object::read::elf::{ElfFile, FileHeader};
use object::{FileKind, Object as _, ObjectSection as _, ObjectSymbol, SectionFlags, SymbolKind, elf};

use super::names::fdata;
use crate::Module;

/// The functions of a file, by address.
pub(super) struct BoltNames(Vec<BoltFunction>);

struct BoltFunction {
    start: u64,
    end: u64,
    name: String,
    /// Its symbol says where it ends. Else that is where the next begins, or its section ends.
    has_size: bool,
}

impl BoltNames {
    /// Without a symbol table of its own (it is in another file), the functions of a file have their own names.
    pub fn of(module: &Module) -> Self {
        let contents = module.contents().unwrap_or_default();
        let read = match FileKind::parse(contents) {
            Ok(FileKind::Elf32) => functions::<elf::FileHeader32<object::Endianness>>(contents),
            Ok(FileKind::Elf64) => functions::<elf::FileHeader64<object::Endianness>>(contents),
            _ => Vec::new(),
        };
        if !read.is_empty() {
            return Self(read);
        }
        let known = module.functions().iter().map(|function| BoltFunction {
            start: function.start,
            end: function.start.saturating_add(function.size),
            name: function.mangled.clone(),
            has_size: true,
        });
        Self(known.collect())
    }

    /// A place in the code, as fdata names it.
    pub fn at(&self, address: u64) -> Option<String> {
        let after = self.0.partition_point(|function| function.start <= address);
        let function = self.0[..after].iter().rev().take(32).find(|one| address < one.end)?;
        let name = fdata(&function.name);
        Some(format!("1 {name} {:x}", address - function.start))
    }
}

/// What decides about the name of a symbol.
struct SymbolRecord<'d> {
    address: u64,
    size: u64,
    section_end: u64,
    name: &'d str,
    kind: SymbolKind,
    is_local: bool,
    is_code: bool,
}

fn functions<Header: FileHeader>(contents: &[u8]) -> Vec<BoltFunction> {
    let Ok(file) = ElfFile::<Header>::parse(contents) else { return Vec::new() };
    let mut symbols: Vec<SymbolRecord<'_>> =
        file.symbols().filter_map(|symbol| symbol_record(&file, &symbol)).collect();
    // Of several at an address functions come first, and sections last.
    symbols.sort_by_key(|symbol| {
        let rank = match symbol.kind {
            SymbolKind::Text => 0,
            SymbolKind::Section => 2,
            _ => 1,
        };
        (symbol.address, rank)
    });
    let mut functions: Vec<BoltFunction> = Vec::new();
    let mut numbers: HashMap<&str, u64> = HashMap::new();
    for symbol in symbols {
        // What an assembler would take for a label of its own gets another name.
        let prefix = if symbol.name.starts_with(".L") { "PG" } else { "" };
        let name = match symbol.is_local {
            true => {
                let number = numbers.entry(symbol.name).or_default();
                *number += 1;
                format!("{prefix}{}/{number}", symbol.name)
            }
            false => format!("{prefix}{}", symbol.name),
        };
        if !symbol.is_code {
            continue;
        }
        let has_size = symbol.size > 0;
        let end = if has_size { symbol.address.saturating_add(symbol.size) } else { symbol.section_end };
        match functions.last_mut() {
            Some(last) if last.start == symbol.address => {
                if has_size {
                    last.end = if last.has_size { last.end.max(end) } else { end };
                    last.has_size = true;
                }
            }
            Some(last) if last.has_size && symbol.address < last.end => {}
            last => {
                last.into_iter().for_each(|last| last.end = last.end.min(symbol.address));
                functions.push(BoltFunction { start: symbol.address, end, name, has_size });
            }
        }
    }
    functions
}

/// A symbol that BOLT looks at: it is in memory, and no mark between code and data.
fn symbol_record<'d, Header: FileHeader>(
    file: &ElfFile<'d, Header>,
    symbol: &impl ObjectSymbol<'d>,
) -> Option<SymbolRecord<'d>> {
    let (name, address, kind) = (symbol.name().ok()?, symbol.address(), symbol.kind());
    let is_mark = name.starts_with("$d") || name.starts_with("$x");
    if symbol.is_undefined() || address == 0 || kind == SymbolKind::File || is_mark {
        return None;
    }
    let (flags, section_end) = match symbol.section_index() {
        Some(index) => {
            let section = file.section_by_index(index).ok()?;
            let SectionFlags::Elf { sh_flags, .. } = section.flags() else { return None };
            (sh_flags.0, section.address().saturating_add(section.size()))
        }
        // An absolute symbol.
        None => (elf::SHF_ALLOC.0, address),
    };
    let is_code = flags & elf::SHF_EXECINSTR.0 != 0
        && matches!(kind, SymbolKind::Text | SymbolKind::Unknown | SymbolKind::Label);
    let is_allocated = flags & elf::SHF_ALLOC.0 != 0;
    let is_local = symbol.is_local();
    let size = symbol.size();
    is_allocated.then_some(SymbolRecord { address, size, section_end, name, kind, is_local, is_code })
}
