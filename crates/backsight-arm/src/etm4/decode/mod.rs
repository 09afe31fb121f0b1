//! Bytes to packets.
//!
//! The stream of a trace unit has no framing of its own. A decoder hunts for an Async, after which packet follows
//! packet; it needs the address history, the last timestamp and the cycle threshold to read them. Nothing but
//! a gap in the stream makes it hunt again: bad packets, Discard and Overflow leave the bytes aligned.

mod fast;
mod fields;
mod hunt;
mod payload;
mod shape;
mod whole;

use backsight_core::{Accounting, Located};

use super::{AddressHistory, Bad, Config, CycleCountFormat, Kind, Packet, lookup};
use fast::Fast;
use fields::Stop;
use hunt::Hunt;
pub(super) use payload::timestamp_bits;

/// No packet is longer: a Trace Info has a header, 5 control bytes and 5 sections of 5 bytes.
pub const MAX_PACKET: usize = 31;

/// Greatest number of bytes of a field with a 32-bit value.
const FIELD: usize = 5;
/// Greatest number of bytes of a cycle count.
const COUNT: usize = 3;

/// Decodes the instruction trace stream of one trace unit.
#[derive(Clone, Debug)]
pub struct Decoder {
    config: Config,
    /// The packets that are all in their header.
    whole: [Option<Packet>; 256],
    /// How to go on after the other headers, at leisure and in haste.
    next: [Next; 256],
    fast: [Fast; 256],
    /// The bits of the cycle counter.
    cycle_mask: u32,
    state: State,
    /// Stream offset of the first byte that is in no packet yet.
    offset: u64,
    hunt: Option<Hunt>,
    /// The beginning of a packet whose end has not been fed.
    carry: [u8; MAX_PACKET],
    carried: usize,
    accounting: Accounting,
}

/// What packets change and need.
#[derive(Clone, Copy, Debug, Default)]
struct State {
    history: AddressHistory,
    timestamp: u64,
    threshold: u32,
    /// SF of the last context packet: a 32-bit address keeps the upper half of the newest address.
    wide: bool,
}

/// How to read what a header introduces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Bad(Bad),
    Payload(Kind),
}

impl Decoder {
    /// A decoder at the beginning of a stream.
    pub fn new(config: &Config) -> Self {
        Self::starting_at(config, 0)
    }

    /// A decoder that begins with the byte at `offset` of a stream.
    pub fn starting_at(config: &Config, offset: u64) -> Self {
        let mut decoder = Self {
            config: *config,
            whole: [None; 256],
            next: [Next::Bad(Bad::Reserved); 256],
            fast: [Fast::No; 256],
            cycle_mask: (1 << config.cycle_counter_bits()) - 1,
            state: State::default(),
            offset,
            hunt: Some(Hunt::new(offset)),
            carry: [0; MAX_PACKET],
            carried: 0,
            accounting: Accounting::default(),
        };
        for header in 0..=255u8 {
            let index = usize::from(header);
            let row = lookup(header);
            match row.when.check(config) {
                Ok(()) => {
                    decoder.whole[index] = whole::whole(header, config);
                    decoder.next[index] = Next::Payload(row.kind);
                    decoder.fast[index] = Fast::new(header, row.kind, config.commit_mode1());
                }
                Err(why) => decoder.next[index] = Next::Bad(why),
            }
        }
        decoder
    }

    /// Takes the next bytes of the stream and gives the packets that end in them. However a stream is cut into
    /// pieces, the packets are the same.
    pub fn feed(&mut self, bytes: &[u8], sink: &mut impl FnMut(Located<Packet>)) {
        let mut rest = bytes;
        if let Some(hunt) = &mut self.hunt {
            let Some(used) = hunt.feed(rest) else { return };
            rest = rest.get(used..).unwrap_or_default();
            while let Some(packet) = self.hunted() {
                sink(packet);
            }
        }
        if self.carried > 0 {
            rest = self.complete(rest, sink);
        }
        let used = self.run(rest, sink);
        rest = rest.get(used..).unwrap_or_default();
        while let Some(packet) = self.decode(rest) {
            rest = rest.get(packet.length as usize..).unwrap_or_default();
            sink(packet);
        }
        // Fewer than MAX_PACKET bytes are left: more would have been a packet.
        if let Some(carry) = self.carry.get_mut(self.carried..self.carried + rest.len()) {
            carry.copy_from_slice(rest);
            self.carried += rest.len();
        }
    }

    /// The stream ends: reports the bytes that are in no packet yet. What is fed after that is a new piece of stream,
    /// as after [`Decoder::reset`].
    pub fn finish(&mut self, sink: &mut impl FnMut(Located<Packet>)) {
        self.reset(sink);
    }

    /// Bytes of the stream are missing here: reports the packet that they cut off, forgets all state and hunts for the
    /// next Async. Offsets go on as if nothing was missing.
    pub fn reset(&mut self, sink: &mut impl FnMut(Located<Packet>)) {
        if let Some(hunt) = &mut self.hunt {
            hunt.give_up();
            while let Some(packet) = self.hunted() {
                sink(packet);
            }
        } else if self.carried > 0 {
            sink(self.located(Packet::Bad(Bad::Incomplete), self.carried));
            self.carried = 0;
        }
        self.set_threshold(0);
        self.state = State::default();
        self.hunt = Some(Hunt::new(self.offset));
    }

    /// What became of the bytes so far. Those of a packet that has not ended are in no count yet.
    pub fn accounting(&self) -> Accounting {
        self.accounting
    }

    /// Completes the packet whose beginning was carried over; gives the bytes behind it.
    fn complete<'a>(&mut self, bytes: &'a [u8], sink: &mut impl FnMut(Located<Packet>)) -> &'a [u8] {
        let carried = self.carried;
        let mut window = self.carry;
        let more = bytes.len().min(MAX_PACKET - carried);
        let length = carried + more;
        if let (Some(to), Some(from)) = (window.get_mut(carried..length), bytes.get(..more)) {
            to.copy_from_slice(from);
        }
        match self.decode(window.get(..length).unwrap_or_default()) {
            Some(packet) => {
                self.carried = 0;
                sink(packet);
                bytes.get(packet.length as usize - carried..).unwrap_or_default()
            }
            None => {
                self.carry = window;
                self.carried = length;
                &[]
            }
        }
    }

    /// The next packet that a hunt has found: skipped bytes, then the Async.
    fn hunted(&mut self) -> Option<Located<Packet>> {
        let packet = self.hunt.as_mut()?.next()?;
        match packet.value {
            Packet::Unsynchronised => self.accounting.unsynchronised += u64::from(packet.length),
            _ => {
                self.accounting.decoded += u64::from(packet.length);
                self.hunt = None;
            }
        }
        self.offset = packet.end();
        Some(packet)
    }

    /// The packet at the start of `bytes`, if all of it is there: the clear reader.
    fn decode(&mut self, bytes: &[u8]) -> Option<Located<Packet>> {
        let header = usize::from(*bytes.first()?);
        if let Some(packet) = self.whole[header] {
            return Some(self.located(packet, 1));
        }
        match self.next[header] {
            Next::Bad(why) => Some(self.located(Packet::Bad(why), 1)),
            Next::Payload(kind) => match self.payload(kind, bytes) {
                Ok((packet, length)) => Some(self.located(packet, length)),
                Err(Stop::TooLong(length)) => Some(self.located(Packet::Bad(Bad::FieldTooLong), length)),
                Err(Stop::Incomplete) => None,
            },
        }
    }

    /// Places a packet at the current offset, and counts its bytes.
    #[inline]
    fn located(&mut self, packet: Packet, length: usize) -> Located<Packet> {
        let located = Located { offset: self.offset, length: length as u32, value: packet };
        self.offset += length as u64;
        match packet {
            Packet::Bad(_) => self.accounting.bad += length as u64,
            _ => self.accounting.decoded += length as u64,
        }
        located
    }

    /// The threshold is part of every cycle count, also of those that are all in their header.
    fn set_threshold(&mut self, threshold: u32) {
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

/// The packets of a whole stream that is in memory.
pub fn packets<'a>(config: &Config, bytes: &'a [u8]) -> Packets<'a> {
    Packets { decoder: Decoder::new(config), rest: bytes }
}

/// Iterator over the packets of a stream, see [`packets`].
#[derive(Clone, Debug)]
pub struct Packets<'a> {
    decoder: Decoder,
    rest: &'a [u8],
}

impl Packets<'_> {
    /// What became of the bytes so far.
    pub fn accounting(&self) -> Accounting {
        self.decoder.accounting()
    }
}

impl Iterator for Packets<'_> {
    type Item = Located<Packet>;

    fn next(&mut self) -> Option<Located<Packet>> {
        if let Some(hunt) = &mut self.decoder.hunt {
            if !hunt.is_over() {
                let used = hunt.feed(self.rest).unwrap_or_else(|| {
                    hunt.give_up();
                    self.rest.len()
                });
                self.rest = self.rest.get(used..).unwrap_or_default();
            }
            return self.decoder.hunted();
        }
        if let Some(packet) = self.decoder.decode(self.rest) {
            self.rest = self.rest.get(packet.length as usize..).unwrap_or_default();
            return Some(packet);
        }
        if self.rest.is_empty() {
            return None;
        }
        let length = self.rest.len();
        self.rest = &[];
        Some(self.decoder.located(Packet::Bad(Bad::Incomplete), length))
    }
}
