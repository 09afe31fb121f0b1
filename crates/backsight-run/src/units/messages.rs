//! What a program writes to its standard output and error, as messages of a trace source beside the units of its cores.
//!
//! Each write is one message: on an STM it begins with a marked packet that has a timestamp and ends with a flag; on an
//! ITM its bytes go to a stimulus port, and timestamps follow. Standard output is channel or port 1, standard error 2.

use backsight_arm::itm;
use backsight_arm::stm::{self, Content};
use backsight_capture::events::Item;
use backsight_capture::events::message::{self, EVENT_CHANNEL, EventChannel};
use backsight_core::TraceId;

use super::UnitDescription;

/// The trace ID of the source: above those of all threads but the last few.
const ID: TraceId = TraceId::new(0x6F);
/// The channel for events of the operating system: after those of a program's streams.
const EVENTS: u8 = 16;
/// Messages between two synchronisations.
const RESYNC: u32 = 64;

/// A kind of source of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageKind {
    /// A system trace.
    Stm,
    /// An instrumentation trace.
    Itm,
}

impl MessageKind {
    /// Every kind.
    pub const ALL: [Self; 2] = [Self::Stm, Self::Itm];

    /// What it is called in arguments.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Stm => "stm",
            Self::Itm => "itm",
        }
    }

    /// The kind of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

/// Turns what is written into the bytes of a trace source.
#[derive(Debug)]
pub struct MessageUnit {
    kind: MessageKind,
    stm: stm::Encoder,
    itm: itm::Encoder,
    /// Messages since the last synchronisation.
    since_sync: u32,
    /// The time that was sent last; `None` if all of it is to be sent.
    sent: Option<u64>,
    channel: Option<u8>,
    /// Number of the next event, if events of the operating system are messages, too.
    next_event: Option<u32>,
}

impl MessageUnit {
    /// A source that has seen nothing yet.
    pub fn new(kind: MessageKind) -> Self {
        let (stm, itm) = (stm::Encoder::new(), itm::Encoder::new());
        Self { kind, stm, itm, since_sync: RESYNC, sent: None, channel: None, next_event: None }
    }

    /// An STM that takes events of the operating system, besides what is written.
    pub fn with_events() -> Self {
        Self { next_event: Some(0), ..Self::new(MessageKind::Stm) }
    }

    /// Its trace ID.
    pub const fn id(&self) -> TraceId {
        ID
    }

    /// How a capture describes it.
    pub fn describe(&self) -> UnitDescription {
        let format = match self.kind {
            MessageKind::Stm => "STP",
            MessageKind::Itm => "ITM",
        };
        let channel = EventChannel { master: 0, channel: EVENTS.into() };
        let options = self.next_event.map(|_| (EVENT_CHANNEL.to_owned(), channel.to_string()));
        UnitDescription { format, registers: Vec::new(), options: options.into_iter().collect() }
    }

    /// Something was written to a stream (1 output, 2 error) at a time.
    pub fn write(&mut self, stream: u8, bytes: &[u8], time: u64, out: &mut Vec<u8>) {
        let synchronises = self.since_sync >= RESYNC;
        self.since_sync = if synchronises { 1 } else { self.since_sync + 1 };
        match self.kind {
            MessageKind::Stm => self.write_stm(synchronises, stream, bytes, time, out),
            MessageKind::Itm => self.write_itm(synchronises, stream, bytes, time, out),
        }
    }

    /// The operating system did something at a time. An event that is too long for a message leaves its number out: it is
    /// lost, and a reader knows.
    pub fn event(&mut self, time: u64, item: &Item, out: &mut Vec<u8>) {
        let Some(sequence) = self.next_event else { return };
        self.next_event = Some(sequence.wrapping_add(1));
        if let Some(bytes) = message::encode(sequence, item) {
            self.write(EVENTS, &bytes, time, out);
        }
    }

    fn write_stm(&mut self, synchronises: bool, stream: u8, bytes: &[u8], time: u64, out: &mut Vec<u8>) {
        let mut put = |packet: stm::Packet| {
            // Every value has room in its field.
            let _ = self.stm.put(&packet, out);
        };
        if synchronises {
            put(stm::Packet::new(Content::Async { found: false }));
            put(stm::Packet::new(Content::Version { value: 3, more: None }));
            put(stm::Packet::new(Content::Master8(0)));
            (self.sent, self.channel) = (None, None);
        }
        if self.channel != Some(stream) {
            put(stm::Packet::new(Content::Channel8(stream)));
            self.channel = Some(stream);
        }
        let mut marked = true;
        for (value, size) in pieces(bytes, 8) {
            let packet = stm::Packet::new(Content::Data { value, nibbles: 2 * size, marked });
            let nibbles = changed_nibbles(self.sent, time);
            put(if marked { packet.at(nibbles, low_nibbles(time, nibbles)) } else { packet });
            (marked, self.sent) = (false, Some(time));
        }
        put(stm::Packet::new(Content::Flag));
        // The second half of the last byte is not to wait for the next message: recording may be interrupted.
        self.stm.finish(out);
    }

    fn write_itm(&mut self, synchronises: bool, stream: u8, bytes: &[u8], time: u64, out: &mut Vec<u8>) {
        let mut put = |packet: itm::Packet| {
            let _ = self.itm.put(&packet, out);
        };
        if synchronises {
            put(itm::Packet::Sync);
        }
        // The time before the message bounds it from below.
        let high = time >> 26;
        let wrapped = synchronises || self.sent.is_none_or(|sent| sent >> 26 != high);
        let low = itm::Packet::GlobalTimestamp1 {
            low: (time & 0x03FF_FFFF) as u32,
            length: 4,
            wrapped,
            clock_changed: false,
        };
        for (value, size) in pieces(bytes, 4) {
            put(itm::Packet::Instrumentation { port: stream, value: value as u32, size });
        }
        put(low);
        if wrapped {
            put(itm::Packet::GlobalTimestamp2 { high, wide: true });
        }
        self.sent = Some(time);
    }
}

/// The bytes in values of at most so many, whose sizes are powers of two.
fn pieces(mut bytes: &[u8], most: usize) -> impl Iterator<Item = (u64, u8)> {
    std::iter::from_fn(move || {
        let size = bytes.len().min(most);
        let size = if size == 0 { return None } else { 1 << size.ilog2() };
        let (now, later) = bytes.split_at(size);
        bytes = later;
        Some((now.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte)), size as u8))
    })
}

/// Nibbles of a timestamp that are to be sent after another one: a number that packets have a length for.
fn changed_nibbles(sent: Option<u64>, time: u64) -> u8 {
    let Some(sent) = sent else { return 16 };
    match (64 - (sent ^ time).leading_zeros()).div_ceil(4) as u8 {
        13 => 14,
        15 => 16,
        nibbles => nibbles,
    }
}

const fn low_nibbles(time: u64, nibbles: u8) -> u64 {
    if nibbles >= 16 { time } else { time & ((1 << (4 * nibbles)) - 1) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use backsight_core::Located;
    use backsight_flow::{Event, Sink, SourceTime};

    /// Bytes by stream, and the times that were reported.
    type Reported = (Vec<(u8, Vec<u8>)>, Vec<u64>);

    fn decoded(kind: MessageKind, bytes: &[u8]) -> Reported {
        let (mut written, mut times): Reported = Default::default();
        let mut sink = |event: Located<Event>| match event.value {
            Event::Software(message) => {
                let stream = match message.channel {
                    backsight_flow::Channel::Port(port) => port as u8,
                    backsight_flow::Channel::Master { channel, .. } => channel as u8,
                    other => panic!("{other:?}"),
                };
                match written.last_mut() {
                    Some((last, bytes)) if *last == stream => bytes.extend(message.bytes()),
                    _ => written.push((stream, message.bytes().collect())),
                }
                times.extend(message.time());
            }
            Event::SourceTime(SourceTime::Global { value, .. }) => times.push(value),
            Event::NoSync(_) => panic!("{event:?}"),
            _ => {}
        };
        follow(kind, bytes, &mut sink);
        (written, times)
    }

    fn follow(kind: MessageKind, bytes: &[u8], sink: &mut impl Sink) {
        match kind {
            MessageKind::Stm => {
                let (mut decoder, mut follower) = (stm::Decoder::new(), backsight_flow::stm::Follower::new());
                decoder.feed(bytes, &mut |packet| follower.push(packet, sink));
                follower.finish(sink);
            }
            MessageKind::Itm => {
                let config = itm::Config::default();
                let mut follower = backsight_flow::itm::Follower::new(&config);
                itm::Decoder::new(&config).feed(bytes, &mut |packet| follower.push(packet, sink));
                follower.finish(sink);
            }
        }
    }

    #[test]
    fn what_is_written_comes_back_with_its_time() {
        for kind in MessageKind::ALL {
            let (mut unit, mut bytes) = (MessageUnit::new(kind), Vec::new());
            let (mut expected, mut times) = (Vec::new(), Vec::new());
            for number in 0..200u64 {
                let (stream, time) = (1 + (number % 2) as u8, number * number * 1_000_003);
                let text = format!("line {number} {}\n", "x".repeat(number as usize % 19));
                unit.write(stream, text.as_bytes(), time, &mut bytes);
                expected.push((stream, text.into_bytes()));
                times.push(time);
                if number < 20 {
                    let written = decoded(kind, &bytes);
                    assert_eq!(written, (expected.clone(), times.clone()), "{}: nothing waits", kind.name());
                }
            }
            assert_eq!(decoded(kind, &bytes), (expected, times), "{}", kind.name());
        }
    }
}
