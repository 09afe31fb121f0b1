//! The code of the program that ran, as a capture keeps it: files that were mapped, and what was in no file.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use backsight_core::Address;
use backsight_image::Elf;

use crate::failure::{Failure, Result};

/// Name of the file with code that is in no other.
const SEEN: &str = "code/seen.bin";

/// Memory contents: a file of the capture, and the part of it that was at an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dump {
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
pub struct Code {
    folder: PathBuf,
    /// Files that were copied: where from, and their name in the capture.
    copied: BTreeMap<PathBuf, String>,
    dumps: Vec<Dump>,
    maps: Vec<Mapped>,
    seen: BTreeMap<u64, Box<[u8]>>,
    /// Addresses at which code was replaced by other code.
    changed: BTreeSet<u64>,
}

struct Mapped {
    path: PathBuf,
    address: u64,
    length: u64,
    offset: u64,
    used: bool,
}

impl Code {
    /// Collects into the folder of a capture.
    pub fn new(folder: &Path) -> Self {
        Self {
            folder: folder.to_owned(),
            copied: BTreeMap::new(),
            dumps: Vec::new(),
            maps: Vec::new(),
            seen: BTreeMap::new(),
            changed: BTreeSet::new(),
        }
    }

    /// A program that is loaded where it was linked: its segments.
    pub fn add_program(&mut self, path: &Path, contents: &[u8]) -> Result {
        let elf = Elf::parse(path, contents).map_err(Failure::new)?;
        let file = self.keep(path, contents)?;
        for segment in &elf.segments {
            let (offset, length, address) = (segment.offset, segment.length, segment.address);
            self.dumps.push(Dump { file: file.clone(), offset, length, address });
        }
        Ok(())
    }

    /// Part of a file that was at an address.
    pub fn add_dump(
        &mut self,
        path: &Path,
        contents: &[u8],
        offset: u64,
        length: u64,
        address: Address,
    ) -> Result {
        let file = self.keep(path, contents)?;
        self.dumps.push(Dump { file, offset, length, address: address.0 });
        Ok(())
    }

    /// A file was mapped.
    pub fn map(&mut self, path: &Path, address: u64, length: u64, offset: u64) {
        self.maps.push(Mapped { path: path.to_owned(), address, length, offset, used: false });
    }

    /// Something else may come to these addresses. What ran from there stays known; of the rest, what lies beside
    /// them is still there.
    pub fn unmap(&mut self, address: u64, length: u64) {
        let end = address.saturating_add(length);
        for map in std::mem::take(&mut self.maps) {
            let stop = map.address.saturating_add(map.length);
            if map.used || stop <= address || end <= map.address {
                self.maps.push(map);
                continue;
            }
            for (from, to) in [(map.address, address.min(stop)), (end.max(map.address), stop)] {
                if from < to {
                    let offset = map.offset + (from - map.address);
                    self.maps.push(Mapped {
                        address: from,
                        length: to - from,
                        offset,
                        path: map.path.clone(),
                        used: false,
                    });
                }
            }
        }
    }

    /// Code that may run from now on.
    pub fn see(&mut self, address: Address, bytes: &[u8]) {
        let end = address.0.saturating_add(bytes.len() as u64);
        let holds =
            |map: &&mut Mapped| map.address <= address.0 && end <= map.address.saturating_add(map.length);
        if let Some(map) = self.maps.iter_mut().rev().find(holds) {
            map.used = true;
        }
        match self.seen.get(&address.0) {
            Some(known) if **known == *bytes => return,
            Some(_) => drop(self.changed.insert(address.0)),
            None => {}
        }
        self.seen.insert(address.0, bytes.into());
    }

    /// Addresses at which other code came to run later. A capture keeps the last.
    pub fn changed(&self) -> usize {
        self.changed.len()
    }

    /// Copies the files that code ran from, writes down what was in none, and says where everything was.
    pub fn finish(&mut self) -> Result<Vec<Dump>> {
        let mut files = Vec::new();
        for map in std::mem::take(&mut self.maps).into_iter().filter(|map| map.used) {
            // Without the file, what was seen of it is all there is.
            let Ok(contents) = fs::read(&map.path) else { continue };
            let file = self.keep(&map.path, &contents)?;
            let length = map.length.min((contents.len() as u64).saturating_sub(map.offset));
            let dump = Dump { file, offset: map.offset, length, address: map.address };
            if !self.dumps.contains(&dump) {
                self.dumps.push(dump.clone());
            }
            files.push((dump, contents));
        }
        self.keep_unfiled(&files)?;
        Ok(std::mem::take(&mut self.dumps))
    }

    /// Writes the code that no file holds: in writable memory, made while the program ran, or given by the system.
    fn keep_unfiled(&mut self, files: &[(Dump, Vec<u8>)]) -> Result {
        let in_file = |address: u64, bytes: &[u8]| {
            files.iter().any(|(dump, contents)| {
                let Some(at) = address.checked_sub(dump.address) else { return false };
                let from = dump.offset.saturating_add(at) as usize;
                at < dump.length && contents.get(from..from + bytes.len()) == Some(bytes)
            })
        };
        let mut all = Vec::new();
        let mut stretches: Vec<Dump> = Vec::new();
        for (&address, bytes) in self.seen.iter().filter(|(address, bytes)| !in_file(**address, bytes)) {
            match stretches.last_mut() {
                // Blocks of code overlap where one is entered in its middle.
                Some(last) if (last.address..=last.address + last.length).contains(&address) => {
                    let known = (last.address + last.length - address) as usize;
                    let rest = bytes.get(known..).unwrap_or_default();
                    all.extend_from_slice(rest);
                    last.length += rest.len() as u64;
                }
                _ => {
                    let (offset, length) = (all.len() as u64, bytes.len() as u64);
                    stretches.push(Dump { file: SEEN.to_owned(), offset, length, address });
                    all.extend_from_slice(bytes);
                }
            }
        }
        if !stretches.is_empty() {
            // Decoders may read four bytes where the last instruction has two.
            all.extend([0; 4]);
            self.write(SEEN, &all)?;
            self.dumps.extend(stretches);
        }
        Ok(())
    }

    /// Writes a file into the capture, once; gives its name there.
    fn keep(&mut self, path: &Path, contents: &[u8]) -> Result<String> {
        if let Some(name) = self.copied.get(path) {
            return Ok(name.clone());
        }
        let plain = |c: char| if c.is_ascii_alphanumeric() || "._-+".contains(c) { c } else { '_' };
        let base: String =
            path.file_name().unwrap_or_default().to_string_lossy().chars().map(plain).collect();
        let taken = |name: &String| self.copied.values().any(|other| other == name) || name == SEEN;
        let names = std::iter::once(format!("code/{base}")).chain((2..).map(|n| format!("code/{n}/{base}")));
        let name = names.into_iter().find(|name| !taken(name)).unwrap_or_default();
        self.write(&name, contents)?;
        self.copied.insert(path.to_owned(), name.clone());
        Ok(name)
    }

    fn write(&self, name: &str, contents: &[u8]) -> Result {
        let path = self.folder.join(name);
        let folder = path.parent().unwrap_or(&self.folder);
        fs::create_dir_all(folder)
            .and_then(|()| fs::write(&path, contents))
            .map_err(|error| Failure::file(&path, &error))
    }

    /// The files that were copied, with their names in the capture.
    pub fn files(&self) -> impl Iterator<Item = (&Path, &str)> {
        self.copied.iter().map(|(path, name)| (path.as_path(), name.as_str()))
    }
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
    fn code_of_no_file_is_kept_in_stretches() {
        let folder = scratch("record-code");
        let mut code = Code::new(&folder);
        for (address, bytes) in [(0x1000, &[1, 2, 3, 4][..]), (0x1002, &[3, 4, 5, 6]), (0x3000, &[7, 8])] {
            code.see(Address(address), bytes);
        }
        let dumps = code.finish().expect("a folder to write to");
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
        let mut code = Code::new(&folder.join("capture"));
        code.map(&library, 0x4000, 0x1000, 2);
        code.see(Address(0x4001), &[3, 4]);
        code.see(Address(0x4003), &[9, 9]);
        let dumps = code.finish().expect("a folder to write to");
        let named = |file: &str, offset, length, address| Dump { file: file.into(), offset, length, address };
        assert_eq!(dumps, [named("code/library", 2, 6, 0x4000), named(SEEN, 0, 2, 0x4003)]);
        fs::remove_dir_all(folder).expect("a folder of this test");
    }
}
