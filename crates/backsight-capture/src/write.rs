//! Writing captures: into a folder, a ZIP archive, or memory.

use crate::folder::{Directory, FileRef, Folder, LONGEST_METADATA, Memory};
use crate::ini::{Dialect, Ini};
use crate::model::{Capture, Format};
use crate::whole::{WholeFile, WholeFolder, is_taken};
use crate::{CoreWriter, Error, package, snapshot};
use std::collections::{BTreeMap, HashSet};
use std::fmt::{self, Write as _};
use std::io::{self, BufWriter, Read};
use std::path::Path;
use zip::ZipWriter;
use zip::write::SimpleFileOptions;

/// ELF's numbers of architectures.
const ARM: u16 = 40;
const AARCH64: u16 = 183;
const RISCV: u16 = 243;

/// What is to be known of a capture that was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Note {
    /// What the format could not hold, in words.
    Lost(String),
    /// A file that was copied.
    Copied {
        /// Where it was.
        from: String,
        /// Its name in what was written.
        to: String,
        /// How long it is.
        bytes: u64,
    },
}

impl From<String> for Note {
    fn from(lost: String) -> Self {
        Self::Lost(lost)
    }
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lost(what) => f.write_str(what),
            Self::Copied { from, to, bytes } => write!(f, "{from} → {to}, {bytes} bytes"),
        }
    }
}

/// Takes the files of a capture.
pub trait Output {
    /// Takes one file.
    ///
    /// # Errors
    /// If it cannot be read or written.
    fn file(&mut self, path: &str, contents: &mut dyn Read) -> io::Result<()>;
}

impl Output for WholeFolder {
    fn file(&mut self, path: &str, contents: &mut dyn Read) -> io::Result<()> {
        let mut file = Self::file(self, path)?;
        io::copy(contents, &mut file)?;
        // A disk may turn out to be full only here.
        file.sync_all()
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
    file: BufWriter<WholeFile>,
    failed: bool,
    /// Where the next byte goes, or would go, and where the file ends.
    position: u64,
    end: u64,
}

impl UntilError {
    fn create(path: &Path) -> io::Result<Self> {
        let file = BufWriter::new(WholeFile::create(path)?);
        Ok(Self { file, failed: false, position: 0, end: 0 })
    }

    /// All is written: the file gets its name.
    fn finish(self) -> io::Result<()> {
        self.file.into_inner()?.finish()
    }

    /// Does the work, or after an error pretends that it was done.
    fn attempt<T>(
        &mut self,
        pretended: T,
        work: impl FnOnce(&mut BufWriter<WholeFile>) -> io::Result<T>,
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

/// Packs all files of a directory into a ZIP archive.
///
/// # Errors
/// If something cannot be read or written.
pub fn pack(directory: &Path, archive: &Path) -> io::Result<()> {
    let folder = Directory::new(directory);
    let mut output = ZipWriter::new(UntilError::create(archive)?);
    for path in folder.files() {
        output.file(&path, &mut folder.open(&path)?)?;
    }
    output.finish().map_err(io::Error::other)?.finish()
}

impl Capture {
    /// Writes the capture to a new place: a core file if that is its format, a ZIP archive if the name ends in `.zip`, else a
    /// folder. Gives what the format could not hold, and what was copied.
    ///
    /// # Errors
    /// If the place exists, or something cannot be read or written. Nothing is left of it then.
    pub fn save(&self, path: impl AsRef<Path>, format: Format) -> Result<Vec<Note>, Error> {
        let path = path.as_ref();
        match is_taken(path) {
            true => Err(Error::file(path.display().to_string(), "exists")
                .advise("name a place that does not exist yet")),
            false => self.put(path, format),
        }
    }

    /// The same, also to the place of another capture, which is replaced as a whole.
    ///
    /// # Errors
    /// If something else is there, or something cannot be read or written. What was there stays then.
    pub fn replace(&self, path: impl AsRef<Path>, format: Format) -> Result<Vec<Note>, Error> {
        let path = path.as_ref();
        match is_taken(path) && Self::open(path).is_err() {
            true => {
                let what = "exists, and is no capture that could be replaced";
                Err(Error::file(path.display().to_string(), what).advise("choose another name"))
            }
            false => self.put(path, format),
        }
    }

    fn put(&self, path: &Path, format: Format) -> Result<Vec<Note>, Error> {
        let name = path.display().to_string();
        let fail = |error: io::Error| Error::file(&name, format!("cannot be written: {error}"));
        let given_up = |error: Error| match error.advice.is_empty() {
            true => error.advise(format!("nothing was written to {name}")),
            false => error,
        };
        let is_archive = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("zip"));
        if format == Format::ElfCore || is_archive {
            if path.is_dir() {
                return Err(Error::file(&name, "is a folder").advise("choose another name"));
            }
            let file = UntilError::create(path).map_err(fail)?;
            return match format {
                Format::ElfCore => self.write_core_file(file, fail),
                _ => self.write_archive(format, ZipWriter::new(file), fail),
            }
            .map_err(given_up);
        }
        let mut folder = WholeFolder::create(path, true).map_err(fail)?;
        let lost = self.write(format, &mut folder).map_err(given_up)?;
        folder.finish().map_err(fail)?;
        Ok(lost)
    }

    fn write_core_file(
        &self,
        file: UntilError,
        fail: impl Fn(io::Error) -> Error,
    ) -> Result<Vec<Note>, Error> {
        let mut writer = CoreWriter::new(file).map_err(&fail)?;
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
        writer.finish(machine).and_then(UntilError::finish).map_err(&fail)?;
        Ok(lost)
    }

    fn write_archive(
        &self,
        format: Format,
        mut archive: ZipWriter<UntilError>,
        fail: impl Fn(io::Error) -> Error,
    ) -> Result<Vec<Note>, Error> {
        let lost = self.write(format, &mut archive)?;
        archive.finish().map_err(io::Error::other).and_then(UntilError::finish).map_err(&fail)?;
        Ok(lost)
    }

    /// Writes the files of the capture. Gives what the format could not hold, and what was copied.
    ///
    /// # Errors
    /// If something cannot be read or written, or the format is [`Format::Bare`].
    pub fn write(&self, format: Format, output: &mut dyn Output) -> Result<Vec<Note>, Error> {
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
    /// Names of files, and of folders, in small letters: not every system tells them apart.
    taken: HashSet<String>,
    folders: HashSet<String>,
    /// What was copied.
    pub(crate) copies: Vec<Note>,
}

impl<'a> Files<'a> {
    /// `reserved` are names that the format itself uses.
    pub(crate) fn new(output: &'a mut dyn Output, reserved: &[&str]) -> Self {
        let taken = reserved.iter().map(|name| name.to_ascii_lowercase()).collect();
        Self { output, written: BTreeMap::new(), taken, folders: HashSet::new(), copies: Vec::new() }
    }

    /// Writes a text file under exactly that name.
    pub(crate) fn text(&mut self, path: &str, text: &str) -> Result<(), Error> {
        if text.len() as u64 > LONGEST_METADATA {
            let what = format!("would have {} bytes, and readers take {LONGEST_METADATA}", text.len());
            return Err(Error::file(path, what).advise("choose fewer buffers with --buffer"));
        }
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
        let mut counted = Counted { reader: file.open()?, bytes: 0 };
        let path = self.contents(file.path(), &mut counted)?;
        self.copies.push(Note::Copied { from: origin.clone(), to: path.clone(), bytes: counted.bytes });
        self.written.insert(origin, path.clone());
        Ok(path)
    }

    /// Writes contents under exactly that name.
    pub(crate) fn put(&mut self, path: &str, contents: &mut dyn Read) -> Result<(), Error> {
        let result = self.output.file(path, contents);
        result.map_err(|error| Error::file(path, format!("cannot be written: {error}")))
    }

    /// A name that nothing has yet. Paths that would leave the capture, or that not every system could hold, lose their
    /// folders.
    fn free(&mut self, path: &str) -> String {
        let safe = crate::folder::safe_path(path).ok().filter(|path| is_plain_path(path));
        let base = path.rsplit(['/', '\\']).next().unwrap_or_default();
        let base: String = base
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '_' })
            .take(LONGEST_PART)
            .collect();
        let wanted =
            safe.unwrap_or_else(|| if base.trim_matches('.').is_empty() { "file".to_owned() } else { base });
        let names =
            std::iter::once(wanted.clone()).chain((2..).map(|number| format!("data{number}/{wanted}")));
        let name = names.into_iter().find(|name| !self.is_taken(name)).unwrap_or(wanted);
        self.take(&name);
        name
    }

    /// Is the name that of a file or a folder, or would one of its folders be a file?
    fn is_taken(&self, name: &str) -> bool {
        let name = name.to_ascii_lowercase();
        let mut folders = name.match_indices('/').map(|(end, _)| &name[..end]);
        self.taken.contains(&name)
            || self.folders.contains(&name)
            || folders.any(|folder| self.taken.contains(folder))
    }

    fn take(&mut self, name: &str) {
        let name = name.to_ascii_lowercase();
        self.folders.extend(name.match_indices('/').map(|(end, _)| name[..end].to_owned()));
        self.taken.insert(name);
    }
}

/// Most characters of the name of a file or a folder, and of a path.
const LONGEST_PART: usize = 100;
const LONGEST_PATH: usize = 1000;

/// Can a path stand in the metadata of all formats, and be a file on all systems and in archives?
fn is_plain_path(path: &str) -> bool {
    let is_plain = |c: char| !c.is_control() && !";#,\"'=\\".contains(c);
    let parts_fit = path.split('/').all(|part| part.len() <= LONGEST_PART && part.trim() == part);
    let is_kept = !path.to_ascii_lowercase().starts_with("__macosx");
    path.chars().all(is_plain) && parts_fit && is_kept && path.len() <= LONGEST_PATH
}

/// One section of an INI file while it is written: every key once, and every line such that it is read as it was meant.
pub(crate) struct SectionLines {
    dialect: Dialect,
    separator: &'static str,
    /// Keys that are used, as [`plain_key`] gives them.
    taken: HashSet<String>,
    pub text: String,
}

impl SectionLines {
    /// `reserved` are keys that only the writer itself uses.
    pub(crate) fn new(dialect: Dialect, separator: &'static str, reserved: &[&str]) -> Self {
        let taken = reserved.iter().map(|&key| key.to_owned()).collect();
        Self { dialect, separator, taken, text: String::new() }
    }

    /// Adds a line under a key that the writer itself uses.
    pub(crate) fn own(&mut self, key: &str, value: &str) {
        let forbidden: &[char] = if self.dialect == Dialect::Snapshot { &[';', '#'] } else { &[] };
        let _ = writeln!(self.text, "{key}{}{}", self.separator, plain(value, forbidden));
    }

    /// Adds a line. What would be taken for something else is replaced; false if the key cannot be written, or is there.
    pub(crate) fn add(&mut self, key: &str, value: &str) -> bool {
        let (in_key, in_value): (&[char], &[char]) = match self.dialect {
            Dialect::Snapshot => (&['=', ';', '#'], &[';', '#']),
            Dialect::Package => (&['=', ':'], &[]),
        };
        let (key, value) = (plain(key, in_key), plain(value, in_value));
        let can = self.can_hold(&key, &value);
        if can {
            self.taken.insert(plain_key(&key));
            let _ = writeln!(self.text, "{key}{}{value}", self.separator);
        }
        can
    }

    /// Would such a line be read as it is meant?
    pub(crate) fn can_hold(&self, key: &str, value: &str) -> bool {
        let text = format!("[section]\n{key}{}{value}\n", self.separator);
        let is_same = |ini: Ini| match ini.sections.as_slice() {
            [section] => match section.entries.as_slice() {
                [entry] => entry.key == key && entry.value == value,
                _ => false,
            },
            _ => false,
        };
        let is_new = !key.is_empty() && !self.taken.contains(&plain_key(key));
        is_new && Ini::parse("", &text, self.dialect).is_ok_and(is_same)
    }
}

/// The same for all spellings of a key that a reader may take for one: without regard to case, and without what stands in
/// brackets after the name of a register.
fn plain_key(key: &str) -> String {
    key.split('(').next().unwrap_or_default().trim().to_ascii_lowercase()
}

/// Counts what is read.
struct Counted<R> {
    reader: R,
    bytes: u64,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.reader.read(buffer)?;
        self.bytes += count as u64;
        Ok(count)
    }
}

/// A text for an INI file: no line ends, and none of the characters that would be taken for something else.
pub(crate) fn plain(text: &str, forbidden: &[char]) -> String {
    let bad = |c: char| c.is_control() || forbidden.contains(&c);
    text.chars().map(|c| if bad(c) { '_' } else { c }).collect::<String>().trim().to_owned()
}
