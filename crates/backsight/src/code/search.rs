//! Where the files are that a capture names: inside it, in folders of the user and, if the user allows it, on this machine
//! (see [`AllowedFiles`]).

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use backsight_capture::{Capture, FileRef, Format};
use backsight_image::{AllowedFiles, Contents, Elf, is_same_id};

/// Longest file that is read out of an archive.
const LONGEST_ARCHIVED: u64 = 1 << 30;
/// Names of missing files that are listed.
const LISTED: usize = 6;

/// The contents of a file, and its name for messages.
#[derive(Clone, Debug)]
pub(crate) struct Located {
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
    /// Where names may lead to outside of it.
    pub allowed: AllowedFiles,
    /// Files that were read: once for all uses.
    files: BTreeMap<PathBuf, Contents>,
    /// What was found for a name and a build identifier.
    found: BTreeMap<ImageKey, Option<Box<Located>>>,
    missing: BTreeSet<Arc<str>>,
    /// Files that this machine may have, and that no build ID says anything about.
    without_id: BTreeSet<Arc<str>>,
    pub warnings: BTreeSet<String>,
}

impl Search {
    pub fn new(capture: Arc<Capture>, allowed: AllowedFiles) -> Self {
        let (files, found, missing, without_id, warnings) = Default::default();
        // Of several with one name the first counts.
        let named = capture.images.iter().rev();
        let images = named.map(|image| (image.name.clone(), image.file.clone())).collect();
        Self { capture, images, allowed, files, found, missing, without_id, warnings }
    }

    /// The file of a mapping, if it can be found in the right version.
    pub fn mapped(&mut self, key: &ImageKey) -> Option<Located> {
        if let Some(found) = self.found.get(key) {
            return found.as_deref().cloned();
        }
        let (image, build_id) = key;
        let found = self.look(image.as_deref(), build_id.as_deref());
        if found.is_none() {
            let name = image.as_ref().or(build_id.as_ref());
            self.missing.extend(name.filter(|name| is_file(name)).cloned());
        }
        self.found.insert(key.clone(), found.clone().map(Box::new));
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
        let image = image.filter(|image| is_file(image));
        let id = build_id.filter(|id| id.len() > 2 && id.bytes().all(|byte| byte.is_ascii_hexdigit()));
        self.beneath_folders(image, id).or_else(|| self.on_this_machine(image, id))
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

    /// The file in one of the folders that the user gave: by build identifier, by path, by its name alone.
    fn beneath_folders(&mut self, image: Option<&str>, id: Option<&str>) -> Option<Located> {
        let base = image.and_then(|image| Path::new(image).file_name()).map(PathBuf::from);
        let mut names = in_cache(id);
        names.extend(image.map(PathBuf::from).into_iter().chain(base));
        for folder in self.allowed.clone().folders() {
            for name in &names {
                let Ok((path, _)) = folder.find(name) else { continue };
                let contents = self.files.get(&path).cloned().or_else(|| folder.contents(name).ok());
                let Some(contents) = contents else { continue };
                if self.is_code(&path, &contents) && self.is_right(&path, &contents, id) {
                    self.files.insert(path.clone(), contents.clone());
                    return Some(Located { name: path, contents, is_outside: true });
                }
            }
        }
        None
    }

    /// The file of this machine, if the user allows it and its build identifier is the recorded one: in perf's cache, at the
    /// path itself, beside the capture.
    fn on_this_machine(&mut self, image: Option<&str>, id: Option<&str>) -> Option<Located> {
        if !self.allowed.allows_host() {
            return None;
        }
        let Some(id) = id else {
            self.without_id.extend(image.map(Arc::from));
            return None;
        };
        let cache = std::env::var_os("PERF_BUILDID_DIR").map(PathBuf::from);
        let home = || Some(PathBuf::from(std::env::var_os("HOME")?).join(".debug"));
        let mut paths: Vec<PathBuf> = cache
            .or_else(home)
            .into_iter()
            .flat_map(|cache| in_cache(Some(id)).into_iter().map(move |entry| cache.join(entry)))
            .collect();
        paths.extend(image.map(PathBuf::from));
        let beside = Path::new(&self.capture.name).parent().and_then(|folder| {
            let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
            Some(folder.canonicalize().ok()?.join(Path::new(image?).file_name()?))
        });
        paths.extend(beside);
        for path in paths {
            match self.allowed.host_image(&path, id) {
                Ok(Some(contents)) => return Some(Located { name: path, contents, is_outside: true }),
                Ok(None) => {}
                Err(why) => _ = self.warnings.insert(format!("{}: {why}", path.display())),
            }
        }
        None
    }

    /// Is it a file of code? A capture could name any file of the folders.
    fn is_code(&mut self, name: &Path, contents: &Contents) -> bool {
        let is_package =
            contents.starts_with(b"PK\x03\x04") && name.extension().is_some_and(|it| it == "apk");
        let is_code = Elf::is_elf(contents) || is_package;
        if is_code && Elf::is_debug_only(contents) {
            return false;
        }
        if !is_code {
            let what = "is no ELF file: it is not used; --image FILE@ADDRESS takes dumps of memory";
            self.warnings.insert(format!("{}: {what}", name.display()));
        }
        is_code
    }

    /// Is it the version that ran? Another one is refused and named.
    fn is_right(&mut self, name: &Path, contents: &Contents, build_id: Option<&str>) -> bool {
        let Some(expected) = build_id.filter(|id| !id.contains(':')) else { return true };
        let own = Elf::build_id_of(contents);
        match own {
            Some(own) if !is_same_id(&own, expected) => {
                let own: String = own.iter().map(|byte| format!("{byte:02x}")).collect();
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
    pub fn files_outside(&self) -> Vec<(String, Located)> {
        let mut files = Vec::new();
        for ((image, build_id), found) in &self.found {
            let Some(located) = found.as_deref().filter(|located| located.is_outside) else { continue };
            let by_id = build_id.as_ref().map(|id| format!("build-id:{id}"));
            let found_by = by_id.or_else(|| image.as_ref().map(ToString::to_string));
            files.extend(found_by.map(|found_by| (found_by, located.clone())));
        }
        files
    }

    /// What is doubtful, in words.
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = self.warnings.clone();
        let listed = |names: &BTreeSet<Arc<str>>| {
            let first: Vec<&str> = names.iter().take(LISTED).map(|name| &**name).collect();
            let more = if names.len() > LISTED { ", …" } else { "" };
            format!("{}{more} ({} in all)", first.join(", "), names.len())
        };
        if !self.missing.is_empty() {
            let is_recorded = matches!(self.capture.format, Format::Perf | Format::ElfCore);
            let host = match is_recorded && !self.allowed.allows_host() {
                true => "; --host-files allows this machine's own files, if they have the recorded build IDs",
                false => "",
            };
            warnings.insert(format!(
                "code that ran is not here: {}; --symfs FOLDER says where files of the traced system are{host}",
                listed(&self.missing)
            ));
        }
        if !self.without_id.is_empty() {
            warnings.insert(format!(
                "no build ID was recorded of {}: files of this machine are not used for them, because nothing says that \
                 they are what ran; --symfs FOLDER or --image FILE@ADDRESS gives them",
                listed(&self.without_id)
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

/// Where perf's cache has the file with a build identifier. perf pads identifiers with zeros, and so are the names there.
fn in_cache(id: Option<&str>) -> Vec<PathBuf> {
    let mut names = Vec::new();
    for id in id.iter().flat_map(|id| [(*id).to_owned(), format!("{id:0<40}")]) {
        let entry = Path::new(".build-id").join(&id[..2]).join(&id[2..]);
        names.extend([entry.join("elf"), entry.join("vdso"), entry.with_extension("debug"), entry]);
    }
    names
}
