//! Writing a log, in the clock of the global timestamp.

use super::{EventLog, Item, Mapping, Patch, PatchCode, Pid, State, TraceDefinition};
use std::fmt::{self, Write};

/// A log that can be read forward says so in its first line, with the number of bytes that follow: if somebody changes it,
/// that is seen.
impl fmt::Display for EventLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("%system-event-log version=1")?;
        if self.is_forward() {
            let mut length = Length(0);
            self.write_records(&mut length)?;
            write!(f, " forward={}", length.0)?;
        }
        f.write_char('\n')?;
        self.write_records(f)
    }
}

impl EventLog {
    fn write_records(&self, out: &mut impl Write) -> fmt::Result {
        for record in &self.records {
            match record.time {
                _ if record.item.is_directive() => {}
                Some(time) => write!(out, "{time} ")?,
                None => out.write_str("- ")?,
            }
            writeln!(out, "{}", record.item)?;
        }
        Ok(())
    }
}

/// Counts the bytes that are written.
struct Length(u64);

impl Write for Length {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0 += text.len() as u64;
        Ok(())
    }
}

impl Item {
    fn is_directive(&self) -> bool {
        matches!(
            self,
            Self::Frequency(_)
                | Self::SnapshotBegin { .. }
                | Self::SnapshotEnd
                | Self::Lost(_)
                | Self::Host(_)
        )
    }
}

impl fmt::Display for Item {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Frequency(frequency) => write!(f, "%frequency coresight={frequency}"),
            Self::SnapshotBegin { complete } => {
                write!(f, "%snapshot at=begin complete={}", u8::from(*complete))
            }
            Self::SnapshotEnd => f.write_str("%snapshot at=end"),
            Self::Lost(None) => f.write_str("%lost"),
            Self::Lost(Some(count)) => write!(f, "%lost count={count}"),
            Self::Host(items) => {
                f.write_str("%host")?;
                items.iter().try_for_each(|(key, value)| write!(f, " {key}={}", Text(value)))
            }
            Self::Mapping(state, mapping) => write_mapping(f, *state, mapping),
            Self::Thread { state, tid, pid, name } => {
                write!(f, "declare_thread {state} tid={tid} pid={pid}")?;
                optional(f, "name", name.as_deref().map(Text))
            }
            Self::Asid { state, asid, pid, cpu } => {
                write!(f, "declare_asid {state} asid={asid:#x} pid={pid}")?;
                optional(f, "cpu", *cpu)
            }
            Self::Patch(patch) => write_patch(f, patch),
            Self::DefineTrace(state, definition) => write_definition(f, *state, definition),
            Self::Switch { cpu, pid, tid } => {
                write!(f, "switch cpu={cpu} pid={pid}")?;
                optional(f, "tid", *tid)
            }
        }
    }
}

fn write_mapping(f: &mut fmt::Formatter<'_>, state: State, mapping: &Mapping) -> fmt::Result {
    let name = if mapping.main { "declare_process" } else { "declare_library" };
    write!(f, "{name} {state} pid={} base={:#x}", mapping.pid, mapping.base)?;
    optional(f, "image", mapping.image.as_deref().map(Text))?;
    optional(f, "build-id", mapping.build_id.as_deref().map(Text))?;
    if let Some(size) = mapping.size {
        write!(f, " size={size:#x}")?;
    }
    if mapping.offset != 0 {
        write!(f, " offset={:#x}", mapping.offset)?;
    }
    if mapping.relocated {
        f.write_str(" relocated=1")?;
    }
    optional(f, "name", mapping.name.as_deref().map(Text))?;
    optional(f, "cpu", mapping.cpu)
}

fn write_patch(f: &mut fmt::Formatter<'_>, patch: &Patch) -> fmt::Result {
    write!(f, "patch_code pid={} addr={:#x} len={}", patch.pid, patch.address, patch.length)?;
    match &patch.code {
        PatchCode::InMemory => Ok(()),
        PatchCode::File(path, 0) => write!(f, " file={}", Text(path)),
        PatchCode::File(path, offset) => write!(f, " file={} offset={offset:#x}", Text(path)),
        PatchCode::Id(id) => write!(f, " id={}", Text(id)),
        PatchCode::Inline(bytes) => {
            f.write_str(" code=")?;
            bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
        }
    }
}

fn write_definition(f: &mut fmt::Formatter<'_>, state: State, definition: &TraceDefinition) -> fmt::Result {
    write!(f, "define_trace {state} id={} source={}", definition.id, Text(&definition.source))?;
    optional(f, "format", definition.format.as_deref().map(Text))?;
    definition.items.iter().try_for_each(|(key, value)| write!(f, " {key}={}", Text(value)))
}

fn optional(f: &mut fmt::Formatter<'_>, key: &str, value: Option<impl fmt::Display>) -> fmt::Result {
    value.map_or(Ok(()), |value| write!(f, " {key}={value}"))
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Start => "START",
            Self::End => "END",
            Self::Current => "CURRENT",
        })
    }
}

impl fmt::Display for Pid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => f.write_str("*"),
            Self::Process(pid) => write!(f, "{pid}"),
        }
    }
}

/// A value, in quotes where it needs them.
struct Text<'a>(&'a str);

impl fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plain = |c: char| c.is_ascii_alphanumeric() || "_-.:+*".contains(c);
        if !self.0.is_empty() && self.0.chars().all(plain) {
            return f.write_str(self.0);
        }
        f.write_char('"')?;
        for c in self.0.chars() {
            match c {
                '\\' => f.write_str("\\\\")?,
                '"' => f.write_str("\\\"")?,
                '\n' => f.write_str("\\n")?,
                '\t' => f.write_str("\\t")?,
                '\0'..='\x1F' | '\x7F' => write!(f, "\\x{:02x}", u32::from(c))?,
                _ => f.write_char(c)?,
            }
        }
        f.write_char('"')
    }
}
