//! Files that the event log names, opened when somebody asks for what is in them: most never are.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use backsight_capture::events::Mapping;
use backsight_core::AddressSpace;
use backsight_image::{Budget, Code as _, Contents, Elf, Image, ImageSpec};

use super::add_mapping;
use super::search::{ImageKey, Located, Search};

/// The files of a capture, for all who look for one.
#[derive(Debug)]
pub(super) struct Files {
    search: Mutex<Search>,
    /// Files that the user names, and where functions of theirs are: files that are not linked are linked to them.
    named: Arc<[ImageSpec]>,
    functions: OnceLock<HashMap<String, u64>>,
    /// Bounds the names and lines of all of them together.
    budget: Budget,
}

impl Files {
    pub fn new(search: Search, named: Arc<[ImageSpec]>, budget: Budget) -> Self {
        Self { search: Mutex::new(search), named, functions: OnceLock::new(), budget }
    }

    /// Where functions of files are that the user names. What is wrong with these files is said where they are added.
    pub fn functions(&self) -> &HashMap<String, u64> {
        self.functions.get_or_init(|| {
            let mut image = Image::within(self.budget.clone());
            let _ = image.add_all(&self.named, AddressSpace::ANY);
            image.targets(AddressSpace::ANY)
        })
    }

    pub fn search(&self) -> MutexGuard<'_, Search> {
        // What is remembered of a file is put there in one step: a panic elsewhere does no harm to it.
        self.search.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An empty image that looks for debug information where names may lead to.
    pub fn new_image(&self) -> Image {
        let mut image = Image::within(self.budget.clone());
        image.set_allowed_files(self.search().allowed.clone());
        image
    }
}

/// What leads to a file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum FileKey {
    /// The name and the build identifier of an image.
    Image(ImageKey),
    /// The path of patched code in the capture.
    Code(Arc<str>),
}

/// A file that is looked for when it is needed.
#[derive(Debug)]
pub(super) struct LazyFile {
    key: FileKey,
    located: OnceLock<Option<Located>>,
}

impl LazyFile {
    pub fn code(path: &str) -> Arc<Self> {
        Arc::new(Self { key: FileKey::Code(path.into()), located: OnceLock::new() })
    }

    /// The file, if it is there in the right version.
    pub fn located(&self, files: &Files) -> Option<&Located> {
        let locate = || match &self.key {
            FileKey::Image(key) => files.search().mapped(key),
            FileKey::Code(path) => {
                let contents = files.search().patch(path)?;
                Some(Located { name: Path::new(&**path).to_owned(), contents, is_outside: false })
            }
        };
        self.located.get_or_init(locate).as_ref()
    }
}

/// Where bytes of a mapping come from.
#[derive(Clone, Debug)]
pub(super) enum MappedBytes {
    /// Nobody knows.
    Unknown,
    /// A file that has names, from an offset on.
    Image(Arc<NamedFile>, u64),
    /// A file of patched code, from an offset on.
    Code(Arc<LazyFile>, u64),
    /// These.
    Inline(Contents),
}

impl MappedBytes {
    /// What is there from this distance on after the beginning of the mapping.
    pub fn after(&self, distance: u64, files: &Files) -> Option<&[u8]> {
        let (contents, offset) = match self {
            Self::Unknown => return None,
            Self::Image(named, offset) => {
                let contents = &named.file.located(files)?.contents;
                if Elf::is_object(contents) {
                    let into = offset.checked_add(distance)?.checked_sub(named.mapping.offset)?;
                    return named.image(files).bytes_at(AddressSpace::ANY, named.mapping.base.plus(into));
                }
                (contents, *offset)
            }
            Self::Code(file, offset) => (&file.located(files)?.contents, *offset),
            Self::Inline(contents) => (contents, 0),
        };
        contents.get(usize::try_from(offset.checked_add(distance)?).ok()?..).filter(|bytes| !bytes.is_empty())
    }
}

/// A file where it was mapped, and the image that names what is in it: nothing but this file.
#[derive(Debug)]
pub(super) struct NamedFile {
    mapping: Mapping,
    pub file: Arc<LazyFile>,
    image: OnceLock<Box<Image>>,
}

impl NamedFile {
    pub fn image(&self, files: &Files) -> &Image {
        self.image.get_or_init(|| {
            let mut image = files.new_image();
            if let Some(file) = self.file.located(files) {
                // What is wrong with the file is said where it is read.
                let _ = add_mapping(&mut image, &self.mapping, file.clone(), AddressSpace::ANY, files);
            }
            Box::new(image)
        })
    }

    /// What could not be used of its names, in words.
    pub fn problems(&self) -> Vec<String> {
        self.image.get().map_or_else(Vec::new, |image| image.problems())
    }
}

/// Which file, where in it, and where in memory.
type PlacedKey = (usize, u64, u64, Option<u64>, bool);

/// All files that the log has named up to now, each once.
#[derive(Debug, Default)]
pub(super) struct KnownFiles {
    /// By the addresses of the names, which are kept: most names of a log are in memory once.
    by_address: HashMap<(usize, usize), (ImageKey, Arc<LazyFile>)>,
    by_name: BTreeMap<ImageKey, Arc<LazyFile>>,
    placed: HashMap<PlacedKey, Arc<NamedFile>>,
}

impl KnownFiles {
    fn file(&mut self, mapping: &Mapping) -> Arc<LazyFile> {
        let address = |text: &Option<Arc<str>>| text.as_ref().map_or(0, |text| text.as_ptr() as usize);
        let addresses = (address(&mapping.image), address(&mapping.build_id));
        if let Some((_, file)) = self.by_address.get(&addresses) {
            return file.clone();
        }
        let key = (mapping.image.clone(), mapping.build_id.clone());
        let new = || Arc::new(LazyFile { key: FileKey::Image(key.clone()), located: OnceLock::new() });
        let file = self.by_name.entry(key.clone()).or_insert_with(new).clone();
        self.by_address.insert(addresses, (key, file.clone()));
        file
    }

    /// The file of a mapping, where it was mapped.
    pub fn placed(&mut self, mapping: &Mapping) -> Arc<NamedFile> {
        let file = self.file(mapping);
        let Mapping { base, offset, size, relocated, .. } = *mapping;
        let key = (Arc::as_ptr(&file) as usize, base.0, offset, size, relocated);
        let new = || {
            let image = OnceLock::new();
            Arc::new(NamedFile { mapping: mapping.clone(), file, image })
        };
        self.placed.entry(key).or_insert_with(new).clone()
    }

    /// What could not be used of names, in words.
    pub fn problems(&self) -> impl Iterator<Item = String> {
        self.placed.values().flat_map(|named| named.problems())
    }
}
