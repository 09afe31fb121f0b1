//! The clear reader: one packet at a time.
//!
//! It asks at every byte whether there is another, and knows every packet. The fast engine leaves to it whatever is
//! uncommon; both share its state, and must give the same packets.

use backsight_core::{Accounting, Located};

use super::super::{AddressHistory, Bad, Config, CycleCountFormat, Kind, Packet, lookup};
use super::fields::Stop;
use super::hunt::Hunt;
use super::whole;

/// What is known between two packets.
#[derive(Clone, Debug)]
pub(super) struct Reader {
    pub config: Config,
    /// The packets that are all in their header.
    pub whole: [Option<Packet>; 256],
    /// How to go on after the other headers.
    pub next: [Next; 256],
    /// The bits of the cycle counter.
    pub cycle_mask: u32,
    pub state: State,
    /// Stream offset of the first byte that is in no packet yet.
    pub offset: u64,
    pub accounting: Accounting,
}

/// What packets change and need.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct State {
    pub history: AddressHistory,
    pub timestamp: u64,
    pub threshold: u32,
    /// SF of the last context packet: a 32-bit address keeps the upper half of the newest address.
    pub wide: bool,
}

/// How to read what a header introduces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    Bad(Bad),
    Payload(Kind),
}

impl Reader {
    pub fn new(config: &Config, offset: u64) -> Self {
        let mut reader = Self {
            config: *config,
            whole: [None; 256],
            next: [Next::Bad(Bad::Reserved); 256],
            cycle_mask: (1 << config.cycle_counter_bits()) - 1,
            state: State::default(),
            offset,
            accounting: Accounting::default(),
        };
        for header in 0..=255u8 {
            let index = usize::from(header);
            let row = lookup(header);
            match row.when.check(config) {
                Ok(()) => {
                    reader.whole[index] = whole::whole(header, config);
                    reader.next[index] = Next::Payload(row.kind);
                }
                Err(why) => reader.next[index] = Next::Bad(why),
            }
        }
        reader
    }

    /// Forgets what packets have said.
    pub fn forget(&mut self) {
        self.set_threshold(0);
        self.state = State::default();
    }

    /// The packet at the start of `bytes`, if all of it is there.
    pub fn read(&mut self, bytes: &[u8]) -> Option<Located<Packet>> {
        let header = usize::from(*bytes.first()?);
        if let Some(packet) = self.whole[header] {
            return Some(self.place(packet, 1));
        }
        match self.next[header] {
            Next::Bad(why) => Some(self.place(Packet::Bad(why), 1)),
            Next::Payload(kind) => match self.payload(kind, bytes) {
                Ok((packet, length)) => Some(self.place(packet, length)),
                Err(Stop::TooLong(length)) => Some(self.place(Packet::Bad(Bad::FieldTooLong), length)),
                Err(Stop::Incomplete) => None,
            },
        }
    }

    /// The next packet that a hunt has found: skipped bytes, then the Async, which ends it.
    pub fn hunted(&mut self, hunt: &mut Option<Hunt>) -> Option<Located<Packet>> {
        let packet = hunt.as_mut()?.next()?;
        match packet.value {
            Packet::Unsynchronised => self.accounting.unsynchronised += u64::from(packet.length),
            _ => {
                self.accounting.decoded += u64::from(packet.length);
                *hunt = None;
            }
        }
        self.offset = packet.end();
        Some(packet)
    }

    /// Places a packet at the current offset, and counts its bytes.
    #[inline]
    pub fn place(&mut self, packet: Packet, length: usize) -> Located<Packet> {
        let located = Located { offset: self.offset, length: length as u32, value: packet };
        self.offset += length as u64;
        match packet {
            Packet::Bad(_) => self.accounting.bad += length as u64,
            _ => self.accounting.decoded += length as u64,
        }
        located
    }

    /// The threshold is part of every cycle count, also of those that are all in their header.
    pub fn set_threshold(&mut self, threshold: u32) {
        if threshold == self.state.threshold {
            return;
        }
        let change = threshold.wrapping_sub(self.state.threshold);
        self.state.threshold = threshold;
        for packet in &mut self.whole {
            if let Some(Packet::CycleCount(count)) = packet
                && count.format == CycleCountFormat::F3
            {
                count.cycles = count.cycles.map(|cycles| cycles.wrapping_add(change));
            }
        }
    }
}
