//! Arm ETMv3: described by the registers of the trace unit.

use std::fmt;

use backsight_arm::etm3::{Config, Decoded, Decoder, Packet, Reason, opencsd};
use backsight_core::Located;
use backsight_flow::etm3::{Follower, Options};
use backsight_flow::{Event, Sink};

use super::etm;
use super::execution::{Core, Execution, PacketFollower};
use super::packets::Packets;
use super::stream::{Events, StreamSink};
use super::{BadSetting, Described, Following, Landmark, Names, Never, Protocol};
use crate::SourceCode;

/// ETMv3.
pub struct Etm3;

impl Protocol for Etm3 {
    const NAMES: &'static [Names] = &[Names {
        name: "etm3",
        formats: &["etm3"],
        format: "ETM3.5",
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
        if let Some(core) = source.core {
            // A name that says nothing leaves the usual profile.
            let _ = config.set("core", core);
        }
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

    fn lists_return_addresses() -> bool {
        false
    }

    fn packets(config: &Config) -> Packets<Decoder> {
        Packets::new(Decoder::new(config))
    }

    fn execution<'c>(
        config: &Config,
        code: SourceCode<'c>,
        options: &Following,
    ) -> Result<Self::Execution<'c>, &'static str> {
        let Following { strict_image, as_opencsd } = *options;
        let options = Options { strict_image, keeps_cancelled: as_opencsd, ..Options::default() };
        Ok(Execution::of_core(Decoder::new(config), Follower::with_options(config, code, options)))
    }

    fn branches(_config: &Config) -> Result<Never, &'static str> {
        Err("ETMv3 does not name the targets of most branches: they are in the code")
    }

    fn write_opencsd(packet: &Packet, out: &mut dyn fmt::Write) -> fmt::Result {
        write!(out, "{}", opencsd(packet))
    }

    fn landmark(_before: Option<&Packet>, packet: &Packet) -> Landmark {
        match packet {
            Packet::Async => Landmark::Sync,
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

    #[inline]
    fn feed<S: StreamSink<Event>>(&mut self, decoder: &mut Decoder, bytes: &[u8], sink: &mut S) -> u64 {
        let mut packets = 0;
        decoder.feed_runs(bytes, &mut |decoded| {
            if sink.is_done() {
                return;
            }
            let events = &mut Events { sub_source: 0, sink };
            match decoded {
                Decoded::Packet(packet) => {
                    packets += 1;
                    Self::push(self, packet, events);
                }
                Decoded::PHeaders { offset, headers } => {
                    packets += headers.len() as u64;
                    self.push_p_headers(offset, headers, events);
                }
            }
        });
        packets
    }
}
