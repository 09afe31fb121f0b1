//! Atom packets that follow one another.
//!
//! Most of a trace is atoms, and each Atom packet is a header alone. A consumer that takes several of them at once gets their
//! headers in one number: the same headers are the same outcomes, however many atoms that are.

use backsight_core::Located;

use super::table::HeaderRange;
use super::{AddressPacket, Atoms, CountedRun, Kind, Packet};

/// The headers of one to eight consecutive Atom packets, oldest in the lowest byte. Bytes after the last are 0, which is
/// the header of no atoms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AtomRun(u64);

/// The headers of Atom packets.
const HEADERS: HeaderRange = HeaderRange::new(Kind::AtomF6, Kind::AtomF3);

// They are those with both of the highest bits set: a run is found with a few operations on all bytes at once.
const _: () = assert!(HEADERS.contains(0xC0) && HEADERS.contains(0xFF) && !HEADERS.contains(0xBF));

/// The atoms of each header.
static ATOMS: [Atoms; 256] = {
    let mut atoms = [Atoms::NONE; 256];
    let mut header = 0;
    while header < 256 {
        atoms[header] = Atoms::from_header(header as u8);
        header += 1;
    }
    atoms
};

impl AtomRun {
    /// Most packets of a run.
    pub const MOST: u32 = 8;
    /// No packets.
    pub(super) const EMPTY: Self = Self(0);

    /// The same with an Atom packet of this header under a number, which had none.
    #[inline(always)]
    #[must_use]
    pub(super) const fn with(self, number: u32, header: u8) -> Self {
        Self(self.0 | (header as u64) << (8 * (number % Self::MOST)))
    }

    /// The run that begins with the first of these bytes; empty if that is no Atom header.
    #[inline(always)]
    pub const fn leading(bytes: u64) -> Self {
        const LOWEST: u64 = 0x0101_0101_0101_0101;
        // The lowest bit of each byte that is none, and all bits below the first of them.
        let others = !(bytes >> 7 & bytes >> 6) & LOWEST;
        Self(bytes & !others & others.wrapping_sub(1))
    }

    /// Is this byte the header of an Atom packet?
    #[inline(always)]
    pub const fn begins_with(header: u8) -> bool {
        HEADERS.contains(header)
    }

    /// How many packets.
    #[inline(always)]
    pub const fn len(self) -> u32 {
        Self::MOST - self.0.leading_zeros() / 8
    }

    /// Is there none?
    #[inline(always)]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The headers.
    #[inline(always)]
    pub const fn headers(self) -> u64 {
        self.0
    }

    /// The atoms of the first packet; none if the run is empty.
    #[inline(always)]
    pub fn first_atoms(self) -> Atoms {
        ATOMS[self.0 as usize & 0xFF]
    }

    /// The first `count` packets.
    #[inline(always)]
    #[must_use]
    pub const fn first(self, count: u32) -> Self {
        Self(if count < Self::MOST { self.0 & ((1 << (8 * count)) - 1) } else { self.0 })
    }

    /// The packets after the first `count`.
    #[inline(always)]
    #[must_use]
    pub const fn after(self, count: u32) -> Self {
        Self(if count < Self::MOST { self.0 >> (8 * count) } else { 0 })
    }

    /// How many atoms its packets have.
    pub fn atoms(self) -> u32 {
        self.0.to_le_bytes().iter().map(|&header| u32::from(ATOMS[usize::from(header)].count)).sum()
    }
}

/// Takes the packets of a stream. Every closure that takes a packet is one.
pub trait PacketSink {
    /// Has it a way of its own for runs of Atom packets?
    const TAKES_RUNS: bool;

    /// Takes a packet.
    fn take(&mut self, packet: Located<Packet>);

    /// Takes Atom packets that follow one another, of one byte each.
    #[inline]
    fn take_run(&mut self, run: Located<AtomRun>) {
        for packet in packets_of(run) {
            self.take(packet);
        }
    }

    /// Takes an Address packet and the Atom packets that follow it.
    #[inline]
    fn take_address_and_run(&mut self, address: Located<AddressPacket>, run: Located<AtomRun>) {
        self.take(address.map(Packet::Address));
        self.take_run(run);
    }

    /// Takes Atom packets with the cycle counts between them.
    #[inline]
    fn take_counted_run(&mut self, run: &CountedRun) {
        run.packets_from(0).for_each(|packet| self.take(packet));
    }
}

impl<F: FnMut(Located<Packet>)> PacketSink for F {
    const TAKES_RUNS: bool = false;

    #[inline(always)]
    fn take(&mut self, packet: Located<Packet>) {
        self(packet);
    }
}

/// The packets of a run, one by one.
pub fn packets_of(run: Located<AtomRun>) -> impl Iterator<Item = Located<Packet>> {
    (0..run.value.len()).map(move |index| Located {
        offset: run.offset + u64::from(index),
        length: 1,
        value: Packet::Atoms(run.value.after(index).first_atoms()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_ends_at_the_first_byte_that_is_no_atom_header() {
        for header in 0..=255u8 {
            for at in 0..8 {
                let mut bytes = [0xF7; 8];
                bytes[at] = header;
                let is_atoms = Atoms::from_header(header).count > 0;
                let run = AtomRun::leading(u64::from_le_bytes(bytes));
                assert_eq!(run.len(), if is_atoms { 8 } else { at as u32 }, "{header:#x} {at}");
                assert_eq!(AtomRun::begins_with(header), is_atoms);
            }
        }
    }

    #[test]
    fn parts_of_a_run_are_runs() {
        let run = AtomRun::leading(u64::from_le_bytes([0xF7, 0xF6, 0xFB, 0xD5, 0, 0xF7, 0, 0]));
        assert_eq!((run.len(), run.atoms()), (4, 1 + 1 + 3 + 5));
        assert_eq!((run.first(2).len(), run.after(3).len(), run.after(8).is_empty()), (2, 1, true));
        assert_eq!(run.after(2).first_atoms(), Atoms::from_header(0xFB));
        assert_eq!(AtomRun::leading(!0).len(), 8);
        let at = Located { offset: 7, length: 4, value: run };
        let packets: std::vec::Vec<_> = packets_of(at).map(|packet| (packet.offset, packet.value)).collect();
        assert_eq!(packets[3], (10, Packet::Atoms(Atoms::from_header(0xD5))));
        assert_eq!(packets.len(), 4);
    }
}
