//! Snapshot folders: `snapshot.ini` names a file for each device of the target and one for the trace; a device
//! file holds registers and says where memory contents are.

mod device;
mod read;
mod write;

pub(crate) use read::read;
pub(crate) use write::write;

/// The file that makes a folder a snapshot.
pub(crate) const ENTRY: &str = "snapshot.ini";

use backsight_core::MemorySpace;

/// The words for memory spaces. The first of several words for the same is the one to write.
pub(crate) const SPACES: &[(&str, MemorySpace)] = &[
    ("EL1S", MemorySpace::EL1S),
    ("EL1N", MemorySpace::EL1N),
    ("EL1R", MemorySpace::EL1R),
    ("EL2S", MemorySpace::EL2S),
    ("EL2N", MemorySpace::EL2N),
    ("EL2", MemorySpace::EL2N),
    ("H", MemorySpace::EL2N),
    ("EL2R", MemorySpace::EL2R),
    ("EL3", MemorySpace::EL3),
    ("ROOT", MemorySpace::ROOT),
    ("S", MemorySpace::ANY_S),
    ("N", MemorySpace::ANY_N),
    ("R", MemorySpace::ANY_R),
    ("ANY", MemorySpace::ANY),
    ("P", MemorySpace::EL1N),
    ("NP", MemorySpace::EL1N),
    ("SP", MemorySpace::EL1S),
];

/// The memory spaces that a word means.
pub(crate) fn space_from_name(name: &str) -> Option<MemorySpace> {
    SPACES.iter().find(|(word, _)| word.eq_ignore_ascii_case(name)).map(|&(_, space)| space)
}

/// The word for memory spaces.
pub(crate) fn space_name(space: MemorySpace) -> Option<&'static str> {
    SPACES.iter().find(|(_, other)| *other == space).map(|&(word, _)| word)
}
