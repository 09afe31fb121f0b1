//! Where the files are that a capture names: inside it, in folders of the user, in perf's cache, on this machine.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use backsight_capture::{Capture, FileRef, Format};
use backsight_image::{Contents, Elf};

/// Longest file that is read out of an archive.
const LONGEST_ARCHIVED: u64 = 1 << 30;
/// Names of missing files that are listed.
const LISTED: usize = 6;

/// The contents of a file, and its name for messages.
#[derive(Clone, Debug)]
pub(super) struct Located {
    pub name: PathBuf,
    pub contents: Contents,
    /// It is no file of the capture.
    pub is_outside: bool,
}

/// The name and the build identifier of an image.
pub(super) type ImageKey = (Option<Arc<str>>, Option<Arc<str>>);

/// Longest file of patched code.
const LONGEST_PATCH: u64 = 1 << 28;

/// Looks for the files of a capture.
#[derive(Debug)]
pub(super) struct Search {
    capture: Arc<Capture>,
    /// Images of the capture, by name.
    images: HashMap<String, FileRef>,
    /// Folders that hold files as the traced system had them.
    roots: Arc<[PathBuf]>,
    /// Files that were read: once for all uses.
    files: BTreeMap<PathBuf, Contents>,
    /// What was found for a name and a build identifier.
    found: BTreeMap<ImageKey, Option<Located>>,
    missing: BTreeSet<String>,
    pub warnings: BTreeSet<String>,
}

impl Search {
    pub fn new(capture: Arc<Capture>, roots: Arc<[PathBuf]>) -> Self {
        let (files, found, missing, warnings) = Default::default();
        // Of several with one name the first counts.
        let named = capture.images.iter().rev();
        let images = named.map(|image| (image.name.clone(), image.file.clone())).collect();
        Self { capture, images, roots, files, found, missing, warnings }
    }

    /// The file of a mapping, if it can be found in the right version.
    pub fn mapped(&mut self, key: &ImageKey) -> Option<Located> {
        if let Some(found) = self.found.get(key) {
            return found.clone();
        }
        let (image, build_id) = key;
        let found = self.look(image.as_deref(), build_id.as_deref());
        if found.is_none() {
            let name = image.as_ref().or(build_id.as_ref());
            self.missing.extend(name.filter(|name| is_file(name)).map(ToString::to_string));
        }
        self.found.insert(key.clone(), found.clone());
        found
    }

    /// A file of patched code, by its path in the capture.
    pub fn patch(&mut self, path: &str) -> Option<Contents> {
        let file = FileRef::new(&self.capture.folder, path).ok()?;
        if file.length().is_none_or(|length| length > LONGEST_PATCH) {
            self.warnings.insert(format!("{file}: patched code that the log names is not there"));
            return None;
        }
        self.contents(&file).ok()
    }

    fn look(&mut self, image: Option<&str>, build_id: Option<&str>) -> Option<Located> {
        for file in self.inside(image, build_id) {
            let name = name_of(&file);
            if let Some(contents) =
                self.read(&file).filter(|contents| self.is_right(&name, contents, build_id))
            {
                return Some(Located { name, contents, is_outside: false });
            }
        }
        for name in self.outside(image, build_id) {
            let contents = self.files.get(&name).cloned().or_else(|| regular(&name));
            let Some(contents) = contents else { continue };
            if self.is_right(&name, &contents, build_id) {
                self.files.insert(name.clone(), contents.clone());
                return Some(Located { name, contents, is_outside: true });
            }
        }
        None
    }

    /// Files of the capture: by build identifier, by name, or where the name would lead to in the folder.
    fn inside(&self, image: Option<&str>, build_id: Option<&str>) -> Vec<FileRef> {
        let listed = |name: &str| self.images.get(name);
        let by_id = build_id.and_then(|id| listed(&format!("build-id:{id}")));
        let by_name = image.and_then(listed);
        let mut files: Vec<FileRef> = by_id.into_iter().chain(by_name).cloned().collect();
        let path =
            image.map(|image| image.trim_start_matches('/')).filter(|_| self.capture.format != Format::Perf);
        let paths = path.map(|path| [path.to_owned(), format!("images/{path}")]);
        files.extend(paths.iter().flatten().filter_map(|path| FileRef::new(&self.capture.folder, path).ok()));
        files.retain(FileRef::exists);
        files
    }

    /// Files of this machine. Only perf.data and core files mean them to be looked for beyond the folders that the user names.
    fn outside(&self, image: Option<&str>, build_id: Option<&str>) -> Vec<PathBuf> {
        let mut paths = Vec::new();
        let id = build_id.filter(|id| id.len() > 2 && id.bytes().all(|byte| byte.is_ascii_hexdigit()));
        let image = image.filter(|image| is_file(image));
        let base = image.and_then(|image| Path::new(image).file_name());
        let cached = |root: &Path, paths: &mut Vec<PathBuf>| {
            // perf pads identifiers with zeros, and so are the names in its cache.
            for id in id.iter().flat_map(|id| [(*id).to_owned(), format!("{id:0<40}")]) {
                let entry = root.join(".build-id").join(&id[..2]).join(&id[2..]);
                paths.extend([entry.join("elf"), entry.join("vdso"), entry.with_extension("debug"), entry]);
            }
        };
        for root in self.roots.iter() {
            cached(root, &mut paths);
            paths.extend(image.map(|image| root.join(image.trim_start_matches('/'))));
            paths.extend(base.map(|base| root.join(base)));
        }
        if matches!(self.capture.format, Format::Perf | Format::ElfCore) {
            let cache = std::env::var_os("PERF_BUILDID_DIR").map(PathBuf::from);
            let home = || Some(PathBuf::from(std::env::var_os("HOME")?).join(".debug"));
            if let Some(cache) = cache.or_else(home) {
                cached(&cache, &mut paths);
            }
            paths.extend(image.map(PathBuf::from).filter(|path| path.is_absolute()));
            let beside = Path::new(&self.capture.name).parent();
            paths.extend(beside.zip(base).map(|(folder, base)| folder.join(base)));
        }
        paths
    }

    /// Is it the version that ran? Another one is refused and named.
    fn is_right(&mut self, name: &Path, contents: &Contents, build_id: Option<&str>) -> bool {
        let Some(expected) = build_id.filter(|id| !id.contains(':')) else { return true };
        let own = Elf::parse(name, contents).ok().and_then(|elf| elf.build_id);
        let own = own.map(|id| id.iter().map(|byte| format!("{byte:02x}")).collect::<String>());
        let same =
            |own: &String| own.trim_end_matches('0').eq_ignore_ascii_case(expected.trim_end_matches('0'));
        match own {
            Some(own) if !same(&own) => {
                let what = format!("is another version: it has build ID {own}, and {expected} ran");
                self.warnings.insert(format!("{}: {what}: it is not used", name.display()));
                false
            }
            _ => true,
        }
    }

    /// A file of the capture: mapped where it is one of its own, else read once.
    pub fn contents(&mut self, file: &FileRef) -> crate::Result<Contents> {
        let name = name_of(file);
        if let Some(contents) = self.files.get(&name) {
            return Ok(contents.clone());
        }
        let contents = match file.location() {
            Some(path) => Contents::open(&path)?,
            None => file.read(LONGEST_ARCHIVED)?.into(),
        };
        self.files.insert(name, contents.clone());
        Ok(contents)
    }

    fn read(&mut self, file: &FileRef) -> Option<Contents> {
        match self.contents(file) {
            Ok(contents) => Some(contents),
            Err(error) => {
                self.warnings.insert(error.to_string());
                None
            }
        }
    }

    /// Files outside the capture that mappings led to: by build identifier where one is known, else by name.
    pub fn files_outside(&self) -> Vec<(String, PathBuf)> {
        let mut files = Vec::new();
        for ((image, build_id), found) in &self.found {
            let Some(Located { name, is_outside: true, .. }) = found else { continue };
            let by_id = build_id.as_ref().map(|id| format!("build-id:{id}"));
            files.extend(
                by_id
                    .or_else(|| image.as_ref().map(ToString::to_string))
                    .map(|found_by| (found_by, name.clone())),
            );
        }
        files
    }

    /// What is doubtful, in words.
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = self.warnings.clone();
        if !self.missing.is_empty() {
            let names: Vec<&str> = self.missing.iter().take(LISTED).map(String::as_str).collect();
            let more = if self.missing.len() > LISTED { ", …" } else { "" };
            warnings.insert(format!(
                "code that ran is not here: {}{more} ({} in all); --symfs FOLDER says where files of the traced system are",
                names.join(", "),
                self.missing.len()
            ));
        }
        warnings.into_iter().collect()
    }
}

/// The name of a file of the capture in messages.
pub(super) fn name_of(file: &FileRef) -> PathBuf {
    file.location().unwrap_or_else(|| PathBuf::from(file.path()))
}

/// Is it the name of a file, and not of memory without one?
fn is_file(name: &str) -> bool {
    let without = ["[", "//", "/dev/", "/memfd:", "anon_inode:"];
    !name.is_empty() && !without.iter().any(|prefix| name.starts_with(prefix))
}

fn regular(path: &Path) -> Option<Contents> {
    std::fs::metadata(path).ok().filter(std::fs::Metadata::is_file)?;
    Contents::open(path).ok()
}
