//! ITM packets to messages, events and time.
//!
//! An ITM says nothing of flow: every packet is an event by itself. Three things need what came before: the page of a
//! stimulus port, the sum of local timestamps, and the global timestamp, whose high and low bits come in packets of
//! their own.

use backsight_arm::itm::{Config, Packet};
use backsight_core::Located;

use crate::sink::Sink;
use crate::{
    Channel, DwtEvent, Event, HardwareEvent, NoSync, SoftwareMessage, SourceTime, Statistics, TimeRelation,
};

/// Turns the packets of one ITM into events.
#[derive(Clone, Debug)]
pub struct Follower {
    prescale: u32,
    begun: bool,
    page: u8,
    /// The sum of local timestamps.
    local: u64,
    global: GlobalTime,
    /// Packets were lost since the last event.
    lost: bool,
    at: Located<()>,
    statistics: Statistics,
}

/// The global timestamp, as far as it is known.
#[derive(Clone, Copy, Debug, Default)]
struct GlobalTime {
    low: u32,
    high: Option<u64>,
}

impl GlobalTime {
    const LOW_BITS: u32 = 26;

    /// Takes low bits; those that were not sent stay. The time, if the high bits are known and did not change.
    fn low(&mut self, low: u32, length: u8, wrapped: bool) -> Option<u64> {
        let sent = (1u32 << (7 * u32::from(length)).min(Self::LOW_BITS)) - 1;
        self.low = self.low & !sent | low & sent;
        if wrapped {
            self.high = None;
        }
        self.value()
    }

    fn high(&mut self, high: u64) -> Option<u64> {
        self.high = Some(high);
        self.value()
    }

    fn value(&self) -> Option<u64> {
        self.high.map(|high| high << Self::LOW_BITS | u64::from(self.low))
    }
}

impl Follower {
    /// At the beginning of a stream.
    pub fn new(config: &Config) -> Self {
        Self {
            prescale: config.prescale,
            begun: false,
            page: 0,
            local: 0,
            global: GlobalTime::default(),
            lost: false,
            at: Located { offset: 0, length: 0, value: () },
            statistics: Statistics::default(),
        }
    }

    /// Takes the next packet.
    #[inline]
    pub fn push(&mut self, packet: Located<Packet>, sink: &mut impl Sink) {
        self.at = packet.map(|_| ());
        self.begin(sink);
        match packet.value {
            Packet::Sync => {}
            Packet::Overflow => {
                self.lost = true;
                self.local = 0;
                self.statistics.gaps.overflow += 1;
            }
            Packet::LocalTimestamp { ticks, relation } => {
                self.local += u64::from(ticks) * u64::from(self.prescale);
                let relation = TimeRelation::from_bits(relation);
                let (total, after_loss) = (self.local, self.take_lost());
                self.emit(
                    Event::SourceTime(SourceTime::Local { delta: ticks, total, relation, after_loss }),
                    sink,
                );
            }
            Packet::GlobalTimestamp1 { low, length, wrapped, .. } => {
                let time = self.global.low(low, length, wrapped);
                self.global_time(time, sink);
            }
            Packet::GlobalTimestamp2 { high, .. } => {
                let time = self.global.high(high);
                self.global_time(time, sink);
            }
            Packet::Extension { .. } => self.page = packet.value.page().unwrap_or(self.page),
            Packet::Instrumentation { port, value, size } => {
                let channel = Channel::Port(u16::from(self.page) * 32 + u16::from(port));
                let message = SoftwareMessage::new(channel, value.into(), size).after_loss(self.take_lost());
                self.emit(Event::Software(message), sink);
            }
            Packet::Hardware { id, value, size } => {
                let event = DwtEvent { id, size, value, after_loss: self.take_lost() };
                self.emit(Event::Hardware(HardwareEvent::Dwt(event)), sink);
            }
            Packet::Bad(_) => {
                self.forget();
                self.emit(Event::NoSync(NoSync::BadPacket), sink);
            }
            Packet::Unsynchronised => self.emit(Event::NoSync(NoSync::Initial), sink),
        }
    }

    /// The trace ends. The follower is as new afterwards, but for what it counted.
    pub fn finish(&mut self, sink: &mut impl Sink) {
        self.begin(sink);
        self.emit(Event::EndOfTrace { after_overflow: false }, sink);
        self.reset();
        self.begun = false;
    }

    /// Begins again, as after a gap in the data.
    pub fn reset(&mut self) {
        self.forget();
        self.lost = false;
    }

    fn forget(&mut self) {
        self.page = 0;
        self.local = 0;
        self.global = GlobalTime::default();
    }

    fn begin(&mut self, sink: &mut impl Sink) {
        if !std::mem::replace(&mut self.begun, true) {
            self.emit(Event::StartOfTrace, sink);
        }
    }

    fn take_lost(&mut self) -> bool {
        std::mem::take(&mut self.lost)
    }

    fn global_time(&mut self, time: Option<u64>, sink: &mut impl Sink) {
        if let Some(value) = time {
            let after_loss = self.take_lost();
            self.emit(Event::SourceTime(SourceTime::Global { value, after_loss }), sink);
        }
    }

    /// What was counted.
    pub const fn statistics(&self) -> &Statistics {
        &self.statistics
    }

    #[inline]
    fn emit(&mut self, value: Event, sink: &mut impl Sink) {
        self.statistics.count(&value);
        sink.take(self.at.map(|()| value));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn events(config: &Config, packets: &[Packet]) -> Vec<String> {
        let (mut follower, mut lines) = (Follower::new(config), Vec::new());
        let mut sink = |event: Located<Event>| lines.push(event.value.to_string());
        for (offset, &value) in (0..).zip(packets) {
            follower.push(Located { offset, length: 1, value }, &mut sink);
        }
        follower.finish(&mut sink);
        lines
    }

    const PAGE: Packet = Packet::Extension { hardware: false, value: 2, length: 0 };

    #[test]
    fn ports_have_pages_and_losses_are_shown_once() {
        let byte = Packet::Instrumentation { port: 10, value: 0x41, size: 1 };
        let lines = events(&Config::default(), &[byte, PAGE, Packet::Overflow, byte, byte]);
        let expected = [
            "start of trace",
            "message port 10 0x41 \"A\"",
            "message port 74 0x41 \"A\", after a loss",
            "message port 74 0x41 \"A\"",
            "end of trace",
        ];
        assert_eq!(lines, expected);
    }

    #[test]
    fn local_time_is_a_sum_that_begins_again_after_a_loss() {
        let ticks = |ticks, relation| Packet::LocalTimestamp { ticks, relation };
        let config = Config::default().with_control(0x110);
        let lines = events(&config, &[ticks(2, 0), ticks(3, 1), Packet::Overflow, ticks(1, 3)]);
        let expected = [
            "local timestamp +2 = 8, exact",
            "local timestamp +3 = 20, timestamp delayed",
            "local timestamp +1 = 4, timestamp and packet delayed, after a loss",
        ];
        assert_eq!(lines[1..4], expected);
    }

    #[test]
    fn global_time_waits_for_its_high_bits() {
        let low =
            |low, length, wrapped| Packet::GlobalTimestamp1 { low, length, wrapped, clock_changed: false };
        let high = |high| Packet::GlobalTimestamp2 { high, wide: false };
        let packets = [low(0x12_3456, 4, false), high(1), low(0x57, 1, false), low(1, 4, true), high(2)];
        let times: Vec<String> = events(&Config::default(), &packets)
            .into_iter()
            .filter(|line| line.starts_with("timestamp"))
            .collect();
        assert_eq!(times, ["timestamp 0x4123456", "timestamp 0x4123457", "timestamp 0x8000001"]);
    }

    #[test]
    fn what_the_dwt_says_is_named() {
        let dwt = |id, value, size| Packet::Hardware { id, value, size };
        let packets = [
            dwt(0, 0x15, 1),
            dwt(1, 0x1004, 2),
            dwt(2, 0x1000, 4),
            dwt(2, 0, 1),
            dwt(10, 0x800, 4),
            dwt(11, 0x1234, 2),
            dwt(19, 7, 1),
            dwt(30, 7, 1),
        ];
        let expected = [
            "hardware: counter wrap cpi sleep fold",
            "hardware: exception entered 4",
            "hardware: PC sample at 0x1000",
            "hardware: PC sample while asleep",
            "hardware: access at 0x800 of comparator 1",
            "hardware: access to 0x1234 of comparator 1",
            "hardware: value written 0x07 of comparator 1",
            "hardware: reserved packet of the DWT 0x07",
        ];
        let lines = events(&Config::default(), &packets);
        assert_eq!(lines[1..=8], expected);
    }
}
