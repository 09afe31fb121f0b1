//! Bytes to packets.
//!
//! The stream of a trace unit has no framing of its own. A decoder searches for an Async, after which packet follows
//! packet; it needs the address history, the last timestamp and the cycle threshold to read them. Nothing but
//! a gap in the stream makes it search again: bad packets, Discard and Overflow leave the bytes aligned.
//!
//! Two readers share the work: a clear one that takes any packet ([`reader`]), and a fast one for long runs of
//! common packets ([`super::fast`]).

mod iterator;
mod payload_reader;
mod reader;
mod saved;
mod search;

use backsight_core::{Accounting, Located};
use backsight_simd::InstructionSet;

use super::fast::{FastEngine, PacketBatch};
use super::{Bad, Config, MAX_PACKET, Packet, PacketSink};
pub use iterator::{Packets, packets};
pub(super) use payload_reader::{PayloadReader, Stop};
pub(super) use reader::ClearReader;
pub use saved::{DecoderState, find_async};
use search::Search;

/// Decodes the instruction trace stream of one trace unit.
#[derive(Clone, Debug)]
pub struct Decoder {
    reader: ClearReader,
    engine: FastEngine,
    batch: PacketBatch,
    /// The search for an Async, until it has found one.
    search: Option<Search>,
    /// The beginning of a packet whose end has not been fed.
    carry: [u8; MAX_PACKET],
    carried: usize,
}

impl Decoder {
    /// A decoder at the beginning of a stream.
    pub fn new(config: &Config) -> Self {
        Self::starting_at(config, 0)
    }

    /// A decoder that begins with the byte at `offset` of a stream.
    pub fn starting_at(config: &Config, offset: u64) -> Self {
        let reader = ClearReader::new(config, offset);
        let mut batch = PacketBatch::new();
        let engine = FastEngine::new(&reader, &mut batch);
        let search = Some(Search::new(offset));
        Self { reader, engine, batch, search, carry: [0; MAX_PACKET], carried: 0 }
    }

    /// Uses these vector instructions, if the processor has them, instead of the best that it has: for comparisons. The
    /// packets are the same.
    #[must_use]
    pub const fn with_instructions(mut self, set: InstructionSet) -> Self {
        self.engine.instruction_set = set;
        self
    }

    /// Takes the next bytes of the stream and gives the packets that end in them. However a stream is cut into
    /// pieces, the packets are the same.
    pub fn feed(&mut self, bytes: &[u8], sink: &mut impl FnMut(Located<Packet>)) {
        self.feed_to(bytes, sink);
    }

    /// The same, for a sink that may take runs of Atom packets at once.
    pub fn feed_to(&mut self, bytes: &[u8], sink: &mut impl PacketSink) {
        let mut rest = bytes;
        while let Some(packet) = self.first(&mut rest) {
            sink.take(packet);
        }
        loop {
            let used = self.engine.fill(&mut self.reader, rest, &mut self.batch);
            if used == 0 {
                break;
            }
            self.batch.give_to(sink);
            rest = rest.get(used..).unwrap_or_default();
        }
        while let Some(packet) = self.last(&mut rest) {
            sink.take(packet);
        }
    }

    /// Takes the next bytes of the stream and gives the packets that end in them, many at a time: the fastest way to
    /// count them, or to pick some from a long stream.
    pub fn feed_batches(&mut self, bytes: &[u8], sink: &mut impl FnMut(&PacketBatch)) {
        let mut rest = bytes;
        self.batch.clear(0);
        while let Some(packet) = self.first(&mut rest) {
            self.collect(packet, sink);
        }
        self.deliver(sink);
        loop {
            let used = self.engine.fill(&mut self.reader, rest, &mut self.batch);
            self.deliver(sink);
            if used == 0 {
                break;
            }
            rest = rest.get(used..).unwrap_or_default();
        }
        while let Some(packet) = self.last(&mut rest) {
            self.collect(packet, sink);
        }
        self.deliver(sink);
    }

    /// The stream ends: reports the bytes that are in no packet yet. What is fed after that is a new piece of stream,
    /// as after [`Decoder::reset`].
    pub fn finish(&mut self, sink: &mut impl FnMut(Located<Packet>)) {
        self.reset(sink);
    }

    /// Bytes of the stream are missing here: reports the packet that they cut off, forgets all state and searches for the
    /// next Async. Offsets go on as if nothing was missing.
    pub fn reset(&mut self, sink: &mut impl FnMut(Located<Packet>)) {
        if let Some(search) = &mut self.search {
            search.give_up();
            while let Some(packet) = self.reader.searched(&mut self.search) {
                sink(packet);
            }
        } else if self.carried > 0 {
            sink(self.reader.locate(Packet::Bad(Bad::Incomplete), self.carried));
            self.carried = 0;
        }
        self.reader.forget();
        self.search = Some(Search::new(self.reader.offset));
    }

    /// What became of the bytes so far. Those of a packet that has not ended are in no count yet.
    pub fn accounting(&self) -> Accounting {
        self.reader.accounting
    }

    /// Puts a packet into the batch.
    fn collect(&mut self, packet: Located<Packet>, sink: &mut impl FnMut(&PacketBatch)) {
        if !self.batch.has_room() {
            self.deliver(sink);
        }
        if self.batch.is_empty() {
            self.batch.clear(packet.offset);
        }
        self.batch.push(packet);
    }

    /// Gives the batch, unless it is empty, and empties it.
    fn deliver(&mut self, sink: &mut impl FnMut(&PacketBatch)) {
        if !self.batch.is_empty() {
            sink(&self.batch);
            self.batch.clear(self.reader.offset);
        }
    }

    /// The next packet that begins in bytes fed before: what a search has found, or a packet that was carried over.
    fn first(&mut self, rest: &mut &[u8]) -> Option<Located<Packet>> {
        if let Some(search) = &mut self.search {
            if !search.is_over() {
                let used = search.feed(rest).unwrap_or(rest.len());
                *rest = rest.get(used..).unwrap_or_default();
            }
            return self.reader.searched(&mut self.search);
        }
        if self.carried == 0 {
            return None;
        }
        let carried = self.carried;
        let more = rest.len().min(MAX_PACKET - carried);
        let length = carried + more;
        if let (Some(to), Some(from)) = (self.carry.get_mut(carried..length), rest.get(..more)) {
            to.copy_from_slice(from);
        }
        let packet = self.reader.read(self.carry.get(..length).unwrap_or_default());
        let (used, left) = packet.map_or((more, length), |packet| (packet.length as usize - carried, 0));
        *rest = rest.get(used..).unwrap_or_default();
        self.carried = left;
        packet
    }

    /// The next packet of the last few bytes; those of one that does not end in them are carried over.
    fn last(&mut self, rest: &mut &[u8]) -> Option<Located<Packet>> {
        let packet = self.reader.read(rest);
        let used = packet.map_or(0, |packet| packet.length as usize);
        *rest = rest.get(used..).unwrap_or_default();
        // Fewer than MAX_PACKET bytes are left then: more would have been a packet.
        if let (None, Some(carry)) = (packet, self.carry.get_mut(self.carried..self.carried + rest.len())) {
            carry.copy_from_slice(rest);
            self.carried += rest.len();
            *rest = &[];
        }
        packet
    }
}
