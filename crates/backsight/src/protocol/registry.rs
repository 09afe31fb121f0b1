//! The list of protocols, and what is made of it.
//!
//! A protocol says how people and captures call it, how its configuration is read from registers and options, how the
//! bytes of a source become packets and execution, and how all that is worded. Whatever else the library does (taking
//! buffers apart, positions, threads, listings) is the same for all of them. The list below makes of them the sums
//! that the rest works with: one branch for each piece of a stream, none for each packet.

use std::fmt;

use backsight_core::describe::write_text;
use backsight_core::{Accounting, Describe, Field, TraceId};
use backsight_flow::etm4::Record;
use backsight_flow::{CodeCache, Event, Statistics};
use backsight_image::Window;

use backsight_capture::Register;

use super::names::Names;
use super::stream::{
    Act, AnySink, AnyStream, Kinds, Landmark, Mapped, Notes, PacketStream, Resumable, Stream, StreamSink,
};
use super::{etm3, etm4, etm4_data, etrace, itm, ntrace, ptm, stm, tarmac};
use crate::SourceCode;

/// What a protocol has to say.
pub trait Protocol {
    /// Its names. Protocols that one decoder reads share a row.
    const NAMES: &'static [Names];

    /// How a source was built and programmed.
    type Configuration: Clone + fmt::Debug + Send + Sync;
    /// A packet.
    type Packet: Copy + fmt::Debug + Describe + Send;
    /// Bytes to packets.
    type Packets: PacketStream<Value = Self::Packet> + Send;
    /// Bytes to execution, through code.
    type Execution<'c>: Stream<Value = Event> + Send;
    /// Bytes to a list of branches, without code; [`Never`] where packets do not name their targets.
    type Branches: Stream<Value = Record> + Send;

    /// Reads the configuration. What is doubtful about it goes to `notes`.
    fn configure(source: &Described<'_>, notes: &mut Vec<String>) -> Result<Self::Configuration, BadSetting>;

    /// Is this a register or option of the protocol, with a value that it can have?
    fn check(names: &Names, key: &str, value: &str) -> Result<(), BadSetting>;

    /// The configuration in words.
    fn words(configuration: &Self::Configuration) -> String;

    /// Registers and options that say the same as the configuration, for a format that describes sources by their
    /// registers; `None` if those of the source say it all.
    fn registers(_configuration: &Self::Configuration) -> Option<Vec<(&'static str, u32)>> {
        None
    }

    /// Did the source count cycles?
    fn counts_cycles(_configuration: &Self::Configuration) -> bool {
        false
    }

    /// Does the listing that users of OpenCSD know say where its exceptions return to?
    fn lists_return_addresses() -> bool {
        true
    }

    /// Do its packets say which of several harts they are about?
    fn numbers_harts(_configuration: &Self::Configuration) -> bool {
        false
    }

    /// Its packets.
    fn packets(configuration: &Self::Configuration) -> Self::Packets;

    /// Its execution; an error says which of the options it does not have.
    fn execution<'c>(
        configuration: &Self::Configuration,
        code: SourceCode<'c>,
        options: &Following,
    ) -> Result<Self::Execution<'c>, &'static str>;

    /// Its branches; an error says why there are none.
    fn branches(configuration: &Self::Configuration) -> Result<Self::Branches, &'static str>;

    /// The name of a packet in the listing that users of OpenCSD know.
    fn opencsd_name(packet: &Self::Packet) -> &'static str {
        packet.name()
    }

    /// Writes what the listing that users of OpenCSD know shows after the name of a packet: the fields as in any text,
    /// where that listing has no words of its own.
    fn write_opencsd(packet: &Self::Packet, out: &mut dyn fmt::Write) -> fmt::Result {
        write_text(packet, out)
    }

    /// Changes the bytes of a packet to those that the same listing shows; how much further than the first byte its
    /// index is.
    fn opencsd_bytes(_packet: &Self::Packet, _bytes: &mut [u8]) -> u64 {
        0
    }

    /// What a packet means for the outline of the stream; `before` is the packet before it.
    fn landmark(before: Option<&Self::Packet>, packet: &Self::Packet) -> Landmark;
}

/// How execution is followed.
#[derive(Clone, Copy, Debug, Default)]
pub struct Following {
    /// Stop at strong evidence that the code is not what ran, until the trace names an address.
    pub strict_image: bool,
    /// Do as the listing that users of OpenCSD know does, where the protocol says otherwise: instructions of ETMv3 that
    /// were cancelled stay, if they came in one packet with others.
    pub as_opencsd: bool,
}

/// What a capture says of a source.
pub struct Described<'a> {
    /// Its name, for messages.
    pub name: &'a str,
    /// What it speaks.
    pub names: &'static Names,
    /// The version label, where it counts.
    pub version: Option<&'a str>,
    /// Its registers.
    pub registers: &'a [Register],
    /// Its options.
    pub options: &'a [(String, String)],
    /// The type of its processor.
    pub core: Option<&'a str>,
    /// How its packets are framed, where the capture says.
    pub framing: Option<&'a str>,
    /// Its trace ID.
    pub id: Option<TraceId>,
}

impl Described<'_> {
    /// A register by name, in any case.
    pub fn register(&self, name: &str) -> Option<&Register> {
        self.registers.iter().find(|register| register.name.eq_ignore_ascii_case(name))
    }
}

/// A setting that makes no sense.
#[derive(Clone, Debug)]
pub struct BadSetting {
    /// Which one.
    pub key: String,
    /// What is wrong with it.
    pub what: String,
    /// There is no such setting.
    pub unknown: bool,
}

/// A stream that no protocol has.
pub enum Never {}

/// Makes a sum of streams, one for each protocol; a row says what its stream gives to the sink that is named before.
macro_rules! streams {
    ($(#[$doc:meta])* $name:ident [$($life:lifetime)?] $value:ty, $sink:ident; $($row:ident: $stream:ty => $mapped:expr),*) => {
        $(#[$doc])*
        #[allow(missing_docs, reason = "a row is named after its protocol")]
        pub enum $name $(<$life>)? {
            $($row(Box<$stream>),)*
        }

        impl $(<$life>)? AnyStream for $name $(<$life>)? {
            #[inline(never)]
            fn act(&mut self, act: Act<'_>, sink: &mut dyn AnySink<$value>) {
                act.on(self, sink);
            }
        }

        impl $(<$life>)? Stream for $name $(<$life>)? {
            type Value = $value;

            fn feed<S: StreamSink<$value>>(&mut self, bytes: &[u8], $sink: &mut S) {
                match self {
                    $(Self::$row(stream) => stream.feed(bytes, $mapped),)*
                }
            }

            fn finish<S: StreamSink<$value>>(&mut self, $sink: &mut S) {
                match self {
                    $(Self::$row(stream) => stream.finish($mapped),)*
                }
            }

            fn reset<S: StreamSink<$value>>(&mut self, $sink: &mut S) {
                match self {
                    $(Self::$row(stream) => stream.reset($mapped),)*
                }
            }

            fn enter(&mut self, window: Window) {
                match self { $(Self::$row(stream) => stream.enter(window),)* }
            }

            fn resumable(&mut self) -> Option<&mut dyn Resumable> {
                match self { $(Self::$row(stream) => stream.resumable(),)* }
            }

            fn take_cache(&mut self) -> Option<CodeCache> {
                match self { $(Self::$row(stream) => stream.take_cache(),)* }
            }

            fn give_cache(&mut self, cache: CodeCache) -> Result<(), CodeCache> {
                match self { $(Self::$row(stream) => stream.give_cache(cache),)* }
            }

            fn accounting(&self) -> Accounting {
                match self { $(Self::$row(stream) => stream.accounting(),)* }
            }

            fn packets(&self) -> u64 {
                match self { $(Self::$row(stream) => stream.packets(),)* }
            }

            fn statistics(&self) -> Statistics {
                match self { $(Self::$row(stream) => stream.statistics(),)* }
            }

            fn notes(&self) -> Notes {
                match self { $(Self::$row(stream) => stream.notes(),)* }
            }
        }
    };
}

/// The list of protocols, and what is made of it.
macro_rules! protocols {
    ($($(#[$doc:meta])* $row:ident($packet:ty) = $protocol:ty),* $(,)?) => {
        /// A packet of any protocol.
        #[derive(Clone, Copy, Debug)]
        #[non_exhaustive]
        pub enum Packet {
            $($(#[$doc])* $row($packet),)*
        }

        impl Packet {
            /// What the packet means for the outline of its stream; `before` is the packet before it.
            pub fn landmark(&self, before: Option<&Self>) -> Landmark {
                match self {
                    $(Self::$row(packet) => {
                        let before = before.and_then(|before| match before {
                            Self::$row(before) => Some(before),
                            #[allow(unreachable_patterns, reason = "there may be one row only")]
                            _ => None,
                        });
                        <$protocol>::landmark(before, packet)
                    })*
                }
            }

            /// The name that listings use.
            pub fn name(&self) -> &'static str {
                match self { $(Self::$row(packet) => Describe::name(packet),)* }
            }

            pub(crate) fn opencsd_name(&self) -> &'static str {
                match self { $(Self::$row(packet) => <$protocol>::opencsd_name(packet),)* }
            }

            pub(crate) fn opencsd_bytes(&self, bytes: &mut [u8]) -> u64 {
                match self { $(Self::$row(packet) => <$protocol>::opencsd_bytes(packet, bytes),)* }
            }

            pub(crate) fn write_opencsd(&self, out: &mut dyn fmt::Write) -> fmt::Result {
                match self { $(Self::$row(packet) => <$protocol>::write_opencsd(packet, out),)* }
            }
        }

        impl Describe for Packet {
            fn name(&self) -> &'static str {
                self.name()
            }

            fn fields(&self, each: &mut dyn FnMut(Field)) {
                match self { $(Self::$row(packet) => Describe::fields(packet, each),)* }
            }
        }

        /// How a source was built and programmed.
        #[derive(Clone, Debug)]
        pub enum Configuration {
            $($row(Box<<$protocol as Protocol>::Configuration>),)*
            /// Its protocol is not decoded.
            NotDecoded,
        }

        impl Configuration {
            /// Reads the configuration of a source.
            pub fn new(source: &Described<'_>, notes: &mut Vec<String>) -> Result<Self, BadSetting> {
                $(if source.names.is_in(<$protocol>::NAMES) {
                    return Ok(Self::$row(Box::new(<$protocol>::configure(source, notes)?)));
                })*
                Ok(Self::NotDecoded)
            }

            /// The configuration in words; `None` if the protocol is not decoded.
            pub fn words(&self) -> Option<String> {
                match self {
                    $(Self::$row(configuration) => Some(<$protocol>::words(configuration)),)*
                    Self::NotDecoded => None,
                }
            }

            /// Registers that say the same, where registers can.
            pub fn registers(&self) -> Option<Vec<(&'static str, u32)>> {
                match self {
                    $(Self::$row(configuration) => <$protocol>::registers(configuration),)*
                    Self::NotDecoded => None,
                }
            }

            /// Did the source count cycles?
            pub fn counts_cycles(&self) -> bool {
                match self {
                    $(Self::$row(configuration) => <$protocol>::counts_cycles(configuration),)*
                    Self::NotDecoded => false,
                }
            }

            /// Does the listing that users of OpenCSD know say where exceptions return to?
            pub fn lists_return_addresses(&self) -> bool {
                match self {
                    $(Self::$row(_) => <$protocol>::lists_return_addresses(),)*
                    Self::NotDecoded => true,
                }
            }

            /// Do packets say which of several harts they are about?
            pub fn numbers_harts(&self) -> bool {
                match self {
                    $(Self::$row(configuration) => <$protocol>::numbers_harts(configuration),)*
                    Self::NotDecoded => false,
                }
            }

            /// The packets of the source; `None` if its protocol is not decoded.
            pub fn packets(&self) -> Option<Packets> {
                match self {
                    $(Self::$row(configuration) => {
                        Some(Packets::$row(Box::new(<$protocol>::packets(configuration))))
                    })*
                    Self::NotDecoded => None,
                }
            }

            /// What the source executed; `None` if its protocol is not decoded.
            pub fn execution<'c>(
                &self,
                code: SourceCode<'c>,
                options: &Following,
            ) -> Result<Option<Execution<'c>>, &'static str> {
                match self {
                    $(Self::$row(configuration) => {
                        let stream = <$protocol>::execution(configuration, code, options)?;
                        Ok(Some(Execution::$row(Box::new(stream))))
                    })*
                    Self::NotDecoded => Ok(None),
                }
            }

            /// The branches of the source; `None` if its protocol is not decoded.
            pub fn branches(&self) -> Result<Option<Branches>, &'static str> {
                match self {
                    $(Self::$row(configuration) => {
                        Ok(Some(Branches::$row(Box::new(<$protocol>::branches(configuration)?))))
                    })*
                    Self::NotDecoded => Ok(None),
                }
            }
        }

        streams! {
            /// Packets of any protocol.
            Packets [] Packet, sink; $($row: <$protocol as Protocol>::Packets => &mut Mapped(sink, Packet::$row)),*
        }

        streams! {
            /// Execution that trace of any protocol tells about.
            Execution ['c] Event, sink; $($row: <$protocol as Protocol>::Execution<'c> => sink),*
        }

        streams! {
            /// Branches that trace of any protocol names.
            Branches [] Record, sink; $($row: <$protocol as Protocol>::Branches => sink),*
        }

        impl PacketStream for Packets {
            fn count(&mut self, bytes: &[u8]) {
                match self { $(Self::$row(stream) => stream.count(bytes),)* }
            }

            fn tally(&mut self, bytes: &[u8], kinds: &mut Kinds) {
                match self { $(Self::$row(stream) => stream.tally(bytes, kinds),)* }
            }

            fn settle(&mut self, kinds: &mut Kinds) {
                match self { $(Self::$row(stream) => stream.settle(kinds),)* }
            }
        }

        /// The names of all protocols that are decoded.
        const DECODED: &[&[Names]] = &[$(<$protocol>::NAMES),*];

        /// Is this a setting of the protocol, with a value that it can have?
        pub fn check(names: &Names, key: &str, value: &str) -> Result<(), BadSetting> {
            $(if names.is_in(<$protocol>::NAMES) {
                return <$protocol>::check(names, key, value);
            })*
            Err(BadSetting { key: key.to_owned(), what: "its trace is not decoded".to_owned(), unknown: true })
        }
    };
}

protocols! {
    /// Arm ETMv4 or ETE.
    Etm4(backsight_arm::etm4::Packet) = etm4::Etm4,
    /// Arm ETMv3.
    Etm3(backsight_arm::etm3::Packet) = etm3::Etm3,
    /// Arm PTM.
    Ptm(backsight_arm::ptm::Packet) = ptm::Ptm,
    /// RISC-V E-Trace.
    Etrace(backsight_riscv::etrace::Message) = etrace::Etrace,
    /// RISC-V N-Trace.
    Ntrace(backsight_riscv::ntrace::Packet) = ntrace::Ntrace,
    /// Arm ITM, with the DWT of a Cortex-M.
    Itm(backsight_arm::itm::Packet) = itm::Itm,
    /// Arm STM.
    Stm(backsight_arm::stm::Packet) = stm::Stm,
    /// The data trace of an Arm ETMv4.
    Etm4Data(backsight_arm::etm4_data::Packet) = etm4_data::Etm4Data,
    /// A log of a simulator.
    Tarmac(backsight_tarmac::Packet) = tarmac::Tarmac,
}

/// The names of all protocols that are decoded.
pub fn decoded() -> impl Iterator<Item = &'static Names> {
    DECODED.iter().copied().flatten()
}

/// The protocol of that name.
pub fn named(name: &str) -> Option<&'static Names> {
    decoded().find(|names| names.name == name)
}

/// The protocol that the word of a capture means (`ETM4.2`), for a stream of a trace unit. Its version does not matter:
/// ID registers know it better.
pub fn of_format(word: &str, stream: u8) -> Option<&'static Names> {
    let word = word.trim().to_ascii_lowercase();
    let base = word.split('.').next().unwrap_or_default();
    let fits = |names: &&Names| names.formats.contains(&base);
    decoded().filter(fits).find(|names| names.stream == stream).or_else(|| decoded().find(fits))
}

/// The words for how packets are framed, of all protocols.
pub fn packet_framings() -> impl Iterator<Item = &'static str> {
    decoded().flat_map(|names| names.framings).copied()
}

/// The streams that no protocol has do nothing.
impl Stream for Never {
    type Value = Record;

    fn feed<S: StreamSink<Record>>(&mut self, _bytes: &[u8], _sink: &mut S) {
        match *self {}
    }

    fn finish<S: StreamSink<Record>>(&mut self, _sink: &mut S) {
        match *self {}
    }

    fn reset<S: StreamSink<Record>>(&mut self, _sink: &mut S) {
        match *self {}
    }

    fn accounting(&self) -> Accounting {
        match *self {}
    }

    fn packets(&self) -> u64 {
        match *self {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_of_snapshots_and_formats_of_packages_name_protocols() {
        for (text, stream, name) in [
            ("ETM4", 0, "etm4"),
            ("ETM4.2", 0, "etm4"),
            ("ETM4.2", 1, "etm4-data"),
            ("ETE", 0, "ete"),
            ("ETE1.1", 0, "ete"),
            ("ETM3.5", 0, "etm3"),
            ("PTM1.1", 0, "ptm"),
            ("PFT1.1", 0, "ptm"),
            ("STM", 0, "stm"),
            ("STP", 0, "stm"),
            ("ITM", 0, "itm"),
            ("E-Trace", 0, "etrace"),
            ("N-Trace", 0, "ntrace"),
        ] {
            assert_eq!(of_format(text, stream).map(|names| names.name), Some(name), "{text}");
        }
        assert!(of_format("ETM1.0", 0).is_none() && of_format("", 0).is_none());
    }

    #[test]
    fn every_protocol_is_found_by_its_own_words() {
        for names in decoded() {
            assert!(named(names.name).is_some_and(|found| found.name == names.name));
            let found = of_format(names.format, names.stream);
            assert_eq!(found.map(|found| found.name), Some(names.name));
        }
    }

    #[test]
    fn no_two_protocols_have_the_same_name() {
        let mut seen: Vec<&str> = decoded().map(|names| names.name).collect();
        let count = seen.len();
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), count);
    }
}
