//! The clear reader: one packet at a time.
//!
//! It asks at every byte whether there is another, and knows every packet. The fast engine leaves to it whatever is
//! uncommon; both share its state, and must give the same packets.

use backsight_core::{Accounting, Located};

use super::payload_reader::Stop;
use super::search::Search;
use crate::etm4::packet;
use crate::etm4::state::StreamState;
use crate::etm4::{Bad, Config, Kind, Packet, lookup};

/// What is known between two packets.
#[derive(Clone, Debug)]
pub(in crate::etm4) struct ClearReader {
    pub config: Config,
    /// What each header introduces in this configuration, or why it introduces nothing.
    pub kinds: [Result<Kind, Bad>; 256],
    /// The packets that are a header alone and need no address history. Most bytes of a trace are such packets: they
    /// are made once, and looked up.
    pub header_only: [Option<Packet>; 256],
    pub state: StreamState,
    /// Stream offset of the first byte that is in no packet yet.
    pub offset: u64,
    pub accounting: Accounting,
}

impl ClearReader {
    pub fn new(config: &Config, offset: u64) -> Self {
        let kind = |header: usize| {
            let row = lookup(header as u8);
            row.when.check(config).map(|()| row.kind)
        };
        let mut reader = Self {
            config: *config,
            kinds: core::array::from_fn(kind),
            header_only: [None; 256],
            state: StreamState::START,
            offset,
            accounting: Accounting::default(),
        };
        for header in 0..=255 {
            reader.header_only[usize::from(header)] = reader.read_header_only(header);
        }
        reader
    }

    /// The packet that a header alone says, whatever the address history holds.
    fn read_header_only(&self, header: u8) -> Option<Packet> {
        let kind = self.kinds[usize::from(header)].ok()?;
        if matches!(kind, Kind::AddressExact | Kind::SourceExact)
            || !lookup(header).is_header_only(&self.config)
        {
            return None;
        }
        packet::read(kind, &[header], &self.config, &mut self.state.clone()).ok().map(|(packet, _)| packet)
    }

    /// Forgets what packets have said.
    pub fn forget(&mut self) {
        self.restore(StreamState::START, self.offset);
    }

    /// Goes on as one that knows this, at this offset.
    pub fn restore(&mut self, state: StreamState, offset: u64) {
        let threshold = self.state.threshold;
        (self.state, self.offset) = (state, offset);
        self.renew_header_only(threshold);
    }

    /// The packet at the start of `bytes`, if all of it is there.
    pub fn read(&mut self, bytes: &[u8]) -> Option<Located<Packet>> {
        let header = usize::from(*bytes.first()?);
        if let Some(packet) = self.header_only[header] {
            return Some(self.locate(packet, 1));
        }
        let kind = match self.kinds[header] {
            Ok(kind) => kind,
            Err(why) => return Some(self.locate(Packet::Bad(why), 1)),
        };
        let threshold = self.state.threshold;
        match packet::read(kind, bytes, &self.config, &mut self.state) {
            Ok((packet, length)) => {
                self.renew_header_only(threshold);
                Some(self.locate(packet, length))
            }
            Err(Stop::TooLong(length)) => Some(self.locate(Packet::Bad(Bad::FieldTooLong), length)),
            Err(Stop::Incomplete) => None,
        }
    }

    /// The next packet that a search has found: skipped bytes, then the Async, which ends it.
    pub(super) fn searched(&mut self, search: &mut Option<Search>) -> Option<Located<Packet>> {
        let packet = search.as_mut()?.next()?;
        match packet.value {
            Packet::Unsynchronised => self.accounting.unsynchronised += u64::from(packet.length),
            _ => {
                self.accounting.decoded += u64::from(packet.length);
                *search = None;
            }
        }
        self.offset = packet.end();
        Some(packet)
    }

    /// Puts a packet at the current offset, and counts its bytes.
    #[inline]
    pub fn locate(&mut self, packet: Packet, length: usize) -> Located<Packet> {
        let located = Located { offset: self.offset, length: length as u32, value: packet };
        self.offset += length as u64;
        match packet {
            Packet::Bad(_) => self.accounting.bad += length as u64,
            _ => self.accounting.decoded += length as u64,
        }
        located
    }

    /// The threshold is part of every cycle count, also of those that are a header alone.
    fn renew_header_only(&mut self, threshold_before: u32) {
        if self.state.threshold == threshold_before {
            return;
        }
        for header in 0..=255 {
            if let Some(Packet::CycleCount(_)) = self.header_only[usize::from(header)] {
                self.header_only[usize::from(header)] = self.read_header_only(header);
            }
        }
    }
}
