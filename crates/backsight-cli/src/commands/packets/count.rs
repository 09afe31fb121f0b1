//! `backsight packets --format summary`: packets that are counted, not listed.
//!
//! Nobody asks where they were: streams are taken apart in large pieces, and packets of the commonest protocol are
//! counted without being looked at one by one.

use std::collections::BTreeMap;

use backsight_arm::etm4::{Packet, Tally};
use backsight_arm::frame::Batch;
use backsight_core::{Located, TraceId};

use super::Totals;
use crate::args::CaptureArgs;
use crate::decoder::Decoder;
use crate::failure::Result;
use crate::listing::packet::Listed;
use crate::plan::Buffer;
use crate::queue::Queue;

/// Number of packets, and of their bytes, of each kind. Names are found by where they stand, which is fast; a name
/// that stands in two places is added up at the end.
#[derive(Default)]
pub struct Kinds(Vec<(&'static str, u64, u64)>);

impl Kinds {
    /// Counts some packets of a kind.
    pub fn count(&mut self, name: &'static str, packets: u64, bytes: u64) {
        let found = self.0.iter().position(|&(other, ..)| std::ptr::eq(other, name));
        let place = found.unwrap_or_else(|| {
            self.0.push((name, 0, 0));
            self.0.len() - 1
        });
        if let Some((_, packets_before, bytes_before)) = self.0.get_mut(place) {
            *packets_before += packets;
            *bytes_before += bytes;
        }
    }

    /// The sums in the order of the names.
    pub fn by_name(&self) -> BTreeMap<&'static str, (u64, u64)> {
        let mut sums: BTreeMap<&'static str, (u64, u64)> = BTreeMap::new();
        for &(name, packets, bytes) in &self.0 {
            let sum = sums.entry(name).or_default();
            *sum = (sum.0 + packets, sum.1 + bytes);
        }
        sums
    }
}

/// Counts the packets of a buffer.
pub fn count(capture: &CaptureArgs, buffer: &Buffer, quiet: bool, totals: &mut Totals) -> Result {
    let mut lanes: BTreeMap<TraceId, Lane> = BTreeMap::new();
    let counts = buffer.batches(quiet, |batch| match batch {
        Batch::Data { id, bytes, .. } => {
            if capture.wants(id.get()) || buffer.is_raw() {
                lanes.entry(id).or_insert_with(|| Lane::new(buffer, id)).feed(bytes);
            }
        }
        Batch::Discontinuity { .. } => lanes.values_mut().for_each(Lane::reset),
        Batch::Trigger { .. } | Batch::Flush { .. } => {}
    })?;
    let mut undecoded = Vec::new();
    for (id, mut lane) in lanes {
        lane.reset();
        match &lane.decoder {
            Some(decoder) => totals.bytes += decoder.accounting(),
            None => undecoded.push((id, buffer.bytes_of(&counts, id))),
        }
        lane.add_to(totals);
    }
    totals.end(capture, buffer, &counts, undecoded);
    Ok(())
}

/// One source while its packets are being counted.
struct Lane {
    decoder: Option<Decoder>,
    tally: Box<Tally>,
    kinds: Kinds,
    packets: u64,
    queue: Queue,
}

impl Lane {
    fn new(buffer: &Buffer, id: TraceId) -> Self {
        Self {
            decoder: buffer.source(id).and_then(|source| Decoder::new(&source.decoding)),
            tally: Box::default(),
            kinds: Kinds::default(),
            packets: 0,
            queue: Queue::default(),
        }
    }

    fn feed(&mut self, bytes: &[u8]) {
        let Self { decoder, tally, kinds, packets, queue } = self;
        if let Some(decoder) = decoder {
            queue.push(bytes, |bytes| count_bytes(decoder, bytes, tally, kinds, packets));
        }
    }

    fn reset(&mut self) {
        let Self { decoder, tally, kinds, packets, queue } = self;
        if let Some(decoder) = decoder {
            queue.drain(|bytes| count_bytes(decoder, bytes, tally, kinds, packets));
            decoder.reset(&mut each(kinds, packets));
        }
    }

    fn add_to(&self, totals: &mut Totals) {
        totals.packets += self.packets;
        for (name, (packets, bytes)) in self.kinds.by_name() {
            totals.kinds.count(name, packets, bytes);
        }
        self.tally.for_each(|name, packets, bytes| {
            totals.kinds.count(name, packets, bytes);
            if name != Packet::Unsynchronised.name() {
                totals.packets += packets;
            }
        });
    }
}

/// Counts the packets that end in some bytes of a stream.
fn count_bytes(decoder: &mut Decoder, bytes: &[u8], tally: &mut Tally, kinds: &mut Kinds, packets: &mut u64) {
    match decoder {
        Decoder::Etm4(decoder) => decoder.feed_batches(bytes, &mut |batch| tally.add(batch)),
        decoder => decoder.feed(bytes, &mut each(kinds, packets)),
    }
}

/// Counts one packet.
fn each(kinds: &mut Kinds, packets: &mut u64) -> impl FnMut(Located<&dyn Listed>) {
    |packet| {
        kinds.count(packet.value.name(), 1, packet.length.into());
        *packets += u64::from(!packet.value.is_unsynchronised());
    }
}
