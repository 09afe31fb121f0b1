//! Tarmac logs of Arm's simulators: described by nothing but themselves, and a few options for what they leave out.

use backsight_core::{Accounting, Located};
use backsight_flow::Sink;
use backsight_flow::tarmac::Follower;
use backsight_tarmac::{Config, Decoder, Instruction, Line, Packet};

use super::execution::Execution;
use super::harts::{HartFollower, Harts, Whose};
use super::packets::{PacketDecoder, Packets};
use super::{BadSetting, Described, Following, Landmark, Names, Never, Protocol};
use crate::SourceCode;

/// The name of the protocol.
pub(crate) const NAME: &str = "tarmac";

/// Tarmac.
pub struct Tarmac;

impl Protocol for Tarmac {
    const NAMES: &'static [Names] =
        &[Names { name: NAME, formats: &["tarmac"], format: "Tarmac", ..Names::PLAIN }];

    type Configuration = Config;
    type Packet = Packet;
    type Packets = Packets<Decoder>;
    type Execution<'c> = Execution<Decoder, Harts<'c, Decoder, Follower<SourceCode<'c>>>>;
    type Branches = Never;

    fn configure(source: &Described<'_>, _notes: &mut Vec<String>) -> Result<Config, BadSetting> {
        config_of(source.options)
    }

    fn check(_names: &Names, key: &str, value: &str) -> Result<(), BadSetting> {
        set(&mut Config::default(), key, value)
    }

    fn words(config: &Config) -> String {
        let mut words = "Tarmac log".to_owned();
        words += if config.cores { " of several cores" } else { "" };
        words += if config.big_endian { ", big-endian" } else { "" };
        words + if config.assume_thumb { ", T32 where it names no instruction set" } else { "" }
    }

    fn numbers_harts(config: &Config) -> bool {
        config.cores
    }

    fn packets(config: &Config) -> Packets<Decoder> {
        Packets::new(Decoder::new(config))
    }

    fn execution<'c>(
        config: &Config,
        code: SourceCode<'c>,
        _options: &Following,
    ) -> Result<Self::Execution<'c>, &'static str> {
        let mut harts = Harts::new((), code);
        // A log that names no core has one, even if it says nothing.
        if !config.cores {
            harts.meet(0);
        }
        Ok(Execution::new(Decoder::new(config), harts))
    }

    fn branches(_config: &Config) -> Result<Never, &'static str> {
        Err("a log has instructions, and no list of branches")
    }

    fn landmark(before: Option<&Packet>, packet: &Packet) -> Landmark {
        match packet.line {
            Line::Bad(_) => Landmark::Bad,
            Line::Instruction(Instruction { .. })
                if before.is_none_or(|before| before.time < packet.time) =>
            {
                Landmark::Time(packet.time)
            }
            Line::Instruction(_) => Landmark::Sync,
            _ => Landmark::None,
        }
    }
}

/// The configuration that the options of a source give.
pub(crate) fn config_of(options: &[(String, String)]) -> Result<Config, BadSetting> {
    let mut config = Config::default();
    options.iter().try_for_each(|(key, value)| set(&mut config, key, value)).map(|()| config)
}

/// Reads one setting into a configuration.
fn set(config: &mut Config, key: &str, value: &str) -> Result<(), BadSetting> {
    let bad = |what: &str, unknown| BadSetting { key: key.to_owned(), what: what.to_owned(), unknown };
    let flag = || match value {
        "yes" | "1" => Ok(true),
        "no" | "0" => Ok(false),
        _ => Err(bad("yes or no is expected", false)),
    };
    match key {
        "endian" => {
            config.big_endian = match value {
                "big" => true,
                "little" => false,
                _ => return Err(bad("big or little is expected", false)),
            }
        }
        "thumb" => config.assume_thumb = flag()?,
        "cores" => config.cores = flag()?,
        _ => return Err(bad("a Tarmac log has the settings endian, thumb and cores", true)),
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
        packet.core
    }
}

impl<'c> HartFollower<'c, Decoder> for Follower<SourceCode<'c>> {
    type Settings = ();

    fn begin((): &(), code: SourceCode<'c>) -> Self {
        Self::new(code)
    }

    fn whose(packet: &Packet) -> Whose {
        match packet.line {
            Line::Bad(_) => Whose::Unknown,
            _ => Whose::Hart(packet.core),
        }
    }

    fn push(&mut self, packet: Located<Packet>, sink: &mut impl Sink) {
        Self::push(self, packet, sink);
    }
}
