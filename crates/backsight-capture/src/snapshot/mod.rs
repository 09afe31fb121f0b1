//! Snapshot folders: `snapshot.ini` names a file for each device of the target and one for the trace; a device
//! file holds registers and says where memory contents are.

mod device;
mod read;
mod write;

pub(crate) use read::read;
pub(crate) use write::write;

/// The file that makes a folder a snapshot.
pub(crate) const ENTRY: &str = "snapshot.ini";

use backsight_core::AddressSpace;

/// The words for memory spaces. The first of several words for the same is the one to write.
pub(crate) const SPACES: &[(&str, AddressSpace)] = &[
    ("EL1S", AddressSpace::EL1S),
    ("EL1N", AddressSpace::EL1N),
    ("EL1R", AddressSpace::EL1R),
    ("EL2S", AddressSpace::EL2S),
    ("EL2N", AddressSpace::EL2N),
    ("EL2", AddressSpace::EL2N),
    ("H", AddressSpace::EL2N),
    ("EL2R", AddressSpace::EL2R),
    ("EL3", AddressSpace::EL3),
    ("ROOT", AddressSpace::ROOT),
    ("S", AddressSpace::ANY_S),
    ("N", AddressSpace::ANY_N),
    ("R", AddressSpace::ANY_R),
    ("ANY", AddressSpace::ANY),
    ("P", AddressSpace::EL1N),
    ("NP", AddressSpace::EL1N),
    ("SP", AddressSpace::EL1S),
];

/// The memory spaces that a word means.
pub(crate) fn space_from_name(name: &str) -> Option<AddressSpace> {
    SPACES.iter().find(|(word, _)| word.eq_ignore_ascii_case(name)).map(|&(_, space)| space)
}

/// The word for memory spaces.
pub(crate) fn space_name(space: AddressSpace) -> Option<&'static str> {
    SPACES.iter().find(|(_, other)| *other == space).map(|&(word, _)| word)
}
