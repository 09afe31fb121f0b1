//! Writing captures: into a folder, a ZIP archive, or memory.

use crate::folder::{Directory, FileRef, Folder, Memory};
use crate::model::{Capture, Format};
use crate::{CoreWriter, Error, package, snapshot};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufWriter, Read};
use std::path::{Path, PathBuf};
use zip::ZipWriter;
use zip::write::SimpleFileOptions;

/// ELF's numbers of architectures.
const ARM: u16 = 40;
const AARCH64: u16 = 183;
const RISCV: u16 = 243;

/// Takes the files of a capture.
pub trait Output {
    /// Takes one file.
    ///
    /// # Errors
    /// If it cannot be read or written.
    fn file(&mut self, path: &str, contents: &mut dyn Read) -> io::Result<()>;
}

/// A new directory.
#[derive(Debug)]
pub struct DirectoryOutput(PathBuf);

impl Output for DirectoryOutput {
    fn file(&mut self, path: &str, contents: &mut dyn Read) -> io::Result<()> {
        let path = self.0.join(path);
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        io::copy(contents, &mut File::create_new(path)?).map(drop)
    }
}

impl Output for Memory {
    fn file(&mut self, path: &str, contents: &mut dyn Read) -> io::Result<()> {
        let mut bytes = Vec::new();
        contents.read_to_end(&mut bytes)?;
        self.0.insert(path.to_owned(), bytes.into());
        Ok(())
    }
}

impl<W: io::Write + io::Seek> Output for ZipWriter<W> {
    fn file(&mut self, path: &str, contents: &mut dyn Read) -> io::Result<()> {
        self.start_file(path, SimpleFileOptions::default().large_file(true)).map_err(io::Error::other)?;
        io::copy(contents, self).map(drop)
    }
}

/// The file of an archive. After an error nothing more is written, and nothing more fails: an archive that is given up
/// writes its directory when it is dropped, and has no way to report that but standard error.
#[derive(Debug)]
struct UntilError {
    file: BufWriter<File>,
    failed: bool,
    /// Where the next byte goes, or would go, and where the file ends.
    position: u64,
    end: u64,
}

impl UntilError {
    fn create(path: &Path) -> io::Result<Self> {
        let file = BufWriter::new(File::create_new(path)?);
        Ok(Self { file, failed: false, position: 0, end: 0 })
    }

    /// Does the work, or after an error pretends that it was done.
    fn attempt<T>(
        &mut self,
        pretended: T,
        work: impl FnOnce(&mut BufWriter<File>) -> io::Result<T>,
    ) -> io::Result<T> {
        if self.failed {
            return Ok(pretended);
        }
        let outcome = work(&mut self.file);
        self.failed = outcome.is_err();
        outcome
    }
}

impl io::Write for UntilError {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.attempt(bytes.len(), |file| file.write(bytes))?;
        self.position += count as u64;
        self.end = self.end.max(self.position);
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.attempt((), io::Write::flush)
    }
}

impl io::Seek for UntilError {
    fn seek(&mut self, to: io::SeekFrom) -> io::Result<u64> {
        let pretended = match to {
            io::SeekFrom::Start(position) => Some(position),
            io::SeekFrom::Current(distance) => self.position.checked_add_signed(distance),
            io::SeekFrom::End(distance) => self.end.checked_add_signed(distance),
        };
        let pretended = pretended.ok_or(io::ErrorKind::InvalidInput)?;
        self.position = self.attempt(pretended, |file| file.seek(to))?;
        Ok(self.position)
    }
}

/// Packs all files of a directory into a new ZIP archive.
///
/// # Errors
/// If the archive exists, or something cannot be read or written.
pub fn pack(directory: &Path, archive: &Path) -> io::Result<()> {
    let folder = Directory::new(directory);
    let mut output = ZipWriter::new(UntilError::create(archive)?);
    for path in folder.files() {
        output.file(&path, &mut folder.open(&path)?)?;
    }
    io::Write::flush(&mut output.finish().map_err(io::Error::other)?)
}

impl Capture {
    /// Writes the capture to a new place: a core file if that is its format, a ZIP archive if the name ends in `.zip`, else a folder. Gives what the
    /// format could not hold, in words.
    ///
    /// # Errors
    /// If the place exists, or something cannot be read or written. Nothing is left of it then.
    pub fn save(&self, path: impl AsRef<Path>, format: Format) -> Result<Vec<String>, Error> {
        let path = path.as_ref();
        let name = path.display().to_string();
        let fail = |error: io::Error| Error::file(&name, format!("cannot be written: {error}"));
        let used = |exists: bool| match exists {
            true => Err(Error::file(&name, "exists").advise("name a place that does not exist yet")),
            false => Ok(()),
        };
        let given_up = |error: Error| match error.advice.is_empty() {
            true => error.advise(format!("nothing is left of {name}")),
            false => error,
        };
        if format == Format::ElfCore {
            used(path.exists())?;
            let file = UntilError::create(path).map_err(fail)?;
            return self.write_core_file(file).map_err(|error| {
                let _ = fs::remove_file(path);
                given_up(error)
            });
        }
        if path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("zip")) {
            used(path.exists())?;
            let archive = ZipWriter::new(UntilError::create(path).map_err(fail)?);
            return self.write_archive(format, archive, fail).map_err(|error| {
                // What cannot be removed stays: why nothing was written matters more.
                let _ = fs::remove_file(path);
                given_up(error)
            });
        }
        used(fs::read_dir(path).map_or(path.exists(), |mut entries| entries.next().is_some()))?;
        fs::create_dir_all(path).map_err(fail)?;
        self.write(format, &mut DirectoryOutput(path.to_owned())).map_err(|error| {
            let _ = fs::remove_dir_all(path);
            given_up(error)
        })
    }

    fn write_core_file(&self, file: UntilError) -> Result<Vec<String>, Error> {
        let fail = |error: io::Error| Error::file("core file", format!("cannot be written: {error}"));
        let mut writer = CoreWriter::new(file).map_err(fail)?;
        let lost = self.write(Format::ElfCore, &mut writer)?;
        let speaks = |words: &[&str]| {
            let mut formats = self.sources.iter().map(|source| source.format.to_ascii_uppercase());
            formats.any(|format| words.iter().any(|word| format.starts_with(word)))
        };
        let machine = match () {
            () if speaks(&["E-TRACE", "N-TRACE"]) => RISCV,
            () if speaks(&["ETM3", "PFT", "PTM"]) => ARM,
            () => AARCH64,
        };
        writer.finish(machine).map_err(fail)?;
        Ok(lost)
    }

    fn write_archive(
        &self,
        format: Format,
        mut archive: ZipWriter<UntilError>,
        fail: impl Fn(io::Error) -> Error,
    ) -> Result<Vec<String>, Error> {
        let lost = self.write(format, &mut archive)?;
        let mut file = archive.finish().map_err(io::Error::other).map_err(&fail)?;
        io::Write::flush(&mut file).map_err(&fail)?;
        Ok(lost)
    }

    /// Writes the files of the capture. Gives what the format could not hold, in words.
    ///
    /// # Errors
    /// If something cannot be read or written, or the format is [`Format::Bare`].
    pub fn write(&self, format: Format, output: &mut dyn Output) -> Result<Vec<String>, Error> {
        match format {
            Format::Snapshot => snapshot::write(self, output),
            // The files of a package are the sections of a core file.
            Format::Package | Format::ElfCore => package::write(self, output),
            Format::Bare | Format::Perf => {
                Err(Error::file(&self.name, "a bare file or perf.data is not written")
                    .advise("choose a snapshot or a package"))
            }
        }
    }
}

/// Files to write, each once, under names that do not clash.
pub(crate) struct Files<'a> {
    output: &'a mut dyn Output,
    /// What was written, by the name of its origin.
    written: BTreeMap<String, String>,
    taken: Vec<String>,
}

impl<'a> Files<'a> {
    /// `reserved` are names that the format itself uses.
    pub(crate) fn new(output: &'a mut dyn Output, reserved: &[&str]) -> Self {
        let taken = reserved.iter().map(|&name| name.to_owned()).collect();
        Self { output, written: BTreeMap::new(), taken }
    }

    /// Writes a text file under exactly that name.
    pub(crate) fn text(&mut self, path: &str, text: &str) -> Result<(), Error> {
        self.put(path, &mut text.as_bytes())
    }

    /// Writes contents under that name, or one like it.
    pub(crate) fn contents(&mut self, path: &str, contents: &mut dyn Read) -> Result<String, Error> {
        let path = self.free(path);
        self.put(&path, contents)?;
        Ok(path)
    }

    /// Copies a file, unless that was done before; gives its name in the new capture.
    pub(crate) fn copy(&mut self, file: &FileRef) -> Result<String, Error> {
        let origin = file.to_string();
        if let Some(path) = self.written.get(&origin) {
            return Ok(path.clone());
        }
        let path = self.contents(file.path(), &mut file.open()?)?;
        self.written.insert(origin, path.clone());
        Ok(path)
    }

    fn put(&mut self, path: &str, contents: &mut dyn Read) -> Result<(), Error> {
        let result = self.output.file(path, contents);
        result.map_err(|error| Error::file(path, format!("cannot be written: {error}")))
    }

    /// A name that nothing has yet. Paths that would leave the capture lose their folders.
    fn free(&mut self, path: &str) -> String {
        let plain = |path: &str| !path.contains([';', '#', ',', '"', '\'', '=', '\n', '\r']);
        let safe = crate::folder::safe_path(path).ok().filter(|path| plain(path));
        let base = path.rsplit(['/', '\\']).next().unwrap_or_default();
        let base: String = base
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '_' })
            .collect();
        let wanted =
            safe.unwrap_or_else(|| if base.trim_matches('.').is_empty() { "file".to_owned() } else { base });
        let taken = |name: &String| self.taken.iter().any(|other| other.eq_ignore_ascii_case(name));
        let names =
            std::iter::once(wanted.clone()).chain((2..).map(|number| format!("data{number}/{wanted}")));
        let name = names.into_iter().find(|name| !taken(name)).unwrap_or(wanted);
        self.taken.push(name.clone());
        name
    }
}

/// A text for an INI file: no line ends, and none of the characters that would be taken for something else.
pub(crate) fn plain(text: &str, forbidden: &[char]) -> String {
    let bad = |c: char| c.is_control() || forbidden.contains(&c);
    text.chars().map(|c| if bad(c) { '_' } else { c }).collect::<String>().trim().to_owned()
}
