//! RISC-V E-Trace: described by the parameters of its encoder; its packets come in frames of their own.

mod configuration;
mod execution;
mod words;

use backsight_core::{Accounting, Located};
use backsight_flow::etrace::{Follower, Settings};
use backsight_riscv::encap::{Framing, FramingFault};
use backsight_riscv::etrace::{Content, Decoder, Message, Packet};

use super::execution::Execution;
use super::harts::Harts;
use super::packets::{PacketDecoder, Packets};
use super::riscv::registers_of;
use super::{BadSetting, Described, Following, Landmark, Names, Never, Protocol};
use crate::SourceCode;
use configuration::Configuration;

/// E-Trace.
pub struct Etrace;

impl Protocol for Etrace {
    const NAMES: &'static [Names] = &[Names {
        name: "etrace",
        formats: &["etrace", "e-trace", "etrace1", "etrace2"],
        format: "E-Trace",
        framings: configuration::FRAMINGS,
        ..Names::PLAIN
    }];

    type Configuration = Configuration;
    type Packet = Message;
    type Packets = Packets<Decoder>;
    type Execution<'c> = Execution<Decoder, Harts<'c, Decoder, Follower<SourceCode<'c>>>>;
    type Branches = Never;

    fn configure(source: &Described<'_>, notes: &mut Vec<String>) -> Result<Configuration, BadSetting> {
        configuration::read(source, notes)
    }

    fn check(_names: &Names, key: &str, value: &str) -> Result<(), BadSetting> {
        configuration::check(key, value)
    }

    fn words(configuration: &Configuration) -> String {
        words::words(configuration)
    }

    fn numbers_harts(configuration: &Configuration) -> bool {
        match configuration.framing {
            Framing::Reference { hart_bits } => hart_bits > 0,
            Framing::Standard(widths) => widths.source_bits > 0,
            Framing::Pulp | Framing::Esp32 => false,
        }
    }

    fn packets(configuration: &Configuration) -> Packets<Decoder> {
        Packets::new(Decoder::new(&configuration.config()))
    }

    fn execution<'c>(
        configuration: &Configuration,
        code: SourceCode<'c>,
        options: &Following,
    ) -> Result<Self::Execution<'c>, &'static str> {
        let config = configuration.config();
        let mut settings = Settings::from(&config);
        settings.handlers = configuration.handlers.clone();
        settings.strict_image = options.strict_image;
        // What the program's ELF file says of its registers comes before the width of addresses.
        settings.set = registers_of(&code).unwrap_or(settings.set);
        Ok(Execution::new(Decoder::new(&config), Harts::new(settings, code)))
    }

    fn branches(_configuration: &Configuration) -> Result<Never, &'static str> {
        Err("E-Trace does not name the targets of branches: they are in the code")
    }

    fn landmark(_before: Option<&Message>, message: &Message) -> Landmark {
        match &message.content {
            Content::Instruction(Packet::Support(_)) => Landmark::None,
            Content::Instruction(packet) if packet.is_sync() => Landmark::Sync,
            Content::BadFrame(FramingFault::Unsynchronised) => Landmark::Unsynchronised,
            Content::BadFrame(_) | Content::BadPacket(_) | Content::BadData(_) => Landmark::Bad,
            _ => Landmark::None,
        }
    }
}

impl PacketDecoder for Decoder {
    type Packet = Message;

    fn feed(&mut self, bytes: &[u8], sink: &mut impl FnMut(Located<Message>)) {
        Self::feed(self, bytes, sink);
    }

    fn reset(&mut self, sink: &mut impl FnMut(Located<Message>)) {
        Self::reset(self, sink);
    }

    fn finish(&mut self, sink: &mut impl FnMut(Located<Message>)) {
        Self::finish(self, sink);
    }

    fn accounting(&self) -> Accounting {
        Self::accounting(self)
    }

    /// The hart; 0 where nobody knows.
    fn sub_source(message: &Message) -> u16 {
        message.source.unwrap_or(0)
    }
}
