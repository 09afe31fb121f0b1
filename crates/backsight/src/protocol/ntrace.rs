//! RISC-V N-Trace (Nexus): described by how many bits the number of a source has.

use backsight_core::{Accounting, Located};
use backsight_flow::Sink;
use backsight_flow::ntrace::{Follower, Options};
use backsight_isa::rv;
use backsight_riscv::ntrace::{Config, Decoder, Dialect, MOST_SOURCE_BITS, Message, Packet};

use super::execution::Execution;
use super::harts::{HartFollower, Harts, Whose};
use super::packets::{PacketDecoder, Packets};
use super::riscv::registers_of;
use super::{BadSetting, Described, Following, Landmark, Names, Never, Protocol};
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
    type Execution<'c> = Execution<Decoder, Harts<'c, Decoder, Follower<SourceCode<'c>>>>;
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
    ) -> Result<Self::Execution<'c>, &'static str> {
        let config = &settings.config;
        let set = settings.set.or_else(|| registers_of(&code)).unwrap_or(rv::Set::RV64);
        let options = Options { strict_image: options.strict_image, config: *config, ..Options::default() };
        let mut harts = Harts::new((set, options), code);
        // Without a field for it there is one hart, even if it says nothing.
        if config.source_bits == 0 {
            harts.meet(0);
        }
        Ok(Execution::new(Decoder::new(config), harts))
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

impl<'c> HartFollower<'c, Decoder> for Follower<SourceCode<'c>> {
    type Settings = (rv::Set, Options);

    fn begin(&(set, options): &Self::Settings, code: SourceCode<'c>) -> Self {
        Self::with_options(set, code, options)
    }

    fn whose(packet: &Packet) -> Whose {
        match packet.message {
            // Nobody knows whose the bytes of a bad message were.
            Message::Bad(_) => Whose::Unknown,
            _ => Whose::Hart(packet.source),
        }
    }

    fn push(&mut self, packet: Located<Packet>, sink: &mut impl Sink) {
        Self::push(self, packet, sink);
    }
}
