//! Atom packets with cycle counts between them.
//!
//! Where cycles are counted, a trace unit sends a count after each atom that it counts to: atoms and counts take turns. The
//! way that execution takes is decided by the atoms alone, so a follower gets them side by side: the headers of
//! the Atom packets in one number, as in any [`AtomRun`], and the counts beside it.

use core::iter;

use backsight_core::Located;

use super::{AtomRun, CycleCount, CycleCountFormat, Packet};

/// Up to eight Atom packets, oldest first, each of which may have a cycle count right after it.
#[derive(Clone, Copy, Debug)]
pub struct CountedRun {
    atoms: AtomRun,
    packets: [CountedAtoms; AtomRun::MOST as usize],
}

/// An Atom packet, by where it is, and the count after it.
#[derive(Clone, Copy, Debug)]
struct CountedAtoms {
    offset: u64,
    /// Bytes of the count; 0: there is none.
    length: u32,
    count: CycleCount,
}

/// Instead of a count that is not there.
pub(super) const NO_COUNT: CycleCount = CycleCount { format: CycleCountFormat::F3, commit: 0, cycles: None };

impl CountedRun {
    /// No packets.
    pub(super) const EMPTY: Self = Self {
        atoms: AtomRun::EMPTY,
        packets: [CountedAtoms { offset: 0, length: 0, count: NO_COUNT }; AtomRun::MOST as usize],
    };

    /// Puts the Atom packet of a number there, with the count after it: one of no bytes is none.
    #[inline(always)]
    pub(super) const fn put(&mut self, number: u32, (header, offset): (u8, u64), count: (u32, CycleCount)) {
        self.atoms = self.atoms.with(number, header);
        let (length, count) = count;
        self.packets[(number % AtomRun::MOST) as usize] = CountedAtoms { offset, length, count };
    }

    /// The Atom packets.
    #[inline(always)]
    pub const fn atoms(&self) -> AtomRun {
        self.atoms
    }

    /// Where an Atom packet is.
    #[inline(always)]
    pub const fn at(&self, packet: u32) -> Located<()> {
        let offset = self.packets[(packet % AtomRun::MOST) as usize].offset;
        Located { offset, length: 1, value: () }
    }

    /// The count after an Atom packet.
    #[inline(always)]
    pub const fn count_after(&self, packet: u32) -> Option<Located<CycleCount>> {
        let CountedAtoms { offset, length, count } = self.packets[(packet % AtomRun::MOST) as usize];
        match length {
            0 => None,
            length => Some(Located { offset: offset + 1, length, value: count }),
        }
    }

    /// How many packets, counts included.
    pub fn len(&self) -> u32 {
        let counts = self.packets.iter().take(self.atoms.len() as usize).filter(|packet| packet.length > 0);
        self.atoms.len() + counts.count() as u32
    }

    /// Is there none?
    pub const fn is_empty(&self) -> bool {
        self.atoms.is_empty()
    }

    /// The packets, one by one, from an Atom packet on.
    pub fn packets_from(&self, first: u32) -> impl Iterator<Item = Located<Packet>> {
        (first..self.atoms.len()).flat_map(|packet| {
            let atoms = self.at(packet).map(|()| Packet::Atoms(self.atoms.after(packet).first_atoms()));
            let count = self.count_after(packet).map(|count| count.map(Packet::CycleCount));
            iter::once(atoms).chain(count)
        })
    }
}
