//! The components of a system, and how trace flows from one to the next.
//!
//! The file is in the style of trace packages: a section for each component, named as the user likes.
//!
//! ```text
//! [etm0]
//! kind = etm4
//! address = 0xFEC40000
//! core = Cortex-A53
//! cpu = 0
//! out = funnel:0
//! TRCIDR0 = 0x28000EA1
//! ```

use std::collections::HashSet;
use std::path::Path;

use backsight_capture::ini::{Dialect, Entry, Ini, Section};

use crate::Error;
use crate::register::{etm, etm4};

/// Inputs of a funnel.
const FUNNEL_PORTS: u8 = 8;
/// Widest trace port.
const WIDEST_PORT: u8 = 32;

/// What a component is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A trace unit: ETMv4.
    Etm4,
    /// A trace unit: ETE.
    Ete,
    /// A trace unit: ETMv3.
    Etm3,
    /// A trace unit: PTM.
    Ptm,
    /// Several inputs, one output.
    Funnel,
    /// One input, two outputs.
    Replicator,
    /// Trace Memory Controller with memory of its own, which also passes trace on.
    Etf,
    /// Trace Memory Controller with memory of its own.
    Etb,
    /// Trace Memory Controller that writes to system memory.
    Etr,
    /// Trace port.
    Tpiu,
}

impl Kind {
    /// All of them, with their names.
    pub const ALL: [(Self, &'static str); 10] = [
        (Self::Etm4, "etm4"),
        (Self::Ete, "ete"),
        (Self::Etm3, "etm3"),
        (Self::Ptm, "ptm"),
        (Self::Funnel, "funnel"),
        (Self::Replicator, "replicator"),
        (Self::Etf, "etf"),
        (Self::Etb, "etb"),
        (Self::Etr, "etr"),
        (Self::Tpiu, "tpiu"),
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(kind, _)| *kind == self).map_or("", |(_, name)| name)
    }

    fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(_, word)| word.eq_ignore_ascii_case(name)).map(|(kind, _)| *kind)
    }

    /// Is it where trace comes from?
    pub fn is_source(self) -> bool {
        !self.id_registers().is_empty()
    }

    /// The ID registers of a trace unit.
    pub(crate) const fn id_registers(self) -> &'static [&'static str] {
        match self {
            Self::Etm4 | Self::Ete => &etm4::ID_REGISTERS,
            Self::Etm3 | Self::Ptm => &etm::ID_REGISTERS,
            _ => &[],
        }
    }

    /// Is it an ETMv3 or a PTM?
    pub(crate) const fn is_etm(self) -> bool {
        matches!(self, Self::Etm3 | Self::Ptm)
    }

    /// Can trace end there?
    pub fn is_sink(self) -> bool {
        matches!(self, Self::Etf | Self::Etb | Self::Etr | Self::Tpiu)
    }

    fn inputs(self) -> u8 {
        match self {
            Self::Etm4 | Self::Ete | Self::Etm3 | Self::Ptm => 0,
            Self::Funnel => FUNNEL_PORTS,
            _ => 1,
        }
    }

    fn outputs(self) -> u8 {
        match self {
            Self::Etb | Self::Etr | Self::Tpiu => 0,
            Self::Replicator => 2,
            _ => 1,
        }
    }
}

/// Where an output goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Connection {
    /// Which output.
    pub output: u8,
    /// The component: an index in [`System::components`].
    pub to: usize,
    /// Its input.
    pub input: u8,
}

/// One component.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Component {
    /// Its name.
    pub name: String,
    /// What it is.
    pub kind: Kind,
    /// Where its registers are; `None`: it has none. Only funnels and replicators may be so.
    pub address: Option<u64>,
    /// The core that a trace unit watches, such as `Cortex-A53`; may be empty.
    pub core: String,
    /// The number of that core.
    pub cpu: Option<u32>,
    /// Values of the ID registers of a trace unit: [`id`](Self::id).
    pub(crate) id_registers: Vec<(&'static str, u32)>,
    /// Memory for an ETR: address and bytes.
    pub memory: Option<(u64, u64)>,
    /// Bits of a trace port.
    pub width: u8,
    /// Where its outputs go.
    pub outputs: Vec<Connection>,
}

impl Component {
    pub(crate) fn new(name: String, kind: Kind) -> Self {
        Self {
            name,
            kind,
            address: None,
            core: String::new(),
            cpu: None,
            id_registers: Vec::new(),
            memory: None,
            width: WIDEST_PORT,
            outputs: Vec::new(),
        }
    }

    /// Do ID registers say what the unit has? TRCDEVARCH says no more than its version.
    pub(crate) fn is_identified(&self) -> bool {
        self.id_registers.iter().any(|(name, _)| *name != "TRCDEVARCH")
    }

    /// TRCIDRn; what is not given is 0.
    pub(crate) fn idr(&self, number: u8) -> u32 {
        self.id(&format!("TRCIDR{number}"))
    }

    /// An ID register by its name; what is not given is 0.
    pub fn id(&self, name: &str) -> u32 {
        self.id_registers.iter().find(|(other, _)| *other == name).map_or(0, |(_, value)| *value)
    }
}

/// A system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct System {
    /// Its components.
    pub components: Vec<Component>,
}

impl System {
    /// Reads a system from a file, or from a folder like `/sys/bus/coresight/devices`.
    ///
    /// # Errors
    /// If it cannot be read, or makes no sense; says where.
    pub fn open(path: &Path) -> Result<Self, Error> {
        if path.is_dir() {
            return Self::from_sysfs(path);
        }
        let text = std::fs::read(path).map_err(|error| Error::of(&path.display().to_string(), error))?;
        let text = String::from_utf8(text)
            .map_err(|_| Error::of(&path.display().to_string(), "not a text file of UTF-8"))?;
        Self::parse(&path.display().to_string(), &text)
    }

    /// Reads a system from the text of a file of that name.
    ///
    /// # Errors
    /// If it makes no sense; says where.
    pub fn parse(file: &str, text: &str) -> Result<Self, Error> {
        let ini = Ini::parse(file, text, Dialect::Package)?;
        let sections: Vec<_> =
            ini.sections.iter().filter(|section| !section.name.eq_ignore_ascii_case("system")).collect();
        let mut components = Vec::new();
        for section in &sections {
            ini.refuse_duplicates(std::iter::once(*section), str::to_ascii_lowercase)?;
            components.push(component(&ini, section)?);
        }
        let mut system = Self { components };
        for (number, section) in sections.iter().enumerate() {
            for entry in &section.entries {
                if let Some(output) = output_number(&entry.key) {
                    let connection = system.connection(&ini, entry, output)?;
                    system.components[number].outputs.push(connection);
                }
            }
        }
        system.check()?;
        Ok(system)
    }

    /// The component of that name.
    pub fn named(&self, name: &str) -> Option<usize> {
        self.components.iter().position(|component| component.name.eq_ignore_ascii_case(name))
    }

    fn connection(&self, ini: &Ini, entry: &Entry, output: u8) -> Result<Connection, Error> {
        let (name, port) = entry.value.split_once(':').unwrap_or((&entry.value, "0"));
        let to = self.named(name.trim()).ok_or_else(|| {
            ini.error(entry, format!("`{}` is `{}`, and there is no such component", entry.key, entry.value))
        })?;
        let input = port
            .trim()
            .parse()
            .map_err(|_| ini.error(entry, format!("`{}`: NAME or NAME:INPUT is expected", entry.value)))?;
        Ok(Connection { output, to, input })
    }

    /// Can there be such a system?
    pub(crate) fn check(&self) -> Result<(), Error> {
        if self.components.is_empty() {
            return Err(Error::new("the system has no components"));
        }
        let (mut names, mut addresses, mut inputs) = (HashSet::new(), HashSet::new(), HashSet::new());
        for component in &self.components {
            let wrong = |what: String| Err(Error::of(&component.name, what));
            if !names.insert(component.name.to_ascii_lowercase()) {
                return wrong("there are two components of this name".to_owned());
            }
            match component.address {
                Some(address) if !address.is_multiple_of(0x1000) => {
                    return wrong(format!("address {address:#x} is not at the beginning of a page of 4 KB"));
                }
                Some(address) if !addresses.insert(address) => {
                    return wrong(format!("another component is at {address:#x} too"));
                }
                None if !matches!(component.kind, Kind::Funnel | Kind::Replicator) => {
                    return wrong("it has no address".to_owned());
                }
                _ => {}
            }
            let mut outputs = HashSet::new();
            for &Connection { output, to, input } in &component.outputs {
                let next = &self.components[to];
                if output >= component.kind.outputs() || !outputs.insert(output) {
                    return wrong(format!(
                        "a component of kind {} has no output {output} more",
                        component.kind.name()
                    ));
                }
                if input >= next.kind.inputs() {
                    return wrong(format!("{} has no input {input}", next.name));
                }
                if !inputs.insert((to, input)) {
                    return wrong(format!("input {input} of {} is taken by another component", next.name));
                }
            }
        }
        Ok(())
    }
}

fn output_number(key: &str) -> Option<u8> {
    let rest = key.get(..3).filter(|start| start.eq_ignore_ascii_case("out")).and(key.get(3..))?;
    if rest.is_empty() { Some(0) } else { rest.parse().ok() }
}

fn component(ini: &Ini, section: &Section) -> Result<Component, Error> {
    let kinds = || Kind::ALL.map(|(_, name)| name).join(", ");
    let entry = ini.entry(section, "kind").ok_or_else(|| {
        let what = format!("[{}] in line {} has no kind: one of {}", section.name, section.line, kinds());
        Error::of(&ini.file, what)
    })?;
    let kind = Kind::named(&entry.value).ok_or_else(|| {
        ini.error(entry, format!("kind `{}` is not known: one of {}", entry.value, kinds()))
    })?;
    let mut component = Component::new(section.name.clone(), kind);
    let (mut buffer, mut size) = (None, None);
    for entry in &section.entries {
        let narrow = || -> Result<u32, Error> {
            let wide = ini.number(entry)?;
            Ok(u32::try_from(wide)
                .map_err(|_| ini.error(entry, format!("`{}` does not fit 32 bits", entry.value)))?)
        };
        match entry.key.to_ascii_lowercase().as_str() {
            "kind" => {}
            "address" => component.address = Some(ini.number(entry)?),
            "core" => component.core = entry.value.clone(),
            "cpu" => component.cpu = Some(narrow()?),
            "memory" => buffer = Some(ini.number(entry)?),
            "memory_size" => size = Some(ini.number(entry)?),
            "width" => {
                component.width = u8::try_from(narrow()?)
                    .ok()
                    .filter(|width| (1..=WIDEST_PORT).contains(width))
                    .ok_or_else(|| ini.error(entry, "a trace port has 1 to 32 bits"))?;
            }
            key => match kind.id_registers().iter().find(|name| name.eq_ignore_ascii_case(key)) {
                Some(name) => component.id_registers.push((name, narrow()?)),
                None if output_number(key).is_some() => {}
                None => {
                    let what = format!("`{}` is not known for kind {}", entry.key, kind.name());
                    return Err(ini.error(entry, what).into());
                }
            },
        }
    }
    component.memory = buffer.zip(size);
    Ok(component)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: &str = "[etm0]\nkind=etm4\naddress=0x1000\nout=etb\n[etb]\nkind=etb\naddress=0x2000\n";

    #[test]
    fn a_small_system_is_read() {
        let system = System::parse("s.ini", SMALL).unwrap();
        assert_eq!(system.components[0].outputs, [Connection { output: 0, to: 1, input: 0 }]);
        assert_eq!((system.components[1].kind, system.components[1].address), (Kind::Etb, Some(0x2000)));
    }

    #[test]
    fn what_makes_no_sense_is_refused_with_its_place() {
        for (from, to, expected) in [
            ("kind=etb", "kind=box", "s.ini:6: kind `box` is not known"),
            ("out=etb", "out=nowhere", "there is no such component"),
            ("out=etb", "out=etb:3", "no input 3"),
            ("out=etb", "out2=etb", "no output 2"),
            ("address=0x2000", "address=0x1000", "another component is at 0x1000"),
            ("address=0x2000", "address=0x2004", "page of 4 KB"),
            ("address=0x2000", "colour=1", "`colour` is not known"),
            ("address=0x2000\n", "", "it has no address"),
            ("out=etb\n[etb]", "[ETM0]", "two components of this name"),
            ("kind=etm4\n", "", "has no kind"),
        ] {
            let refused = System::parse("s.ini", &SMALL.replace(from, to)).unwrap_err().to_string();
            assert!(refused.contains(expected), "{refused}");
        }
    }
}
