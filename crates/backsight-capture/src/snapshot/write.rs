//! Writing a snapshot.

use super::{ENTRY, space_name};
use crate::ini::{Dialect, short};
use crate::model::{Buffer, Capture, MemoryDump, Register, Source};
use crate::repack::{Converted, Repacked};
use crate::write::{Files, Note, Output, SectionLines, plain};
use crate::{Error, Format};
use backsight_arm::frame::Framing;
use std::collections::BTreeSet;
use std::fmt::Write;

const TRACE: &str = "trace.ini";
/// Characters that mean something else wherever they stand, or separate names in lists.
const FORBIDDEN: [char; 11] = [';', '#', '=', ',', '(', ')', '@', '[', ']', '"', '\''];

/// Writes the capture as a snapshot; gives what a snapshot cannot hold.
pub(crate) fn write(capture: &Capture, output: &mut dyn Output) -> Result<Vec<Note>, Error> {
    let count = capture.cores.len() + capture.sources.len() * capture.buffers.len().max(1) + 1;
    let devices: Vec<String> = (0..=count).map(|number| format!("device{number}.ini")).collect();
    let mut reserved: Vec<&str> = devices.iter().map(String::as_str).collect();
    reserved.extend([ENTRY, TRACE, "contents.ini"]);
    let mut writer = SnapshotWriter {
        capture,
        files: Files::new(output, &reserved),
        devices: Vec::new(),
        names: BTreeSet::new(),
        buffer_names: BTreeSet::new(),
        lost: Vec::new(),
    };
    writer.write()?;
    Ok(writer.files.copies.into_iter().chain(writer.lost.into_iter().map(Note::Lost)).collect())
}

struct SnapshotWriter<'a> {
    capture: &'a Capture,
    files: Files<'a>,
    /// Device files written.
    devices: Vec<String>,
    /// Names given to devices.
    names: BTreeSet<String>,
    /// Names given to buffers.
    buffer_names: BTreeSet<String>,
    lost: Vec<String>,
}

impl SnapshotWriter<'_> {
    fn write(&mut self) -> Result<(), Error> {
        let mut cores = Vec::new();
        for number in 0..self.capture.cores.len() {
            cores.push(self.write_core(number)?);
        }
        self.write_memory()?;
        let mut trace = String::from("[trace_buffers]\nbuffers=");
        let sections: Vec<String> =
            (0..self.capture.buffers.len()).map(|number| format!("buffer{number}")).collect();
        let _ = writeln!(trace, "{}", sections.join(","));
        let mut buffers = Vec::new();
        for (buffer, section) in self.capture.buffers.iter().zip(&sections) {
            buffers.push(self.write_buffer(buffer, section, &mut trace)?);
        }
        let (mut core_sources, mut source_buffers) = (String::new(), String::new());
        for source in &self.capture.sources {
            let places: Vec<Option<usize>> = if source.buffers.is_empty() {
                vec![None]
            } else {
                source.buffers.iter().map(|&b| Some(b)).collect()
            };
            for place in places {
                let name = self.write_source(source)?;
                if let Some(core) = source.core.and_then(|core| cores.get(core)) {
                    let _ = writeln!(core_sources, "{core}={name}");
                }
                if let Some(buffer) = place.and_then(|place| buffers.get(place)) {
                    let stream = match source.stream {
                        0 => String::new(),
                        stream => format!("(stream:{stream})"),
                    };
                    let _ = writeln!(source_buffers, "{name}{stream}={buffer}");
                }
            }
        }
        let _ = write!(trace, "\n[source_buffers]\n{source_buffers}\n[core_trace_sources]\n{core_sources}");
        if let Some(frequency) = self.capture.timestamp_frequency {
            let _ = write!(trace, "\n[timestamp]\nfrequency={frequency}\n");
        }
        self.files.text(TRACE, &trace)?;
        self.write_entry()?;
        for buffer in self.capture.buffers.iter().filter(|buffer| buffer.starts.len() > 1) {
            self.lost.push(format!("buffer {}: a snapshot cannot say where its pieces begin", buffer.name));
        }
        if self.capture.events.is_some() {
            self.lost.push("a snapshot has no place for the event log".to_owned());
        }
        if !self.capture.images.is_empty() {
            self.lost.push("a snapshot has no place for program images".to_owned());
        }
        Ok(())
    }

    fn write_entry(&mut self) -> Result<(), Error> {
        let mut text = String::from("[snapshot]\nversion=1.0\n");
        if let Some(description) = &self.capture.description {
            let _ = writeln!(text, "description={}", plain(description, &[';', '#']));
        }
        text.push_str("\n[device_list]\n");
        for (number, file) in self.devices.iter().enumerate() {
            let _ = writeln!(text, "device{number}={file}");
        }
        if self.capture.format == Format::Snapshot && !self.capture.system.is_empty() {
            let mut lines = SectionLines::new(Dialect::Snapshot, "=", &[]);
            for (name, members) in &self.capture.system {
                if !lines.add(&plain(name, &FORBIDDEN), members) {
                    self.lost.push(format!("`{}` of [clusters] cannot be written", short(name)));
                }
            }
            let _ = write!(text, "\n[clusters]\n{}", lines.text);
        }
        let _ = write!(text, "\n[trace]\nmetadata={TRACE}\n");
        self.files.text(ENTRY, &text)
    }

    fn device(&mut self, text: &str) -> Result<(), Error> {
        let file = format!("device{}.ini", self.devices.len());
        self.files.text(&file, text)?;
        self.devices.push(file);
        Ok(())
    }

    fn write_core(&mut self, number: usize) -> Result<String, Error> {
        let core = &self.capture.cores[number];
        let name = free_name(&mut self.names, &core.name);
        let mut text =
            format!("[device]\nname={name}\nclass=core\ntype={}\n", plain(&core.kind, &[';', '#']));
        if let Some(location) = &core.location {
            let _ = writeln!(text, "location={}", plain(location, &[';', '#']));
        }
        write_registers(&mut text, &core.registers);
        let dumps = self.capture.memory.iter().filter(|dump| dump.core == Some(number));
        self.write_dumps(dumps.collect(), &mut text)?;
        self.device(&text)?;
        Ok(name)
    }

    /// Memory contents that belong to no core.
    fn write_memory(&mut self) -> Result<(), Error> {
        let dumps: Vec<&MemoryDump> = self.capture.memory.iter().filter(|dump| dump.core.is_none()).collect();
        if dumps.is_empty() {
            return Ok(());
        }
        let name = free_name(&mut self.names, "memory");
        let mut text = format!("[device]\nname={name}\nclass=memory_space\n");
        self.write_dumps(dumps, &mut text)?;
        self.device(&text)
    }

    fn write_dumps(&mut self, dumps: Vec<&MemoryDump>, text: &mut String) -> Result<(), Error> {
        for (number, dump) in dumps.into_iter().enumerate() {
            if !dump.file.exists() {
                self.lost.push(format!("{}: these memory contents are not there", dump.file));
                continue;
            }
            let file = self.files.copy(&dump.file)?;
            let _ = write!(text, "\n[dump{number}]\nfile={file}\naddress={:#x}\n", dump.address);
            if let Some(length) = dump.length {
                let _ = writeln!(text, "length={length:#x}");
            }
            if dump.offset != 0 {
                let _ = writeln!(text, "offset={:#x}", dump.offset);
            }
            match space_name(dump.space) {
                Some("ANY") => {}
                Some(space) => {
                    let _ = writeln!(text, "space={space}");
                }
                None => self.lost.push(format!("{}: no word for its memory spaces", dump.file)),
            }
            if dump.pid.is_some() {
                self.lost.push(format!("{}: a snapshot cannot say which process it belongs to", dump.file));
            }
        }
        Ok(())
    }

    fn write_buffer(&mut self, buffer: &Buffer, section: &str, trace: &mut String) -> Result<String, Error> {
        let name = free_name(&mut self.buffer_names, &buffer.name);
        let (format, files) = match buffer.framing {
            Framing::Tpiu | Framing::TpiuHsync => {
                let repacked = Converted::new(buffer.open()?, Repacked::new(buffer.framing));
                self.lost.push(format!("buffer {}: its frames were packed again without syncs", buffer.name));
                ("coresight", vec![self.files.contents(&format!("{section}.bin"), &mut { repacked })?])
            }
            framing => {
                let format = match framing {
                    Framing::Raw => "source_data",
                    Framing::Dstream => "dstream_coresight",
                    _ => "coresight",
                };
                let files =
                    buffer.files.iter().map(|file| self.files.copy(file)).collect::<Result<_, _>>()?;
                (format, files)
            }
        };
        let _ = write!(trace, "\n[{section}]\nname={name}\nfile={}\nformat={format}\n", files.join(","));
        // Other readers pass over what they do not know.
        if let Some(packets) = buffer.packet_framing() {
            let _ = writeln!(trace, "packets={packets}");
        }
        if buffer.wrapped {
            let _ = writeln!(trace, "wrapped=1");
        }
        Ok(name)
    }

    fn write_source(&mut self, source: &Source) -> Result<String, Error> {
        let name = free_name(&mut self.names, &source.name);
        let kind = plain(&source.format, &[';', '#']);
        let mut text = format!("[device]\nname={name}\nclass=trace_source\ntype={kind}\n");
        if let Some(location) = &source.location {
            let _ = writeln!(text, "location={}", plain(location, &[';', '#']));
        }
        write_registers(&mut text, &source.registers);
        if !source.options.is_empty() {
            let mut lines = SectionLines::new(Dialect::Snapshot, "=", &[]);
            for (key, value) in &source.options {
                if !lines.add(key, value) {
                    self.lost.push(format!("source {}: `{}` cannot be written", source.name, short(key)));
                }
            }
            let _ = write!(text, "\n[options]\n{}", lines.text);
        }
        self.device(&text)?;
        Ok(name)
    }
}

fn write_registers(text: &mut String, registers: &[Register]) {
    if registers.is_empty() {
        return;
    }
    text.push_str("\n[regs]\n");
    let mut lines = SectionLines::new(Dialect::Snapshot, "=", &[]);
    for register in registers {
        let name = plain(&register.name, &FORBIDDEN);
        match register.info.as_str() {
            "" => lines.add(&name, &register.text),
            info => lines.add(&format!("{name}({})", plain(info, &[])), &register.text),
        };
    }
    text.push_str(&lines.text);
}

/// A name like `wanted` that none of `taken` has.
fn free_name(taken: &mut BTreeSet<String>, wanted: &str) -> String {
    let wanted = plain(wanted, &FORBIDDEN);
    let wanted = if wanted.is_empty() { "unnamed".to_owned() } else { wanted };
    let names = std::iter::once(wanted.clone()).chain((2..).map(|number| format!("{wanted}_{number}")));
    let name = names.into_iter().find(|name| !taken.contains(name)).unwrap_or(wanted);
    taken.insert(name.clone());
    name
}
