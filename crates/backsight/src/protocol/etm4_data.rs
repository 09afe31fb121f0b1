//! The data trace of an ETMv4: found, classified by headers, and carried through.

use backsight_arm::etm4_data::{Decoder, Header, Packet};
use backsight_core::{Accounting, Located};
use backsight_flow::Event;

use super::packets::{PacketDecoder, Packets};
use super::stream::{Notes, StreamSink};
use super::{BadSetting, Described, Following, IdRegister, Landmark, Names, Never, Protocol, Stream};
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
    type Packets = Packets<Decoder>;
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

    fn packets(_config: &()) -> Packets<Decoder> {
        Packets::new(Decoder::new())
    }

    fn execution<'c>(_: &(), _: SourceCode<'c>, _: &Following) -> Result<Unread, &'static str> {
        Ok(Unread(Packets::new(Decoder::new())))
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

impl PacketDecoder for Decoder {
    type Packet = Packet;

    const NOTE: Option<&'static str> = Some(NOTE);

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
        matches!(packet, Packet::Unsynchronised)
    }
}

/// Bytes to nothing: no access is decoded from them.
pub struct Unread(Packets<Decoder>);

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

    fn notes(&self) -> Notes {
        self.0.notes()
    }
}
