//! The events of a capture, wherever they are: in memory, or in a file that is read when somebody asks.

use super::forward::{Changes, Ranges};
use super::reader::FileRecords;
use super::{EventLog, Item, Record, State};
use crate::Error;
use crate::folder::FileRef;
use std::sync::{Arc, OnceLock};

/// The events of a capture. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Events(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    /// The file that has them; `None` if they are in memory.
    file: Option<FileRef>,
    is_forward: bool,
    frequency: Option<u64>,
    survey: OnceLock<EventSurvey>,
    log: OnceLock<EventLog>,
}

/// What there is in a log.
#[derive(Clone, Debug, Default)]
pub struct EventSurvey {
    /// How many records it has.
    pub records: u64,
    /// Lines that were not understood, and were skipped.
    pub problems: Vec<Error>,
    /// How many times events were lost.
    pub losses: u64,
    /// The first and the last time.
    pub times: Option<(u64, u64)>,
    /// Ticks of the global timestamp in a second.
    pub frequency: Option<u64>,
    /// Sources that begin to work in a configuration, in the order of time.
    pub definitions: Vec<Record>,
    /// Does code change?
    pub changes: bool,
    /// Are the records in the order of time?
    is_sorted: bool,
}

/// What a survey needs to know of what came before.
#[derive(Default)]
struct Surveyor {
    survey: EventSurvey,
    changes: Changes,
    /// The time of the record before.
    now: u64,
    is_disordered: bool,
}

impl Surveyor {
    fn push(&mut self, record: &Record) {
        let survey = &mut self.survey;
        survey.records += 1;
        if let Some(time) = record.time {
            self.is_disordered |= time < self.now;
            self.now = time;
            let (first, last) = survey.times.unwrap_or((time, time));
            survey.times = Some((first.min(time), last.max(time)));
        }
        self.changes.push(&record.item);
        match &record.item {
            Item::Lost(_) => survey.losses += 1,
            Item::Frequency(frequency) => survey.frequency = survey.frequency.or(Some(*frequency)),
            Item::DefineTrace(State::Start | State::Current, _) => survey.definitions.push(record.clone()),
            _ => {}
        }
    }

    fn finish(self, problems: Vec<Error>) -> EventSurvey {
        let (changes, is_sorted) = (self.changes.is_any(), !self.is_disordered);
        EventSurvey { problems, changes, is_sorted, ..self.survey }
    }
}

impl From<EventLog> for Events {
    fn from(log: EventLog) -> Self {
        let (survey, log) = (OnceLock::new(), OnceLock::from(log));
        Self(Arc::new(Inner { file: None, is_forward: false, frequency: None, survey, log }))
    }
}

/// Two are equal if they say the same.
impl PartialEq for Events {
    fn eq(&self, other: &Self) -> bool {
        self.log() == other.log()
    }
}

impl Events {
    /// The events of a file. One that can be read forward is not read yet, others are looked through.
    pub(crate) fn open(file: &FileRef) -> Result<Self, Error> {
        let (mut records, mut surveyor) = (FileRecords::open(file)?, Surveyor::default());
        let (is_forward, survey, log) = (records.is_forward, OnceLock::new(), OnceLock::new());
        while let Some(record) = records.next()? {
            surveyor.push(&record);
            // What is said of the whole log comes first in one that can be read forward.
            if is_forward && !matches!(record.item, Item::Frequency(_) | Item::Host(_)) {
                break;
            }
        }
        let frequency = surveyor.survey.frequency;
        if !is_forward {
            let _ = survey.set(surveyor.finish(records.take_problems()));
        }
        let events = Self(Arc::new(Inner { file: Some(file.clone()), is_forward, frequency, survey, log }));
        if !is_forward && !events.survey().is_sorted {
            // The order of time is that of the records in memory.
            let log = EventLog::read(file)?;
            return Ok(Self::from(log));
        }
        Ok(events)
    }

    /// Ticks of the global timestamp in a second, where they say.
    pub fn frequency(&self) -> Option<u64> {
        if self.is_forward() { self.0.frequency } else { self.survey().frequency }
    }

    /// Sources that begin to work in a configuration, in the order of time. What can be read forward has none.
    pub fn definitions(&self) -> &[Record] {
        if self.is_forward() { &[] } else { &self.survey().definitions }
    }

    /// Lines that were not understood, as far as that is known without reading what can be read forward.
    pub fn problems(&self) -> &[Error] {
        if self.is_forward() { &[] } else { &self.survey().problems }
    }

    /// Can they be read as a decode goes on, since none of them changes what was before?
    pub fn is_forward(&self) -> bool {
        self.0.is_forward
    }

    /// Does code change? What can be read forward is known to.
    pub fn changes(&self) -> bool {
        self.is_forward() || self.survey().changes
    }

    /// Does code take the place of other code, and nothing says when? What can be read forward has times.
    pub fn replaces_code_untimed(&self) -> bool {
        if self.is_forward() || self.survey().times.is_some() {
            return false;
        }
        let (mut records, mut ranges) = (self.records(), Ranges::default());
        while let Some(record) = records.next() {
            let replaces = match &record.item {
                Item::Mapping(State::Start | State::Current, mapping) => ranges.map(mapping),
                Item::Patch(patch) => ranges.patch(patch),
                _ => false,
            };
            if replaces {
                return true;
            }
        }
        false
    }

    /// What there is, all of it.
    pub fn survey(&self) -> &EventSurvey {
        self.0.survey.get_or_init(|| {
            let (mut reader, mut surveyor) = (RecordReader::new(self), Surveyor::default());
            while let Some(record) = reader.next() {
                surveyor.push(record);
            }
            let mut survey = surveyor.finish(reader.take_problems());
            if self.0.file.is_none() {
                survey.problems.clone_from(&self.log().problems);
            }
            survey
        })
    }

    /// All of them, in memory and in the order of time. Trouble with the file is among its problems.
    pub fn log(&self) -> &EventLog {
        self.0.log.get_or_init(|| {
            let read = self.0.file.as_ref().map(EventLog::read);
            read.map_or_else(EventLog::default, |read| {
                read.unwrap_or_else(|error| EventLog { records: Vec::new(), problems: vec![error] })
            })
        })
    }

    /// Them one after the other, in the order of time.
    pub fn records(&self) -> RecordReader {
        RecordReader::new(self)
    }
}

/// Reads records in the order of time, one after the other.
#[derive(Debug)]
pub struct RecordReader {
    events: Events,
    /// Of a file; of those in memory the next is counted.
    file: Option<Box<FileRecords>>,
    next: usize,
    current: Option<Record>,
    /// The file could not be read to its end.
    trouble: Option<Error>,
}

impl RecordReader {
    fn new(events: &Events) -> Self {
        // Those of a file are in order, else they would be in memory.
        let (file, trouble) = match events.0.file.as_ref().map(FileRecords::open) {
            Some(Ok(file)) => (Some(Box::new(file)), None),
            Some(Err(error)) => (None, Some(error)),
            None => (None, None),
        };
        Self { events: events.clone(), file, next: 0, current: None, trouble }
    }

    /// The next record.
    #[expect(clippy::should_implement_trait, reason = "a record is lent until the next one is asked for")]
    pub fn next(&mut self) -> Option<&Record> {
        if self.trouble.is_some() {
            return None;
        }
        let Some(file) = &mut self.file else {
            self.next += 1;
            return self.events.log().records.get(self.next - 1);
        };
        match file.next() {
            Ok(record) => self.current = record,
            Err(error) => (self.current, self.trouble) = (None, Some(error)),
        }
        self.current.as_ref()
    }

    /// Lines of the file that were not understood up to now, and what went wrong with it.
    pub fn take_problems(&mut self) -> Vec<Error> {
        let mut problems = self.file.as_mut().map_or_else(Vec::new, |file| file.take_problems());
        problems.extend(self.trouble.clone());
        problems
    }
}
