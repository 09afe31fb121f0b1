//! The code of the program that ran, as a capture keeps it: files that were mapped, and what was in no file.
//!
//! A file is copied when code of it first runs, and not at the end: on a disk that fills up, trace without code would be
//! worth nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use backsight_core::Address;
use backsight_image::Elf;

use super::CodePart;
use super::folder::make_folders;
use crate::{CodeMap, Error};

/// Name of the file with code that is in no other, when all of it is there.
const SEEN: &str = "code/seen.bin";

/// Memory contents: a file of the capture, and the part of it that was at an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CodeDump {
    /// The file.
    pub file: String,
    /// Where in it.
    pub offset: u64,
    /// How many bytes.
    pub length: u64,
    /// Where in memory.
    pub address: u64,
}

/// Collects code while a program runs.
pub struct RecordedCode {
    folder: PathBuf,
    /// Files that were wanted: where from, and their name in the capture; `None` if they were not to be had.
    copied: BTreeMap<PathBuf, Option<String>>,
    /// What was given beforehand.
    given: Vec<CodeDump>,
    maps: Vec<MappedFile>,
    seen: BTreeMap<u64, Box<[u8]>>,
    /// Addresses at which code was replaced by other code.
    changed: BTreeSet<u64>,
    /// Files that were kept for a name, and their names in the capture.
    named: Vec<(String, String)>,
    /// Numbers of the files with code that is in no other, as it was known when they were written: the first that is
    /// there, and the next.
    unfiled: Range<u32>,
    /// Files that are not sure to be on the disk.
    unsynced: Vec<PathBuf>,
}

#[derive(Clone)]
struct MappedFile {
    path: PathBuf,
    address: u64,
    length: u64,
    offset: u64,
    used: bool,
}

impl MappedFile {
    fn end(&self) -> u64 {
        self.address.saturating_add(self.length)
    }
}

impl RecordedCode {
    /// Collects into the folder of a capture.
    pub fn new(folder: &Path) -> Self {
        Self {
            folder: folder.to_owned(),
            copied: BTreeMap::new(),
            given: Vec::new(),
            maps: Vec::new(),
            seen: BTreeMap::new(),
            changed: BTreeSet::new(),
            named: Vec::new(),
            unfiled: 0..0,
            unsynced: Vec::new(),
        }
    }

    /// A program that is loaded where it was linked: its segments.
    pub fn add_program(&mut self, path: &Path, contents: &[u8]) -> Result<(), Error> {
        let elf = Elf::parse(path, contents)?;
        let file = self.keep(path, contents)?;
        for segment in &elf.segments {
            let (offset, length, address) = (segment.offset, segment.length, segment.address);
            self.given.push(CodeDump { file: file.clone(), offset, length, address });
        }
        Ok(())
    }

    /// Parts of a file that were in memory.
    pub fn add_memory(&mut self, path: &Path, contents: &[u8], parts: &[CodePart]) -> Result<(), Error> {
        let file = self.keep(path, contents)?;
        let dump = |part: &CodePart| CodeDump {
            file: file.clone(),
            offset: part.offset,
            length: part.length,
            address: part.address.0,
        };
        self.given.extend(parts.iter().map(dump));
        Ok(())
    }

    /// Memory was mapped: whatever was there is gone.
    pub fn map(&mut self, map: &CodeMap<'_>) {
        self.unmap(map.address, map.length);
        // Code in writable memory is kept as it was when it ran.
        if !map.path.as_os_str().is_empty() && !map.writable {
            let CodeMap { address, length, offset, path, .. } = *map;
            let (path, address) = (path.into(), address.0);
            self.maps.push(MappedFile { path, address, length, offset, used: false });
        }
    }

    /// Something else may come to these addresses. What ran from there stays known; of the rest, what lies beside
    /// them is still there.
    pub fn unmap(&mut self, address: Address, length: u64) {
        let Address(address) = address;
        let end = address.saturating_add(length);
        for map in std::mem::take(&mut self.maps) {
            let stop = map.end();
            if map.used || stop <= address || end <= map.address {
                self.maps.push(map);
                continue;
            }
            for (from, to) in [(map.address, address.min(stop)), (end.max(map.address), stop)] {
                if from < to {
                    let offset = map.offset + (from - map.address);
                    self.maps.push(MappedFile { address: from, length: to - from, offset, ..map.clone() });
                }
            }
        }
    }

    /// Code that may run from now on.
    pub fn see(&mut self, address: Address, bytes: &[u8]) -> Result<(), Error> {
        let end = address.0.saturating_add(bytes.len() as u64);
        let holds = |map: &&mut MappedFile| map.address <= address.0 && end <= map.end();
        let map = self.maps.iter_mut().rev().find(holds).filter(|map| !map.used);
        let first = map.map(|map| {
            map.used = true;
            map.path.clone()
        });
        match self.seen.get(&address.0) {
            Some(known) if **known == *bytes => {}
            known => {
                if known.is_some() {
                    self.changed.insert(address.0);
                }
                self.seen.insert(address.0, bytes.into());
            }
        }
        first.map_or(Ok(()), |path| self.copy(&path))
    }

    /// Addresses at which other code came to run later. A capture keeps the last.
    pub fn changed(&self) -> usize {
        self.changed.len()
    }

    /// Writes down what was in no file, and says where everything was. Until all is `complete` each call writes another
    /// file, so that the description before it stays true, and what was written is on the disk then.
    pub fn write_unfiled(&mut self, complete: bool) -> Result<Vec<CodeDump>, Error> {
        let name = if complete { SEEN.to_owned() } else { unfiled_name(self.unfiled.end) };
        self.unfiled.end += u32::from(!complete);
        let mut dumps = self.given.clone();
        let mut files = Vec::new();
        for map in self.maps.iter().filter(|map| map.used) {
            // Without the file, what was seen of it is all there is.
            let Some(Some(name)) = self.copied.get(&map.path) else { continue };
            let path = self.folder.join(name);
            let opened = File::open(&path).and_then(|file| Ok((file.metadata()?.len(), file)));
            let (size, file) = opened.map_err(|error| Error::file(&path, error))?;
            let length = map.length.min(size.saturating_sub(map.offset));
            let dump = CodeDump { file: name.clone(), offset: map.offset, length, address: map.address };
            if !dumps.contains(&dump) {
                dumps.push(dump.clone());
                files.push((dump, file));
            }
        }
        dumps.extend(self.keep_unfiled(&name, &files)?);
        if !complete {
            for path in self.unsynced.drain(..) {
                // What is not there any more need not be on the disk.
                let synced = File::open(&path).map_or(Ok(()), |file| file.sync_data());
                synced.map_err(|error| Error::file(&path, error))?;
            }
        }
        Ok(dumps)
    }

    /// A description names the file that was written last: those before it are not needed any more, and of a complete
    /// capture none of them.
    pub fn remove_outdated(&mut self, complete: bool) {
        let kept = u32::from(!complete);
        for number in self.unfiled.start..self.unfiled.end.saturating_sub(kept) {
            // Often there was no such code.
            let _ = fs::remove_file(self.folder.join(unfiled_name(number)));
            self.unfiled.start = number + 1;
        }
    }

    /// Writes the code that no file holds: in writable memory, made while the program ran, or given by the system.
    fn keep_unfiled(&mut self, name: &str, files: &[(CodeDump, File)]) -> Result<Vec<CodeDump>, Error> {
        let in_file = |address: u64, bytes: &[u8]| {
            files.iter().any(|(dump, file)| {
                let Some(at) = address.checked_sub(dump.address).filter(|at| *at < dump.length) else {
                    return false;
                };
                let mut there = vec![0; bytes.len()];
                file.read_exact_at(&mut there, dump.offset.saturating_add(at)).is_ok() && there == bytes
            })
        };
        let mut all = Vec::new();
        let mut pieces: Vec<CodeDump> = Vec::new();
        for (&address, bytes) in self.seen.iter().filter(|(address, bytes)| !in_file(**address, bytes)) {
            match pieces.last_mut() {
                // Blocks of code overlap where one is entered in its middle.
                Some(last) if (last.address..=last.address + last.length).contains(&address) => {
                    let known = (last.address + last.length - address) as usize;
                    let rest = bytes.get(known..).unwrap_or_default();
                    all.extend_from_slice(rest);
                    last.length += rest.len() as u64;
                }
                _ => {
                    let (offset, length) = (all.len() as u64, bytes.len() as u64);
                    pieces.push(CodeDump { file: name.to_owned(), offset, length, address });
                    all.extend_from_slice(bytes);
                }
            }
        }
        if !pieces.is_empty() {
            // Decoders may read four bytes where the last instruction has two.
            all.extend([0; 4]);
            self.write(name, &mut &all[..])?;
        }
        Ok(pieces)
    }

    /// Copies a file into the capture, if there is one to be copied.
    fn copy(&mut self, path: &Path) -> Result<(), Error> {
        if self.copied.contains_key(path) {
            return Ok(());
        }
        // A device or a pipe is no file of code, and may never end.
        let file = fs::metadata(path).ok().filter(fs::Metadata::is_file).and_then(|_| File::open(path).ok());
        let Some(mut file) = file else {
            self.copied.insert(path.to_owned(), None);
            return Ok(());
        };
        let name = self.free_name(path);
        let written = self.write(&name, &mut file);
        self.copied.insert(path.to_owned(), written.is_ok().then_some(name));
        written
    }

    /// Copies a file into the capture, for the name that finds it there.
    pub fn keep_file(&mut self, path: &Path, name: &str) -> Result<(), Error> {
        self.copy(path)?;
        if let Some(Some(file)) = self.copied.get(path) {
            self.named.push((name.to_owned(), file.clone()));
        }
        Ok(())
    }

    /// The files that were kept for a name.
    pub fn named(&self) -> &[(String, String)] {
        &self.named
    }

    /// Writes contents into the capture, once; gives their name there.
    fn keep(&mut self, path: &Path, mut contents: &[u8]) -> Result<String, Error> {
        if let Some(Some(name)) = self.copied.get(path) {
            return Ok(name.clone());
        }
        let name = self.free_name(path);
        self.write(&name, &mut contents)?;
        self.copied.insert(path.to_owned(), Some(name.clone()));
        Ok(name)
    }

    fn free_name(&self, path: &Path) -> String {
        let plain = |c: char| if c.is_ascii_alphanumeric() || "._-+".contains(c) { c } else { '_' };
        let base: String =
            path.file_name().unwrap_or_default().to_string_lossy().chars().map(plain).collect();
        let taken = |name: &String| {
            self.copied.values().flatten().any(|other| other == name)
                || name == SEEN
                || name.starts_with("code/seen-")
        };
        let names = std::iter::once(format!("code/{base}")).chain((2..).map(|n| format!("code/{n}/{base}")));
        names.into_iter().find(|name| !taken(name)).unwrap_or_default()
    }

    fn write(&mut self, name: &str, contents: &mut impl io::Read) -> Result<(), Error> {
        let path = self.folder.join(name);
        let written =
            make_folders(&self.folder, name).and_then(|()| io::copy(contents, &mut File::create(&path)?));
        match written {
            Ok(_) => self.unsynced.push(path),
            Err(error) => {
                let _ = fs::remove_file(&path);
                return Err(Error::file(path, error));
            }
        }
        Ok(())
    }

    /// The files that were copied, with their names in the capture.
    pub fn files(&self) -> impl Iterator<Item = (&Path, &str)> {
        self.copied.iter().filter_map(|(path, name)| Some((path.as_path(), name.as_deref()?)))
    }
}

/// Name of the file with code that is in no other, as far as it is known.
fn unfiled_name(number: u32) -> String {
    format!("code/seen-{number}.bin")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder of its own, empty.
    fn scratch(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("backsight-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).expect("a temporary folder");
        folder
    }

    #[test]
    fn code_of_no_file_is_kept_in_one_that_lies_together() {
        let folder = scratch("record-code");
        let mut code = RecordedCode::new(&folder);
        for (address, bytes) in [(0x1000, &[1, 2, 3, 4][..]), (0x1002, &[3, 4, 5, 6]), (0x3000, &[7, 8])] {
            code.see(Address(address), bytes).expect("nothing to copy");
        }
        let dumps = code.write_unfiled(true).expect("a folder to write to");
        let at: Vec<_> = dumps.iter().map(|dump| (dump.address, dump.offset, dump.length)).collect();
        assert_eq!(at, [(0x1000, 0, 6), (0x3000, 6, 2)]);
        assert_eq!(fs::read(folder.join(SEEN)).expect("written"), [1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 0, 0]);
        assert_eq!(code.changed(), 0);
        fs::remove_dir_all(folder).expect("a folder of this test");
    }

    #[test]
    fn code_that_a_file_holds_is_not_kept_twice() {
        let folder = scratch("record-files");
        let library = folder.join("library");
        fs::write(&library, [0, 1, 2, 3, 4, 5, 6, 7]).expect("a folder to write to");
        let capture = folder.join("capture");
        fs::create_dir(&capture).expect("a folder to write to");
        let mut code = RecordedCode::new(&capture);
        code.map(&mapped(&library, 0x4000));
        code.see(Address(0x4001), &[3, 4]).expect("a file to copy");
        code.see(Address(0x4003), &[9, 9]).expect("the same file");
        let dumps = code.write_unfiled(true).expect("a folder to write to");
        let named =
            |file: &str, offset, length, address| CodeDump { file: file.into(), offset, length, address };
        assert_eq!(dumps, [named("code/library", 2, 6, 0x4000), named(SEEN, 0, 2, 0x4003)]);
        fs::remove_dir_all(folder).expect("a folder of this test");
    }

    fn mapped(path: &Path, address: u64) -> CodeMap<'_> {
        let (address, program, writable) = (Address(address), false, false);
        CodeMap { address, length: 0x1000, offset: 2, path, program, writable }
    }

    #[test]
    fn a_device_that_was_mapped_is_not_copied() {
        let folder = scratch("record-devices");
        let mut code = RecordedCode::new(&folder);
        code.map(&mapped(Path::new("/dev/zero"), 0x4000));
        code.see(Address(0x4000), &[1, 2]).expect("nothing to copy");
        let dumps = code.write_unfiled(true).expect("a folder to write to");
        assert_eq!(dumps, [CodeDump { file: SEEN.into(), offset: 0, length: 2, address: 0x4000 }]);
        fs::remove_dir_all(folder).expect("a folder of this test");
    }
}
