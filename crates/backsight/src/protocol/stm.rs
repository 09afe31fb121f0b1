//! STM: what software writes to the channels of a system trace.

use backsight_arm::stm::{Content, Decoder, Packet, PacketSink};
use backsight_capture::events::message::{EVENT_CHANNEL, EventChannel};
use backsight_core::{Accounting, Describe, Located};
use backsight_flow::stm::Follower;
use backsight_flow::{Event, Statistics};

use super::packets::{PacketDecoder, Packets};
use super::stream::{Events, StreamSink};
use super::{BadSetting, Described, Following, IdRegister, Landmark, Names, Never, Protocol, Stream};
use crate::SourceCode;

/// STM.
pub struct Stm;

impl Protocol for Stm {
    const NAMES: &'static [Names] = &[Names {
        name: "stm",
        formats: &["stm", "stp", "stp1", "stp2"],
        format: "STP",
        id_register: Some(IdRegister { names: &["STMTCSR"], lowest_bit: 16 }),
        ..Names::PLAIN
    }];

    /// The channel that events of the operating system are written to.
    type Configuration = Option<EventChannel>;
    type Packet = Packet;
    type Packets = Packets<Decoder>;
    type Execution<'c> = Messages;
    type Branches = Never;

    fn configure(
        source: &Described<'_>,
        _notes: &mut Vec<String>,
    ) -> Result<Option<EventChannel>, BadSetting> {
        let option = source.options.iter().find(|(key, _)| key.eq_ignore_ascii_case(EVENT_CHANNEL));
        option.map(|(key, value)| event_channel(key, value)).transpose()
    }

    fn check(_names: &Names, key: &str, value: &str) -> Result<(), BadSetting> {
        if key.eq_ignore_ascii_case(EVENT_CHANNEL) {
            return event_channel(key, value).map(drop);
        }
        let what = format!("an STM has no setting but {EVENT_CHANNEL}: its packets say all");
        Err(BadSetting { key: key.to_owned(), what, unknown: true })
    }

    fn words(config: &Option<EventChannel>) -> String {
        match config {
            None => "STM (STPv2)".to_owned(),
            Some(EventChannel { master, channel }) => {
                format!("STM (STPv2), system events on master {master} channel {channel}")
            }
        }
    }

    fn packets(_config: &Option<EventChannel>) -> Packets<Decoder> {
        Packets::new(Decoder::new())
    }

    fn execution<'c>(
        _config: &Option<EventChannel>,
        _code: SourceCode<'c>,
        _options: &Following,
    ) -> Result<Messages, &'static str> {
        Ok(Messages { decoder: Decoder::new(), follower: Follower::new(), packets: 0 })
    }

    fn branches(_config: &Option<EventChannel>) -> Result<Never, &'static str> {
        Err("an STM does not trace branches")
    }

    /// It writes `TS` at the end of names, and nothing at that of a null packet.
    fn opencsd_name(packet: &Packet) -> &'static str {
        match packet.content {
            Content::Flag if packet.time.is_some() => "FLAGTS",
            Content::Trigger(_) if packet.time.is_some() => "TRIGTS",
            Content::Null => "NULL",
            _ => packet.name(),
        }
    }

    /// A packet that begins in a high nibble is shown without the low one, and an index further.
    fn opencsd_bytes(packet: &Packet, bytes: &mut [u8]) -> u64 {
        if !packet.begins_in_high_nibble {
            return 0;
        }
        if let Some(first) = bytes.first_mut() {
            *first &= 0xF0;
        }
        match packet.content {
            // One that was searched for is shown as if nothing shared its bytes.
            Content::Async { found: true } => {
                if let Some(last) = bytes.last_mut() {
                    *last = 0x0F;
                }
                0
            }
            _ => 1,
        }
    }

    fn landmark(before: Option<&Packet>, packet: &Packet) -> Landmark {
        let before = before.map(|packet| packet.content);
        match packet.content {
            Content::Version { .. } if matches!(before, Some(Content::Async { .. })) => Landmark::Sync,
            Content::MasterError(_) | Content::GlobalError(_) => Landmark::Overflow,
            Content::Bad(_) => Landmark::Bad,
            Content::Unsynchronised => Landmark::Unsynchronised,
            _ => Landmark::None,
        }
    }
}

fn event_channel(key: &str, value: &str) -> Result<EventChannel, BadSetting> {
    value.parse().map_err(|what| BadSetting { key: key.to_owned(), what, unknown: false })
}

impl PacketDecoder for Decoder {
    type Packet = Packet;

    fn feed(&mut self, bytes: &[u8], sink: &mut impl FnMut(Located<Packet>)) {
        Self::feed(self, bytes, sink);
    }

    fn reset(&mut self, sink: &mut impl FnMut(Located<Packet>)) {
        Self::finish(self, sink);
    }

    fn accounting(&self) -> Accounting {
        Self::accounting(self)
    }

    #[inline(always)]
    fn is_skipped(packet: &Packet) -> bool {
        matches!(packet.content, Content::Unsynchronised)
    }
}

/// Bytes to events.
pub struct Messages {
    decoder: Decoder,
    follower: Follower,
    packets: u64,
}

/// Counts packets, and gives what follows from them.
struct Follow<'s, S> {
    follower: &'s mut Follower,
    packets: &'s mut u64,
    sink: &'s mut S,
}

impl<S: StreamSink<Event>> PacketSink for Follow<'_, S> {
    #[inline(always)]
    fn take(&mut self, packet: Located<Packet>) {
        *self.packets += u64::from(!Decoder::is_skipped(&packet.value));
        self.follower.push(packet, &mut Events { sub_source: 0, sink: self.sink });
    }
}

impl Stream for Messages {
    type Value = Event;

    fn feed<S: StreamSink<Event>>(&mut self, bytes: &[u8], sink: &mut S) {
        let Self { decoder, follower, packets } = self;
        decoder.feed(bytes, &mut Follow { follower, packets, sink });
    }

    fn finish<S: StreamSink<Event>>(&mut self, sink: &mut S) {
        let Self { decoder, follower, packets } = self;
        decoder.finish(&mut Follow { follower, packets, sink });
        follower.finish(&mut Events { sub_source: 0, sink });
    }

    fn reset<S: StreamSink<Event>>(&mut self, sink: &mut S) {
        let Self { decoder, follower, packets } = self;
        decoder.reset(&mut Follow { follower, packets, sink });
        follower.reset();
    }

    fn accounting(&self) -> Accounting {
        self.decoder.accounting()
    }

    fn packets(&self) -> u64 {
        self.packets
    }

    fn statistics(&self) -> Statistics {
        *self.follower.statistics()
    }
}
