//! What the notes of a core file say of its process: its number, its threads, and the files that it had mapped.

use super::elf::Numbers;

const STATUS: u32 = 1;
const PROCESS: u32 = 3;
const FILES: u32 = 0x4649_4C45;

/// A file that was mapped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct MappedFile {
    pub start: u64,
    pub end: u64,
    /// Where in the file it begins, in bytes.
    pub offset: u64,
    pub path: String,
}

/// What notes say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Notes {
    pub pid: Option<u64>,
    pub name: Option<String>,
    /// The numbers of threads.
    pub threads: Vec<u64>,
    pub files: Vec<MappedFile>,
}

impl Notes {
    /// Takes the notes of a segment. What is cut off is left out.
    pub fn take(&mut self, numbers: Numbers, mut bytes: &[u8]) {
        while let Some((kind, name, description, rest)) = next_note(numbers, bytes) {
            if name.starts_with(b"CORE") {
                self.take_one(numbers, kind, description);
            }
            bytes = rest;
        }
    }

    fn take_one(&mut self, numbers: Numbers, kind: u32, description: &[u8]) {
        match kind {
            STATUS => {
                let tid = numbers.u32(description, if numbers.is_64 { 32 } else { 24 });
                self.threads.extend(tid.map(u64::from));
            }
            PROCESS => {
                let (pid, name) = if numbers.is_64 { (24, 40) } else { (12, 28) };
                self.pid = self.pid.or(numbers.u32(description, pid).map(u64::from));
                let name = description.get(name..).map(|name| &name[..name.len().min(16)]).map(until_zero);
                self.name = self.name.take().or(name);
            }
            FILES => self.take_files(numbers, description),
            _ => {}
        }
    }

    fn take_files(&mut self, numbers: Numbers, bytes: &[u8]) {
        let word = numbers.word_size();
        let field = |index: usize| numbers.word(bytes, index * word);
        let (Some(count), Some(page)) = (field(0), field(1)) else { return };
        // There are not more of them than have room.
        let count = usize::try_from(count).unwrap_or(usize::MAX).min(bytes.len() / (3 * word));
        let mut names = bytes.get((2 + 3 * count) * word..).unwrap_or_default().split(|byte| *byte == 0);
        for index in 0..count {
            let of_one = |part: usize| field(2 + 3 * index + part);
            let (Some(start), Some(end), Some(pages), Some(path)) =
                (of_one(0), of_one(1), of_one(2), names.next())
            else {
                return;
            };
            let path = String::from_utf8_lossy(path).into_owned();
            if start < end && !path.is_empty() {
                self.files.push(MappedFile { start, end, offset: pages.saturating_mul(page), path });
            }
        }
    }
}

fn until_zero(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes.split(|byte| *byte == 0).next().unwrap_or_default()).into_owned()
}

type Note<'a> = (u32, &'a [u8], &'a [u8], &'a [u8]);

/// Kind, name and description of a note, and what follows it.
fn next_note(numbers: Numbers, bytes: &[u8]) -> Option<Note<'_>> {
    let size = |at| usize::try_from(numbers.u32(bytes, at)?).ok();
    let padded = |size: usize| size.checked_next_multiple_of(4);
    let (name, description) = (size(0)?, size(4)?);
    let rest = bytes.get(12..)?;
    let name_bytes = rest.get(..name)?;
    let rest = rest.get(padded(name)?..)?;
    let description_bytes = rest.get(..description)?;
    // The last one may be without padding.
    let rest = rest.get(padded(description)?..).unwrap_or_default();
    Some((numbers.u32(bytes, 8)?, name_bytes, description_bytes, rest))
}
