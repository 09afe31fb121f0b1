//! Counts of packets by kind, taken from batches.

use super::batch::{CLASSES, Class, PacketBatch};
use super::forms::{FORMS, FormKind, LENGTHS, address_form};
use crate::etm4::{Kind, Packet, lookup};

/// Packets and bytes of each kind.
#[derive(Clone, Debug)]
pub struct Tally {
    /// Packets by header, in as many counts as may be added to at the same time: the same header often comes again.
    headers: [[u64; 256]; PARTS],
    /// Packets with a value, by form, likewise.
    forms: [[u64; FORMS]; PARTS],
    /// Packets that stand apart, by name. There are fewer names than entries.
    large: [(&'static str, Sum); 128],
}

const PARTS: usize = 4;

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
        Self { headers: [[0; 256]; PARTS], forms: [[0; FORMS]; PARTS], large: [("", none); 128] }
    }

    /// Counts the packets of a batch.
    pub fn add(&mut self, batch: &PacketBatch) {
        count(&mut self.headers, batch.arrays.headers());
        count(&mut self.forms, batch.arrays.forms());
        for (packet, length) in batch.large() {
            self.add_packet(packet, *length);
        }
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
        for (header, class) in (0..=255u8).zip(CLASSES) {
            let packets = sum(&self.headers, header);
            // Those of the other classes are counted by form, and as packets that stand apart.
            if class == Class::Alone && packets > 0 {
                sink(lookup(header).name, packets, packets);
            }
        }
        for (form, length) in (0..=255).zip(LENGTHS) {
            let packets = sum(&self.forms, form);
            if packets > 0 {
                sink(name(form), packets, packets * u64::from(length));
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

/// Adds one to the count of each byte.
fn count(counts: &mut [[u64; 256]; PARTS], bytes: &[u8]) {
    let (groups, rest) = bytes.as_chunks::<PARTS>();
    for group in groups {
        for (part, &byte) in counts.iter_mut().zip(group) {
            part[usize::from(byte)] += 1;
        }
    }
    for &byte in rest {
        counts[0][usize::from(byte)] += 1;
    }
}

/// The count of a byte.
fn sum(counts: &[[u64; 256]; PARTS], byte: u8) -> u64 {
    counts.iter().map(|part| part[usize::from(byte)]).sum()
}

/// The name of the packets of a form.
fn name(form: u8) -> &'static str {
    match FormKind::new(form) {
        FormKind::CycleCountF1 { .. } => Kind::CycleCountF1.name(),
        FormKind::CycleCountF2 => Kind::CycleCountF2.name(),
        FormKind::Timestamp { .. } => Kind::Timestamp.name(),
        FormKind::Address(_) => {
            let has_form = |header: &u8| {
                [false, true]
                    .iter()
                    .any(|&second| address_form(*header, second).is_some_and(|of| of.0 == form))
            };
            (0..=255).find(has_form).map_or("", |header| lookup(header).name)
        }
    }
}
