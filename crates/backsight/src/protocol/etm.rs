//! What ETMv3 and PTM share: names of registers, how their configuration is read, and their streams.

use backsight_arm::ptm::{OptionError, Registers};
use backsight_core::{Accounting, Located};
use backsight_flow::{CodeCache, Event, Sink, Statistics};
use backsight_image::Window;

use super::packets::PacketDecoder;
use super::stream::{Events, StreamSink};
use super::{BadSetting, Described, IdRegister, Stream};

/// The register that holds the trace ID.
pub(super) const ID: IdRegister = IdRegister { names: &["ETMTRACEIDR"], lowest_bit: 0 };
/// What a decoder cannot do without.
pub(super) const NEEDED: &[&str] = &["ETMCR", "ETMIDR", "ETMCCER"];

/// Sets a register or an option of a configuration.
type Set<C> = fn(&mut C, &str, &str) -> Result<(), OptionError>;

/// Reads the configuration of a source: version, registers, then options, which win where they differ.
pub(super) fn configure<C>(
    source: &Described<'_>,
    config: &mut C,
    set: Set<C>,
    notes: &mut Vec<String>,
) -> Result<(), BadSetting> {
    // A version without a number says nothing that the ID register does not.
    if let Some(version) = source.version.filter(|version| version.contains('.'))
        && set(config, "version", version).is_err()
    {
        notes.push(format!("source {}: the version in `{version}` is not known", source.name));
    }
    for name in Registers::NAMES {
        let Some(register) = source.register(name) else { continue };
        if set(config, name, &register.text).is_err() {
            let text = &register.text;
            notes.push(format!("source {}: {name} is `{text}`, expected a 32-bit number", source.name));
        }
    }
    for (key, value) in source.options {
        match set(config, &key.to_ascii_lowercase(), value) {
            // Options of other protocols, and what is said for people.
            Ok(()) | Err(OptionError::Unknown) => {}
            Err(error) => {
                let what = format!("`{key}` is `{value}`: {error}");
                return Err(BadSetting { key: key.clone(), what, unknown: false });
            }
        }
    }
    Ok(())
}

/// Is this a register or an option, with a value that it can have?
pub(super) fn check<C: Default>(
    key: &str,
    value: &str,
    set: Set<C>,
    options: &[(&str, &str)],
) -> Result<(), BadSetting> {
    set(&mut C::default(), &key.to_ascii_lowercase(), value).map_err(|error| {
        let unknown = error == OptionError::Unknown;
        let what = if unknown {
            let names: Vec<&str> = options.iter().map(|(name, _)| *name).collect();
            format!("{error}; expected ETMCR, ETMIDR, ETMCCER or one of {}", names.join(", "))
        } else {
            error.to_string()
        };
        BadSetting { key: key.to_owned(), what, unknown }
    })
}

/// Turns packets into execution.
pub trait PacketFollower<D: PacketDecoder> {
    /// Takes a packet.
    fn push(&mut self, packet: Located<D::Packet>, sink: &mut impl Sink);

    /// Decodes bytes, and takes their packets until the sink has enough; how many.
    #[inline]
    fn feed<S: StreamSink<Event>>(&mut self, decoder: &mut D, bytes: &[u8], sink: &mut S) -> u64 {
        let mut packets = 0;
        decoder.feed(bytes, &mut |packet| {
            if !sink.is_done() {
                packets += 1;
                self.push(packet, &mut Events { sub_source: 0, sink });
            }
        });
        packets
    }

    /// The trace ends.
    fn finish(&mut self, sink: &mut impl Sink);

    /// Bytes are missing here.
    fn reset(&mut self);

    /// What follows happened in this span of time.
    fn enter(&mut self, window: Window);

    /// What it has read of the code.
    fn take_cache(&mut self) -> CodeCache;

    /// Goes on with what another has read of the code, or gives it back.
    fn give_cache(&mut self, cache: CodeCache) -> Result<(), CodeCache>;

    /// What was counted.
    fn statistics(&self) -> &Statistics;
}

/// Bytes to execution.
pub struct Execution<D, F> {
    decoder: D,
    follower: F,
    packets: u64,
}

impl<D, F> Execution<D, F> {
    pub(super) fn new(decoder: D, follower: F) -> Self {
        Self { decoder, follower, packets: 0 }
    }
}

impl<D: PacketDecoder, F: PacketFollower<D>> Stream for Execution<D, F> {
    type Value = Event;

    fn feed<S: StreamSink<Event>>(&mut self, bytes: &[u8], sink: &mut S) {
        self.packets += self.follower.feed(&mut self.decoder, bytes, sink);
    }

    fn finish<S: StreamSink<Event>>(&mut self, sink: &mut S) {
        let Self { decoder, follower, packets } = self;
        decoder.reset(&mut |packet| {
            if !sink.is_done() {
                *packets += 1;
                follower.push(packet, &mut Events { sub_source: 0, sink });
            }
        });
        if !sink.is_done() {
            follower.finish(&mut Events { sub_source: 0, sink });
        }
    }

    fn reset<S: StreamSink<Event>>(&mut self, sink: &mut S) {
        let Self { decoder, follower, packets } = self;
        decoder.reset(&mut |packet| {
            if !sink.is_done() {
                *packets += 1;
                follower.push(packet, &mut Events { sub_source: 0, sink });
            }
        });
        follower.reset();
    }

    fn enter(&mut self, window: Window) {
        self.follower.enter(window);
    }

    fn take_cache(&mut self) -> Option<CodeCache> {
        Some(self.follower.take_cache())
    }

    fn give_cache(&mut self, cache: CodeCache) -> Result<(), CodeCache> {
        self.follower.give_cache(cache)
    }

    fn accounting(&self) -> Accounting {
        self.decoder.accounting()
    }

    fn packets(&self) -> u64 {
        self.packets
    }

    fn statistics(&self) -> Statistics {
        *self.follower.statistics()
    }
}
