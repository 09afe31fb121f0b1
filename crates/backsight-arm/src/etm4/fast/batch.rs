//! Packets by the thousand, as arrays of headers and of values.
//!
//! A [`Packet`] has room for the largest of them. A trace is mostly packets that are a header alone, and most others have
//! one value; and a consumer of single packets waits at each for what kind it is. A batch holds consecutive packets as
//! arrays, to be counted or taken out when all of them are there.

use backsight_core::{Address, Located};

use super::forms::{COMPRESSED, LENGTHS, address_form};
use super::lanes::{REGION, RUN};
use crate::etm4::counted_run::NO_COUNT;
use crate::etm4::decode::ClearReader;
use crate::etm4::{
    AddressPacket, AtomRun, CountedRun, CycleCount, CycleCountFormat, Is, Kind, Packet, PacketSink,
    Timestamp, lookup,
};

/// Packets that a batch holds at most.
pub(super) const CAPACITY: usize = 1152;
/// Packets that a region may have: as many as bytes begin in it, and a run that ends after it.
pub(super) const ROOM: usize = REGION + 2 * RUN;
/// Packets of a batch, at most, that stand apart.
const LARGE_PACKETS: usize = 64;

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
    /// The count beside a timestamp.
    pub counts: [u32; CAPACITY],
    pub values_length: usize,
}

impl Arrays {
    /// The headers of the packets.
    pub fn headers(&self) -> &[u8] {
        self.headers.get(..self.length).unwrap_or_default()
    }

    /// The form of each packet that has a value.
    pub fn forms(&self) -> &[u8] {
        self.forms.get(..self.values_length).unwrap_or_default()
    }
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
    /// The cycle counts among them, and those that have a value.
    counts: [HeaderCount; 256],
    has_counts: bool,
}

/// What a header says of a cycle count.
#[derive(Clone, Copy, Debug)]
struct HeaderCount {
    /// The count, but for its value if it has one.
    count: CycleCount,
    /// It is one.
    is_count: bool,
    /// Its value is the next one.
    has_value: bool,
}

impl HeaderCount {
    const NONE: Self = Self { count: NO_COUNT, is_count: false, has_value: false };

    /// By a header, and the packet that it is where it is one alone.
    fn new(header: u8, alone: Option<Packet>) -> Self {
        match (CLASSES[usize::from(header)], alone) {
            (Class::CycleCount, _) => {
                let count = CycleCount { format: format(header), ..NO_COUNT };
                Self { count, is_count: true, has_value: true }
            }
            (Class::Alone, Some(Packet::CycleCount(count))) => {
                Self { count, is_count: true, has_value: false }
            }
            _ => Self::NONE,
        }
    }
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
            counts: [HeaderCount::NONE; 256],
            has_counts: false,
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
        self.has_counts = reader.config.cycle_counting();
        for (header, alone) in (0..=255u8).zip(reader.header_only) {
            self.header_only[usize::from(header)] = alone.unwrap_or(Packet::Ignore);
            self.counts[usize::from(header)] = HeaderCount::new(header, alone);
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

    /// There are no more packets. After the last header comes one that no run of Atom packets goes on with.
    pub(super) fn end(&mut self) {
        if let Some(after) = self.arrays.headers.get_mut(self.arrays.length) {
            *after = APART;
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
        let mut next = Next { offset: self.offset, value: 0, large: 0 };
        let Arrays { headers, values, forms, length: packets, .. } = &self.arrays;
        let mut at = 0;
        while at < *packets
            && let Some(window) = headers.get(at..).and_then(<[u8]>::first_chunk::<8>)
        {
            let header = window[0];
            // One test after the other, the commonest first, is predicted better than a jump.
            if S::TAKES_RUNS && AtomRun::begins_with(header) {
                let run = self.run(at, next.offset);
                if self.has_counts && self.is_counted(at, run.value) {
                    let run = self.counted_run(&mut at, &mut next);
                    sink.take_counted_run(&run);
                    continue;
                }
                sink.take_run(run);
                next.offset = run.end();
                at += run.length as usize;
                continue;
            }
            at += 1;
            let class = CLASSES[usize::from(header)];
            if !S::TAKES_RUNS && class == Class::Alone {
                let value = self.header_only[usize::from(header)];
                sink.take(Located { offset: next.offset, length: 1, value });
                next.offset += 1;
            } else if class == Class::Address {
                let value = values.get(next.value).copied().unwrap_or_default();
                let form = forms.get(next.value).copied().unwrap_or_default();
                let length = u32::from(LENGTHS[usize::from(form) % LENGTHS.len()]);
                let address = Located { offset: next.offset, length, value: address(value, form) };
                next.offset += u64::from(length);
                next.value += 1;
                if S::TAKES_RUNS && !self.has_counts && at < *packets && AtomRun::begins_with(window[1]) {
                    let run = self.run(at, next.offset);
                    sink.take_address_and_run(address, run);
                    next.offset = run.end();
                    at += run.length as usize;
                } else {
                    sink.take(address.map(Packet::Address));
                }
            } else {
                sink.take(self.other(header, class, &mut next));
            }
        }
    }

    /// The run of Atom packets that begins with that one, which is at this offset.
    #[inline(always)]
    fn run(&self, at: usize, offset: u64) -> Located<AtomRun> {
        let window = self.arrays.headers.get(at..).and_then(<[u8]>::first_chunk).copied().unwrap_or_default();
        let run = AtomRun::leading(u64::from_le_bytes(window));
        Located { offset, length: run.len(), value: run }
    }

    /// Does a cycle count come right after this run, which begins with that packet?
    #[inline(always)]
    fn is_counted(&self, at: usize, run: AtomRun) -> bool {
        let after = self.arrays.headers.get(at + run.len() as usize).copied().unwrap_or(APART);
        self.counts[usize::from(after)].is_count
    }

    /// The run that begins with that packet, with the cycle counts in it; goes to the packet after it.
    #[inline(always)]
    fn counted_run(&self, at: &mut usize, next: &mut Next) -> CountedRun {
        let Arrays { headers, values, forms, .. } = &self.arrays;
        let mut run = CountedRun::EMPTY;
        let mut header = headers.get(*at).copied().unwrap_or(APART);
        for number in 0..AtomRun::MOST {
            if !AtomRun::begins_with(header) {
                break;
            }
            let after = headers.get(*at + 1).copied().unwrap_or(APART);
            let HeaderCount { mut count, is_count, has_value } = self.counts[usize::from(after)];
            // Which of them have values is as good as random: one is read in any case.
            let index = next.value.min(CAPACITY - 1);
            let form = forms[index];
            let long = u32::from(LENGTHS[usize::from(form) % LENGTHS.len()]);
            count.cycles = if has_value { Some(values[index] as u32) } else { count.cycles };
            let length = if has_value { long } else { u32::from(is_count) };
            run.put(number, (header, next.offset), (length, count));
            next.offset += 1 + u64::from(length);
            next.value += usize::from(has_value);
            *at += 1 + usize::from(is_count);
            header = headers.get(*at).copied().unwrap_or(APART);
        }
        run
    }

    /// A packet of any class.
    #[inline(never)]
    fn other(&self, header: u8, class: Class, next: &mut Next) -> Located<Packet> {
        let Arrays { values, forms, counts, .. } = &self.arrays;
        // A packet that has no value may come after the last one.
        let index = next.value.min(CAPACITY - 1);
        let (value, form, count) = (values[index], forms[index], counts[index]);
        let mut packet_length = u32::from(LENGTHS[usize::from(form) % LENGTHS.len()]);
        next.value += 1;
        let packet = match class {
            Class::Alone | Class::Apart => {
                next.value -= 1;
                let mut packet = self.header_only[usize::from(header)];
                packet_length = 1;
                if class == Class::Apart {
                    (packet, packet_length) = self.large[next.large % LARGE_PACKETS];
                    next.large += 1;
                }
                packet
            }
            Class::Address => Packet::Address(address(value, form)),
            Class::SourceAddress => Packet::SourceAddress(address(value, form)),
            Class::Timestamp => {
                let has_count = Kind::Timestamp.field(header) == 1;
                let cycles = has_count.then_some(count);
                Packet::Timestamp(Timestamp { value, bytes: 1 + form % 8, cycles })
            }
            Class::CycleCount => {
                let (format, cycles) = (format(header), Some(value as u32));
                Packet::CycleCount(CycleCount { format, commit: 0, cycles })
            }
        };
        let offset = next.offset;
        next.offset += u64::from(packet_length);
        Located { offset, length: packet_length, value: packet }
    }
}

/// What the next packet of a batch needs.
struct Next {
    /// Where it begins.
    offset: u64,
    /// Index of the next value, and of the next packet that stands apart.
    value: usize,
    large: usize,
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
