//! What Linux shows of a system: `/sys/bus/coresight/devices`.
//!
//! Every device is a folder. Its name says what it is; `connections/out:N` leads to the next device, whose
//! `connections/in:N` leads back. The folder above the device is named after the address of its registers. Trace units
//! show their ID registers in `trcidr/` and `mgmt/`; those of ETMv3 and PTM, which are `etm0` or `ptm0`, say what they are.

use std::fs;
use std::path::{Path, PathBuf};

use crate::Error;
use crate::system::{Component, Connection, Kind, System};

/// How names of devices begin.
const NAMES: [(&str, Kind); 9] = [
    ("etm", Kind::Etm4),
    ("ptm", Kind::Ptm),
    ("ete", Kind::Ete),
    ("funnel", Kind::Funnel),
    ("replicator", Kind::Replicator),
    ("tmc_etf", Kind::Etf),
    ("tmc_etb", Kind::Etb),
    ("tmc_etr", Kind::Etr),
    ("tpiu", Kind::Tpiu),
];

impl System {
    /// Reads a folder like `/sys/bus/coresight/devices`. Devices of other kinds are passed over.
    ///
    /// # Errors
    /// If it cannot be read, or makes no sense.
    pub fn from_sysfs(folder: &Path) -> Result<Self, Error> {
        let shown = folder.display().to_string();
        let mut names: Vec<String> = fs::read_dir(folder)
            .map_err(|error| Error::of(&shown, error))?
            .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
            .filter(|name| kind_of(name).is_some())
            .collect();
        names.sort();
        let folders: Vec<PathBuf> = names
            .iter()
            .map(|name| fs::canonicalize(folder.join(name)).unwrap_or(folder.join(name)))
            .collect();
        let mut components = Vec::new();
        for (name, device) in names.iter().zip(&folders) {
            components.push(component(name, device)?);
        }
        for (number, device) in folders.iter().enumerate() {
            components[number].outputs = connections(device, &folders);
        }
        let system = Self { components };
        system.check().map_err(|error| Error::of(&shown, error))?;
        Ok(system)
    }
}

fn kind_of(name: &str) -> Option<Kind> {
    let stem = name.trim_end_matches(|c: char| c.is_ascii_digit());
    NAMES.iter().find(|(other, _)| *other == stem).map(|(_, kind)| *kind)
}

fn component(name: &str, device: &Path) -> Result<Component, Error> {
    let kind = kind_of(name).ok_or_else(|| Error::of(name, "not a device that is known"))?;
    let mut component = Component::new(name.to_owned(), kind);
    component.address = address(device);
    if kind.is_source() {
        component.cpu = number(&device.join("cpu")).and_then(|cpu| u32::try_from(cpu).ok());
        id_registers(device, &mut component);
        if !component.is_identified() {
            let what = "its ID registers cannot be read: trcidr/trcidr0 of an ETMv4 or ETE, or mgmt/etmidr of an ETMv3 \
                        or PTM is expected";
            return Err(Error::of(name, what));
        }
    }
    Ok(component)
}

/// Reads the ID registers of a trace unit, and what it is: `etm0` can be of each kind but ETE.
fn id_registers(device: &Path, component: &mut Component) {
    let register = |name: &str| {
        let file = name.to_ascii_lowercase();
        let folders = ["trcidr", "mgmt"].map(|folder| device.join(folder).join(&file));
        u32::try_from(folders.iter().find_map(|file| number(file))?).ok()
    };
    if let Some(id) = register("ETMIDR") {
        component.kind = if id >> 8 & 0xF == 3 { Kind::Ptm } else { Kind::Etm3 };
    }
    for &name in component.kind.id_registers() {
        component.id_registers.extend(register(name).map(|value| (name, value)));
    }
}

/// The number in the name of the folder above the device, as in `fec40000.etm`.
fn address(device: &Path) -> Option<u64> {
    let name = device.parent()?.file_name()?.to_str()?;
    u64::from_str_radix(name.split_once('.')?.0, 16).ok()
}

fn number(file: &Path) -> Option<u64> {
    let text = fs::read_to_string(file).ok()?;
    let text = text.trim();
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

/// The links of a folder that begin so, with their numbers and where they lead.
fn links(device: &Path, start: &str) -> Vec<(u8, PathBuf)> {
    let Ok(entries) = fs::read_dir(device.join("connections")) else { return Vec::new() };
    let link = |entry: fs::DirEntry| {
        let number = entry.file_name().to_str()?.strip_prefix(start)?.parse().ok()?;
        Some((number, fs::canonicalize(entry.path()).ok()?))
    };
    entries.filter_map(|entry| link(entry.ok()?)).collect()
}

fn connections(device: &Path, folders: &[PathBuf]) -> Vec<Connection> {
    let mut found: Vec<_> = links(device, "out:")
        .into_iter()
        .filter_map(|(output, leads_to)| {
            let to = folders.iter().position(|folder| *folder == leads_to)?;
            let back = links(&leads_to, "in:").into_iter().find(|(_, from)| from == device);
            Some(Connection { output, to, input: back.map_or(0, |(input, _)| input) })
        })
        .collect();
    found.sort_by_key(|connection| connection.output);
    found
}
