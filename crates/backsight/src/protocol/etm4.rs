//! Arm ETMv4 and ETE: described by the registers of the trace unit.

use std::fmt;
use std::ops::Range;

use backsight_arm::etm4::{
    AddressPacket, AtomRun, Config, ConfigError, CountedRun, Decoder, DecoderState, Packet, PacketBatch,
    PacketSink, Tally, find_async, opencsd,
};
use backsight_core::{Accounting, AddressSpace, Located};
use backsight_flow::etm4::{self, Follower, FollowerState, Options, Record};
use backsight_flow::{CodeCache, Event, Statistics};
use backsight_image::Window;

use super::stream::{Events, Resumable, SavedState, StreamSink, TimedFollower};
use super::{
    BadSetting, Described, Following, IdRegister, Kinds, Landmark, Names, PacketStream, Protocol, Stream,
};
use crate::SourceCode;

/// ETMv4 and ETE.
pub struct Etm4;

const ID: IdRegister = IdRegister { names: &["TRCTRACEIDR"], lowest_bit: 0 };
const NEEDED: &[&str] = &["TRCCONFIGR", "TRCIDR0", "TRCIDR2"];

/// The registers that a decoder needs; an ETE also has TRCDEVARCH.
const REGISTERS: [&str; 8] =
    ["TRCCONFIGR", "TRCIDR0", "TRCIDR1", "TRCIDR2", "TRCIDR8", "TRCIDR9", "TRCIDR12", "TRCIDR13"];

impl Protocol for Etm4 {
    const NAMES: &'static [Names] = &[
        Names {
            name: "etm4",
            formats: &["etm4"],
            format: "ETM4.0",
            id_register: Some(ID),
            needed_registers: NEEDED,
            ..Names::PLAIN
        },
        Names {
            name: "ete",
            formats: &["ete", "ete1"],
            format: "ETE1.0",
            id_register: Some(ID),
            needed_registers: NEEDED,
            ..Names::PLAIN
        },
    ];

    type Configuration = Config;
    type Packet = Packet;
    type Packets = Packets;
    type Execution<'c> = Execution<'c>;
    type Branches = Branches;

    fn configure(source: &Described<'_>, notes: &mut Vec<String>) -> Result<Config, BadSetting> {
        let mut config = usual(source.names);
        if let Some(version) = source.version
            && config.set_option("version", version).is_err()
        {
            notes.push(format!("source {}: the version in `{version}` is not known", source.name));
        }
        for register in source.registers {
            match register.value.map(u32::try_from) {
                Some(Ok(value)) => drop(config.set_register(&register.name, value)),
                _ if config.register(&register.name).is_some() => {
                    let (name, text) = (&register.name, &register.text);
                    notes.push(format!(
                        "source {}: {name} is `{text}`, expected a 32-bit number",
                        source.name
                    ));
                }
                _ => {}
            }
        }
        settle_version(source, &mut config, notes);
        if let Some(core) = source.core
            && config.set_option("core", core).is_err()
        {
            notes.push(format!(
                "source {}: core type `{core}` is not known: the newest architecture, A profile, is assumed",
                source.name
            ));
        }
        apply_options(source, &mut config, notes)?;
        if let Some(id) = source.id {
            config.registers.traceidr = u32::from(id.get());
        }
        Ok(config)
    }

    fn check(names: &Names, key: &str, value: &str) -> Result<(), BadSetting> {
        usual(names).set(key, value).map_err(|error| BadSetting {
            key: key.to_owned(),
            what: error.to_string(),
            unknown: matches!(error, ConfigError::UnknownOption | ConfigError::UnknownRegister),
        })
    }

    fn words(config: &Config) -> String {
        config.words().to_string()
    }

    fn registers(config: &Config) -> Option<Vec<(&'static str, u32)>> {
        let ete = config.is_ete().then_some("TRCDEVARCH");
        let names = REGISTERS.into_iter().chain(ete);
        Some(names.filter_map(|name| Some((name, config.register(name)?))).collect())
    }

    fn counts_cycles(config: &Config) -> bool {
        config.cycle_counting()
    }

    fn packets(config: &Config) -> Packets {
        Packets { decoder: Decoder::new(config), packets: 0, tally: None }
    }

    fn execution<'c>(
        config: &Config,
        code: SourceCode<'c>,
        options: &Following,
    ) -> Result<Execution<'c>, &'static str> {
        let options = Options { strict_image: options.strict_image, ..Options::default() };
        let follower = Follower::with_options(config, code, options);
        let beginning = follower.state();
        Ok(Execution { decoder: Decoder::new(config), follower, beginning, packets: 0 })
    }

    fn branches(config: &Config) -> Result<Branches, &'static str> {
        Ok(Branches { decoder: Decoder::new(config), branches: etm4::Branches::new(config), packets: 0 })
    }

    fn write_opencsd(packet: &Packet, out: &mut dyn fmt::Write) -> fmt::Result {
        write!(out, "{}", opencsd(packet))
    }

    fn landmark(before: Option<&Packet>, packet: &Packet) -> Landmark {
        match packet {
            // No nonsense looks like an Async.
            Packet::TraceInfo(_) if matches!(before, Some(Packet::Async)) => Landmark::Sync,
            Packet::Timestamp(timestamp) if timestamp.value != 0 => Landmark::Time(timestamp.value),
            Packet::Overflow => Landmark::Overflow,
            Packet::Bad(_) => Landmark::Bad,
            Packet::Unsynchronised => Landmark::Unsynchronised,
            _ => Landmark::None,
        }
    }
}

/// What to assume where nothing is said.
fn usual(names: &Names) -> Config {
    if names.name == "ete" { Config::ete_default() } else { Config::etm4_default() }
}

/// Makes the version agree with the protocol, which the type of the device decides.
fn settle_version(source: &Described<'_>, config: &mut Config, notes: &mut Vec<String>) {
    let ete = source.names.name == "ete";
    if config.is_ete() == ete && config.version().0 >= 0x40 {
        return;
    }
    let before = config.version().0;
    let architecture = source.register("TRCDEVARCH").and_then(|register| register.value);
    if ete && (0x40..0x50).contains(&before) && architecture.is_some_and(|value| value & 0xFFFF == 0x4A13) {
        notes.push(format!(
            "source {}: it is called an ETE, and its TRCDEVARCH is that of ETMv4.{}: read as that",
            source.name,
            before & 0xF
        ));
        return;
    }
    if ete {
        config.registers.idr1 |= 0xFF0;
        if !config.is_ete() {
            config.registers.devarch = 0x4770_5A13;
        }
    } else {
        config.registers.idr1 = config.registers.idr1 & !0xFF0 | 0x460;
    }
    if source.register("TRCIDR1").is_some() {
        notes.push(format!(
            "source {}: TRCIDR1 and TRCDEVARCH say version {}.{}, which is no {}: read as {}",
            source.name,
            before >> 4,
            before & 0xF,
            if ete { "ETE" } else { "ETMv4" },
            config.words()
        ));
    }
}

/// Registers say what the hardware was; options say what somebody wants. Where both are given and differ, options win.
fn apply_options(
    source: &Described<'_>,
    config: &mut Config,
    notes: &mut Vec<String>,
) -> Result<(), BadSetting> {
    for (key, value) in source.options {
        let before = *config;
        match config.set_option(key, value) {
            Ok(()) => {}
            // Options of other protocols, and what is said for people.
            Err(ConfigError::UnknownOption | ConfigError::UnknownRegister) => continue,
            Err(error) => {
                let what = format!("`{key}` is `{value}`: {error}");
                return Err(BadSetting { key: key.clone(), what, unknown: false });
            }
        }
        for register in source.registers {
            let values = (before.register(&register.name), config.register(&register.name));
            if let (Some(from), Some(to)) = values
                && from != to
            {
                let name = &register.name;
                notes.push(format!(
                    "source {}: option {key}={value} contradicts {name}={from:#x}; the option wins",
                    source.name
                ));
            }
        }
    }
    Ok(())
}

/// Bytes to packets.
pub struct Packets {
    decoder: Decoder,
    packets: u64,
    tally: Option<Box<Tally>>,
}

/// Counts what is a packet.
#[inline]
fn is_packet(packet: &Packet) -> u64 {
    u64::from(!matches!(packet, Packet::Unsynchronised))
}

impl Stream for Packets {
    type Value = Packet;

    fn feed<S: StreamSink<Packet>>(&mut self, bytes: &[u8], sink: &mut S) {
        self.decoder.feed(bytes, &mut |packet| {
            self.packets += is_packet(&packet.value);
            sink.take(0, packet);
        });
    }

    fn finish<S: StreamSink<Packet>>(&mut self, sink: &mut S) {
        self.reset(sink);
    }

    fn reset<S: StreamSink<Packet>>(&mut self, sink: &mut S) {
        self.decoder.reset(&mut |packet| {
            self.packets += is_packet(&packet.value);
            sink.take(0, packet);
        });
    }

    fn resumable(&mut self) -> Option<&mut dyn Resumable> {
        Some(self)
    }

    fn accounting(&self) -> Accounting {
        self.decoder.accounting()
    }

    fn packets(&self) -> u64 {
        self.packets
    }
}

impl Resumable for Packets {
    fn state(&self) -> SavedState {
        SavedState::new(self.decoder.state())
    }

    fn restore(&mut self, state: &SavedState) {
        if let Some(state) = state.get() {
            self.decoder.restore(state);
        }
    }

    fn starting_at(&self, offset: u64) -> SavedState {
        SavedState::new(DecoderState::starting_at(offset))
    }

    fn last_sync(&self, bytes: &[u8], from: usize) -> Option<usize> {
        last_sync(bytes, from)
    }

    fn finds_synchronisation_anywhere(&self) -> bool {
        true
    }
}

fn last_sync(bytes: &[u8], from: usize) -> Option<usize> {
    Some(from + find_async(bytes.get(from..)?)?)
}

impl Packets {
    /// Takes bytes through `each`, which gets the packets by the thousand.
    fn batches(&mut self, bytes: &[u8], mut each: impl FnMut(&PacketBatch)) {
        let before = self.decoder.accounting().unsynchronised;
        self.decoder.feed_batches(bytes, &mut |batch| {
            self.packets += batch.len() as u64;
            each(batch);
        });
        // A search for the first packet ends once in a piece of stream, and gives what it passed over as one.
        self.packets -= u64::from(self.decoder.accounting().unsynchronised != before);
    }
}

impl PacketStream for Packets {
    fn count(&mut self, bytes: &[u8]) {
        self.batches(bytes, |_| {});
    }

    fn tally(&mut self, bytes: &[u8], _kinds: &mut Kinds) {
        let mut tally = self.tally.take().unwrap_or_default();
        self.batches(bytes, |batch| tally.add(batch));
        self.tally = Some(tally);
    }

    fn settle(&mut self, kinds: &mut Kinds) {
        if let Some(tally) = self.tally.take() {
            tally.for_each(|name, packets, bytes| kinds.add(name, packets, bytes));
        }
    }
}

/// Bytes to execution.
pub struct Execution<'c> {
    decoder: Decoder,
    follower: Follower<SourceCode<'c>>,
    /// What a follower knows at the beginning.
    beginning: FollowerState,
    packets: u64,
}

/// Hands packets to a follower, as long as somebody wants what comes of them.
struct ToFollower<'s, 'c, S> {
    follower: &'s mut Follower<SourceCode<'c>>,
    packets: &'s mut u64,
    sink: &'s mut S,
}

impl<S: StreamSink<Event>> PacketSink for ToFollower<'_, '_, S> {
    const TAKES_RUNS: bool = true;

    #[inline(always)]
    fn take(&mut self, packet: Located<Packet>) {
        if !self.sink.is_done() {
            *self.packets += 1;
            self.follower.push(packet, &mut Events { sub_source: 0, sink: self.sink });
        }
    }

    #[inline(always)]
    fn take_run(&mut self, run: Located<AtomRun>) {
        if !self.sink.is_done() {
            *self.packets += u64::from(run.length);
            self.follower.push_run(run, &mut Events { sub_source: 0, sink: self.sink });
        }
    }

    #[inline(always)]
    fn take_counted_run(&mut self, run: &CountedRun) {
        if !self.sink.is_done() {
            *self.packets += u64::from(run.len());
            self.follower.push_counted_run(run, &mut Events { sub_source: 0, sink: self.sink });
        }
    }

    #[inline(always)]
    fn take_address_and_run(&mut self, address: Located<AddressPacket>, run: Located<AtomRun>) {
        if !self.sink.is_done() {
            *self.packets += 1 + u64::from(run.length);
            let events = &mut Events { sub_source: 0, sink: self.sink };
            self.follower.push_address_and_run(address, run, events);
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

impl Stream for Execution<'_> {
    type Value = Event;

    fn feed<S: StreamSink<Event>>(&mut self, bytes: &[u8], sink: &mut S) {
        let Self { decoder, follower, packets, .. } = self;
        decoder.feed_to(bytes, &mut ToFollower { follower, packets, sink });
    }

    fn finish<S: StreamSink<Event>>(&mut self, sink: &mut S) {
        let Self { decoder, follower, packets, .. } = self;
        decoder.finish(&mut |packet| {
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
        let Self { decoder, follower, packets, .. } = self;
        decoder.reset(&mut |packet| {
            if !sink.is_done() {
                *packets += 1;
                follower.push(packet, &mut Events { sub_source: 0, sink });
            }
        });
        follower.reset();
    }

    fn enter(&mut self, window: Window) {
        TimedFollower::enter(&mut self.follower, window);
    }

    fn resumable(&mut self) -> Option<&mut dyn Resumable> {
        Some(self)
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

/// What is known of a stream that is followed.
type State = (DecoderState, FollowerState);

impl Resumable for Execution<'_> {
    fn state(&self) -> SavedState {
        let state: State = (self.decoder.state(), self.follower.state());
        SavedState::new(state)
    }

    fn restore(&mut self, state: &SavedState) {
        if let Some((decoder, follower)) = state.get::<State>() {
            self.decoder.restore(decoder);
            self.follower.restore(follower);
        }
    }

    fn starting_at(&self, offset: u64) -> SavedState {
        let state: State = (DecoderState::starting_at(offset), self.beginning.clone());
        SavedState::new(state)
    }

    fn last_sync(&self, bytes: &[u8], from: usize) -> Option<usize> {
        last_sync(bytes, from)
    }

    fn finds_synchronisation_anywhere(&self) -> bool {
        true
    }
}

/// Bytes to branches, from the packets alone.
pub struct Branches {
    decoder: Decoder,
    branches: etm4::Branches,
    packets: u64,
}

impl Stream for Branches {
    type Value = Record;

    fn feed<S: StreamSink<Record>>(&mut self, bytes: &[u8], sink: &mut S) {
        let Self { decoder, branches, packets } = self;
        decoder.feed(bytes, &mut |packet| {
            *packets += 1;
            branches.push(packet, &mut |record| sink.take(0, record));
        });
    }

    fn finish<S: StreamSink<Record>>(&mut self, sink: &mut S) {
        let Self { decoder, branches, packets } = self;
        decoder.finish(&mut |packet| {
            *packets += 1;
            branches.push(packet, &mut |record| sink.take(0, record));
        });
        branches.finish(&mut |record| sink.take(0, record));
    }

    fn reset<S: StreamSink<Record>>(&mut self, sink: &mut S) {
        let Self { decoder, branches, packets } = self;
        decoder.reset(&mut |packet| {
            *packets += 1;
            branches.push(packet, &mut |record| sink.take(0, record));
        });
        branches.reset();
    }

    fn accounting(&self) -> Accounting {
        self.decoder.accounting()
    }

    fn packets(&self) -> u64 {
        self.packets
    }
}
