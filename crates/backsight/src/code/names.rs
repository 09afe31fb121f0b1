//! The names of what was mapped for a while.
//!
//! Several files may have been at the same addresses, one after the other. For each of them there is an image with nothing
//! but this file where it was, which is made when somebody asks for a name: most never are.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use backsight_capture::events::Mapping;
use backsight_core::AddressSpace;
use backsight_image::{Image, MappingId};

use super::add_mapping;
use super::search::Located;

/// No file.
const NONE: u32 = u32::MAX;

/// The files of all mappings.
#[derive(Debug, Default)]
pub(super) struct Names {
    /// By the number of the mapping.
    numbers: Vec<u32>,
    files: Vec<NamedFile>,
    known: BTreeMap<Key, u32>,
    /// What has no name.
    none: Image,
}

/// Where in which file something was mapped, and how.
type Key = (usize, u64, u64, Option<u64>, bool);

/// A file where it was mapped.
#[derive(Debug)]
struct NamedFile {
    mapping: Mapping,
    file: Located,
    image: OnceLock<Image>,
}

impl Names {
    /// These mappings are of a file.
    pub fn add(&mut self, ids: impl Iterator<Item = MappingId>, mapping: &Mapping, file: &Located) {
        let Mapping { base, offset, size, relocated, .. } = *mapping;
        let key = (file.contents.as_ptr() as usize, base.0, offset, size, relocated);
        let files = &mut self.files;
        let number = *self.known.entry(key).or_insert_with(|| {
            let image = OnceLock::new();
            files.push(NamedFile { mapping: mapping.clone(), file: file.clone(), image });
            files.len() as u32 - 1
        });
        for id in ids {
            if self.numbers.len() <= id.index() {
                self.numbers.resize(id.index() + 1, NONE);
            }
            self.numbers[id.index()] = number;
        }
    }

    /// The image that names what a mapping is of.
    pub fn of(&self, id: MappingId) -> &Image {
        let number = self.numbers.get(id.index()).copied().unwrap_or(NONE);
        self.files.get(number as usize).map_or(&self.none, NamedFile::image)
    }
}

impl NamedFile {
    fn image(&self) -> &Image {
        self.image.get_or_init(|| {
            let mut image = Image::new();
            // What is wrong with the file was said when it was read.
            let _ = add_mapping(&mut image, &self.mapping, self.file.clone(), AddressSpace::ANY);
            image
        })
    }
}
