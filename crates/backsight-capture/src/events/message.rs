//! Events of the log as messages of a system trace, beside the trace that they explain.
//!
//! Software writes each event to one channel of an STM: a marked write with a timestamp begins a message, a flag ends it.
//! The bytes of a message:
//!
//! ```text
//!  0        4          8         10              10+length
//! +--------+----------+---------+----------------+----------+
//! | "BSE1" | sequence | length  | payload        | CRC-32   |
//! +--------+----------+---------+----------------+----------+
//! ```
//!
//! Numbers have their lowest byte first. The payload is a line of the log without its time; the code that `patch_code`
//! installs follows it after a zero byte. A sequence number that is left out, and a check that fails, are events that
//! were lost: they are counted, and nothing is believed across them.

use std::fmt;
use std::str::FromStr;

use super::parse::LineParser;
use super::{EventLog, Item, Patch, PatchCode, Record};
use crate::Error;
use crate::folder::LONGEST_LOG;
use crate::ini::{Dialect, parse_number, short};

/// The option of a source that names the channel.
pub const EVENT_CHANNEL: &str = "event_channel";

const MAGIC: [u8; 4] = *b"BSE1";
const HEADER: usize = 10;
const CHECK: usize = 4;
/// Longest payload.
const LONGEST: usize = u16::MAX as usize;
/// Damaged messages that are named one by one.
const NAMED: usize = 20;

/// The channel of an STM that events are written to: `MASTER:CHANNEL`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventChannel {
    /// The bus master.
    pub master: u16,
    /// Its channel.
    pub channel: u16,
}

impl fmt::Display for EventChannel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.master, self.channel)
    }
}

impl FromStr for EventChannel {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number =
            |text| parse_number(text, Dialect::Package).and_then(|number| u16::try_from(number).ok());
        let both = text.split_once(':');
        let both = both.and_then(|(master, channel)| Some((number(master.trim())?, number(channel.trim())?)));
        let (master, channel) =
            both.ok_or_else(|| format!("`{}` is no channel, expected MASTER:CHANNEL", short(text)))?;
        Ok(Self { master, channel })
    }
}

/// The bytes of a message. `None`: the event is too long for one.
pub fn encode(sequence: u32, item: &Item) -> Option<Vec<u8>> {
    let mut payload;
    match item {
        Item::Patch(patch) => match &patch.code {
            PatchCode::Inline(code) => {
                let (pid, address, length) = (patch.pid, patch.address, patch.length);
                let line = Patch { pid, address, length, code: PatchCode::InMemory };
                payload = Item::Patch(Box::new(line)).to_string().into_bytes();
                payload.push(0);
                payload.extend_from_slice(code);
            }
            _ => payload = item.to_string().into_bytes(),
        },
        _ => payload = item.to_string().into_bytes(),
    }
    frame(sequence, &payload)
}

/// The bytes of a message with this payload. `None`: it is too long.
pub fn frame(sequence: u32, payload: &[u8]) -> Option<Vec<u8>> {
    let length = u16::try_from(payload.len()).ok()?;
    let mut bytes = Vec::with_capacity(HEADER + payload.len() + CHECK);
    bytes.extend(MAGIC);
    bytes.extend(sequence.to_le_bytes());
    bytes.extend(length.to_le_bytes());
    bytes.extend(payload);
    bytes.extend(crc32fast::hash(&bytes).to_le_bytes());
    Some(bytes)
}

/// What is wrong with a message.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MessageError {
    /// It does not begin as messages do.
    Beginning,
    /// It ends too early.
    Short,
    /// Its check is not that of its bytes.
    Check,
    /// It does not have as many bytes as it says.
    Length,
    /// Its line is no UTF-8 text.
    Text,
    /// Its line is no event: why.
    Line(String),
    /// Code follows a line that has no place for it.
    Code,
}

impl fmt::Display for MessageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Beginning => "it does not begin with BSE1",
            Self::Short => "it is too short",
            Self::Check => "its check is wrong",
            Self::Length => "its length is wrong",
            Self::Text => "its line is no UTF-8 text",
            Self::Line(why) => why,
            Self::Code => "code follows a line that has no place for it",
        })
    }
}

impl std::error::Error for MessageError {}

/// The sequence number and the event of a message.
///
/// # Errors
/// What is wrong with it.
pub fn decode(bytes: &[u8]) -> Result<(u32, Item), MessageError> {
    decode_with(bytes, &mut LineParser::default())
}

fn decode_with(bytes: &[u8], parser: &mut LineParser) -> Result<(u32, Item), MessageError> {
    let rest = bytes.strip_prefix(&MAGIC).ok_or(MessageError::Beginning)?;
    let (checked, check) = bytes
        .split_last_chunk::<CHECK>()
        .filter(|(checked, _)| checked.len() >= HEADER)
        .ok_or(MessageError::Short)?;
    if crc32fast::hash(checked) != u32::from_le_bytes(*check) {
        return Err(MessageError::Check);
    }
    let (sequence, rest) = rest.split_first_chunk::<4>().ok_or(MessageError::Short)?;
    let (length, _) = rest.split_first_chunk::<2>().ok_or(MessageError::Short)?;
    let payload = checked.get(HEADER..).unwrap_or_default();
    if payload.len() != usize::from(u16::from_le_bytes(*length)) {
        return Err(MessageError::Length);
    }
    Ok((u32::from_le_bytes(*sequence), parse_payload(payload, parser)?))
}

fn parse_payload(payload: &[u8], parser: &mut LineParser) -> Result<Item, MessageError> {
    let mut parts = payload.splitn(2, |byte| *byte == 0);
    let line = parts.next().unwrap_or_default();
    let line = std::str::from_utf8(line).map_err(|_| MessageError::Text)?;
    let mut item = parser.item(line).map_err(MessageError::Line)?;
    if let Some(code) = parts.next() {
        match &mut item {
            Item::Patch(patch) if patch.code == PatchCode::InMemory && patch.length == code.len() as u64 => {
                patch.code = PatchCode::Inline(code.to_vec());
            }
            _ => return Err(MessageError::Code),
        }
    }
    Ok(item)
}

/// Puts messages together from what was written to their channel, and makes a log of them.
#[derive(Debug, Default)]
pub struct MessageLog {
    log: EventLog,
    parser: LineParser,
    /// The message that is being written.
    bytes: Vec<u8>,
    time: Option<u64>,
    is_open: bool,
    /// The sequence number of the next message; `None` before the first.
    next: Option<u32>,
    messages: u64,
    /// Since the last good message something was damaged or lost.
    is_doubtful: bool,
    /// The time of a message that the trace ends in, if all before it are there: nothing is lost before that time.
    cut_off_at: Option<u64>,
    /// Messages that were damaged, and events that are missing.
    damaged: u64,
    lost: u64,
    taken: u64,
}

impl MessageLog {
    /// No message yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Something was written to the channel. Marked, with bytes and a time, it begins a message; marked without bytes, it
    /// ends one.
    pub fn push(&mut self, bytes: impl Iterator<Item = u8>, is_marked: bool, time: Option<u64>) {
        self.cut_off_at = None;
        let mut bytes = bytes.peekable();
        if bytes.peek().is_none() {
            if is_marked {
                self.end();
            }
            return;
        }
        if is_marked {
            // A message without an end.
            if self.is_open {
                self.damage("it has no end");
            }
            (self.is_open, self.time) = (true, time);
            self.bytes.clear();
        }
        if self.is_open && self.bytes.len() <= HEADER + LONGEST + CHECK {
            self.bytes.extend(bytes);
        } else if !self.is_open {
            // The beginning of this one is missing.
            self.is_doubtful = true;
        }
    }

    /// Something was lost: in the trace unit, or by damage to its trace.
    pub fn lose(&mut self) {
        if self.is_open {
            self.cut_off("trace was lost in the middle of it");
        }
        self.is_doubtful = true;
    }

    /// The open message has no end. It is the next one after those that were read if its number says so.
    fn cut_off(&mut self, what: &str) {
        let next = self.next.unwrap_or(0).to_le_bytes();
        let is_next = self.bytes.strip_prefix(&MAGIC).is_some_and(|rest| rest.starts_with(&next));
        self.cut_off_at = self.time.filter(|_| is_next && !self.is_doubtful);
        self.is_open = false;
        self.damage(what);
    }

    fn end(&mut self) {
        if !std::mem::take(&mut self.is_open) {
            self.is_doubtful = true;
            return;
        }
        let (bytes, time) = (std::mem::take(&mut self.bytes), self.time);
        match (decode_with(&bytes, &mut self.parser), time) {
            (Ok((sequence, item)), Some(time)) => self.take(sequence, item, time, bytes.len()),
            (Ok(_), None) => self.damage("its time is not known"),
            (Err(what), _) => self.damage(&what.to_string()),
        }
        self.bytes = bytes;
    }

    fn take(&mut self, sequence: u32, item: Item, time: u64, length: usize) {
        self.taken += length as u64;
        if self.taken > LONGEST_LOG {
            return self.damage("there are more events than can be kept");
        }
        // What was lost before the first message was lost, too: the first of all is number 0.
        let missing = sequence.wrapping_sub(self.next.unwrap_or(0));
        if missing != 0 {
            self.lost += u64::from(missing);
            self.push_record(None, Item::Lost(Some(missing.into())));
        }
        (self.next, self.is_doubtful) = (Some(sequence.wrapping_add(1)), false);
        self.messages += 1;
        self.push_record(Some(time), item);
    }

    fn push_record(&mut self, time: Option<u64>, item: Item) {
        let line = u32::try_from(self.messages).unwrap_or(u32::MAX);
        self.log.records.push(Record { line, time, item });
    }

    fn damage(&mut self, what: &str) {
        (self.damaged, self.is_doubtful) = (self.damaged + 1, true);
        if self.log.problems.len() < NAMED {
            let after = self.messages;
            self.log.problems.push(Error::file(
                "events in the trace",
                format!("the message after number {after}: {what}"),
            ));
        }
    }

    /// Nothing more comes. Gives the log, in the order of time, and what was counted.
    pub fn finish(mut self) -> (EventLog, MessageCounts) {
        if self.is_open {
            self.cut_off("the trace ends in it");
        }
        if self.is_doubtful {
            self.push_record(self.cut_off_at, Item::Lost(None));
        }
        self.log.sort();
        let Self { messages, damaged, lost, .. } = self;
        (self.log, MessageCounts { messages, damaged, lost })
    }
}

/// What came of the messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MessageCounts {
    /// Events that were read.
    pub messages: u64,
    /// Messages that were damaged, and are not among them.
    pub damaged: u64,
    /// Events that are missing, by their sequence numbers.
    pub lost: u64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::events::{Mapping, Pid, State, TraceDefinition};
    use backsight_core::{Address, TraceId};

    fn items() -> Vec<Item> {
        let pid = Pid::Process(412);
        let patch =
            |code: PatchCode| Item::Patch(Box::new(Patch { pid, address: Address(0x5000), length: 3, code }));
        let mapping = Mapping {
            main: true,
            pid,
            base: Address(0x1_0000),
            image: Some("/usr/bin/d\u{e9}mo \"x\"".into()),
            build_id: Some("0a1b".into()),
            size: Some(0x1000),
            offset: 0x400,
            relocated: false,
            name: None,
            cpu: None,
        };
        let items = vec![("ETMCR".to_owned(), "0x1000".to_owned())];
        let definition =
            TraceDefinition { id: TraceId::new(0x18), source: "ETM 0".to_owned(), format: None, items };
        vec![
            Item::SnapshotBegin { complete: true },
            Item::Mapping(State::Current, Box::new(mapping)),
            Item::SnapshotEnd,
            Item::Thread { state: State::Start, tid: 413, pid, name: None },
            Item::Asid { state: State::Start, asid: 7, pid, cpu: Some(1) },
            patch(PatchCode::Inline(vec![0, 0xFF, 0x0A])),
            patch(PatchCode::InMemory),
            patch(PatchCode::Id("blob".to_owned())),
            Item::DefineTrace(State::Start, Box::new(definition)),
            Item::Switch { cpu: 1, pid, tid: Some(413) },
            Item::Lost(Some(3)),
        ]
    }

    fn write(log: &mut MessageLog, bytes: &[u8], time: Option<u64>) {
        for (number, part) in bytes.chunks(8).enumerate() {
            log.push(part.iter().copied(), number == 0, time.filter(|_| number == 0));
        }
        log.push(std::iter::empty(), true, None);
    }

    fn messages() -> Vec<Vec<u8>> {
        (0..).zip(items()).map(|(sequence, item)| encode(sequence, &item).expect("short events")).collect()
    }

    /// The items without losses, and the numbers of those.
    fn read(messages: &[Vec<u8>]) -> (Vec<Item>, Vec<Item>, MessageCounts) {
        let mut log = MessageLog::new();
        (10..).zip(messages).for_each(|(time, message)| write(&mut log, message, Some(time)));
        let (log, counts) = log.finish();
        let all = log.records.into_iter().map(|record| record.item);
        let (lost, items) = all.partition(|item| matches!(item, Item::Lost(_)));
        (items, lost, counts)
    }

    #[test]
    fn every_event_comes_back_as_it_was() {
        for (sequence, item) in (0..).zip(items()) {
            assert_eq!(decode(&encode(sequence, &item).expect("short")), Ok((sequence, item)));
        }
        let mut log = MessageLog::new();
        (10..).zip(messages()).for_each(|(time, message)| write(&mut log, &message, Some(time)));
        let (log, counts) = log.finish();
        let records = (10..).zip(items()).zip(1..);
        let expected: Vec<Record> =
            records.map(|((time, item), line)| Record { line, time: Some(time), item }).collect();
        assert_eq!(log.records, expected);
        assert_eq!(counts, MessageCounts { messages: 11, damaged: 0, lost: 0 });
    }

    #[test]
    fn a_damaged_message_is_a_loss_of_one_event_and_never_another_event() {
        let (good, all) = (messages(), items());
        for which in 0..good.len() - 1 {
            for byte in 0..good[which].len() {
                let mut damaged = good.clone();
                damaged[which][byte] ^= 0x40;
                let (items, lost, counts) = read(&damaged);
                let mut expected = all.clone();
                expected.remove(which);
                let (own, expected): (Vec<Item>, Vec<Item>) =
                    expected.into_iter().partition(|item| matches!(item, Item::Lost(_)));
                assert_eq!(items, expected);
                assert_eq!(lost, [vec![Item::Lost(Some(1))], own].concat());
                assert_eq!(counts, MessageCounts { messages: 10, damaged: 1, lost: 1 });
            }
        }
    }

    #[test]
    fn what_is_missing_is_counted_by_sequence_numbers() {
        let (_, lost, counts) = read(&messages()[4..10]);
        assert_eq!((lost, counts.lost), (vec![Item::Lost(Some(4))], 4), "the beginning");
        let mut some = messages()[..10].to_vec();
        some.drain(2..5);
        let (_, lost, counts) = read(&some);
        assert_eq!((lost, counts.lost), (vec![Item::Lost(Some(3))], 3), "in the middle");
    }

    #[test]
    fn damage_at_the_end_is_a_loss_of_nobody_knows_how_many() {
        let mut log = MessageLog::new();
        let good = messages();
        write(&mut log, &good[0], Some(5));
        log.lose();
        assert_eq!(log.finish().0.records.last().map(|record| &record.item), Some(&Item::Lost(None)));
        let mut log = MessageLog::new();
        write(&mut log, &good[0], Some(5));
        log.push(good[1].iter().copied(), true, Some(6));
        let (log, counts) = log.finish();
        assert_eq!((log.records.len(), counts.damaged), (2, 1));
    }

    #[test]
    fn a_message_that_the_trace_ends_in_is_a_loss_from_its_time_on() {
        let good = messages();
        let lost_at = |damage: &dyn Fn(&mut MessageLog)| {
            let mut log = MessageLog::new();
            write(&mut log, &good[0], Some(5));
            damage(&mut log);
            let record = log.finish().0.records.pop().expect("a record");
            assert_eq!(record.item, Item::Lost(None));
            record.time
        };
        let begin =
            |log: &mut MessageLog, number: usize| log.push(good[number].iter().copied(), true, Some(9));
        assert_eq!(lost_at(&|log| begin(log, 1)), Some(9));
        // The last packet is cut off too.
        assert_eq!(lost_at(&|log| (begin(log, 1), log.lose()).1), Some(9));
        // Another one is missing before it, or something follows it.
        assert_eq!(lost_at(&|log| begin(log, 2)), None);
        assert_eq!(lost_at(&|log| (log.lose(), begin(log, 1)).1), None);
        assert_eq!(lost_at(&|log| (begin(log, 1), log.lose(), begin(log, 2)).2), None);
        assert_eq!(lost_at(&|log| (begin(log, 1), log.lose(), log.push([].into_iter(), true, None)).2), None);
    }

    #[test]
    fn a_message_without_a_time_is_not_believed() {
        let mut log = MessageLog::new();
        write(&mut log, &messages()[0], None);
        let (log, counts) = log.finish();
        assert_eq!((log.records.len(), counts.messages, counts.damaged), (1, 0, 1));
        assert_eq!(log.records[0].item, Item::Lost(None));
    }

    #[test]
    fn events_that_have_no_room_in_a_message_are_refused() {
        let name = Some("x".repeat(70_000).into());
        assert_eq!(encode(0, &Item::Thread { state: State::Start, tid: 1, pid: Pid::All, name }), None);
    }

    #[test]
    fn channels_are_two_numbers() {
        assert_eq!("0x1:16".parse(), Ok(EventChannel { master: 1, channel: 16 }));
        assert!(["", "1", "1:", "1:65536", "a:b"].iter().all(|text| text.parse::<EventChannel>().is_err()));
    }

    #[test]
    fn the_check_is_that_of_ethernet() {
        assert_eq!(crc32fast::hash(b"123456789"), 0xCBF4_3926);
    }
}
