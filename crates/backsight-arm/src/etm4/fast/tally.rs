//! Counts of packets by kind, taken from batches.

use super::batch::{CLASSES, Class, PacketBatch};
use super::forms::{COUNT_F1, COUNT_F2, FORMS, TIMESTAMP, address_form};
use crate::etm4::{Kind, Packet, lookup};

/// Packets and bytes of each kind.
#[derive(Clone, Debug)]
pub struct Tally {
    /// Packets by header, in as many counts as may be added to at the same time: the same header often comes again.
    headers: [[u64; 256]; PARTS],
    /// Packets with a value, by form.
    forms: [Sum; FORMS],
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
        Self { headers: [[0; 256]; PARTS], forms: [none; FORMS], large: [("", none); 128] }
    }

    /// Counts the packets of a batch.
    pub fn add(&mut self, batch: &PacketBatch) {
        let (groups, rest) = batch.arrays.headers().as_chunks::<PARTS>();
        for group in groups {
            for (part, &header) in self.headers.iter_mut().zip(group) {
                part[usize::from(header)] += 1;
            }
        }
        for &header in rest {
            self.headers[0][usize::from(header)] += 1;
        }
        for (form, length) in batch.arrays.forms() {
            self.forms[usize::from(form) % FORMS].add(length.into());
        }
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
            let packets = self.headers.iter().map(|part| part[usize::from(header)]).sum();
            // Those of the other classes are counted by form, and as packets that stand apart.
            if class == Class::Alone && packets > 0 {
                sink(lookup(header).name, packets, packets);
            }
        }
        for (form, sum) in (0..).zip(&self.forms).filter(|(_, sum)| sum.packets > 0) {
            sink(name(form), sum.packets, sum.bytes);
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

/// The name of the packets of a form.
fn name(form: u8) -> &'static str {
    match form {
        COUNT_F1.. => Kind::CycleCountF1.name(),
        COUNT_F2.. => Kind::CycleCountF2.name(),
        TIMESTAMP.. => Kind::Timestamp.name(),
        _ => {
            let has_form = |header: &u8| {
                [false, true]
                    .iter()
                    .any(|&second| address_form(*header, second).is_some_and(|of| of.0 == form))
            };
            (0..=255).find(has_form).map_or("", |header| lookup(header).name)
        }
    }
}
