//! Packets by the thousand, as arrays of headers and of values.
//!
//! A [`Packet`] has room for the largest of them. A trace is mostly packets that are a header alone, and most others have
//! one value; and whoever takes packets one by one waits at each for what kind it is. A batch holds consecutive packets as
//! arrays, to be counted or taken out when all of them are there.

use backsight_core::{Address, Located};

use super::forms::{COMPRESSED, LENGTHS, TIMESTAMP, address_form};
use super::lanes::{REGION, RUN};
use crate::etm4::decode::ClearReader;
use crate::etm4::{
    AddressPacket, AtomRun, CycleCount, CycleCountFormat, Is, Kind, Packet, PacketSink, Timestamp, lookup,
};

/// Packets that a batch holds at most.
const CAPACITY: usize = 4096;
/// Packets that a region may have: as many as bytes begin in it, and a run that ends after it.
pub(super) const ROOM: usize = REGION + 2 * RUN;
/// Packets of a batch, at most, that stand apart.
const LARGE_PACKETS: usize = 64;

/// Above the bits of a count beside a timestamp.
pub(super) const COUNT_LENGTH: u32 = 24;

/// The header of packets that stand apart, whatever it is in the stream. No packet of this header is a header alone or has
/// a value.
pub(super) const APART: u8 = Kind::Extension.header();

/// What is to be looked up for a header in a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    /// The packet that is this header alone.
    Alone,
    /// The next value is an address, its instruction set flag in bit 0.
    Address,
    /// The next value is a source address, likewise.
    SourceAddress,
    /// The next value is a timestamp; perhaps with a count beside it.
    Timestamp,
    /// The next value is a cycle count.
    CycleCount,
    /// The next packet of those that stand apart.
    Apart,
}

/// The class of each header.
pub(super) static CLASSES: [Class; 256] = {
    let mut classes = [Class::Alone; 256];
    let mut header = 0;
    while header < 256 {
        classes[header] = match lookup(header as u8).kind {
            Kind::Extension => Class::Apart,
            Kind::Timestamp | Kind::TimestampCycles => Class::Timestamp,
            Kind::CycleCountF2 => Class::CycleCount,
            // Where no count follows, it is a header alone.
            Kind::CycleCountF1 if Kind::CycleCountF1.field(header as u8) == 0 => Class::CycleCount,
            _ if address_form(header as u8, false).is_none() => Class::Alone,
            _ if (header as u8) < Kind::SourceExact.header() => Class::Address,
            _ => Class::SourceAddress,
        };
        header += 1;
    }
    classes
};

/// Headers and values, oldest first.
#[derive(Clone, Debug)]
pub(super) struct Arrays {
    /// The header of each packet. Some bytes after the last are written to as well.
    pub headers: [u8; CAPACITY + 64],
    pub length: usize,
    /// The value of each packet that has one, and its form.
    pub values: [u64; CAPACITY],
    pub forms: [u8; CAPACITY],
    /// The count beside a timestamp, and from bit [`COUNT_LENGTH`] on the bytes that it was written in.
    pub counts: [u32; CAPACITY],
    pub values_length: usize,
}

impl Arrays {
    /// The headers of the packets.
    pub fn headers(&self) -> &[u8] {
        self.headers.get(..self.length).unwrap_or_default()
    }

    /// The form of each packet that has a value, and the length of the packet.
    pub fn forms(&self) -> impl Iterator<Item = (u8, u8)> + '_ {
        let forms = self.forms.get(..self.values_length).unwrap_or_default();
        forms.iter().zip(&self.counts).map(|(&form, &count)| (form, length(form, count)))
    }
}

/// The length of a packet of a form that has a value, with the count beside it.
#[inline(always)]
const fn length(form: u8, count: u32) -> u8 {
    let after = if form & 0x70 == TIMESTAMP { (count >> COUNT_LENGTH) as u8 } else { 0 };
    LENGTHS[form as usize % LENGTHS.len()] + after
}

/// Consecutive packets of a stream.
#[derive(Clone, Debug)]
pub struct PacketBatch {
    /// Where the first begins.
    offset: u64,
    pub(super) arrays: Arrays,
    /// Packets that stand apart, each with its length.
    large: [(Packet, u32); LARGE_PACKETS],
    large_length: usize,
    /// The packets that are a header alone, with the threshold that holds throughout the batch.
    header_only: [Packet; 256],
}

impl PacketBatch {
    pub(in crate::etm4) const fn new() -> Self {
        Self {
            offset: 0,
            arrays: Arrays {
                headers: [0; CAPACITY + 64],
                length: 0,
                values: [0; CAPACITY],
                forms: [0; CAPACITY],
                counts: [0; CAPACITY],
                values_length: 0,
            },
            large: [(Packet::Ignore, 0); LARGE_PACKETS],
            large_length: 0,
            header_only: [Packet::Ignore; 256],
        }
    }

    /// How many packets.
    pub const fn len(&self) -> usize {
        self.arrays.length
    }

    /// Is there none?
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Takes over the packets that are a header alone.
    pub(super) fn put_header_only(&mut self, reader: &ClearReader) {
        for (to, from) in self.header_only.iter_mut().zip(reader.header_only) {
            *to = from.unwrap_or(Packet::Ignore);
        }
    }

    pub(in crate::etm4) fn clear(&mut self, offset: u64) {
        (self.offset, self.arrays.length, self.arrays.values_length) = (offset, 0, 0);
        self.large_length = 0;
    }

    /// Is there room for another packet of any kind?
    pub(in crate::etm4) const fn has_room(&self) -> bool {
        self.len() < CAPACITY && self.large_length < LARGE_PACKETS
    }

    /// Is there room for so many packets, one of which may be of any kind?
    pub(super) const fn has_room_for(&self, packets: usize) -> bool {
        self.len() + packets <= CAPACITY && self.large_length < LARGE_PACKETS
    }

    /// Adds a packet of any kind, if there is room.
    pub(in crate::etm4) fn push(&mut self, packet: Located<Packet>) {
        if let (Some(header), Some(large)) =
            (self.arrays.headers.get_mut(self.arrays.length), self.large.get_mut(self.large_length))
        {
            *header = APART;
            *large = (packet.value, packet.length);
            self.arrays.length += 1;
            self.large_length += 1;
        }
    }

    /// Adds the packet that is this header alone, as the reader has it, if there is room.
    pub(super) fn push_alone(&mut self, header: u8) {
        if let Some(slot) = self.arrays.headers.get_mut(self.arrays.length) {
            *slot = header;
            self.arrays.length += 1;
        }
    }

    /// The packets that stand apart, each with its length.
    pub(super) fn large(&self) -> &[(Packet, u32)] {
        self.large.get(..self.large_length).unwrap_or_default()
    }

    /// Gives every packet.
    #[inline]
    pub fn for_each(&self, mut sink: impl FnMut(Located<Packet>)) {
        self.give_to(&mut sink);
    }

    /// Gives every packet, runs of Atom packets at once if the sink takes them so.
    #[inline]
    pub fn give_to<S: PacketSink>(&self, sink: &mut S) {
        let mut offset = self.offset;
        let Arrays { headers, values, forms, counts, length: packets, .. } = &self.arrays;
        let (mut at, mut value_at, mut large) = (0, 0, self.large().iter());
        while at < *packets
            && let Some(window) = headers.get(at..).and_then(<[u8]>::first_chunk::<8>)
        {
            let header = window[0];
            if S::TAKES_RUNS && AtomRun::begins_with(header) {
                let run = AtomRun::leading(u64::from_le_bytes(*window), (*packets - at).min(8) as u32);
                sink.take_run(Located { offset, length: run.len(), value: run });
                offset += u64::from(run.len());
                at += run.len() as usize;
                continue;
            }
            at += 1;
            let (value, form) = (values[value_at % CAPACITY], forms[value_at % CAPACITY]);
            let length_with = |count| u32::from(length(form, count));
            let mut give = |length: u32, value| {
                sink.take(Located { offset, length, value });
                offset += u64::from(length);
            };
            // A branch for each, so that each can be handed on as what it is.
            match CLASSES[usize::from(header)] {
                Class::Alone => {
                    give(1, self.header_only[usize::from(header)]);
                    continue;
                }
                Class::Apart => {
                    if let Some(&(packet, length)) = large.next() {
                        give(length, packet);
                    }
                    continue;
                }
                Class::Address => give(length_with(0), Packet::Address(address(value, form))),
                Class::SourceAddress => give(length_with(0), Packet::SourceAddress(address(value, form))),
                Class::Timestamp => {
                    let (count, bytes) = (counts[value_at % CAPACITY], form - TIMESTAMP);
                    let has_count = Kind::Timestamp.field(header) == 1;
                    let cycles = has_count.then_some(count & ((1 << COUNT_LENGTH) - 1));
                    give(length_with(count), Packet::Timestamp(Timestamp { value, bytes, cycles }));
                }
                Class::CycleCount => {
                    let (format, cycles) = (format(header), Some(value as u32));
                    give(length_with(0), Packet::CycleCount(CycleCount { format, commit: 0, cycles }));
                }
            }
            value_at += 1;
        }
    }
}

/// The format of a cycle count that has a value, by its header.
const fn format(header: u8) -> CycleCountFormat {
    match lookup(header).kind {
        Kind::CycleCountF2 => CycleCountFormat::f2(Kind::CycleCountF2.field(header)),
        _ => CycleCountFormat::F1,
    }
}

#[inline(always)]
fn address(value: u64, form: u8) -> AddressPacket {
    AddressPacket {
        address: Address(value & !1),
        is: if value & 1 == 0 { Is::Is0 } else { Is::Is1 },
        form: COMPRESSED[usize::from(form) % COMPRESSED.len()],
    }
}
