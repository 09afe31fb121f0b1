//! Files that the event log names, opened when something in them is asked for: most never are.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use backsight_capture::events::Mapping;
use backsight_core::{Address, AddressSpace};
use backsight_image::{Budget, Code as _, Contents, Elf, Image, ImageSpec};

use super::add_mapping;
use super::search::{ImageKey, Located, Search};

/// The files of a capture.
#[derive(Debug)]
pub(super) struct Files {
    search: Mutex<Search>,
    /// Files that the user names, and where functions of theirs are: files that are not linked are linked to them.
    named: Arc<[ImageSpec]>,
    functions: OnceLock<HashMap<String, u64>>,
    known: Mutex<KnownFiles>,
    /// Bounds the names and lines of all of them together.
    budget: Budget,
}

impl Files {
    pub fn new(search: Search, named: Arc<[ImageSpec]>, budget: Budget) -> Self {
        let (functions, known) = Default::default();
        Self { search: Mutex::new(search), named, functions, known, budget }
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

    /// The file of a mapping, where it was mapped.
    pub fn placed(&self, key: &ImageKey, placement: Placement) -> Arc<NamedFile> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).placed(key, placement)
    }

    /// What could not be used of names, in words.
    pub fn problems(&self) -> Vec<String> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.placed.values().flat_map(|named| named.problems()).collect()
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

/// Something that was mapped.
#[derive(Clone, Debug)]
pub(super) struct Mapped {
    /// Its first address.
    pub start: u64,
    pub bytes: MappedBytes,
}

/// There may be as many mappings as lines of a log: memory is counted by them.
const _: () = assert!(size_of::<Mapped>() <= 80);

/// Where bytes of a mapping come from.
#[derive(Clone, Debug)]
pub(super) enum MappedBytes {
    /// It is not known.
    Unknown,
    /// A file that has names: one mapping of it.
    File(MappedFile),
    /// One of several parts of such a file, from an offset on.
    Segment(Arc<NamedFile>, u64),
    /// A file of patched code, from an offset on.
    Code(Arc<LazyFile>, u64),
    /// These.
    Inline(Contents),
}

/// One mapping of a file. Most are never asked for.
#[derive(Clone, Debug)]
pub(super) struct MappedFile {
    key: ImageKey,
    size: u64,
    offset: u64,
    named: OnceLock<Arc<NamedFile>>,
}

impl MappedFile {
    pub fn new(key: ImageKey, size: u64, offset: u64) -> Self {
        Self { key, size, offset, named: OnceLock::new() }
    }
}

impl Mapped {
    /// The file that names what is there.
    pub fn named(&self, files: &Files) -> Option<&NamedFile> {
        match &self.bytes {
            MappedBytes::File(file) => Some(file.named.get_or_init(|| {
                let (base, size) = (Address(self.start), Some(file.size));
                files.placed(&file.key, Placement { base, size, offset: file.offset, relocated: false })
            })),
            MappedBytes::Segment(named, _) => Some(named),
            MappedBytes::Unknown | MappedBytes::Code(..) | MappedBytes::Inline(_) => None,
        }
    }

    /// Where in its file it begins.
    pub fn offset(&self) -> u64 {
        match self.bytes {
            MappedBytes::File(MappedFile { offset, .. })
            | MappedBytes::Segment(_, offset)
            | MappedBytes::Code(_, offset) => offset,
            MappedBytes::Unknown | MappedBytes::Inline(_) => 0,
        }
    }

    /// What is there from an address on, which is not below its first.
    pub fn bytes_at(&self, address: u64, files: &Files) -> Option<&[u8]> {
        let into = self.offset().checked_add(address.checked_sub(self.start)?)?;
        let contents = match &self.bytes {
            MappedBytes::Unknown => return None,
            MappedBytes::File(_) | MappedBytes::Segment(..) => {
                let named = self.named(files)?;
                let contents = &named.file.located(files)?.contents;
                if Elf::is_object(contents) {
                    let Placement { base, offset, .. } = named.placement;
                    let image = named.image(files);
                    return image.bytes_at(AddressSpace::ANY, base.plus(into.checked_sub(offset)?));
                }
                contents
            }
            MappedBytes::Code(file, _) => &file.located(files)?.contents,
            MappedBytes::Inline(contents) => contents,
        };
        contents.get(usize::try_from(into).ok()?..).filter(|bytes| !bytes.is_empty())
    }
}

/// Where a file was mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Placement {
    /// As [`Mapping::base`].
    pub base: Address,
    pub size: Option<u64>,
    pub offset: u64,
    pub relocated: bool,
}

impl From<&Mapping> for Placement {
    fn from(&Mapping { base, size, offset, relocated, .. }: &Mapping) -> Self {
        Self { base, size, offset, relocated }
    }
}

/// A file where it was mapped, and the image that names what is in it: nothing but this file.
#[derive(Debug)]
pub(super) struct NamedFile {
    placement: Placement,
    pub file: Arc<LazyFile>,
    image: OnceLock<Box<Image>>,
}

impl NamedFile {
    pub fn image(&self, files: &Files) -> &Image {
        self.image.get_or_init(|| {
            let mut image = files.new_image();
            if let Some(file) = self.file.located(files) {
                // What is wrong with the file is said where it is read.
                let _ = add_mapping(&mut image, self.placement, file.clone(), AddressSpace::ANY, files);
            }
            Box::new(image)
        })
    }

    /// What could not be used of its names, in words.
    fn problems(&self) -> Vec<String> {
        self.image.get().map_or_else(Vec::new, |image| image.problems())
    }
}

/// All files that were asked for up to now, each once.
#[derive(Debug, Default)]
struct KnownFiles {
    by_name: BTreeMap<ImageKey, Arc<LazyFile>>,
    /// By the address of the file, which is kept.
    placed: HashMap<(usize, Placement), Arc<NamedFile>>,
}

impl KnownFiles {
    fn placed(&mut self, key: &ImageKey, placement: Placement) -> Arc<NamedFile> {
        let new = || Arc::new(LazyFile { key: FileKey::Image(key.clone()), located: OnceLock::new() });
        let file = self.by_name.entry(key.clone()).or_insert_with(new).clone();
        let new = |file| Arc::new(NamedFile { placement, file, image: OnceLock::new() });
        self.placed.entry((Arc::as_ptr(&file) as usize, placement)).or_insert_with(|| new(file)).clone()
    }
}
