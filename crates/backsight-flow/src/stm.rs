//! Packets of a system trace to messages and time.
//!
//! Data belong to the master and the channel that were sent last. A timestamp sends the low nibbles that changed, as
//! they are, in Gray code, or as what passed; the time is put together from those that came before.

use backsight_arm::stm::{Content, Packet, SentTime, TimeCoding};
use backsight_core::Located;

use crate::sink::Sink;
use crate::{
    Channel, Event, HardwareEvent, NoSync, SoftwareMessage, Statistics, SystemEvent, SystemEventKind,
};

/// Turns the packets of one system trace into events.
#[derive(Clone, Debug)]
pub struct Follower {
    begun: bool,
    master: u16,
    channel: u16,
    /// A packet said which master it is.
    is_attributed: bool,
    clock: Clock,
    at: Located<()>,
    statistics: Statistics,
}

/// The time, as far as it is known.
#[derive(Clone, Copy, Debug, Default)]
struct Clock {
    coding: Option<TimeCoding>,
    /// The last timestamp as it is sent, with the nibbles that were not.
    raw: u64,
    /// All nibbles are known.
    is_whole: bool,
}

/// Nibbles of the shortest timestamp that is whole.
const WHOLE: u8 = 12;

impl Clock {
    /// The time after a timestamp; `None` as long as high nibbles are missing.
    #[inline]
    fn take(&mut self, SentTime { nibbles, value }: SentTime) -> Option<u64> {
        self.is_whole |= nibbles >= WHOLE;
        let coding = self.coding?;
        self.raw = match coding {
            TimeCoding::BinaryDelta => self.raw.wrapping_add(value),
            _ if nibbles >= 16 => value,
            _ => self.raw >> (4 * nibbles) << (4 * nibbles) | value,
        };
        let whole = self.is_whole || matches!(coding, TimeCoding::BinaryDelta | TimeCoding::Legacy);
        whole.then(|| if coding == TimeCoding::Gray { from_gray(self.raw) } else { self.raw })
    }
}

/// Bit n is the exclusive or of all bits from n up.
const fn from_gray(gray: u64) -> u64 {
    let mut binary = gray;
    let mut shift = 32;
    while shift > 0 {
        binary ^= binary >> shift;
        shift /= 2;
    }
    binary
}

impl Default for Follower {
    fn default() -> Self {
        Self::new()
    }
}

impl Follower {
    /// At the beginning of a stream.
    pub fn new() -> Self {
        Self {
            begun: false,
            master: 0,
            channel: 0,
            is_attributed: false,
            clock: Clock::default(),
            at: Located { offset: 0, length: 0, value: () },
            statistics: Statistics::default(),
        }
    }

    /// Takes the next packet.
    #[inline(always)]
    pub fn push(&mut self, packet: Located<Packet>, sink: &mut impl Sink) {
        self.at = packet.map(|_| ());
        if !self.begun {
            self.begin(sink);
        }
        let Packet { content, time, .. } = packet.value;
        match content {
            Content::Data { value, nibbles, marked } => {
                let message = SoftwareMessage::new(self.current(), value, nibbles.div_ceil(2));
                let message = if nibbles == 1 { message.nibble() } else { message };
                let time = time.and_then(|time| self.clock.take(time));
                self.message(if marked { message.marked() } else { message }, time, sink);
            }
            _ => self.push_any(content, time, sink),
        }
    }

    /// A packet that is no data.
    #[inline(never)]
    fn push_any(&mut self, content: Content, sent: Option<SentTime>, sink: &mut impl Sink) {
        let time = sent.and_then(|time| self.clock.take(time));
        match content {
            Content::Async { .. } | Content::Data { .. } => {}
            Content::Version { value, .. } => {
                self.clock = Clock { coding: TimeCoding::from_version(value), ..Clock::default() };
                (self.master, self.channel) = (0, 0);
            }
            Content::Master8(master) => self.own(self.master & 0xFF00 | u16::from(master)),
            Content::Master16(master) => self.own(master),
            Content::Channel8(channel) => self.channel = self.channel & 0xFF00 | u16::from(channel),
            Content::Channel16(channel) => self.channel = channel,
            Content::Flag => self.message(SoftwareMessage::new(self.current(), 0, 0).marked(), time, sink),
            Content::Null if sent.is_some() => self.system(SystemEventKind::Time, 0, time, sink),
            Content::Null => {}
            Content::Trigger(value) => self.system(SystemEventKind::Trigger, value.into(), time, sink),
            Content::Frequency(value) => self.system(SystemEventKind::Frequency, value.into(), time, sink),
            Content::Frequency40(value) => self.system(SystemEventKind::Frequency, value, time, sink),
            Content::CrossSync(value) => self.system(SystemEventKind::CrossSync, value.into(), time, sink),
            Content::MasterError(value) => {
                self.statistics.gaps.overflow += 1;
                self.system(SystemEventKind::MasterError, value.into(), time, sink);
                self.channel = 0;
            }
            Content::GlobalError(value) => {
                self.statistics.gaps.overflow += 1;
                self.system(SystemEventKind::GlobalError, value.into(), time, sink);
                (self.master, self.channel, self.is_attributed) = (0, 0, false);
            }
            Content::Bad(_) => {
                self.forget();
                self.emit(Event::NoSync(NoSync::BadPacket), sink);
            }
            Content::Unsynchronised => self.emit(Event::NoSync(NoSync::Initial), sink),
        }
    }

    /// The trace ends. The follower is as new afterwards, but for what it counted.
    pub fn finish(&mut self, sink: &mut impl Sink) {
        self.begin(sink);
        self.emit(Event::EndOfTrace { after_overflow: false }, sink);
        self.reset();
        self.begun = false;
    }

    /// Begins again, as after a gap in the data.
    pub fn reset(&mut self) {
        self.forget();
    }

    fn forget(&mut self) {
        (self.master, self.channel, self.is_attributed) = (0, 0, false);
        self.clock = Clock::default();
    }

    fn begin(&mut self, sink: &mut impl Sink) {
        if !std::mem::replace(&mut self.begun, true) {
            self.emit(Event::StartOfTrace, sink);
        }
    }

    fn own(&mut self, master: u16) {
        (self.master, self.channel, self.is_attributed) = (master, 0, true);
    }

    #[inline]
    const fn current(&self) -> Channel {
        match self.is_attributed {
            true => Channel::Master { master: self.master, channel: self.channel },
            false => Channel::Unknown,
        }
    }

    #[inline]
    fn message(&mut self, message: SoftwareMessage, time: Option<u64>, sink: &mut impl Sink) {
        let message = time.map_or(message, |time| message.at(time));
        // Nobody counts messages.
        self.give(Event::Software(message), sink);
    }

    fn system(&mut self, kind: SystemEventKind, value: u64, time: Option<u64>, sink: &mut impl Sink) {
        let event = SystemEvent::new(kind, self.current(), value, time);
        self.emit(Event::Hardware(HardwareEvent::System(event)), sink);
    }

    /// What was counted.
    pub const fn statistics(&self) -> &Statistics {
        &self.statistics
    }

    #[inline]
    fn emit(&mut self, value: Event, sink: &mut impl Sink) {
        self.statistics.count(&value);
        self.give(value, sink);
    }

    #[inline]
    fn give(&mut self, value: Event, sink: &mut impl Sink) {
        sink.take(self.at.map(|()| value));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn events(packets: &[Packet]) -> Vec<String> {
        let (mut follower, mut lines) = (Follower::new(), Vec::new());
        let mut sink = |event: Located<Event>| lines.push(event.value.to_string());
        for (offset, &value) in (0..).zip(packets) {
            follower.push(Located { offset, length: 1, value }, &mut sink);
        }
        follower.finish(&mut sink);
        lines.pop();
        lines.remove(0);
        lines
    }

    fn version(value: u8) -> Packet {
        Packet::new(Content::Version { value, more: None })
    }

    const BYTE: Packet = Packet::new(Content::Data { value: 0x41, nibbles: 2, marked: false });

    #[test]
    fn data_belong_to_the_master_and_channel_that_were_sent_last() {
        let packets = [
            version(3),
            BYTE,
            Packet::new(Content::Master16(0x1234)),
            Packet::new(Content::Channel16(0x506)),
            BYTE,
            Packet::new(Content::Channel8(7)),
            Packet::new(Content::Data { value: 5, nibbles: 1, marked: true }),
            Packet::new(Content::Master8(1)),
            Packet::new(Content::Flag),
            Packet::new(Content::GlobalError(3)),
            BYTE,
        ];
        let expected = [
            "message unknown master 0x41 \"A\"",
            "message master 4660 channel 1286 0x41 \"A\"",
            "message master 4660 channel 1287 0x5, marked",
            "message master 4609 channel 0, marked",
            "hardware: messages lost 3 master 4609 channel 0",
            "message unknown master 0x41 \"A\"",
        ];
        assert_eq!(events(&packets), expected);
    }

    fn times(coding: u8, sent: &[(u8, u64)]) -> Vec<String> {
        let stamped = sent.iter().map(|&(nibbles, value)| Packet::new(Content::Flag).at(nibbles, value));
        let packets: Vec<Packet> = [version(coding)].into_iter().chain(stamped).collect();
        let time = |line: String| line.split_once("at ").map_or("-", |(_, time)| time).to_owned();
        events(&packets).into_iter().map(time).collect()
    }

    #[test]
    fn timestamps_are_put_together_in_every_coding() {
        let whole = 0x1234_5678_9ABC;
        assert_eq!(
            times(3, &[(2, 5), (12, whole), (0, 0), (1, 0xD), (16, 7)]),
            ["-", "0x123456789abc", "0x123456789abc", "0x123456789abd", "0x7"]
        );
        assert_eq!(times(2, &[(12, 0x100), (2, 0x20)]), ["0x100", "0x120"]);
        let gray = |binary: u64| binary ^ binary >> 1;
        assert_eq!(
            times(4, &[(12, gray(whole)), (2, gray(whole + 1) & 0xFF)]),
            ["0x123456789abc", "0x123456789abd"]
        );
        assert_eq!(times(1, &[(2, 0x12), (2, 0x34)]), ["0x12", "0x34"]);
    }

    #[test]
    fn gray_code_changes_one_bit_at_a_time() {
        for binary in [0, 1, 2, 0xFFFF, u64::MAX, 0x8000_0000_0000_0000] {
            assert_eq!(from_gray(binary ^ binary >> 1), binary);
        }
    }
}
