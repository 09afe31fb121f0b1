//! ITM: what software writes to stimulus ports, and what the DWT of a Cortex-M notices.

use backsight_arm::itm::{Config, Decoder, Packet};
use backsight_core::{Accounting, Located};
use backsight_flow::itm::Follower;
use backsight_flow::{Event, Statistics};

use super::packets::{PacketDecoder, Packets};
use super::riscv::parse_number;
use super::stream::{Events, Notes, StreamSink};
use super::{BadSetting, Described, Following, IdRegister, Landmark, Names, Never, Protocol, Stream};
use crate::SourceCode;

/// ITM.
pub struct Itm;

const CONTROL: [&str; 2] = ["ITMTCR", "CONTROL_REGISTER"];
const NO_SYNC: &str =
    "the ITM sent no synchronisation packet: if it was not programmed to, say --config sync=none";

impl Protocol for Itm {
    const NAMES: &'static [Names] = &[Names {
        name: "itm",
        formats: &["itm", "itm1"],
        format: "ITM",
        id_register: Some(IdRegister { names: &CONTROL, lowest_bit: 16 }),
        ..Names::PLAIN
    }];

    type Configuration = Config;
    type Packet = Packet;
    type Packets = Packets<Decoder>;
    type Execution<'c> = Messages;
    type Branches = Never;

    fn configure(source: &Described<'_>, _notes: &mut Vec<String>) -> Result<Config, BadSetting> {
        let control = CONTROL.iter().find_map(|name| source.register(name)?.value);
        let mut config = Config::default().with_control(control.unwrap_or(0) as u32);
        for (key, value) in source.options {
            match set(&mut config, key, value) {
                // What is said for people, and options of other protocols.
                Err(bad) if bad.unknown => {}
                outcome => outcome?,
            }
        }
        Ok(config)
    }

    fn check(_names: &Names, key: &str, value: &str) -> Result<(), BadSetting> {
        set(&mut Config::default(), key, value)
    }

    fn words(config: &Config) -> String {
        let mut words = "ITM".to_owned();
        if config.prescale != 1 {
            words += &format!(", local timestamps in {} ticks", config.prescale);
        }
        if !config.synchronises {
            words += ", without synchronisation";
        }
        words
    }

    fn packets(config: &Config) -> Packets<Decoder> {
        Packets::new(Decoder::new(config))
    }

    fn execution<'c>(
        config: &Config,
        _code: SourceCode<'c>,
        _options: &Following,
    ) -> Result<Messages, &'static str> {
        Ok(Messages { decoder: Decoder::new(config), follower: Follower::new(config), packets: 0 })
    }

    fn branches(_config: &Config) -> Result<Never, &'static str> {
        Err("an ITM does not trace branches")
    }

    fn landmark(_before: Option<&Packet>, packet: &Packet) -> Landmark {
        match packet {
            Packet::Sync => Landmark::Sync,
            Packet::Overflow => Landmark::Overflow,
            Packet::Bad(_) => Landmark::Bad,
            Packet::Unsynchronised => Landmark::Unsynchronised,
            _ => Landmark::None,
        }
    }
}

fn set(config: &mut Config, key: &str, value: &str) -> Result<(), BadSetting> {
    let bad = |what: &str, unknown| BadSetting { key: key.to_owned(), what: what.to_owned(), unknown };
    match key.to_ascii_lowercase().as_str() {
        "itmtcr" | "control_register" => {
            let value = parse_number(value).ok().and_then(|value| u32::try_from(value).ok());
            *config = config.with_control(value.ok_or_else(|| bad("a 32-bit number is expected", false))?);
        }
        "prescale" => {
            let prescale = parse_number(value).ok().and_then(|value| u32::try_from(value).ok());
            config.prescale = prescale
                .filter(|&value| value > 0)
                .ok_or_else(|| bad("a number from 1 is expected", false))?;
        }
        "sync" => {
            config.synchronises = match value {
                "none" => false,
                "packets" => true,
                _ => return Err(bad("`packets` or `none` is expected", false)),
            }
        }
        _ => return Err(bad("an ITM has the settings ITMTCR, prescale and sync", true)),
    }
    Ok(())
}

impl PacketDecoder for Decoder {
    type Packet = Packet;

    fn feed(&mut self, bytes: &[u8], sink: &mut impl FnMut(Located<Packet>)) {
        Self::feed(self, bytes, sink);
    }

    fn reset(&mut self, sink: &mut impl FnMut(Located<Packet>)) {
        Self::finish(self, sink);
    }

    fn accounting(&self) -> Accounting {
        Self::accounting(self)
    }

    #[inline(always)]
    fn is_skipped(packet: &Packet) -> bool {
        matches!(packet, Packet::Unsynchronised)
    }
}

/// Bytes to events.
pub struct Messages {
    decoder: Decoder,
    follower: Follower,
    packets: u64,
}

impl Stream for Messages {
    type Value = Event;

    fn feed<S: StreamSink<Event>>(&mut self, bytes: &[u8], sink: &mut S) {
        let Self { decoder, follower, packets } = self;
        decoder.feed(bytes, &mut |packet| {
            *packets += u64::from(!Decoder::is_skipped(&packet.value));
            follower.push(packet, &mut Events { sub_source: 0, sink });
        });
    }

    fn finish<S: StreamSink<Event>>(&mut self, sink: &mut S) {
        let Self { decoder, follower, packets } = self;
        decoder.finish(&mut |packet| {
            *packets += u64::from(!Decoder::is_skipped(&packet.value));
            follower.push(packet, &mut Events { sub_source: 0, sink });
        });
        follower.finish(&mut Events { sub_source: 0, sink });
    }

    fn reset<S: StreamSink<Event>>(&mut self, sink: &mut S) {
        let Self { decoder, follower, packets } = self;
        decoder.reset(&mut |packet| {
            *packets += u64::from(!Decoder::is_skipped(&packet.value));
            follower.push(packet, &mut Events { sub_source: 0, sink });
        });
        follower.reset();
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

    fn notes(&self) -> Notes {
        let Accounting { decoded, unsynchronised, .. } = self.decoder.accounting();
        Notes::of((decoded == 0 && unsynchronised > 0).then(|| NO_SYNC.to_owned()))
    }
}
