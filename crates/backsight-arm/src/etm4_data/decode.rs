//! Bytes to headers, and what is carried through.

use backsight_core::{Accounting, Located, Resume};

use super::{Header, Packet};
use crate::sync;

/// Zero bytes of an A-sync, before its last byte.
const ZEROS: u64 = 11;
const END_OF_ASYNC: u8 = 0x80;

/// Reads the data stream of one trace unit.
#[derive(Clone, Debug, PartialEq)]
pub struct Decoder {
    state: State,
    /// Offset of the next byte.
    at: u64,
    /// Offset of the first byte of what the state holds.
    start: u64,
    /// Zero bytes up to here.
    zeros: u64,
    accounting: Accounting,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    /// A header is next.
    Header,
    /// The second byte of an extension is next.
    Extension,
    /// Zeros of an A-sync.
    Async,
    /// Bytes go through up to the next A-sync: they begin with this.
    Through(Packet),
}

impl Default for Decoder {
    fn default() -> Self {
        Self::new()
    }
}

impl Decoder {
    /// At the beginning of a stream.
    pub const fn new() -> Self {
        Self {
            state: State::Through(Packet::Unsynchronised),
            at: 0,
            start: 0,
            zeros: 0,
            accounting: Accounting { decoded: 0, unsynchronised: 0, bad: 0 },
        }
    }

    /// Takes more bytes. Any split of a stream gives the same.
    pub fn feed(&mut self, bytes: &[u8], sink: &mut impl FnMut(Located<Packet>)) {
        bytes.iter().for_each(|&byte| self.byte(byte, sink));
    }

    /// Takes the end of the stream.
    pub fn finish(&mut self, sink: &mut impl FnMut(Located<Packet>)) {
        if self.start < self.at {
            let packet = if let State::Through(packet) = self.state { packet } else { Packet::Incomplete };
            self.emit(packet, self.at, sink);
        }
        (self.state, self.zeros) = (State::Through(Packet::Unsynchronised), 0);
    }

    /// Bytes of the stream are missing here.
    pub fn reset(&mut self, sink: &mut impl FnMut(Located<Packet>)) {
        self.finish(sink);
    }

    /// What became of the bytes. Those that are carried through without being read are counted as unsynchronised.
    pub const fn accounting(&self) -> Accounting {
        self.accounting
    }

    fn byte(&mut self, byte: u8, sink: &mut impl FnMut(Located<Packet>)) {
        self.at += 1;
        let zeros = self.zeros;
        self.zeros = if byte == 0 { zeros + 1 } else { 0 };
        if zeros >= ZEROS && byte == END_OF_ASYNC {
            return self.synchronise(sink);
        }
        match self.state {
            State::Header => match (byte, Header::of(byte)) {
                (0, _) => self.state = State::Extension,
                (_, Some(header)) => self.header(header, sink),
                (_, None) => self.state = State::Through(Packet::Bad),
            },
            State::Extension => match (byte, Header::of_extension(byte)) {
                (0, _) => self.state = State::Async,
                (_, Some(header)) => self.header(header, sink),
                (_, None) => self.state = State::Through(Packet::Bad),
            },
            State::Async if byte == 0 => {}
            State::Async => self.state = State::Through(Packet::Bad),
            State::Through(_) => {}
        }
    }

    fn header(&mut self, header: Header, sink: &mut impl FnMut(Located<Packet>)) {
        if header.is_all() {
            self.state = State::Header;
            self.emit(Packet::Whole(header), self.at, sink);
        } else {
            self.state = State::Through(Packet::Unread(header));
        }
    }

    fn synchronise(&mut self, sink: &mut impl FnMut(Located<Packet>)) {
        let begins = (self.at - ZEROS - 1).max(self.start);
        if begins > self.start {
            let packet = if let State::Through(packet) = self.state { packet } else { Packet::Bad };
            self.emit(packet, begins, sink);
        }
        self.state = State::Header;
        self.emit(Packet::Async, self.at, sink);
    }

    fn emit(&mut self, packet: Packet, end: u64, sink: &mut impl FnMut(Located<Packet>)) {
        while self.start < end {
            let length = (end - self.start).min(u32::MAX.into());
            match packet {
                Packet::Async | Packet::Whole(_) => self.accounting.decoded += length,
                Packet::Unread(_) | Packet::Unsynchronised => self.accounting.unsynchronised += length,
                Packet::Bad | Packet::Incomplete => self.accounting.bad += length,
            }
            sink(Located { offset: self.start, length: length as u32, value: packet });
            self.start += length;
        }
    }
}

impl Resume for Decoder {
    fn state(&self) -> Self {
        Self { accounting: Accounting::default(), ..self.clone() }
    }

    fn starting_at(&self, offset: u64) -> Self {
        Self { at: offset, start: offset, ..Self::new() }
    }

    fn last_sync(&self, bytes: &[u8], from: usize) -> Option<usize> {
        sync::find_last(bytes, from, ZEROS as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec;
    use std::vec::Vec;

    fn decode(pieces: &[&[u8]]) -> (Vec<Located<Packet>>, Accounting) {
        let (mut decoder, mut packets) = (Decoder::new(), Vec::new());
        pieces.iter().for_each(|piece| decoder.feed(piece, &mut |packet| packets.push(packet)));
        decoder.finish(&mut |packet| packets.push(packet));
        (packets, decoder.accounting())
    }

    fn asynchronous() -> Vec<u8> {
        [vec![0; 11], vec![0x80]].concat()
    }

    #[test]
    fn headers_are_read_up_to_the_first_of_unknown_length() {
        let bytes =
            [vec![7, 7], asynchronous(), vec![0x01, 0, 0x15, 0, 5, 0x85, 1, 2, 0, 0, 3], asynchronous()];
        let (packets, accounting) = decode(&[&bytes.concat()]);
        let found: Vec<_> = packets.iter().map(|packet| (packet.length, packet.value)).collect();
        let expected = [
            (2, Packet::Unsynchronised),
            (12, Packet::Async),
            (1, Packet::Whole(Header::SyncMarker)),
            (2, Packet::Whole(Header::NumberedSyncMarker(2))),
            (2, Packet::Whole(Header::Overflow)),
            (6, Packet::Unread(Header::Address(2))),
            (12, Packet::Async),
        ];
        assert_eq!(found, expected);
        assert_eq!(accounting, Accounting { decoded: 29, unsynchronised: 8, bad: 0 });
    }

    #[test]
    fn a_header_that_no_packet_has_is_bad_up_to_the_next_synchronisation() {
        let bytes = [asynchronous(), vec![0xC0, 1, 1], asynchronous(), vec![0]].concat();
        let found: Vec<_> = decode(&[&bytes]).0.iter().map(|packet| packet.value).collect();
        assert_eq!(found, [Packet::Async, Packet::Bad, Packet::Async, Packet::Incomplete]);
    }

    proptest! {
        #[test]
        fn every_byte_is_carried_through_however_the_stream_is_cut(
            noise in proptest::collection::vec(prop_oneof![any::<u8>(), Just(0u8), Just(0x80)], 0..80),
            split in any::<usize>(),
        ) {
            let bytes = [noise.clone(), asynchronous(), noise].concat();
            let whole = decode(&[&bytes]);
            let (head, tail) = bytes.split_at(split % (bytes.len() + 1));
            prop_assert_eq!(&decode(&[head, tail]), &whole);
            prop_assert_eq!(whole.1.total(), bytes.len() as u64);
            let mut end = 0;
            for packet in &whole.0 {
                prop_assert_eq!(packet.offset, end);
                end = packet.end();
            }
            prop_assert_eq!(end, bytes.len() as u64);
        }
    }
}
