//! The data trace of an ETMv4: found, classified by headers, and carried through.

use backsight_arm::etm4_data::{Decoder, Header, Packet};
use backsight_core::{Accounting, Describe, Located};
use backsight_flow::Event;

use super::stream::StreamSink;
use super::{
    BadSetting, Described, Following, IdRegister, Kinds, Landmark, Names, Never, PacketStream, Protocol,
    Stream,
};
use crate::SourceCode;

/// ETMv4 data trace.
pub struct Etm4Data;

const NOTE: &str = "data trace of an ETMv4: headers are classified; how long packets of addresses and values are is not \
                    established, and their bytes are carried through unread up to the next A-sync";

impl Protocol for Etm4Data {
    const NAMES: &'static [Names] = &[Names {
        name: "etm4-data",
        // The second stream of the trace unit.
        formats: &["etm4", "etm4-data", "etm4_data"],
        stream: 1,
        format: "ETM4.0",
        id_register: Some(IdRegister { names: &["TRCTRACEIDR"], lowest_bit: 0 }),
        ..Names::PLAIN
    }];

    type Configuration = ();
    type Packet = Packet;
    type Packets = Packets;
    type Execution<'c> = Unread;
    type Branches = Never;

    fn configure(_source: &Described<'_>, _notes: &mut Vec<String>) -> Result<(), BadSetting> {
        Ok(())
    }

    fn check(_names: &Names, key: &str, _value: &str) -> Result<(), BadSetting> {
        let what = "the data trace of an ETMv4 has no settings here".to_owned();
        Err(BadSetting { key: key.to_owned(), what, unknown: true })
    }

    fn words(_config: &()) -> String {
        "ETMv4 data trace: headers only".to_owned()
    }

    fn packets(_config: &()) -> Packets {
        Packets { decoder: Decoder::new(), packets: 0 }
    }

    fn execution<'c>(_: &(), _: SourceCode<'c>, _: &Following) -> Result<Unread, &'static str> {
        Ok(Unread(Packets { decoder: Decoder::new(), packets: 0 }))
    }

    fn branches(_config: &()) -> Result<Never, &'static str> {
        Err("data trace has no branches")
    }

    fn landmark(_before: Option<&Packet>, packet: &Packet) -> Landmark {
        match packet {
            Packet::Async => Landmark::Sync,
            Packet::Whole(Header::Overflow) => Landmark::Overflow,
            Packet::Bad | Packet::Incomplete => Landmark::Bad,
            Packet::Unsynchronised => Landmark::Unsynchronised,
            Packet::Whole(_) | Packet::Unread(_) => Landmark::None,
        }
    }
}

/// Bytes to headers.
pub struct Packets {
    decoder: Decoder,
    packets: u64,
}

/// Counts what is a packet.
fn is_packet(packet: &Packet) -> u64 {
    u64::from(!matches!(packet, Packet::Unsynchronised))
}

impl Stream for Packets {
    type Value = Packet;

    fn feed<S: StreamSink<Packet>>(&mut self, bytes: &[u8], sink: &mut S) {
        self.decoder.feed(bytes, &mut |packet| {
            self.packets += is_packet(&packet.value);
            sink.take(0, packet);
        });
    }

    fn finish<S: StreamSink<Packet>>(&mut self, sink: &mut S) {
        self.decoder.finish(&mut |packet| {
            self.packets += is_packet(&packet.value);
            sink.take(0, packet);
        });
    }

    fn reset<S: StreamSink<Packet>>(&mut self, sink: &mut S) {
        self.finish(sink);
    }

    fn accounting(&self) -> Accounting {
        self.decoder.accounting()
    }

    fn packets(&self) -> u64 {
        self.packets
    }

    fn notes(&self) -> Vec<String> {
        vec![NOTE.to_owned()]
    }
}

impl PacketStream for Packets {
    fn tally(&mut self, bytes: &[u8], kinds: &mut Kinds) {
        self.feed(bytes, &mut |_, packet: Located<Packet>| {
            kinds.add(packet.value.name(), 1, packet.length.into())
        });
    }
}

/// Bytes to nothing: no access is decoded from them.
pub struct Unread(Packets);

impl Stream for Unread {
    type Value = Event;

    fn feed<S: StreamSink<Event>>(&mut self, bytes: &[u8], _sink: &mut S) {
        self.0.feed(bytes, &mut |_, _| {});
    }

    fn finish<S: StreamSink<Event>>(&mut self, _sink: &mut S) {
        self.0.finish(&mut |_, _| {});
    }

    fn reset<S: StreamSink<Event>>(&mut self, _sink: &mut S) {
        self.0.reset(&mut |_, _| {});
    }

    fn accounting(&self) -> Accounting {
        self.0.accounting()
    }

    fn packets(&self) -> u64 {
        self.0.packets()
    }

    fn notes(&self) -> Vec<String> {
        self.0.notes()
    }
}
