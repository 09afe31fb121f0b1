//! Packets by the thousand, in sixteen bytes each.
//!
//! A [`Packet`] has room for the largest of them. A trace is mostly atoms and addresses, which need far less; and
//! whoever takes packets one by one waits at each for what kind it is. A batch holds consecutive packets packed
//! close, to be counted or taken out when all of them are there.

use backsight_core::{Address, Located};

use crate::etm4::{AddressForm, AddressPacket, CycleCount, CycleCountFormat, Is, Packet, Timestamp};

/// Packets that a batch holds at most.
pub(super) const CAPACITY: usize = 1024;
/// Packets of a batch, at most, that are too large to be packed.
const LARGE_PACKETS: usize = 64;

/// What a [`Packed`] is.
pub(super) type Tag = u8;

/// A packet that is a header alone; the detail is the header.
pub(super) const HEADER_ONLY: Tag = 0;
/// An address, its instruction set flag in bit 0; the detail is the index of its form in [`FORMS`].
pub(super) const ADDRESS: Tag = 1;
/// A source address, likewise.
pub(super) const SOURCE_ADDRESS: Tag = 2;
/// A timestamp; the detail is its number of bytes. Perhaps with a count beside it.
pub(super) const TIMESTAMP: Tag = 3;
/// A cycle count; the detail is its format in [`FORMATS`], the value the number of elements to commit.
pub(super) const CYCLE_COUNT: Tag = 4;
/// A packet that stands apart, at index `value`. The count is its length.
pub(super) const LARGE: Tag = 5;

/// A packet in sixteen bytes: a value, and what that is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Packed {
    pub value: u64,
    pub descriptor: Descriptor,
}

const _: () = assert!(size_of::<Packed>() == 16);

impl Packed {
    /// A packet that stands apart.
    pub const fn large(index: usize, length: u32) -> Self {
        Self { value: index as u64, descriptor: Descriptor::new(LARGE, 0, 0).with_count(length) }
    }

    /// The packet, which has this tag. `header_only`: the packets that are a header alone.
    #[inline(always)]
    pub fn unpack<const TAG: Tag>(self, header_only: &[Packet; 256]) -> Packet {
        let Self { value, descriptor } = self;
        match TAG {
            ADDRESS => Packet::Address(address(value, descriptor)),
            SOURCE_ADDRESS => Packet::SourceAddress(address(value, descriptor)),
            TIMESTAMP => {
                Packet::Timestamp(Timestamp { value, bytes: descriptor.detail(), cycles: descriptor.count() })
            }
            CYCLE_COUNT => Packet::CycleCount(CycleCount {
                format: FORMATS[usize::from(descriptor.detail() & 3)],
                commit: value as u32,
                cycles: descriptor.count(),
            }),
            _ => header_only[usize::from(descriptor.detail())],
        }
    }
}

/// What a value is, in one number, so that the parts can be put together from tables with a few operations:
///
/// ```text
/// bits  0 to 31   count
///      32 to 39   tag
///      40 to 47   length of the packet in bytes
///      48 to 55   detail
///      56         there is a count
/// ```
#[derive(Clone, Copy, Debug)]
pub(super) struct Descriptor(pub u64);

impl Descriptor {
    const TAG: u32 = 32;
    pub const LENGTH: u32 = 40;
    pub const DETAIL: u32 = 48;
    pub const COUNTS: u32 = 56;

    pub const fn new(tag: Tag, length: u8, detail: u8) -> Self {
        Self((tag as u64) << Self::TAG | (length as u64) << Self::LENGTH | (detail as u64) << Self::DETAIL)
    }

    pub const fn with_count(self, count: u32) -> Self {
        Self(self.0 | 1 << Self::COUNTS | count as u64)
    }

    #[inline(always)]
    pub const fn tag(self) -> Tag {
        (self.0 >> Self::TAG) as u8
    }

    #[inline(always)]
    pub const fn length(self) -> u32 {
        (self.0 >> Self::LENGTH) as u8 as u32
    }

    #[inline(always)]
    pub const fn detail(self) -> u8 {
        (self.0 >> Self::DETAIL) as u8
    }

    #[inline(always)]
    fn count(self) -> Option<u32> {
        (self.0 >> Self::COUNTS & 1 != 0).then_some(self.0 as u32)
    }
}

/// The forms of addresses by their index.
const FORMS: [AddressForm; 8] = {
    let mut forms = [AddressForm::Long64; 8];
    forms[0] = AddressForm::Exact(0);
    forms[1] = AddressForm::Exact(1);
    forms[2] = AddressForm::Exact(2);
    forms[3] = AddressForm::Short1;
    forms[4] = AddressForm::Short2;
    forms[5] = AddressForm::Long32;
    forms
};

/// The index of a form in [`FORMS`].
pub(super) const fn form_index(form: AddressForm) -> u8 {
    match form {
        AddressForm::Exact(index) => index,
        AddressForm::Short1 => 3,
        AddressForm::Short2 => 4,
        AddressForm::Long32 => 5,
        AddressForm::Long64 => 6,
    }
}

/// The formats of cycle counts by their index, which is their number as a `u8`.
const FORMATS: [CycleCountFormat; 4] =
    [CycleCountFormat::F1, CycleCountFormat::F2, CycleCountFormat::F2FromMaximum, CycleCountFormat::F3];

/// Consecutive packets of a stream.
#[derive(Clone, Debug)]
pub struct PacketBatch {
    /// Where the first begins.
    pub(super) offset: u64,
    pub(super) packed: [Packed; CAPACITY],
    pub(super) length: usize,
    pub(super) large: [Packet; LARGE_PACKETS],
    pub(super) large_length: usize,
    /// The packets that are a header alone, with the threshold that holds throughout the batch.
    pub(super) header_only: [Packet; 256],
}

impl PacketBatch {
    pub(in crate::etm4) const fn new() -> Self {
        Self {
            offset: 0,
            packed: [Packed { value: 0, descriptor: Descriptor(0) }; CAPACITY],
            length: 0,
            large: [Packet::Ignore; LARGE_PACKETS],
            large_length: 0,
            header_only: [Packet::Ignore; 256],
        }
    }

    /// How many packets.
    pub const fn len(&self) -> usize {
        self.length
    }

    /// Is there none?
    pub const fn is_empty(&self) -> bool {
        self.length == 0
    }

    pub(in crate::etm4) fn clear(&mut self, offset: u64) {
        (self.offset, self.length, self.large_length) = (offset, 0, 0);
    }

    /// Is there room for another packet of any kind?
    pub(in crate::etm4) const fn has_room(&self) -> bool {
        self.length < CAPACITY && self.large_length < LARGE_PACKETS
    }

    /// Adds a packet of any kind, if there is room.
    pub(in crate::etm4) fn push(&mut self, packet: Located<Packet>) {
        if let (Some(packed), Some(large)) =
            (self.packed.get_mut(self.length), self.large.get_mut(self.large_length))
        {
            *packed = Packed::large(self.large_length, packet.length);
            *large = packet.value;
            self.length += 1;
            self.large_length += 1;
        }
    }

    /// Gives the packets that stand apart, each with its length.
    pub(super) fn for_each_large(&self, mut sink: impl FnMut(&Packet, u32)) {
        let packed = self.packed.get(..self.length).unwrap_or_default().iter();
        let lengths = packed.filter(|packed| packed.descriptor.tag() == LARGE);
        for (packed, packet) in lengths.zip(&self.large) {
            sink(packet, packed.descriptor.0 as u32);
        }
    }

    /// Gives every packet.
    #[inline]
    pub fn for_each(&self, mut sink: impl FnMut(Located<Packet>)) {
        let mut offset = self.offset;
        for &packed in self.packed.get(..self.length).unwrap_or_default() {
            let mut length = packed.descriptor.length();
            let mut give = |length, value| sink(Located { offset, length, value });
            // A branch for each, so that each can be handed on as what it is.
            match packed.descriptor.tag() {
                HEADER_ONLY => give(length, packed.unpack::<HEADER_ONLY>(&self.header_only)),
                ADDRESS => give(length, packed.unpack::<ADDRESS>(&self.header_only)),
                SOURCE_ADDRESS => give(length, packed.unpack::<SOURCE_ADDRESS>(&self.header_only)),
                TIMESTAMP => give(length, packed.unpack::<TIMESTAMP>(&self.header_only)),
                CYCLE_COUNT => give(length, packed.unpack::<CYCLE_COUNT>(&self.header_only)),
                _ => {
                    length = packed.descriptor.0 as u32;
                    give(length, self.large[packed.value as usize % LARGE_PACKETS]);
                }
            }
            offset += u64::from(length);
        }
    }
}

#[inline(always)]
fn address(value: u64, descriptor: Descriptor) -> AddressPacket {
    AddressPacket {
        address: Address(value & !1),
        is: if value & 1 == 0 { Is::Is0 } else { Is::Is1 },
        form: FORMS[usize::from(descriptor.detail() & 7)],
    }
}
