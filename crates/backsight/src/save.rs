//! Writing a capture in another format.

use std::path::Path;
use std::sync::Arc;

use backsight_capture::{Capture as Description, Format, Register, Source};

use crate::capture::Capture;
use crate::{Result, sources};

impl Capture {
    /// Writes the capture to a new place: a ZIP archive if the name ends in `.zip`, else a folder. Gives what the format
    /// could not hold, in words.
    ///
    /// # Errors
    /// If the place exists, or something cannot be read or written.
    pub fn save(&self, path: impl AsRef<Path>, format: Format) -> Result<Vec<String>> {
        let mut description = Description::clone(&self.description);
        if format == Format::Snapshot {
            describe_by_registers(&mut description)?;
        }
        Ok(description.save(path, format)?)
    }

    /// Leaves out buffers that are not wanted, and sources that are in no other.
    pub fn keep_buffers(&mut self, wanted: impl Fn(&str) -> bool) {
        Arc::make_mut(&mut self.description).keep_buffers(|buffer| wanted(&buffer.name));
        Arc::make_mut(&mut self.buffers).retain(|buffer| wanted(buffer.name()));
    }
}

/// A snapshot describes sources by their registers: what options and trace IDs say is put into those.
fn describe_by_registers(description: &mut Description) -> Result {
    for number in 0..description.sources.len() {
        let understood = sources::understand(description, number)?;
        let source = &mut description.sources[number];
        if let Some(registers) = understood.configuration.registers() {
            registers.into_iter().for_each(|(name, value)| set(source, name, value.into()));
            source.options.clear();
        }
        let base = source.id.map(|id| id.get().wrapping_sub(source.stream));
        let register = understood.names.and_then(|names| names.id_register);
        if let (Some(id), Some(register)) = (base, register) {
            let name = register.names.iter().find(|name| source.register(name).is_some());
            let name = name.copied().unwrap_or(register.names[0]);
            let old = source.register(name).and_then(|register| register.value).unwrap_or(0);
            let others = old & !(0x7F << register.lowest_bit);
            set(source, name, others | u64::from(id) << register.lowest_bit);
        }
    }
    Ok(())
}

fn set(source: &mut Source, name: &str, value: u64) {
    let text = format!("{value:#010x}");
    match source.registers.iter_mut().find(|register| register.name.eq_ignore_ascii_case(name)) {
        Some(register) if register.value == Some(value) => {}
        Some(register) => (register.text, register.value) = (text, Some(value)),
        None => source.registers.push(Register::new(name, &text)),
    }
}
