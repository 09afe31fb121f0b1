//! Bytes to packets: what no protocol does in its own way.
//!
//! A decoder searches for an A-sync, after which packet follows packet. Bytes that are no packet say that it has lost
//! its place: it searches again, and forgets all state. A packet is read to its end before it changes any state, so that
//! one whose end has not been fed is read again from its beginning.

use backsight_core::{Accounting, Located, Resume};

use super::search::{Outcome, Search, ZEROS};
use super::{Bad, Configuration, PacketReader, Stop};
use crate::sync;

/// No packet but the A-sync is longer.
const LONGEST: usize = 32;

/// Longest region in one report, because lengths have 32 bits.
const MOST_IN_A_REGION: u64 = 1 << 31;

/// Takes packets.
pub(crate) trait PacketSink<R: PacketReader> {
    /// Takes a packet.
    fn take(&mut self, packet: Located<R::Packet>);

    /// Takes the common packets that these bytes, which are at this offset, begin with. How many bytes they have.
    fn take_common(&mut self, reader: &mut R, offset: u64, bytes: &[u8]) -> usize;
}

/// Takes each packet alone.
pub(crate) struct Each<F>(pub F);

impl<R: PacketReader, F: FnMut(Located<R::Packet>)> PacketSink<R> for Each<F> {
    #[inline]
    fn take(&mut self, packet: Located<R::Packet>) {
        (self.0)(packet);
    }

    #[inline]
    fn take_common(&mut self, reader: &mut R, offset: u64, bytes: &[u8]) -> usize {
        let mut used = 0;
        while let Some(rest) = bytes.get(used..)
            && let Some(&header) = rest.first()
        {
            let offset = offset + used as u64;
            if let Some(value) = reader.one_byte(header) {
                (self.0)(Located { offset, length: 1, value });
                used += 1;
            } else if let Some((value, length)) =
                rest.first_chunk().and_then(|bytes| reader.short_packet(bytes))
            {
                (self.0)(Located { offset, length: length as u32, value });
                used += length;
            } else {
                break;
            }
        }
        used
    }
}

/// Decodes the stream of one trace unit.
#[derive(Clone, Debug, PartialEq)]
pub struct Decoder<C: Configuration> {
    pub(crate) reader: C::Reader,
    search: Option<Search>,
    /// The beginning of a packet whose end has not been fed.
    carry: [u8; LONGEST],
    carried: usize,
    offset: u64,
    accounting: Accounting,
}

impl<C: Configuration> Resume for Decoder<C> {
    fn state(&self) -> Self {
        let mut state = Self { accounting: Accounting::default(), ..self.clone() };
        state.carry.iter_mut().skip(self.carried).for_each(|byte| *byte = 0);
        state
    }

    fn starting_at(&self, offset: u64) -> Self {
        let mut reader = self.reader.clone();
        reader.forget();
        Self { search: Some(Search::lost(offset)), offset, ..Self::reading(reader) }
    }

    fn last_sync(&self, bytes: &[u8], from: usize) -> Option<usize> {
        sync::find_last(bytes, from, ZEROS as usize)
    }
}

/// Gives the packets of a stream all of which is in memory.
pub fn packets<C: Configuration>(config: &C, bytes: &[u8], sink: &mut impl FnMut(Located<C::Packet>)) {
    let mut decoder = Decoder::<C>::new(config);
    decoder.feed(bytes, sink);
    decoder.finish(sink);
}

impl<C: Configuration> Decoder<C> {
    /// A decoder at the beginning of a stream.
    pub fn new(config: &C) -> Self {
        Self::reading(C::Reader::new(config))
    }

    fn reading(reader: C::Reader) -> Self {
        Self {
            reader,
            search: Some(Search::lost(0)),
            carry: [0; LONGEST],
            carried: 0,
            offset: 0,
            accounting: Accounting::default(),
        }
    }

    /// Takes the next bytes of the stream and gives the packets that end in them. However a stream is cut into pieces,
    /// the packets are the same.
    #[inline]
    pub fn feed(&mut self, bytes: &[u8], sink: &mut impl FnMut(Located<C::Packet>)) {
        self.feed_to(bytes, &mut Each(sink));
    }

    /// The stream ends: reports the bytes that are in no packet yet. What is fed after that is a new piece of stream.
    pub fn finish(&mut self, sink: &mut impl FnMut(Located<C::Packet>)) {
        self.reset(sink);
    }

    /// Bytes of the stream are missing here: reports the packet that they cut off, forgets all state and searches for
    /// the next A-sync. Offsets go on as if nothing was missing.
    pub fn reset(&mut self, sink: &mut impl FnMut(Located<C::Packet>)) {
        self.end(&mut Each(sink));
    }

    /// What became of the bytes so far. Those of a packet that has not ended are in no count yet.
    pub fn accounting(&self) -> Accounting {
        self.accounting
    }

    #[inline]
    pub(crate) fn feed_to(&mut self, bytes: &[u8], sink: &mut impl PacketSink<C::Reader>) {
        let mut rest = bytes;
        while !rest.is_empty() {
            let used = if self.search.is_some() {
                self.seek(rest, sink)
            } else if self.carried > 0 {
                self.complete(rest, sink)
            } else {
                rest = self.common_packets(rest, sink);
                if rest.is_empty() {
                    return;
                }
                self.next(rest, sink)
            };
            rest = rest.get(used..).unwrap_or_default();
        }
    }

    /// Gives the common packets that these bytes begin with; what comes after them.
    #[inline]
    fn common_packets<'b>(&mut self, bytes: &'b [u8], sink: &mut impl PacketSink<C::Reader>) -> &'b [u8] {
        let count = sink.take_common(&mut self.reader, self.offset, bytes);
        self.offset += count as u64;
        self.accounting.decoded += count as u64;
        bytes.get(count..).unwrap_or_default()
    }

    /// The next packet, of any kind; gives how many of the bytes were used.
    #[inline(never)]
    fn next(&mut self, bytes: &[u8], sink: &mut impl PacketSink<C::Reader>) -> usize {
        match self.reader.read(bytes) {
            Ok((packet, length)) => {
                self.give(packet, length, sink);
                length
            }
            Err(stop) => self.stop(stop, bytes, sink),
        }
    }

    /// Reports bytes that are in no packet yet, and searches.
    fn end(&mut self, sink: &mut impl PacketSink<C::Reader>) {
        match self.search.take() {
            Some(search) if search.in_packet => {
                self.region(Some(Bad::Incomplete), search.start..search.offset, sink);
            }
            Some(search) => self.region(None, search.start..search.offset, sink),
            None if self.carried > 0 => {
                let carried = core::mem::take(&mut self.carried);
                self.region(Some(Bad::Incomplete), self.offset..self.offset + carried as u64, sink);
            }
            None => {}
        }
        self.lose();
    }

    fn lose(&mut self) {
        self.reader.forget();
        self.search = Some(Search::lost(self.offset));
    }

    #[inline]
    fn give(&mut self, packet: C::Packet, length: usize, sink: &mut impl PacketSink<C::Reader>) {
        sink.take(Located { offset: self.offset, length: length as u32, value: packet });
        self.offset += length as u64;
        self.accounting.decoded += length as u64;
    }

    /// Something else than a packet; gives how many of the bytes were used.
    #[cold]
    fn stop(&mut self, stop: Stop, bytes: &[u8], sink: &mut impl PacketSink<C::Reader>) -> usize {
        match stop {
            Stop::Zeros => {
                self.search = Some(Search::in_packet(self.offset));
                0
            }
            Stop::Bad(why, length) => {
                self.region(Some(why), self.offset..self.offset + length as u64, sink);
                self.lose();
                length
            }
            Stop::Incomplete => {
                let length = bytes.len().min(LONGEST);
                if let (Some(to), Some(from)) = (self.carry.get_mut(..length), bytes.get(..length)) {
                    to.copy_from_slice(from);
                }
                self.carried = length;
                length
            }
        }
    }

    /// Goes on with a packet whose beginning was fed before; gives how many of the bytes were used.
    fn complete(&mut self, bytes: &[u8], sink: &mut impl PacketSink<C::Reader>) -> usize {
        let before = core::mem::take(&mut self.carried);
        let length = LONGEST.min(before + bytes.len());
        let more = length - before;
        if let (Some(to), Some(from)) = (self.carry.get_mut(before..length), bytes.get(..more)) {
            to.copy_from_slice(from);
        }
        let carry = self.carry;
        let together = carry.get(..length).unwrap_or_default();
        match self.reader.read(together) {
            Ok((packet, length)) => {
                self.give(packet, length, sink);
                length - before
            }
            // What is bad was not bad without the last bytes, so that it ends in them.
            Err(stop) => self.stop(stop, together, sink).saturating_sub(before),
        }
    }

    /// Looks for an A-sync; gives how many of the bytes were used.
    fn seek(&mut self, bytes: &[u8], sink: &mut impl PacketSink<C::Reader>) -> usize {
        let Some(search) = &mut self.search else { return 0 };
        let (used, outcome) = search.feed(bytes);
        let search = *search;
        match outcome {
            None => {}
            Some(Outcome::Found) => {
                self.search = None;
                // An A-sync of more zeros than a length can say begins where its length can be said.
                let length = (search.zeros + 1).min(MOST_IN_A_REGION);
                self.region(None, search.start..search.offset - length, sink);
                self.give(C::ASYNC, length as usize, sink);
            }
            Some(Outcome::NotASync) => {
                self.region(Some(Bad::Malformed), search.start..search.offset, sink);
                self.lose();
            }
        }
        used
    }

    /// Reports bytes that are no packet: bad for a reason, or passed over. In several pieces, where they are many.
    fn region(
        &mut self,
        bad: Option<Bad>,
        bytes: core::ops::Range<u64>,
        sink: &mut impl PacketSink<C::Reader>,
    ) {
        let value = bad.map_or(C::UNSYNCHRONISED, C::bad_packet);
        let mut start = bytes.start;
        while start < bytes.end {
            let length = (bytes.end - start).min(MOST_IN_A_REGION);
            sink.take(Located { offset: start, length: length as u32, value });
            start += length;
        }
        self.offset = bytes.end;
        let count =
            if bad.is_some() { &mut self.accounting.bad } else { &mut self.accounting.unsynchronised };
        *count += bytes.end - bytes.start;
    }
}
