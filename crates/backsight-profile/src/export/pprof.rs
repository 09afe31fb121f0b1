//! pprof: a protocol buffer, compressed.
//!
//! The message is small: its writer is too. Strings, functions and locations are tables; a sample is a chain of callers.

use std::collections::BTreeMap;
use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;

use super::protobuf::Message;
use super::stacks::{functions_of, threads_of};
use super::{ExportError, ExportOptions, Format, Need};
use crate::Profile;

pub(super) const FORMAT: Format = Format {
    name: "pprof",
    title: "Chains of callers as a protocol buffer",
    readers: "go tool pprof, Pyroscope, speedscope",
    needs: &[Need::Symbols],
    write,
};

/// The table of strings; the first is empty.
#[derive(Debug)]
struct Strings(BTreeMap<String, u64>, Vec<String>);

impl Strings {
    fn number(&mut self, text: &str) -> u64 {
        if let Some(&known) = self.0.get(text) {
            return known;
        }
        let number = self.1.len() as u64;
        self.0.insert(text.to_owned(), number);
        self.1.push(text.to_owned());
        number
    }
}

fn write(profile: &Profile, options: &ExportOptions, out: &mut dyn Write) -> Result<(), ExportError> {
    let mut strings = Strings(BTreeMap::from([(String::new(), 0)]), vec![String::new()]);
    let mut file = Message::default();
    let mut kinds = vec![("calls", "count"), ("instructions", "count")];
    kinds.extend(profile.has_cycles().then_some(("cycles", "count")));
    for (kind, unit) in &kinds {
        let mut value_type = Message::default();
        value_type.number(1, strings.number(kind));
        value_type.number(2, strings.number(unit));
        file.message(1, &value_type);
    }
    write_samples(profile, &mut strings, &mut file);
    write_modules(profile, &mut strings, &mut file);
    write_functions(profile, &mut strings, &mut file);
    file.number(13, strings.number(&options.title));
    file.number(14, strings.number(options.weight.name()));
    for text in &strings.1 {
        file.bytes(6, text.as_bytes());
    }
    let mut encoder = GzEncoder::new(out, Compression::default());
    encoder.write_all(&file.0)?;
    encoder.finish()?;
    Ok(())
}

fn write_samples(profile: &Profile, strings: &mut Strings, file: &mut Message) {
    let threads = threads_of(profile);
    let key = strings.number("thread");
    for (node, number) in profile.calls.iter().zip(0..) {
        if node.function.is_none() || node.instructions == 0 && node.calls == 0 {
            continue;
        }
        let mut sample = Message::default();
        let locations: Vec<u64> =
            functions_of(profile, number).iter().map(|&function| u64::from(function) + 1).collect();
        sample.packed(1, &locations);
        let mut values = vec![node.calls, node.instructions];
        values.extend(profile.has_cycles().then_some(node.cycles));
        sample.packed(2, &values);
        let thread = threads.get(number as usize).copied().flatten();
        if let Some(thread) = thread.and_then(|thread| profile.threads.get(thread as usize)) {
            let mut label = Message::default();
            label.number(1, key);
            label.number(2, strings.number(&thread.name));
            sample.message(3, &label);
        }
        file.message(2, &sample);
    }
}

fn write_modules(profile: &Profile, strings: &mut Strings, file: &mut Message) {
    for (module, number) in profile.modules.iter().zip(1..) {
        let addresses = || {
            let blocks = profile.blocks.iter();
            blocks.filter(|block| {
                let function = profile.function_of(block);
                function.is_some_and(|function| u64::from(function.module) + 1 == number)
            })
        };
        let mut mapping = Message::default();
        mapping.number(1, number);
        mapping.number(2, addresses().map(|block| block.start).min().unwrap_or(0));
        mapping.number(3, addresses().map(|block| block.end).max().unwrap_or(0));
        mapping.number(5, strings.number(module.name()));
        mapping.number(6, module.build_id().map_or(0, |id| strings.number(id)));
        let has_lines = u64::from(!module.debug().is_empty());
        mapping.number(7, u64::from(!module.functions().is_empty()));
        mapping.number(8, has_lines);
        mapping.number(9, has_lines);
        file.message(3, &mapping);
    }
}

/// A location for each function: its first instruction.
fn write_functions(profile: &Profile, strings: &mut Strings, file: &mut Message) {
    for (function, number) in profile.functions.iter().zip(1..) {
        let debug = profile.module_of(function).map(crate::Module::debug);
        let start = function.start.unwrap_or(0);
        let line = debug.and_then(|debug| debug.line(start).map(|line| (debug.file(line.file), line.line)));
        let mut entry = Message::default();
        entry.number(1, number);
        entry.number(2, strings.number(&function.name));
        entry.number(3, strings.number(&function.mangled));
        entry.number(4, line.map_or(0, |(file, _)| strings.number(file)));
        entry.number(5, line.map_or(0, |(_, line)| line.into()));
        let mut of_location = Message::default();
        of_location.number(1, number);
        of_location.number(2, line.map_or(0, |(_, line)| line.into()));
        let mut location = Message::default();
        location.number(1, number);
        location.number(2, u64::from(function.module) + 1);
        location.number(3, start);
        location.message(4, &of_location);
        file.message(4, &location);
        file.message(5, &entry);
    }
}
