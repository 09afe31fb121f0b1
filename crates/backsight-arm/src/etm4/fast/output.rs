//! Where the engine puts packets.

use backsight_core::Located;

use super::batch::{LARGE, Packed, PacketBatch, Tag};
use super::lengths::RUN;
use crate::etm4::{AtomRun, Packet, PacketSink};

/// Takes packets. The engine's loops hand it from one to the next as a value, so that it stays in registers.
pub(super) trait PacketOutput {
    /// Does it take runs of packets at once, with [`PacketOutput::put_run`]?
    const RUNS: bool;

    /// Does it take runs of Atom packets, with [`PacketOutput::put_atoms`]?
    const ATOM_RUNS: bool;

    /// Is there room for a run?
    fn has_room(&self) -> bool;

    /// Is there room for a packet of any kind?
    fn has_room_for_any(&self) -> bool;

    /// Takes a packet with this tag.
    fn put<const TAG: Tag>(&mut self, packed: Packed);

    /// Takes the first `count` of the packets that the headers would be.
    fn put_run(&mut self, _headers: [u8; RUN], _templates: &[Packed; 256], _count: usize) {}

    /// Takes Atom packets that follow one another.
    fn put_atoms(&mut self, _run: AtomRun) {}

    /// Takes a packet of any kind.
    fn put_any(&mut self, packet: Located<Packet>);
}

/// The free slots of a batch.
pub(super) struct FreeSlots<'a> {
    packed: &'a mut [Packed],
    large: &'a mut [Packet],
    large_used: usize,
}

impl<'a> FreeSlots<'a> {
    /// All of them.
    pub fn of(batch: &'a mut PacketBatch) -> Self {
        Self { packed: &mut batch.packed, large: &mut batch.large, large_used: 0 }
    }

    /// How many slots are free, and how many large packets there are.
    pub fn taken(&self) -> (usize, usize) {
        (self.packed.len(), self.large_used)
    }
}

impl PacketOutput for FreeSlots<'_> {
    const RUNS: bool = true;
    const ATOM_RUNS: bool = false;

    #[inline(always)]
    fn has_room(&self) -> bool {
        self.packed.len() >= RUN
    }

    fn has_room_for_any(&self) -> bool {
        !self.packed.is_empty() && self.large_used < self.large.len()
    }

    #[inline(always)]
    fn put<const TAG: Tag>(&mut self, packed: Packed) {
        if let Some((slot, rest)) = core::mem::take(&mut self.packed).split_first_mut() {
            *slot = packed;
            self.packed = rest;
        }
    }

    /// Four are copied, or eight, whether they belong to the run or not: that is faster than to count.
    #[inline(always)]
    fn put_run(&mut self, headers: [u8; RUN], templates: &[Packed; 256], count: usize) {
        let packed = core::mem::take(&mut self.packed);
        if let Some(slots) = packed.first_chunk_mut::<RUN>() {
            for index in 0..RUN / 2 {
                slots[index] = templates[usize::from(headers[index])];
            }
            if count > RUN / 2 {
                for index in RUN / 2..RUN {
                    slots[index] = templates[usize::from(headers[index])];
                }
            }
            self.packed = &mut packed[count.min(RUN)..];
        }
    }

    fn put_any(&mut self, packet: Located<Packet>) {
        if let Some(slot) = self.large.get_mut(self.large_used) {
            *slot = packet.value;
            self.put::<LARGE>(Packed::large(self.large_used, packet.length));
            self.large_used += 1;
        }
    }
}

/// Gives packets one by one.
pub(super) struct OneByOne<'a, P> {
    pub sink: &'a mut P,
    pub offset: u64,
    /// How many it gave.
    pub count: usize,
    /// The packets that are a header alone.
    pub header_only: &'a [Packet; 256],
}

impl<P: PacketSink> PacketOutput for OneByOne<'_, P> {
    const RUNS: bool = false;
    const ATOM_RUNS: bool = P::TAKES_RUNS;

    #[inline(always)]
    fn has_room(&self) -> bool {
        true
    }

    fn has_room_for_any(&self) -> bool {
        true
    }

    #[inline(always)]
    fn put<const TAG: Tag>(&mut self, packed: Packed) {
        let length = packed.descriptor.length();
        self.sink.take(Located {
            offset: self.offset,
            length,
            value: packed.unpack::<TAG>(self.header_only),
        });
        self.offset += u64::from(length);
        self.count += 1;
    }

    #[inline(always)]
    fn put_atoms(&mut self, run: AtomRun) {
        let length = run.len();
        self.sink.take_run(Located { offset: self.offset, length, value: run });
        self.offset += u64::from(length);
        self.count += length as usize;
    }

    fn put_any(&mut self, packet: Located<Packet>) {
        self.sink.take(packet);
        self.offset = packet.end();
    }
}
