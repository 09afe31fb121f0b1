//! RISC-V E-Trace: described by the parameters of its encoder; its packets come in frames of their own.

mod configuration;
mod execution;
mod message;
mod words;

use backsight_core::{Accounting, Located};
use backsight_flow::etrace::Settings;
use backsight_riscv::encap::FramingFault;
use backsight_riscv::etrace;

use super::riscv::registers_of;
use super::stream::StreamSink;
use super::{
    BadSetting, Described, Following, Kinds, Landmark, Names, Never, PacketStream, Protocol, Stream,
};
use crate::SourceCode;
use crate::listing::Listed;
use configuration::Configuration;
use execution::Execution;
pub use message::Message;
use message::Messages;

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
    type Packets = Packets;
    type Execution<'c> = Execution<'c>;
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

    fn packets(configuration: &Configuration) -> Packets {
        Packets { messages: Messages::new(&configuration.config()), packets: 0 }
    }

    fn execution<'c>(
        configuration: &Configuration,
        code: SourceCode<'c>,
        options: &Following,
    ) -> Result<Execution<'c>, &'static str> {
        let config = configuration.config();
        let mut settings = Settings::from(&config);
        settings.handlers = configuration.handlers.clone();
        settings.strict_image = options.strict_image;
        // What the program's ELF file says of its registers comes before the width of addresses.
        settings.set = registers_of(code.image()).unwrap_or(settings.set);
        Ok(Execution::new(&config, settings, code))
    }

    fn branches(_configuration: &Configuration) -> Result<Never, &'static str> {
        Err("E-Trace does not name the targets of branches: they are in the code")
    }

    fn landmark(_before: Option<&Message>, message: &Message) -> Landmark {
        match message {
            Message::Instruction { packet: etrace::Packet::Support(_), .. } => Landmark::None,
            Message::Instruction { packet, .. } if packet.is_sync() => Landmark::Sync,
            Message::BadFrame(FramingFault::Unsynchronised) => Landmark::Unsynchronised,
            Message::BadFrame(_) | Message::BadPacket(_) | Message::BadData(_) => Landmark::Bad,
            _ => Landmark::None,
        }
    }
}

/// Bytes to messages.
pub struct Packets {
    messages: Messages,
    packets: u64,
}

impl Stream for Packets {
    type Value = Message;

    fn feed<S: StreamSink<Message>>(&mut self, bytes: &[u8], sink: &mut S) {
        self.messages.feed(bytes, &mut |message| {
            self.packets += 1;
            sink.take(message.value.source(), message);
        });
    }

    fn finish<S: StreamSink<Message>>(&mut self, sink: &mut S) {
        self.messages.finish(&mut |message| {
            self.packets += 1;
            sink.take(message.value.source(), message);
        });
    }

    fn reset<S: StreamSink<Message>>(&mut self, sink: &mut S) {
        self.messages.reset(&mut |message| {
            self.packets += 1;
            sink.take(message.value.source(), message);
        });
    }

    fn accounting(&self) -> Accounting {
        self.messages.accounting()
    }

    fn packets(&self) -> u64 {
        self.packets
    }
}

impl PacketStream for Packets {
    fn count(&mut self, bytes: &[u8]) {
        self.packets += self.messages.count(bytes);
    }

    fn tally(&mut self, bytes: &[u8], kinds: &mut Kinds) {
        self.feed(bytes, &mut |_, message: Located<Message>| {
            kinds.add(message.value.name(), 1, message.length.into())
        });
    }
}
