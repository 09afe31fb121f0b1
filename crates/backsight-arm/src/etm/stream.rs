//! Bytes to packets: what no protocol does in its own way.
//!
//! A decoder searches for an A-sync, after which packet follows packet. Bytes that are no packet say that it has lost
//! its place: it searches again, and forgets all state. A packet is read to its end before it changes any state, so that
//! one whose end has not been fed is read again from its beginning.

use backsight_core::{Accounting, Located};

use super::search::{Outcome, Search, ZEROS};
use super::{Bad, Stop};
use crate::sync;

/// No packet but the A-sync is longer.
const LONGEST: usize = 32;

/// Bytes of a word, which most packets fit into.
pub(crate) const SHORT: usize = 8;

/// Longest region in one report, because lengths have 32 bits.
const MOST_IN_A_REGION: u64 = 1 << 31;

/// Reads the packets of a protocol.
pub(crate) trait PacketReader {
    /// A packet.
    type Packet: Copy;

    /// An A-sync.
    const ASYNC: Self::Packet;
    /// Bytes that were passed over.
    const UNSYNCHRONISED: Self::Packet;

    /// Bytes that are no packet.
    fn bad(why: Bad) -> Self::Packet;

    /// The packet at the start of `bytes`, which are not empty, and its length.
    fn read(&mut self, bytes: &[u8]) -> Result<(Self::Packet, usize), Stop>;

    /// The packet that a header is alone, where most headers of a stream are such: what `read` gives for it.
    fn one_byte(&self, header: u8) -> Option<Self::Packet>;

    /// A common packet of several bytes at the start of these: what `read` gives. `None` if it is another one, or longer.
    fn short_packet(&mut self, bytes: &[u8; SHORT]) -> Option<(Self::Packet, usize)>;

    /// Forgets what packets have said.
    fn forget(&mut self);
}

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
pub(crate) struct StreamDecoder<R> {
    pub reader: R,
    search: Option<Search>,
    /// The beginning of a packet whose end has not been fed.
    carry: [u8; LONGEST],
    carried: usize,
    offset: u64,
    pub accounting: Accounting,
}

impl<R: PacketReader> StreamDecoder<R> {
    pub fn new(reader: R) -> Self {
        Self {
            reader,
            search: Some(Search::lost(0)),
            carry: [0; LONGEST],
            carried: 0,
            offset: 0,
            accounting: Accounting::default(),
        }
    }

    /// The same, having counted nothing.
    pub fn state(&self) -> Self
    where
        R: Clone,
    {
        let mut state = Self { accounting: Accounting::default(), ..self.clone() };
        state.carry.iter_mut().skip(self.carried).for_each(|byte| *byte = 0);
        state
    }

    /// One that begins with the byte at this offset, in the middle of a stream.
    pub fn starting_at(&self, offset: u64) -> Self
    where
        R: Clone,
    {
        let mut reader = self.reader.clone();
        reader.forget();
        Self { search: Some(Search::lost(offset)), offset, ..Self::new(reader) }
    }

    #[inline]
    pub fn feed(&mut self, bytes: &[u8], sink: &mut impl PacketSink<R>) {
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
    fn common_packets<'b>(&mut self, bytes: &'b [u8], sink: &mut impl PacketSink<R>) -> &'b [u8] {
        let count = sink.take_common(&mut self.reader, self.offset, bytes);
        self.offset += count as u64;
        self.accounting.decoded += count as u64;
        bytes.get(count..).unwrap_or_default()
    }

    /// The next packet, of any kind; gives how many of the bytes were used.
    #[inline(never)]
    fn next(&mut self, bytes: &[u8], sink: &mut impl PacketSink<R>) -> usize {
        match self.reader.read(bytes) {
            Ok((packet, length)) => {
                self.give(packet, length, sink);
                length
            }
            Err(stop) => self.stop(stop, bytes, sink),
        }
    }

    /// Bytes are missing here, or there are no more: reports those that are in no packet yet, and searches.
    pub fn reset(&mut self, sink: &mut impl PacketSink<R>) {
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
    fn give(&mut self, packet: R::Packet, length: usize, sink: &mut impl PacketSink<R>) {
        sink.take(Located { offset: self.offset, length: length as u32, value: packet });
        self.offset += length as u64;
        self.accounting.decoded += length as u64;
    }

    /// Something else than a packet; gives how many of the bytes were used.
    #[cold]
    fn stop(&mut self, stop: Stop, bytes: &[u8], sink: &mut impl PacketSink<R>) -> usize {
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
    fn complete(&mut self, bytes: &[u8], sink: &mut impl PacketSink<R>) -> usize {
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
    fn seek(&mut self, bytes: &[u8], sink: &mut impl PacketSink<R>) -> usize {
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
                self.give(R::ASYNC, length as usize, sink);
            }
            Some(Outcome::NotASync) => {
                self.region(Some(Bad::Malformed), search.start..search.offset, sink);
                self.lose();
            }
        }
        used
    }

    /// Reports bytes that are no packet: bad for a reason, or passed over. In several pieces, where they are many.
    fn region(&mut self, bad: Option<Bad>, bytes: core::ops::Range<u64>, sink: &mut impl PacketSink<R>) {
        let value = bad.map_or(R::UNSYNCHRONISED, R::bad);
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

/// Where the last zeros of the last A-sync in `bytes` begin, if that is `from` or later.
pub(crate) fn find_async(bytes: &[u8], from: usize) -> Option<usize> {
    sync::find_last(bytes, from, ZEROS as usize)
}
