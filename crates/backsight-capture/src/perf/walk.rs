//! One pass over the records of a perf.data file. Trace is left where it is; only where it lies is kept.

use std::collections::BTreeMap;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::ops::ControlFlow;

use backsight_core::{Budget, Door};

use super::etm::{Info, TimeConversion};
use super::fields::{Fields, build_id, text};
use super::header::{Attribute, Attributes, Header, feature};
use super::record::{Aux, RawRecord, Record, Trailer, kind};
use super::zstd;
use crate::store::{ReadSeek, Store};
use crate::{Error, Position};

/// Memory for what a record says: itself, an event of the log, and what is looked up by it.
pub(super) const EVENT: u64 = 512;
/// Memory for where some trace lies.
const PLACE: u64 = 64;
/// A feature of simpleperf: MMAP and COMM records of what ran before.
const PREVIOUS_RECORDS: u32 = 134;
/// Warnings that are kept.
const MOST_WARNINGS: usize = 100;

/// Some of a ring as the recorder copied it out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct AuxTrace {
    /// Where its bytes are in the file.
    pub position: u64,
    pub size: u64,
    /// Where in the stream of the ring they begin.
    pub offset: u64,
    /// The CPU of the ring; `None` in a session of threads.
    pub cpu: Option<u32>,
    pub tid: u32,
}

/// Everything that the records and features of a file say.
#[derive(Debug)]
pub(super) struct Contents {
    attributes: Attributes,
    /// Bounds what is kept.
    pub budget: Budget,
    /// Something was left out.
    is_full: bool,
    pub info: Option<Info>,
    /// The number of another kind of trace, if there is one instead.
    pub other_trace: Option<u32>,
    pub conversion: Option<TimeConversion>,
    pub traces: Vec<AuxTrace>,
    pub aux: Vec<(Aux, Trailer)>,
    pub hardware_ids: Vec<(Option<u32>, u64)>,
    /// What happened to processes, with the time of each, in the order of the file.
    pub system: Vec<(Trailer, Record)>,
    /// Build identifiers by the names of files.
    pub build_ids: BTreeMap<String, String>,
    /// The features that are text.
    pub texts: Vec<(String, String)>,
    /// Records that the kernel could not write.
    pub lost: u64,
    pub warnings: Warnings,
}

/// What is wrong, in words. Records may repeat it without end.
#[derive(Debug, Default)]
pub(super) struct Warnings {
    pub all: Vec<String>,
    more: u64,
}

impl Warnings {
    pub fn push(&mut self, what: impl Into<String>) {
        match self.all.len() < MOST_WARNINGS {
            true => self.all.push(what.into()),
            false => self.more += 1,
        }
    }

    /// All of them, with how many were left out.
    pub fn finish(mut self) -> Vec<String> {
        if self.more > 0 {
            self.all.push(format!("{} more warnings like these", self.more));
        }
        self.all
    }
}

/// Reads everything but the trace. Keeps what the budget allows: what was given, or what the size of the file allows for.
pub(super) fn walk(store: &Store, name: &str, budget: Option<u64>) -> Result<Contents, Error> {
    let io = |error: io::Error| Error::io(name, &error);
    let mut file = store.open().map_err(io)?;
    let length = file.seek(SeekFrom::End(0)).map_err(io)?;
    let header = Header::read(file.as_mut(), length, name)?;
    let mut contents = Contents::new(Budget::of(Door::Records, budget, length));
    contents.attributes = header.attributes.clone();
    header.warnings.iter().for_each(|what| contents.warnings.push(what));
    for &(number, place) in &header.features {
        let bytes = feature(file.as_mut(), place).map_err(io)?;
        contents.feature(number, &bytes, header.big_endian);
    }
    let mut compressed = Vec::new();
    Walk { contents: &mut contents, header: &header, name, compressed: &mut compressed }
        .file(file, length)?;
    if !compressed.is_empty() {
        let budget = Budget::of(Door::CompressedRecords, budget, compressed.len() as u64);
        contents.compressed(&compressed, header.big_endian, &budget);
    }
    Ok(contents)
}

struct Walk<'a> {
    contents: &'a mut Contents,
    header: &'a Header,
    name: &'a str,
    compressed: &'a mut Vec<u8>,
}

impl Walk<'_> {
    fn file(&mut self, file: Box<dyn ReadSeek>, length: u64) -> Result<(), Error> {
        let end = self.header.data.offset.saturating_add(self.header.data.size).min(length);
        let mut position = self.header.data.offset;
        let mut file = BufReader::with_capacity(1 << 16, file);
        let io = |error: io::Error| Error::io(self.name, &error);
        file.seek(SeekFrom::Start(position)).map_err(io)?;
        let mut body = Vec::new();
        while end.saturating_sub(position) >= 8 {
            let mut start = [0; 8];
            file.read_exact(&mut start).map_err(io)?;
            let mut fields = Fields::new(&start, self.header.big_endian);
            let (Some(kind), Some(misc), Some(size)) = (fields.u32(), fields.u16(), fields.u16()) else {
                break;
            };
            let size = u64::from(size);
            if size < 8 || size > end - position {
                let what = format!("a record of {size} bytes: what follows cannot be read");
                let error = Error { position: Position::Offset(position), ..Error::file(self.name, what) };
                self.contents.warnings.push(error.to_string());
                break;
            }
            body.resize(size as usize - 8, 0);
            file.read_exact(&mut body).map_err(io)?;
            position += size;
            let record = RawRecord { kind, misc, body: &body, big_endian: self.header.big_endian };
            let after = self.contents.record(&record, position, end, self.compressed);
            if after > 0 {
                position = position.saturating_add(after);
                if position > end {
                    self.contents.warnings.push(format!("{}: it ends within its trace", self.name));
                    break;
                }
                file.seek_relative(after as i64).map_err(io)?;
            }
        }
        Ok(())
    }
}

impl Contents {
    fn new(budget: Budget) -> Self {
        let (attributes, is_full, info, other_trace, conversion) = Default::default();
        let (traces, aux, hardware_ids, system) = Default::default();
        let (build_ids, texts, lost, warnings) = Default::default();
        Self {
            attributes,
            budget,
            is_full,
            info,
            other_trace,
            conversion,
            traces,
            aux,
            hardware_ids,
            system,
            build_ids,
            texts,
            lost,
            warnings,
        }
    }

    /// May something of this size be kept? What may not is left out, and that is said once.
    fn has_room(&mut self, bytes: u64) -> bool {
        let taken = self.budget.take(bytes);
        if let Err(why) = &taken
            && !std::mem::replace(&mut self.is_full, true)
        {
            self.warnings.push(format!("some of the records are left out: {why}"));
        }
        taken.is_ok()
    }

    /// Takes a record that ends at a position. Gives how many bytes follow that belong to it.
    fn record(&mut self, record: &RawRecord<'_>, position: u64, end: u64, compressed: &mut Vec<u8>) -> u64 {
        let mut fields = Fields::new(record.body, record.big_endian);
        match record.kind {
            kind::AUXTRACE => return self.trace(fields, position, end).unwrap_or(0),
            kind::HEADER_TRACING_DATA => {
                return fields.u32().map_or(0, |size| u64::from(size).next_multiple_of(8));
            }
            kind::COMPRESSED => compressed.extend_from_slice(record.body),
            kind::COMPRESSED2 => {
                let size = fields.u64().and_then(|size| usize::try_from(size).ok()).unwrap_or(0);
                compressed.extend_from_slice(&fields.rest()[..size.min(fields.rest().len())]);
            }
            _ => self.small_record(record),
        }
        0
    }

    /// A record without anything after it.
    fn small_record(&mut self, record: &RawRecord<'_>) {
        let fields = Fields::new(record.body, record.big_endian);
        match record.kind {
            kind::HEADER_ATTR => self.attribute(record),
            kind::HEADER_FEATURE => {
                let mut fields = fields;
                if let Some(number) = fields.u64() {
                    self.feature(number as u32, fields.rest(), record.big_endian);
                }
            }
            kind::HEADER_BUILD_ID => drop(self.build_id(record.misc, record.body)),
            kind::AUXTRACE_INFO => self.auxtrace_info(fields),
            kind::TIME_CONV => self.conversion = TimeConversion::parse(fields),
            kind::SAMPLE => {}
            kind if kind >= kind::FIRST_OF_PERF => {}
            _ => self.kernel_record(record),
        }
    }

    fn kernel_record(&mut self, record: &RawRecord<'_>) {
        let Some(parsed) = record.parse() else { return };
        let trailer = record.trailer(&self.attributes);
        match parsed {
            Record::Lost(count) => self.lost = self.lost.saturating_add(count),
            _ if !self.has_room(EVENT + 2 * record.body.len() as u64) => {}
            Record::Aux(aux) => self.aux.push((aux, trailer)),
            Record::HardwareId(id) => self.hardware_ids.push((trailer.cpu, id)),
            Record::Mmap(mut mmap) => {
                // The kernel is in every address space.
                if record.is_kernel() || mmap.pid == u32::MAX {
                    mmap.pid = u32::MAX;
                }
                self.system.push((trailer, Record::Mmap(mmap)));
            }
            other => self.system.push((trailer, other)),
        }
    }

    fn attribute(&mut self, record: &RawRecord<'_>) {
        let mut fields = Fields::new(record.body, record.big_endian);
        fields.u32();
        let size = fields.u32().map_or(0, |size| size as usize);
        let Some((attribute, ids)) = record.body.split_at_checked(size) else { return };
        if let Some(attribute) = Attribute::parse(attribute, record.big_endian)
            && self.has_room(EVENT + 8 * ids.len() as u64)
        {
            self.attributes.push(attribute, Fields::new(ids, record.big_endian).words());
        }
    }

    fn auxtrace_info(&mut self, mut fields: Fields<'_>) {
        let Some((number, _)) = fields.u32().zip(fields.u32()) else { return };
        match number {
            super::etm::CS_ETM => match Info::parse(&fields.words()) {
                Ok(info) => self.info = Some(info),
                Err(what) => self.warnings.push(format!("AUXTRACE_INFO: {what}")),
            },
            other => self.other_trace = Some(other),
        }
    }

    fn trace(&mut self, mut fields: Fields<'_>, position: u64, end: u64) -> Option<u64> {
        let (size, offset, _reference) = (fields.u64()?, fields.u64()?, fields.u64()?);
        let (_index, tid, cpu) = (fields.u32()?, fields.u32()?, fields.u32()?);
        let there = size.min(end.saturating_sub(position));
        if self.has_room(PLACE) {
            let cpu = (cpu != u32::MAX).then_some(cpu);
            self.traces.push(AuxTrace { position, size: there, offset, cpu, tid });
        }
        Some(size)
    }

    fn feature(&mut self, number: u32, bytes: &[u8], big_endian: bool) {
        if number != PREVIOUS_RECORDS && !self.has_room(4 * bytes.len() as u64) {
            return;
        }
        let mut fields = Fields::new(bytes, big_endian);
        let name = match number {
            2 => return self.build_ids_of(fields),
            3 => "hostname",
            4 => "osrelease",
            5 => "version",
            6 => "arch",
            11 => {
                let count = fields.u32().unwrap_or(0);
                let words: Vec<String> = (0..count).map_while(|_| fields.counted_text()).collect();
                return self.texts.push(("cmdline".to_owned(), words.join(" ")));
            }
            // simpleperf: keys and values, each with a zero byte after it.
            129 => {
                let mut parts = bytes.split(|&byte| byte == 0).map(text);
                while let Some(pair) = parts.next().filter(|key| !key.is_empty()).zip(parts.next()) {
                    self.texts.push(pair);
                }
                return;
            }
            PREVIOUS_RECORDS => {
                each_record(bytes, big_endian, |record| self.kernel_record(record));
                return;
            }
            _ => return,
        };
        if let Some(text) = fields.counted_text().filter(|text| !text.is_empty()) {
            self.texts.push((name.to_owned(), text));
        }
    }

    fn build_ids_of(&mut self, mut fields: Fields<'_>) {
        while let Some((misc, size)) = fields.u32().and_then(|_| fields.u16().zip(fields.u16())) {
            let Some(body) = usize::from(size).checked_sub(8).and_then(|size| fields.bytes(size)) else {
                return;
            };
            self.build_id(misc, body);
        }
    }

    /// A process, a build identifier in 24 bytes, a name.
    fn build_id(&mut self, misc: u16, body: &[u8]) -> Option<()> {
        let (id, name) = body.get(4..)?.split_at_checked(24)?;
        let length = if misc >> 15 != 0 { usize::from(id[20]).min(20) } else { 20 };
        let (name, id) = (text(name), build_id(&id[..length])?);
        if self.has_room(EVENT + name.len() as u64) {
            self.build_ids.insert(name, id);
        }
        Some(())
    }

    /// The records in compressed ones: they are one stream, and may lie across the ends of those that carry it.
    fn compressed(&mut self, bytes: &[u8], big_endian: bool, budget: &Budget) {
        let mut pending = Vec::new();
        let outcome = zstd::decompress(bytes, budget, |piece| {
            pending.extend_from_slice(piece);
            let read = each_record(&pending, big_endian, |record| self.small_record(record));
            pending.drain(..read);
            // A record is at most 64 KiB: what is longer is none.
            if pending.len() > usize::from(u16::MAX) {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        });
        if let Err(what) = outcome {
            self.warnings.push(format!("compressed records: {what}"));
        }
        if pending.len() > usize::from(u16::MAX) {
            self.warnings.push("compressed records: one has no size, and what follows cannot be read");
        }
    }
}

/// Takes whole records one after the other. Gives how many bytes they are.
fn each_record(bytes: &[u8], big_endian: bool, mut take: impl FnMut(&RawRecord<'_>)) -> usize {
    let mut fields = Fields::new(bytes, big_endian);
    let mut read = 0;
    while let Some((kind, (misc, size))) =
        fields.u32().and_then(|kind| Some((kind, fields.u16().zip(fields.u16())?)))
    {
        let Some(body) = usize::from(size).checked_sub(8).and_then(|size| fields.bytes(size)) else { break };
        take(&RawRecord { kind, misc, body, big_endian });
        read = bytes.len() - fields.rest().len();
    }
    read
}
