//! Debug information that is kept apart from the program.
//!
//! `objcopy --only-keep-debug` writes a file with the names and lines of a program but without its code, and `strip`
//! takes them out of the program. The two find each other by the build identifier that both have, or by a
//! `.gnu_debuglink` section in the program: the name of the other file and a checksum of it.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use object::{Object, ObjectSection};

use crate::allowed::{AllowedFiles, GivenFolder, hexadecimal};
use crate::{Contents, Elf};

/// A file with debug information, as a user gave it.
#[derive(Clone, Debug)]
pub(crate) struct DebugFile {
    pub name: PathBuf,
    pub contents: Contents,
    pub build_id: Option<Vec<u8>>,
}

impl DebugFile {
    /// Reads the file; `None` if it has nothing to offer: no symbols and no debug information.
    pub fn new(name: &Path, contents: Contents) -> Option<Self> {
        let file = object::File::parse(&*contents).ok()?;
        let debug =
            |name: &str| name == ".symtab" || name.starts_with(".debug_") || name.starts_with(".zdebug_");
        if !file.sections().any(|section| section.name().is_ok_and(debug)) {
            return None;
        }
        let build_id = file.build_id().ok().flatten().map(<[u8]>::to_vec);
        Some(Self { name: name.to_owned(), contents, build_id })
    }

    /// Is it what was taken out of this program?
    pub fn belongs_to(&self, elf: &Elf, bytes: &[u8]) -> bool {
        match (&self.build_id, &elf.build_id) {
            (Some(mine), Some(its)) => mine == its,
            _ => link_of(bytes).is_some_and(|link| {
                self.name.file_name() == Some(link.name) && crc32fast::hash(&self.contents) == link.checksum
            }),
        }
    }
}

struct Link<'a> {
    name: &'a OsStr,
    checksum: u32,
}

/// What the program says about the other file. It names a file, not a way to one.
fn link_of(bytes: &[u8]) -> Option<Link<'_>> {
    let (name, checksum) = object::File::parse(bytes).ok()?.gnu_debuglink().ok()??;
    let name = std::str::from_utf8(name).ok()?;
    let plain = !name.is_empty() && !matches!(name, "." | "..") && !name.contains(['/', '\\', '\0']);
    plain.then_some(Link { name: OsStr::new(name), checksum })
}

/// The file with the debug information of a program, among those that the user gave, then where names may lead to
/// (folders, by build identifier and by the path of the program), then beside the program.
pub(crate) fn find(
    elf: &Elf,
    contents: &Contents,
    given: &[DebugFile],
    allowed: &AllowedFiles,
) -> Option<Contents> {
    if let Some(file) = given.iter().find(|file| file.belongs_to(elf, contents)) {
        return Some(file.contents.clone());
    }
    if let Some(found) = elf.build_id.as_ref().and_then(|id| find_by_id(id, allowed)) {
        return Some(found);
    }
    let link = link_of(contents)?;
    let beside = contents.file()?.parent()?.canonicalize().ok()?;
    let folder = GivenFolder::new(&beside);
    let names = [PathBuf::from(link.name), Path::new(".debug").join(link.name)];
    let near = names.iter().map(|name| folder.contents(name));
    let apart = allowed.folders().iter().filter_map(|root| {
        let inside = beside.strip_prefix(root.real_path().ok()?).ok()?.to_owned();
        Some((root, inside.join(link.name)))
    });
    let apart = apart
        .flat_map(|(root, inside)| DEBUG_FOLDERS.map(|place| root.contents(Path::new(place).join(&inside))));
    let mut found = near.chain(apart).flatten();
    found.find(|other| other.identity() != contents.identity() && crc32fast::hash(other) == link.checksum)
}

/// Where debug information lies in the file system of a machine, and in a folder that holds nothing else.
const DEBUG_FOLDERS: [&str; 2] = ["usr/lib/debug", ""];

fn find_by_id(id: &[u8], allowed: &AllowedFiles) -> Option<Contents> {
    let hex = hexadecimal(id);
    let path = hex.split_at_checked(2).map(|(first, rest)| format!(".build-id/{first}/{rest}.debug"))?;
    let same = |contents: &Contents| {
        let file = object::File::parse(&**contents).ok();
        file.is_some_and(|file| file.build_id().ok().flatten() == Some(id))
    };
    let places = allowed.folders().iter().flat_map(|root| DEBUG_FOLDERS.map(|place| (root, place)));
    let mut beneath = places.filter_map(|(root, place)| root.contents(Path::new(place).join(&path)).ok());
    beneath.find(same).or_else(|| allowed.host_debug_file(&Path::new("/usr/lib/debug").join(&path), same))
}
