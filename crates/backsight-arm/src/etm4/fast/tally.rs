//! Counts of packets by kind, taken from batches.

use super::batch::{
    ADDRESS, CYCLE_COUNT, Descriptor, LARGE, Packed, PacketBatch, SOURCE_ADDRESS, TIMESTAMP, Tag,
};
use crate::etm4::{Packet, lookup};

/// Packets and bytes of each kind.
#[derive(Clone, Debug)]
pub struct Tally {
    /// By tag and detail; of an address, the instruction set flag is bit 7 of the detail.
    cells: [[Sum; 256]; LARGE as usize],
    /// Packets that stand apart, by name. There are fewer names than entries.
    large: [(&'static str, Sum); 128],
}

#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    packets: u64,
    bytes: u64,
}

impl Sum {
    #[inline(always)]
    fn add(&mut self, bytes: u32) {
        self.packets += 1;
        self.bytes += u64::from(bytes);
    }
}

impl Tally {
    /// Nothing yet.
    pub const fn new() -> Self {
        let none = Sum { packets: 0, bytes: 0 };
        Self { cells: [[none; 256]; LARGE as usize], large: [("", none); 128] }
    }

    /// Counts the packets of a batch.
    pub fn add(&mut self, batch: &PacketBatch) {
        for &Packed { value, descriptor } in batch.packed.get(..batch.length).unwrap_or_default() {
            let flag = u8::from(matches!(descriptor.tag(), ADDRESS | SOURCE_ADDRESS)) & value as u8;
            if let Some(cells) = self.cells.get_mut(usize::from(descriptor.tag())) {
                cells[usize::from(descriptor.detail() | flag << 7)].add(descriptor.length());
            }
        }
        batch.for_each_large(|packet, length| self.add_packet(packet, length));
    }

    /// Counts a packet.
    pub fn add_packet(&mut self, packet: &Packet, length: u32) {
        let name = packet.name();
        if let Some((entry, sum)) = self.large.iter_mut().find(|(other, _)| [name, ""].contains(other)) {
            *entry = name;
            sum.add(length);
        }
    }

    /// Gives the name of a kind, how many packets of it there are, and how many bytes they have. A name may come several
    /// times.
    pub fn for_each(&self, mut sink: impl FnMut(&'static str, u64, u64)) {
        for (tag, cells) in self.cells.iter().enumerate() {
            for (detail, sum) in cells.iter().enumerate().filter(|(_, sum)| sum.packets > 0) {
                sink(name(tag as Tag, detail as u8), sum.packets, sum.bytes);
            }
        }
        for (name, sum) in self.large.iter().filter(|(_, sum)| sum.packets > 0) {
            sink(name, sum.packets, sum.bytes);
        }
    }
}

impl Default for Tally {
    fn default() -> Self {
        Self::new()
    }
}

/// The name of the packets of a cell.
fn name(tag: Tag, detail: u8) -> &'static str {
    let packed =
        |tag| Packed { value: u64::from(detail >> 7), descriptor: Descriptor::new(tag, 0, detail & 0x7F) };
    let nothing = &[Packet::Ignore; 256];
    match tag {
        ADDRESS => packed(tag).unpack::<ADDRESS>(nothing).name(),
        SOURCE_ADDRESS => packed(tag).unpack::<SOURCE_ADDRESS>(nothing).name(),
        TIMESTAMP => packed(tag).unpack::<TIMESTAMP>(nothing).name(),
        CYCLE_COUNT => packed(tag).unpack::<CYCLE_COUNT>(nothing).name(),
        _ => lookup(detail).name,
    }
}
