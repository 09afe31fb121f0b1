//! Writing a core file: 64-bit, little-endian.

use std::io::{self, Read, Seek, SeekFrom, Write};

use super::{LOAD, NOTE, PREFIX};
use crate::write::Output;

const HEADER: u64 = 64;
const SEGMENT: u16 = 56;
const SECTION: u16 = 64;
const CORE: u16 = 4;

struct Written {
    position: u64,
    length: u64,
}

/// Writes an ELF core file: the files of a trace package become its sections.
pub struct CoreWriter<W> {
    file: W,
    /// How many bytes were written.
    end: u64,
    sections: Vec<(String, Written)>,
    /// Address, whether it can be executed, and contents.
    segments: Vec<(u64, bool, Written)>,
    notes: Vec<u8>,
}

impl<W: Write + Seek> CoreWriter<W> {
    /// Begins a file.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn new(mut file: W) -> io::Result<Self> {
        // The header follows when all is known that it says.
        file.write_all(&[0; HEADER as usize])?;
        Ok(Self { file, end: HEADER, sections: Vec::new(), segments: Vec::new(), notes: Vec::new() })
    }

    fn put(&mut self, contents: &mut dyn Read) -> io::Result<Written> {
        let padding = self.end.next_multiple_of(16) - self.end;
        self.file.write_all(&[0; 16][..padding as usize])?;
        let position = self.end + padding;
        let length = io::copy(contents, &mut self.file)?;
        self.end = position + length;
        Ok(Written { position, length })
    }

    /// Memory of the process.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn memory(&mut self, address: u64, is_executable: bool, mut contents: &[u8]) -> io::Result<()> {
        let written = self.put(&mut contents)?;
        self.segments.push((address, is_executable, written));
        Ok(())
    }

    /// A note of Linux (`CORE`) of this kind.
    pub fn note(&mut self, kind: u32, description: &[u8]) {
        self.notes.extend(5_u32.to_le_bytes());
        self.notes.extend((description.len() as u32).to_le_bytes());
        self.notes.extend(kind.to_le_bytes());
        self.notes.extend(b"CORE\0\0\0\0");
        self.notes.extend(description);
        self.notes.resize(self.notes.len().next_multiple_of(4), 0);
    }

    /// Writes the headers. `machine` is ELF's number of the architecture.
    ///
    /// # Errors
    /// If they cannot be written, or there are more than the headers have room for.
    pub fn finish(mut self, machine: u16) -> io::Result<W> {
        let notes = std::mem::take(&mut self.notes);
        let notes = self.put(&mut &notes[..])?;
        let (mut names, mut sections) = (vec![0], vec![0; SECTION.into()]);
        for (name, written) in std::mem::take(&mut self.sections) {
            sections.extend(section(names.len(), 1, &written));
            names.extend(PREFIX.bytes().chain(name.bytes()).chain([0]));
        }
        let name_of_names = names.len();
        names.extend(b".shstrtab\0");
        let names = self.put(&mut &names[..])?;
        sections.extend(section(name_of_names, 3, &names));
        let mut segments = segment(NOTE, 4, 0, &notes);
        for (address, is_executable, written) in &self.segments {
            segments.extend(segment(LOAD, 4 | u32::from(*is_executable), *address, written));
        }
        let (segments, sections) = (self.put(&mut &segments[..])?, self.put(&mut &sections[..])?);
        let header = header(machine, &segments, &sections).ok_or(io::ErrorKind::InvalidInput)?;
        self.file.seek(SeekFrom::Start(0))?;
        self.file.write_all(&header)?;
        self.file.flush()?;
        Ok(self.file)
    }
}

impl<W: Write + Seek> Output for CoreWriter<W> {
    fn file(&mut self, path: &str, contents: &mut dyn Read) -> io::Result<()> {
        let written = self.put(contents)?;
        self.sections.push((path.to_owned(), written));
        Ok(())
    }
}

fn section(name: usize, kind: u32, written: &Written) -> Vec<u8> {
    let mut bytes = (name as u32).to_le_bytes().to_vec();
    bytes.extend(kind.to_le_bytes());
    for word in [0, 0, written.position, written.length, 0, 1, 0] {
        bytes.extend(u64::to_le_bytes(word));
    }
    bytes
}

fn segment(kind: u32, flags: u32, address: u64, written: &Written) -> Vec<u8> {
    let mut bytes = kind.to_le_bytes().to_vec();
    bytes.extend(flags.to_le_bytes());
    for word in [written.position, address, 0, written.length, written.length, 1] {
        bytes.extend(u64::to_le_bytes(word));
    }
    bytes
}

/// The header; `None` if there are too many of something.
fn header(machine: u16, segments: &Written, sections: &Written) -> Option<Vec<u8>> {
    let count = |written: &Written, size: u16| u16::try_from(written.length / u64::from(size)).ok();
    let (segment_count, section_count) = (count(segments, SEGMENT)?, count(sections, SECTION)?);
    let mut bytes = b"\x7FELF\x02\x01\x01".to_vec();
    bytes.resize(16, 0);
    bytes.extend([CORE.to_le_bytes(), machine.to_le_bytes()].concat());
    bytes.extend(1_u32.to_le_bytes());
    for word in [0, segments.position, sections.position] {
        bytes.extend(u64::to_le_bytes(word));
    }
    bytes.extend(0_u32.to_le_bytes());
    let names = section_count.checked_sub(1)?;
    for half in [HEADER as u16, SEGMENT, segment_count, SECTION, section_count, names] {
        bytes.extend(half.to_le_bytes());
    }
    Some(bytes)
}
