//! RISC-V N-Trace (Nexus): described by how many bits the number of a source has.

use std::ops::Range;

use backsight_core::{Accounting, AddressSpace, Located};
use backsight_flow::ntrace::{Follower, Options};
use backsight_flow::{CodeCache, Event, Statistics};
use backsight_image::Window;
use backsight_isa::rv;
use backsight_riscv::ntrace::{Config, Decoder, Dialect, MOST_SOURCE_BITS, Message, Packet};

use super::followers::{Followers, SharesCode};
use super::packets::{PacketDecoder, Packets};
use super::riscv::registers_of;
use super::stream::{Events, StreamSink, TimedFollower};
use super::{BadSetting, Described, Following, Landmark, Names, Never, Protocol, Stream};
use crate::SourceCode;

/// N-Trace.
pub struct Ntrace;

/// How a source was programmed, and what it traced.
#[derive(Clone, Copy, Debug, Default)]
pub struct Settings {
    config: Config,
    /// The registers of the hart, where somebody says: code without an ELF file does not.
    set: Option<rv::Set>,
}

/// Most harts that are kept apart: more are a sign of a wrong configuration.
const MOST_HARTS: usize = 1024;

impl Protocol for Ntrace {
    const NAMES: &'static [Names] = &[Names {
        name: "ntrace",
        formats: &["ntrace", "n-trace", "nexus", "ntrace1"],
        format: "N-Trace",
        ..Names::PLAIN
    }];

    type Configuration = Settings;
    type Packet = Packet;
    type Packets = Packets<Decoder>;
    type Execution<'c> = Execution<'c>;
    type Branches = Never;

    fn configure(source: &Described<'_>, _notes: &mut Vec<String>) -> Result<Settings, BadSetting> {
        let mut settings = Settings::default();
        for (key, value) in source.options {
            set(&mut settings, key, value)?;
        }
        Ok(settings)
    }

    fn check(_names: &Names, key: &str, value: &str) -> Result<(), BadSetting> {
        set(&mut Settings::default(), key, value)
    }

    fn words(settings: &Settings) -> String {
        let Settings { config, set } = settings;
        let mut words = format!("N-Trace, {} bits of source", config.source_bits);
        if config.address_bits > 0 {
            words += &format!(", addresses of {} bits", config.address_bits);
        }
        match config.dialect {
            Some(Dialect::Ratified) => words += ", version 1.0",
            Some(Dialect::Sifive) => words += ", as SiFive's encoders send it",
            None => {}
        }
        match set {
            Some(set) => words + if set.wide { ", RV64" } else { ", RV32" },
            None => words,
        }
    }

    fn numbers_harts(settings: &Settings) -> bool {
        settings.config.source_bits > 0
    }

    fn packets(settings: &Settings) -> Packets<Decoder> {
        Packets::new(Decoder::new(&settings.config))
    }

    fn execution<'c>(
        settings: &Settings,
        code: SourceCode<'c>,
        options: &Following,
    ) -> Result<Execution<'c>, &'static str> {
        let config = &settings.config;
        let set = settings.set.or_else(|| registers_of(&code)).unwrap_or(rv::Set::RV64);
        let options = Options { strict_image: options.strict_image, config: *config, ..Options::default() };
        let mut followers = Followers::new(MOST_HARTS, code.fixed_image().is_some());
        // Without a field for it there is one hart, even if it says nothing.
        if config.source_bits == 0 {
            followers.of(0, || Follower::with_options(set, code, options));
        }
        Ok(Execution {
            decoder: Decoder::new(config),
            harts: Harts { followers, code, set, options, packets: 0 },
        })
    }

    fn branches(_settings: &Settings) -> Result<Never, &'static str> {
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

/// Reads one setting into a configuration.
fn set(settings: &mut Settings, key: &str, value: &str) -> Result<(), BadSetting> {
    let bad = |what: &str, unknown| BadSetting { key: key.to_owned(), what: what.to_owned(), unknown };
    let number = |most: u8, what: &str| {
        value.parse().ok().filter(|&number: &u8| number <= most).ok_or_else(|| bad(what, false))
    };
    let config = &mut settings.config;
    match key {
        "source_bits" | "src_bits" => {
            config.source_bits = number(MOST_SOURCE_BITS, "0 to 12 bits are expected")?;
        }
        "address_bits" => config.address_bits = number(63, "0 to 63 bits are expected")?,
        "xlen" => {
            settings.set = match value {
                "32" => Some(rv::Set::RV32),
                "64" => Some(rv::Set::RV64),
                _ => return Err(bad("32 or 64 is expected", false)),
            }
        }
        "dialect" => {
            config.dialect = match value {
                "1.0" => Some(Dialect::Ratified),
                "sifive" => Some(Dialect::Sifive),
                _ => return Err(bad("1.0 or sifive is expected", false)),
            }
        }
        _ => {
            let what = "N-Trace has the settings source_bits, address_bits, xlen and dialect";
            return Err(bad(what, true));
        }
    }
    Ok(())
}

impl PacketDecoder for Decoder {
    type Packet = Packet;

    fn feed(&mut self, bytes: &[u8], sink: &mut impl FnMut(Located<Packet>)) {
        Self::feed(self, bytes, sink);
    }

    fn reset(&mut self, sink: &mut impl FnMut(Located<Packet>)) {
        Self::reset(self, sink);
    }

    fn finish(&mut self, sink: &mut impl FnMut(Located<Packet>)) {
        Self::finish(self, sink);
    }

    fn accounting(&self) -> Accounting {
        Self::accounting(self)
    }

    fn sub_source(packet: &Packet) -> u16 {
        packet.source
    }
}

/// Bytes to execution, each hart by itself.
pub struct Execution<'c> {
    decoder: Decoder,
    harts: Harts<'c>,
}

struct Harts<'c> {
    followers: Followers<Follower<SourceCode<'c>>>,
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
            self.followers.for_each(|hart, follower| {
                follower.push(packet, &mut Events { sub_source: hart, sink });
            });
        } else if let Some(follower) = self.followers.of(hart, || Follower::with_options(set, code, options))
        {
            follower.push(packet, &mut Events { sub_source: hart, sink });
        }
    }
}

impl<'c> TimedFollower<'c> for Follower<SourceCode<'c>> {
    fn code_in(&mut self, space: AddressSpace, addresses: Range<u64>) -> &mut SourceCode<'c> {
        self.change_code(space, addresses)
    }

    fn renew_space(&mut self) {
        self.renew_space();
    }
}

impl SharesCode for Follower<SourceCode<'_>> {
    fn take_cache(&mut self) -> Option<CodeCache> {
        Some(Self::take_cache(self))
    }

    fn give_cache(&mut self, cache: CodeCache) -> Result<(), CodeCache> {
        Self::give_cache(self, cache)
    }

    fn exchange_caches(&mut self, other: &mut Self) {
        Self::exchange_caches(self, other);
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
        harts.followers.for_each(|hart, follower| {
            if !sink.is_done() {
                follower.finish(&mut Events { sub_source: hart, sink });
            }
        });
    }

    fn reset<S: StreamSink<Event>>(&mut self, sink: &mut S) {
        self.finish(sink);
    }

    fn enter(&mut self, window: Window) {
        // Harts that are met later begin at this time.
        self.harts.code.enter(window);
        self.harts.followers.for_each(|_, follower| TimedFollower::enter(follower, window));
    }

    fn take_cache(&mut self) -> Option<CodeCache> {
        self.harts.followers.take_cache()
    }

    fn give_cache(&mut self, cache: CodeCache) -> Result<(), CodeCache> {
        self.harts.followers.give_cache(cache)
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
