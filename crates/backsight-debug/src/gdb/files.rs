//! Files that gdb may read: those that code came from, by their names in the traced system, out of the capture. Nothing else is opened.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use backsight::SourceCode;
use backsight::core::AddressSpace;
use backsight::image::{Contents, ElfKind, Module};

use super::packet::{parse_bytes, parse_hex};

/// Files that are open at once.
const MOST_OPEN: usize = 256;

/// Numbers of errors, as the protocol has them.
const NO_SUCH_FILE: u32 = 2;
const BAD_NUMBER: u32 = 9;
const NOT_ALLOWED: u32 = 13;
const WRONG: u32 = 22;
const TOO_MANY: u32 = 23;

/// A file of code, where it is in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Library {
    pub name: String,
    /// Where its first segment begins.
    pub start: u64,
    /// What was added to its own addresses.
    pub bias: u64,
    /// It begins a process.
    pub is_program: bool,
}

/// The name that gdb is to use: it wants a path from the root.
fn name_of(module: &Module) -> String {
    let name = module.name().to_string_lossy();
    if name.starts_with('/') { name.into_owned() } else { format!("/{name}") }
}

/// The files of code that are in memory, as it was at some time.
pub(super) fn libraries(code: &SourceCode<'_>, space: AddressSpace) -> Vec<Library> {
    let mut found: Vec<Library> = Vec::new();
    for module in code.image().modules() {
        let Some((elf, _)) = module.elf().zip(module.contents()) else { continue };
        let Some(first) = elf.segments.first() else { continue };
        let start = module.range().0;
        let here = code.names_at(space, start).module_at(space, start);
        let is_there =
            here.is_some_and(|(here, _)| here.name() == module.name() && here.bias() == module.bias());
        let library = Library {
            name: name_of(module),
            start: first.address.wrapping_add(module.bias()),
            bias: module.bias(),
            is_program: elf.kind == ElfKind::Fixed,
        };
        if is_there && !found.contains(&library) {
            found.push(library);
        }
    }
    found
}

/// The document that lists them.
pub(super) fn document(libraries: &[Library]) -> String {
    let mut xml = "<library-list>".to_owned();
    for library in libraries {
        // Memory takes everything.
        let _ = write!(
            xml,
            "<library name=\"{}\"><segment address=\"{:#x}\"/></library>",
            escaped(&library.name),
            library.start
        );
    }
    xml.push_str("</library-list>");
    xml
}

/// Text of a capture in a document. Control characters are not allowed there.
pub(super) fn escaped(text: &str) -> String {
    let mut out = String::new();
    for char in text.chars() {
        match char {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            char if backsight::core::is_harmful(char) => out.push('?'),
            char => out.push(char),
        }
    }
    out
}

/// Files that gdb has open.
#[derive(Default)]
pub(super) struct OpenFiles {
    open: BTreeMap<u64, Contents>,
    next: u64,
}

impl OpenFiles {
    /// Answers what comes after `vFile:`.
    pub fn answer(&mut self, request: &[u8], code: &SourceCode<'_>) -> Vec<u8> {
        let colon = request.iter().position(|byte| *byte == b':').unwrap_or(request.len());
        let (what, rest) = request.split_at(colon);
        let rest = rest.get(1..).unwrap_or_default();
        let parts: Vec<&[u8]> = rest.split(|byte| *byte == b',').collect();
        let answer = match what {
            b"setfs" => Ok(b"F0".to_vec()),
            b"open" => self.open(&parts, code),
            b"pread" => self.read(&parts),
            b"fstat" => self.status(&parts),
            b"close" => match parse_hex(rest).and_then(|number| self.open.remove(&number)) {
                Some(_) => Ok(b"F0".to_vec()),
                None => Err(BAD_NUMBER),
            },
            b"readlink" => Err(WRONG),
            b"pwrite" | b"unlink" => Err(NOT_ALLOWED),
            _ => return Vec::new(),
        };
        answer.unwrap_or_else(|error| format!("F-1,{error:x}").into_bytes())
    }

    fn open(&mut self, parts: &[&[u8]], code: &SourceCode<'_>) -> Result<Vec<u8>, u32> {
        let [name, flags, _mode] = parts else { return Err(WRONG) };
        let name = parse_bytes(name).ok_or(WRONG)?;
        // Reading is 0.
        if parse_hex(flags) != Some(0) {
            return Err(NOT_ALLOWED);
        }
        if self.open.len() >= MOST_OPEN {
            return Err(TOO_MANY);
        }
        let mut modules = code.image().modules().iter();
        let found = modules.find(|module| module.contents().is_some() && name_of(module).as_bytes() == name);
        let contents = found.and_then(Module::contents).ok_or(NO_SUCH_FILE)?;
        self.next += 1;
        self.open.insert(self.next, contents.clone());
        Ok(format!("F{:x}", self.next).into_bytes())
    }

    fn file(&self, number: &[u8]) -> Result<&Contents, u32> {
        parse_hex(number).and_then(|number| self.open.get(&number)).ok_or(BAD_NUMBER)
    }

    fn read(&self, parts: &[&[u8]]) -> Result<Vec<u8>, u32> {
        let [number, count, offset] = parts else { return Err(WRONG) };
        let file = self.file(number)?;
        let (count, offset) = parse_hex(count).zip(parse_hex(offset)).ok_or(WRONG)?;
        // Each byte may take two in the packet.
        let count = (count as usize).min(super::packet::MOST / 2 - 32);
        let rest = usize::try_from(offset).ok().and_then(|offset| file.get(offset..)).unwrap_or_default();
        let bytes = rest.get(..count).unwrap_or(rest);
        let mut answer = format!("F{:x};", bytes.len()).into_bytes();
        answer.extend_from_slice(bytes);
        Ok(answer)
    }

    fn status(&self, parts: &[&[u8]]) -> Result<Vec<u8>, u32> {
        let [number] = parts else { return Err(WRONG) };
        let size = self.file(number)?.len() as u64;
        let mut fields = Vec::new();
        // Device, inode, mode (a regular file that may be read), links, user, group, device.
        for field in [0_u32, 0, 0o100_444, 1, 0, 0, 0] {
            fields.extend(field.to_be_bytes());
        }
        for field in [size, 4096, size.div_ceil(512)] {
            fields.extend(field.to_be_bytes());
        }
        fields.extend([0; 12]);
        let mut answer = format!("F{:x};", fields.len()).into_bytes();
        answer.extend(fields);
        Ok(answer)
    }
}
