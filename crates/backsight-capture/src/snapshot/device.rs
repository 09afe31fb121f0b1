//! Device files of a snapshot.

use super::space_from_name;
use crate::Error;
use crate::folder::{FileRef, Folder, LONGEST_METADATA};
use crate::ini::{Dialect, Ini, Section, parse_number, short, unquote};
use crate::model::{MemoryDump, Origin, Register};
use backsight_core::{Address, AddressSpace};
use std::sync::Arc;

/// What a device file says.
pub(super) struct Device {
    pub(super) name: String,
    pub(super) class: String,
    pub(super) kind: String,
    pub(super) location: Option<String>,
    pub(super) registers: Vec<Register>,
    /// A section of our own, for protocols that are not described by registers.
    pub(super) options: Vec<(String, String)>,
    pub(super) dumps: Vec<MemoryDump>,
    /// Where registers and options stand.
    pub(super) origin: Origin,
}

impl Device {
    pub(super) fn read(folder: &Arc<dyn Folder>, file: &FileRef) -> Result<Self, Error> {
        let ini = Ini::parse(&file.to_string(), &file.text(LONGEST_METADATA)?, Dialect::Snapshot)?;
        ini.refuse_duplicates(ini.sections("device"), str::to_owned)?;
        let text = |key| ini.get("device", key).map(|entry| unquote(&entry.value).to_owned());
        let Some(name) = text("name").filter(|name| !name.is_empty()) else {
            return Err(Error::file(&ini.file, "expected `name=` in a section [device]"));
        };
        Ok(Self {
            name,
            class: text("class").unwrap_or_default(),
            kind: text("type").unwrap_or_default(),
            location: text("location"),
            origin: origin(&ini),
            registers: registers(&ini)?,
            options: ini
                .sections("options")
                .flat_map(|section| &section.entries)
                .map(|entry| (entry.key.clone(), entry.value.clone()))
                .collect(),
            dumps: ini
                .sections
                .iter()
                .filter(|section| section.name.starts_with("dump"))
                .map(|section| dump(folder, &ini, section))
                .collect::<Result<_, _>>()?,
        })
    }
}

fn origin(ini: &Ini) -> Origin {
    let sections = ini.sections("regs").chain(ini.sections("options"));
    let entries = sections.flat_map(|section| &section.entries);
    let lines = entries.map(|entry| (register_key(&entry.key).0.to_owned(), entry.line)).collect();
    Origin { file: ini.file.clone(), line: 0, lines }
}

/// Takes `NAME(info)` apart.
fn register_key(key: &str) -> (&str, &str) {
    match key.split_once('(') {
        Some((name, info)) => (name.trim(), info.strip_suffix(')').unwrap_or(info).trim()),
        None => (key, ""),
    }
}

fn registers(ini: &Ini) -> Result<Vec<Register>, Error> {
    ini.refuse_duplicates(ini.sections("regs"), |key| register_key(key).0.to_ascii_uppercase())?;
    let entries = ini.sections("regs").flat_map(|section| &section.entries);
    Ok(entries
        .map(|entry| {
            let (name, info) = register_key(&entry.key);
            let text = unquote(&entry.value).to_owned();
            let value = parse_number(&text, Dialect::Snapshot);
            Register { name: name.to_owned(), info: info.to_owned(), text, value }
        })
        .collect())
}

fn dump(folder: &Arc<dyn Folder>, ini: &Ini, section: &Section) -> Result<MemoryDump, Error> {
    ini.refuse_duplicates(std::iter::once(section), str::to_owned)?;
    for entry in &section.entries {
        if !["file", "address", "length", "offset", "space"].contains(&entry.key.as_str()) {
            let what = format!(
                "`{}` is no key of [{}], expected file, address, length, offset or space",
                short(&entry.key),
                short(&section.name)
            );
            return Err(ini.error(entry, what));
        }
    }
    let needed = |key: &str| {
        ini.entry(section, key).ok_or_else(|| {
            Error::line(&ini.file, section.line, format!("expected `{key}=` in [{}]", short(&section.name)))
        })
    };
    let number = |key: &str| ini.entry(section, key).map(|entry| ini.number(entry)).transpose();
    let file = needed("file")?;
    let address = Address(ini.number(needed("address")?)?);
    let space = match ini.entry(section, "space") {
        None => AddressSpace::ANY,
        Some(entry) => space_from_name(unquote(&entry.value)).ok_or_else(|| {
            ini.error(
                entry,
                format!("`{}` is no memory space, expected EL1N, EL3, S, ANY …", short(&entry.value)),
            )
        })?,
    };
    let file = FileRef::new(folder, unquote(&file.value)).map_err(|error| ini.error(file, error.what))?;
    let (length, offset) = (number("length")?, number("offset")?.unwrap_or(0));
    Ok(MemoryDump { file, offset, length, address, space, core: None, pid: None })
}
