//! Arm PTM: described by the registers of the trace unit.

use std::fmt;

use backsight_arm::ptm::{Config, Decoder, Packet, Reason, opencsd};
use backsight_core::Located;
use backsight_flow::Sink;
use backsight_flow::ptm::{Follower, Options};

use super::etm;
use super::execution::{Core, Execution, PacketFollower};
use super::packets::Packets;
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
        etm::configure(source, &mut config, notes)?;
        Ok(config)
    }

    fn check(_names: &Names, key: &str, value: &str) -> Result<(), BadSetting> {
        etm::check::<Config>(key, value)
    }

    fn words(config: &Config) -> String {
        config.words().to_string()
    }

    fn registers(config: &Config) -> Option<Vec<(&'static str, u32)>> {
        Some(etm::registers(config))
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
            Packet::ISync(sync) if sync.reason == Reason::AfterOverflow => Landmark::Overflow,
            Packet::Bad(_) => Landmark::Bad,
            Packet::Unsynchronised => Landmark::Unsynchronised,
            _ => Landmark::None,
        }
    }
}

impl PacketFollower<Decoder> for Follower<SourceCode<'_>> {
    #[inline]
    fn push(&mut self, packet: Located<Packet>, sink: &mut impl Sink) {
        Self::push(self, packet, sink);
    }
}
