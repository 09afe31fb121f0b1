//! Reading a log, line by line.

use super::parse::{Clock, Line, LineParser};
use super::{EventLog, Record};
use crate::Error;
use crate::folder::{FileRef, LONGEST_LOG};
use std::io::{Read, Take};

/// Bytes that are read at a time.
const BLOCK: usize = 1 << 16;
/// Lines that make no sense and are named one by one.
const NAMED_PROBLEMS: usize = 1000;

impl EventLog {
    /// Reads a log. Lines that make no sense are skipped and listed in `problems`.
    ///
    /// # Errors
    /// If the first line is not that of a log of version 1.
    pub fn parse(file: &str, text: &str) -> Result<Self, Error> {
        let mut lines = text.lines();
        let (mut reader, _) = RecordParser::new(file, lines.next().unwrap_or_default())?;
        let mut log = Self::default();
        for line in lines {
            let mut find_frequency = || {
                let mut parser = LineParser::default();
                text.lines().find_map(|line| parser.frequency(line))
            };
            log.records.extend(reader.push(line, &mut find_frequency));
        }
        log.problems = reader.take_problems();
        log.sort();
        Ok(log)
    }

    /// The same of a file.
    pub(crate) fn read(file: &FileRef) -> Result<Self, Error> {
        let mut log = Self::default();
        let mut records = FileRecords::open(file)?;
        while let Some(record) = records.next()? {
            log.records.push(record);
        }
        log.problems = records.take_problems();
        log.sort();
        Ok(log)
    }

    /// Sorts by time, stably. What has no time stays after what it stands after.
    pub(super) fn sort(&mut self) {
        // Most logs are in order.
        if !self.records.iter().filter_map(|record| record.time).is_sorted() {
            self.append(Self::default());
        }
    }

    /// Adds the events of another log of the same clock, each at its time.
    pub fn append(&mut self, other: Self) {
        let mut keyed: Vec<(u64, Record)> = Vec::with_capacity(self.records.len() + other.records.len());
        for records in [std::mem::take(&mut self.records), other.records] {
            let mut latest = 0;
            keyed.extend(records.into_iter().map(|record| {
                latest = record.time.unwrap_or(latest);
                (latest, record)
            }));
        }
        keyed.sort_by_key(|(time, _)| *time);
        self.records = keyed.into_iter().map(|(_, record)| record).collect();
        self.problems.extend(other.problems);
    }
}

/// Makes records of lines.
#[derive(Debug)]
struct RecordParser {
    file: String,
    line: u32,
    parser: LineParser,
    clock: Clock,
    /// Looked for when another clock is met.
    frequency: Option<u64>,
    problems: Vec<Error>,
    /// Problems that are not among them.
    more_problems: u64,
}

impl RecordParser {
    /// Reads the first line. Gives how many bytes after it can be read forward, if it says so.
    fn new(file: &str, first: &str) -> Result<(Self, Option<u64>), Error> {
        let mut parser = LineParser::default();
        let forward = parser.header(first).map_err(|what| Error::line(file, 1, what))?;
        let (problems, more_problems, frequency) = Default::default();
        let (file, line, clock) = (file.to_owned(), 1, Clock::Coresight);
        Ok((Self { file, line, parser, clock, frequency, problems, more_problems }, forward))
    }

    fn push(&mut self, line: &str, find_frequency: &mut dyn FnMut() -> Option<u64>) -> Option<Record> {
        self.line = self.line.saturating_add(1);
        match self.parse(line, find_frequency) {
            Ok(record) => record,
            Err(_) if self.problems.len() >= NAMED_PROBLEMS => {
                self.more_problems += 1;
                None
            }
            Err(what) => {
                self.problems.push(Error::line(&self.file, self.line, what));
                None
            }
        }
    }

    fn parse(
        &mut self,
        line: &str,
        find_frequency: &mut dyn FnMut() -> Option<u64>,
    ) -> Result<Option<Record>, String> {
        let (time, item) = match self.parser.line(line)? {
            Line::Nothing => return Ok(None),
            Line::Clock(clock) => {
                self.clock = clock;
                if matches!(clock, Clock::Other { .. }) && self.frequency.is_none() {
                    self.frequency = find_frequency();
                }
                return Ok(None);
            }
            Line::Directive(item) => (None, item),
            Line::Event(None, item) => (None, item),
            Line::Event(Some(time), item) => (self.clock.convert(time, self.frequency)?, item),
        };
        Ok(Some(Record { line: self.line, time, item }))
    }

    /// The lines that were not understood up to now.
    fn take_problems(&mut self) -> Vec<Error> {
        let mut problems = std::mem::take(&mut self.problems);
        if self.more_problems > 0 {
            let what = format!("{} more lines are not understood", std::mem::take(&mut self.more_problems));
            problems.push(Error::file(&self.file, what));
        }
        problems
    }
}

/// The records of a file, in the order in which they stand there. A block of its text is in memory.
#[derive(Debug)]
pub(super) struct FileRecords {
    file: FileRef,
    lines: Lines,
    parser: RecordParser,
    /// Nothing in the file changes what was before.
    pub is_forward: bool,
}

impl FileRecords {
    pub fn open(file: &FileRef) -> Result<Self, Error> {
        let mut lines = Lines::open(file)?;
        let (parser, forward) = RecordParser::new(&file.to_string(), lines.next()?.unwrap_or_default())?;
        // A file that was changed after it was written is not believed to be what it says.
        let is_forward =
            forward.is_some() && forward == file.length().and_then(|length| length.checked_sub(lines.taken));
        Ok(Self { file: file.clone(), lines, parser, is_forward })
    }

    pub fn next(&mut self) -> Result<Option<Record>, Error> {
        while let Some(line) = self.lines.next()? {
            let file = &self.file;
            if let Some(record) = self.parser.push(line, &mut || find_frequency(file)) {
                return Ok(Some(record));
            }
        }
        Ok(None)
    }

    pub fn take_problems(&mut self) -> Vec<Error> {
        self.parser.take_problems()
    }
}

/// Looks through a file for the frequency of the global timestamp.
fn find_frequency(file: &FileRef) -> Option<u64> {
    let (mut lines, mut parser) = (Lines::open(file).ok()?, LineParser::default());
    while let Some(line) = lines.next().ok()? {
        if let Some(frequency) = parser.frequency(line) {
            return Some(frequency);
        }
    }
    None
}

/// The lines of a file.
struct Lines {
    name: String,
    reader: Take<Box<dyn Read + Send>>,
    /// Whole lines, but for the last of the file.
    text: String,
    /// Where in them the next one begins.
    next: usize,
    /// The beginning of a line that is not read to its end.
    rest: Vec<u8>,
    is_ended: bool,
    /// Bytes of lines that were given, as far as they are as they stand in the file.
    taken: u64,
}

impl std::fmt::Debug for Lines {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lines").field("name", &self.name).field("taken", &self.taken).finish_non_exhaustive()
    }
}

impl Lines {
    fn open(file: &FileRef) -> Result<Self, Error> {
        let reader = file.open()?.take(LONGEST_LOG + 1);
        let (text, next, rest, is_ended, taken) = Default::default();
        Ok(Self { name: file.to_string(), reader, text, next, rest, is_ended, taken })
    }

    /// The next line, without its end.
    fn next(&mut self) -> Result<Option<&str>, Error> {
        while self.next >= self.text.len() {
            if self.is_ended {
                return Ok(None);
            }
            self.fill()?;
        }
        let rest = self.text.get(self.next..).unwrap_or_default();
        let (line, after) = match rest.find('\n') {
            Some(end) => (end, end + 1),
            None => (rest.len(), rest.len()),
        };
        self.next += after;
        self.taken += after as u64;
        Ok(Some(rest.get(..line).unwrap_or_default().trim_end_matches('\r')))
    }

    /// Reads a block. What is not UTF-8 is replaced: names and numbers are not affected.
    fn fill(&mut self) -> Result<(), Error> {
        self.text.clear();
        self.next = 0;
        let searched = self.rest.len();
        // One buffer for all blocks: a new one for each takes longer than the lines in it.
        self.rest.reserve(BLOCK);
        let read = (&mut self.reader).take(BLOCK as u64).read_to_end(&mut self.rest);
        let read = read.map_err(|error| Error::io(&self.name, &error))?;
        if self.reader.limit() == 0 {
            return Err(Error::file(&self.name, format!("is longer than the {LONGEST_LOG} bytes expected")));
        }
        self.is_ended = read == 0;
        let last = self.rest[searched..].iter().rposition(|&byte| byte == b'\n');
        let end = match last {
            Some(last) => searched + last + 1,
            None if self.is_ended => self.rest.len(),
            None => return Ok(()),
        };
        self.text.push_str(&String::from_utf8_lossy(&self.rest[..end]));
        self.rest.drain(..end);
        Ok(())
    }
}
