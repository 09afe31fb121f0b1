//! Arm PTM: described by the registers of the trace unit.

use std::fmt;

use backsight_arm::ptm::{Config, Decoder, Packet, Registers, opencsd};
use backsight_core::{Accounting, Located};
use backsight_flow::Sink;
use backsight_flow::ptm::{Follower, Options};

use super::etm;
use super::execution::{Core, Execution, PacketFollower};
use super::packets::{PacketDecoder, Packets};
use super::{BadSetting, Described, Following, Landmark, Names, Never, Protocol};
use crate::SourceCode;

/// PTM.
pub struct Ptm;

impl Protocol for Ptm {
    const NAMES: &'static [Names] = &[Names {
        name: "ptm",
        formats: &["ptm", "ptm1", "pft", "pft1"],
        format: "PFT1.1",
        id_register: Some(etm::ID),
        needed_registers: etm::NEEDED,
        ..Names::PLAIN
    }];

    type Configuration = Config;
    type Packet = Packet;
    type Packets = Packets<Decoder>;
    type Execution<'c> = Execution<Decoder, Core<Follower<SourceCode<'c>>>>;
    type Branches = Never;

    fn configure(source: &Described<'_>, notes: &mut Vec<String>) -> Result<Config, BadSetting> {
        let mut config = Config::default();
        etm::configure(source, &mut config, Config::set, notes)?;
        if let Some(id) = source.id {
            config.registers.traceidr = u32::from(id.get());
        }
        Ok(config)
    }

    fn check(_names: &Names, key: &str, value: &str) -> Result<(), BadSetting> {
        etm::check(key, value, Config::set, Config::OPTIONS)
    }

    fn words(config: &Config) -> String {
        config.words().to_string()
    }

    fn registers(config: &Config) -> Option<Vec<(&'static str, u32)>> {
        let named = Registers::NAMES.into_iter().take(3);
        Some(named.filter_map(|name| Some((name, config.registers.get(name)?))).collect())
    }

    fn counts_cycles(config: &Config) -> bool {
        config.cycle_accurate()
    }

    fn packets(config: &Config) -> Packets<Decoder> {
        Packets::new(Decoder::new(config))
    }

    fn execution<'c>(
        config: &Config,
        code: SourceCode<'c>,
        options: &Following,
    ) -> Result<Self::Execution<'c>, &'static str> {
        let options = Options { strict_image: options.strict_image, ..Options::default() };
        Ok(Execution::of_core(Decoder::new(config), Follower::with_options(config, code, options)))
    }

    fn branches(_config: &Config) -> Result<Never, &'static str> {
        Err("PTM does not name the targets of most branches: they are in the code")
    }

    fn write_opencsd(packet: &Packet, out: &mut dyn fmt::Write) -> fmt::Result {
        write!(out, "{}", opencsd(packet))
    }

    fn landmark(before: Option<&Packet>, packet: &Packet) -> Landmark {
        match packet {
            Packet::ISync(_) if matches!(before, Some(Packet::Async)) => Landmark::Sync,
            Packet::Timestamp(timestamp) if timestamp.value != 0 => Landmark::Time(timestamp.value),
            Packet::ISync(sync) if sync.reason == backsight_arm::ptm::Reason::AfterOverflow => {
                Landmark::Overflow
            }
            Packet::Bad(_) => Landmark::Bad,
            Packet::Unsynchronised => Landmark::Unsynchronised,
            _ => Landmark::None,
        }
    }
}

impl PacketDecoder for Decoder {
    type Packet = Packet;

    #[inline]
    fn feed(&mut self, bytes: &[u8], sink: &mut impl FnMut(Located<Packet>)) {
        Self::feed(self, bytes, sink);
    }

    fn reset(&mut self, sink: &mut impl FnMut(Located<Packet>)) {
        Self::reset(self, sink);
    }

    fn accounting(&self) -> Accounting {
        Self::accounting(self)
    }

    fn is_skipped(packet: &Packet) -> bool {
        matches!(packet, Packet::Unsynchronised)
    }
}

impl PacketFollower<Decoder> for Follower<SourceCode<'_>> {
    #[inline]
    fn push(&mut self, packet: Located<Packet>, sink: &mut impl Sink) {
        Self::push(self, packet, sink);
    }
}
