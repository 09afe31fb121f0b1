//! RISC-V N-Trace (Nexus): described by how many bits the number of a source has.

use backsight_core::{Accounting, Describe, Located};
use backsight_flow::ntrace::{Follower, Options};
use backsight_flow::{Event, Statistics};
use backsight_isa::rv;
use backsight_riscv::ntrace::{Config, Decoder, MOST_SOURCE_BITS, Message, Packet};

use super::by_sub_source::BySubSource;
use super::riscv::registers_of;
use super::stream::{Events, StreamSink};
use super::{
    BadSetting, Described, Following, Kinds, Landmark, Names, Never, PacketStream, Protocol, Stream,
};
use crate::SourceCode;

/// N-Trace.
pub struct Ntrace;

/// Most harts that are kept apart: more are a sign of a wrong configuration.
const MOST_HARTS: usize = 1024;

impl Protocol for Ntrace {
    const NAMES: &'static [Names] = &[Names {
        name: "ntrace",
        formats: &["ntrace", "n-trace", "nexus", "ntrace1"],
        format: "N-Trace",
        ..Names::PLAIN
    }];

    type Configuration = Config;
    type Packet = Packet;
    type Packets = Packets;
    type Execution<'c> = Execution<'c>;
    type Branches = Never;

    fn configure(source: &Described<'_>, _notes: &mut Vec<String>) -> Result<Config, BadSetting> {
        let mut config = Config::default();
        for (key, value) in source.options {
            config.source_bits = source_bits(key, value)?;
        }
        Ok(config)
    }

    fn check(_names: &Names, key: &str, value: &str) -> Result<(), BadSetting> {
        source_bits(key, value).map(drop)
    }

    fn words(config: &Config) -> String {
        format!("N-Trace, {} bits of source", config.source_bits)
    }

    fn numbers_harts(config: &Config) -> bool {
        config.source_bits > 0
    }

    fn packets(config: &Config) -> Packets {
        Packets { decoder: Decoder::new(config), packets: 0 }
    }

    fn execution<'c>(
        config: &Config,
        code: SourceCode<'c>,
        options: &Following,
    ) -> Result<Execution<'c>, &'static str> {
        let set = registers_of(code.image()).unwrap_or(rv::Set::RV64);
        let options = Options { strict_image: options.strict_image, ..Options::default() };
        let mut followers = BySubSource::new(MOST_HARTS);
        // Without a field for it there is one hart, even if it says nothing.
        if config.source_bits == 0 {
            followers.of(0, || Follower::with_options(set, code, options));
        }
        Ok(Execution {
            decoder: Decoder::new(config),
            harts: Harts { followers, code, set, options, packets: 0 },
        })
    }

    fn branches(_config: &Config) -> Result<Never, &'static str> {
        Err("N-Trace does not name the targets of branches: they are in the code")
    }

    fn landmark(_before: Option<&Packet>, packet: &Packet) -> Landmark {
        match (&packet.message, packet.timestamp) {
            (Message::Bad(_), _) => Landmark::Bad,
            (Message::Error { .. }, _) => Landmark::Overflow,
            (message, Some(time)) if message.is_sync() && time != 0 => Landmark::Time(time),
            (message, _) if message.is_sync() => Landmark::Sync,
            _ => Landmark::None,
        }
    }
}

fn source_bits(key: &str, value: &str) -> Result<u8, BadSetting> {
    let bad = |what: &str, unknown| BadSetting { key: key.to_owned(), what: what.to_owned(), unknown };
    match key {
        "source_bits" | "src_bits" => {
            let bits = value.parse().ok().filter(|&bits| bits <= MOST_SOURCE_BITS);
            bits.ok_or_else(|| bad("0 to 12 bits are expected", false))
        }
        _ => Err(bad("N-Trace has the setting source_bits only", true)),
    }
}

/// Bytes to messages.
pub struct Packets {
    decoder: Decoder,
    packets: u64,
}

impl Stream for Packets {
    type Value = Packet;

    fn feed<S: StreamSink<Packet>>(&mut self, bytes: &[u8], sink: &mut S) {
        self.decoder.feed(bytes, &mut |packet| {
            self.packets += 1;
            sink.take(packet.value.source, packet);
        });
    }

    fn finish<S: StreamSink<Packet>>(&mut self, sink: &mut S) {
        self.decoder.finish(&mut |packet| {
            self.packets += 1;
            sink.take(packet.value.source, packet);
        });
    }

    fn reset<S: StreamSink<Packet>>(&mut self, sink: &mut S) {
        self.decoder.reset(&mut |packet| {
            self.packets += 1;
            sink.take(packet.value.source, packet);
        });
    }

    fn accounting(&self) -> Accounting {
        self.decoder.accounting()
    }

    fn packets(&self) -> u64 {
        self.packets
    }
}

impl PacketStream for Packets {
    fn tally(&mut self, bytes: &[u8], kinds: &mut Kinds) {
        self.feed(bytes, &mut |_, packet: Located<Packet>| {
            kinds.add(packet.value.name(), 1, packet.length.into())
        });
    }
}

/// Bytes to execution, each hart by itself.
pub struct Execution<'c> {
    decoder: Decoder,
    harts: Harts<'c>,
}

struct Harts<'c> {
    followers: BySubSource<Follower<SourceCode<'c>>>,
    code: SourceCode<'c>,
    set: rv::Set,
    options: Options,
    packets: u64,
}

impl Harts<'_> {
    fn push(&mut self, packet: Located<Packet>, sink: &mut impl StreamSink<Event>) {
        if sink.is_done() {
            return;
        }
        self.packets += 1;
        let (hart, set, code, options) = (packet.value.source, self.set, self.code, self.options);
        // Nobody knows whose the bytes of a bad message were.
        if let Message::Bad(_) = packet.value.message {
            for (hart, follower) in self.followers.iter_mut() {
                follower.push(packet, &mut Events { sub_source: hart, sink });
            }
        } else if let Some(follower) = self.followers.of(hart, || Follower::with_options(set, code, options))
        {
            follower.push(packet, &mut Events { sub_source: hart, sink });
        }
    }
}

impl Stream for Execution<'_> {
    type Value = Event;

    fn feed<S: StreamSink<Event>>(&mut self, bytes: &[u8], sink: &mut S) {
        let Self { decoder, harts } = self;
        decoder.feed(bytes, &mut |packet| harts.push(packet, sink));
    }

    fn finish<S: StreamSink<Event>>(&mut self, sink: &mut S) {
        let Self { decoder, harts } = self;
        decoder.finish(&mut |packet| harts.push(packet, sink));
        for (hart, follower) in harts.followers.iter_mut() {
            if !sink.is_done() {
                follower.finish(&mut Events { sub_source: hart, sink });
            }
        }
    }

    fn reset<S: StreamSink<Event>>(&mut self, sink: &mut S) {
        self.finish(sink);
    }

    fn accounting(&self) -> Accounting {
        self.decoder.accounting()
    }

    fn packets(&self) -> u64 {
        self.harts.packets
    }

    fn statistics(&self) -> Statistics {
        let mut sum = Statistics::default();
        self.harts.followers.iter().for_each(|follower| sum += *follower.statistics());
        sum
    }
}
