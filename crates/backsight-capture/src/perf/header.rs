//! The header of a perf.data file: events, where the records are, and the features that follow them.

use super::fields::Fields;
use crate::store::ReadSeek;
use crate::{Error, Position};
use std::collections::HashMap;
use std::io::{Read, SeekFrom};

/// Attributes of an event at most: a session has a few for each CPU.
const MOST_ATTRIBUTES: u64 = 1 << 16;
/// Longest feature that is read.
const LONGEST_FEATURE: u64 = 64 << 20;

/// What the records of an event end with, and how it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Attribute {
    pub sample_type: u64,
    pub sample_id_all: bool,
}

/// The events of a session, and which of them an identifier stands for.
#[derive(Clone, Debug, Default)]
pub(super) struct Attributes {
    all: Vec<Attribute>,
    by_id: HashMap<u64, u32>,
}

impl Attributes {
    /// Of several events with the same identifier the first counts.
    pub fn push(&mut self, attribute: Attribute, ids: impl IntoIterator<Item = u64>) {
        let number = u32::try_from(self.all.len()).unwrap_or(u32::MAX);
        self.all.push(attribute);
        for id in ids {
            self.by_id.entry(id).or_insert(number);
        }
    }

    pub fn first(&self) -> Option<&Attribute> {
        self.all.first()
    }

    /// The event that an identifier stands for.
    pub fn with_id(&self, id: u64) -> Option<&Attribute> {
        self.all.get(*self.by_id.get(&id)? as usize)
    }
}

impl Attribute {
    /// Reads a `perf_event_attr` of so many bytes.
    pub fn parse(bytes: &[u8], big_endian: bool) -> Option<Self> {
        let mut fields = Fields::new(bytes, big_endian);
        let (_pmu, _size, _config, _period) = (fields.u32()?, fields.u32()?, fields.u64()?, fields.u64()?);
        let (sample_type, _read_format, flags) = (fields.u64()?, fields.u64()?, fields.u64()?);
        // Bit fields are laid out from the other end on a big-endian machine.
        let bit = if big_endian { 63 - 18 } else { 18 };
        Some(Self { sample_type, sample_id_all: flags >> bit & 1 != 0 })
    }
}

/// Some of a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Section {
    pub offset: u64,
    pub size: u64,
}

impl Section {
    fn parse(fields: &mut Fields<'_>) -> Option<Self> {
        Some(Self { offset: fields.u64()?, size: fields.u64()? })
    }
}

/// The header.
#[derive(Debug, Default)]
pub(super) struct Header {
    pub big_endian: bool,
    pub attributes: Attributes,
    /// Where the records are.
    pub data: Section,
    /// The features, by number.
    pub features: Vec<(u32, Section)>,
    pub warnings: Vec<String>,
}

/// Does a file begin like a perf.data file? Says whether its byte order is the other one.
pub(super) fn byte_order(magic: &[u8]) -> Option<bool> {
    match magic.get(..8)? {
        b"PERFILE2" => Some(false),
        b"2ELIFREP" => Some(true),
        _ => None,
    }
}

/// Bytes of a section, as far as the file has them.
pub(super) fn section(file: &mut dyn ReadSeek, section: Section, longest: u64) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.seek(SeekFrom::Start(section.offset))?;
    Read::take(file, section.size.min(longest)).read_to_end(&mut bytes)?;
    Ok(bytes)
}

impl Header {
    pub fn read(file: &mut dyn ReadSeek, length: u64, name: &str) -> Result<Self, Error> {
        let io = |error: std::io::Error| Error::io(name, &error);
        let bytes = section(file, Section { offset: 0, size: 104 }, 104).map_err(io)?;
        let cut = || Error {
            position: Position::Offset(bytes.len() as u64),
            ..Error::file(name, "the header of perf.data is cut off")
        };
        let big_endian = byte_order(&bytes).ok_or_else(cut)?;
        let mut fields = Fields::new(&bytes[8..], big_endian);
        let size = fields.u64().ok_or_else(cut)?;
        // A stream that went through a pipe has no tables: everything is a record.
        if size == 16 {
            let data = Section { offset: 16, size: length.saturating_sub(16) };
            return Ok(Self { big_endian, data, ..Self::default() });
        }
        let entry = fields.u64().ok_or_else(cut)?;
        let mut section_field = || Section::parse(&mut fields);
        let (attrs, mut data) = (section_field().ok_or_else(cut)?, section_field().ok_or_else(cut)?);
        section_field().ok_or_else(cut)?;
        let bitmap = fields.rest();
        if data.offset > length {
            return Err(Error::file(
                name,
                format!("its records begin at {:#x}, after its end at {length:#x}", data.offset),
            ));
        }
        // A recorder that was killed did not come to write the size.
        let is_finished = data.size != 0;
        data.size = if is_finished { data.size.min(length - data.offset) } else { length - data.offset };
        let mut warnings = Vec::new();
        let attributes = attributes(file, attrs, entry, big_endian, length, &mut warnings).map_err(io)?;
        let features = match is_finished {
            true => features(file, data, bitmap, big_endian).map_err(io)?,
            false => Vec::new(),
        };
        Ok(Self { big_endian, attributes, data, features, warnings })
    }
}

fn attributes(
    file: &mut dyn ReadSeek,
    attrs: Section,
    entry: u64,
    big_endian: bool,
    length: u64,
    warnings: &mut Vec<String>,
) -> std::io::Result<Attributes> {
    let mut attributes = Attributes::default();
    if !(64 + 16..=1 << 12).contains(&entry) {
        return Ok(attributes);
    }
    let bytes = section(file, attrs, MOST_ATTRIBUTES * entry)?;
    // Each event has a list of its own: all of them together are no longer than the file.
    let (mut left, mut shared) = (length, 0);
    for entry in bytes.chunks_exact(entry as usize) {
        let (attribute, ids) = entry.split_at(entry.len() - 16);
        let ids = Section::parse(&mut Fields::new(ids, big_endian)).unwrap_or_default();
        let Some(attribute) = Attribute::parse(attribute, big_endian) else { continue };
        shared += u64::from(ids.size.min(MOST_ATTRIBUTES * 8) > left);
        let ids = section(file, ids, (MOST_ATTRIBUTES * 8).min(left))?;
        left -= ids.len() as u64;
        attributes.push(attribute, Fields::new(&ids, big_endian).words());
    }
    if shared > 0 {
        warnings.push(format!(
            "lists of identifiers lie over each other, expected one for each event: those of {shared} events are left out"
        ));
    }
    Ok(attributes)
}

/// The table of features stands after the records: an entry for each bit that is set.
fn features(
    file: &mut dyn ReadSeek,
    data: Section,
    bitmap: &[u8],
    big_endian: bool,
) -> std::io::Result<Vec<(u32, Section)>> {
    let words = Fields::new(bitmap, big_endian).words();
    let bits = (0_u32..).zip(words).flat_map(|(index, word)| {
        (0..64).filter(move |bit| word >> bit & 1 != 0).map(move |bit| index * 64 + bit)
    });
    let table = Section { offset: data.offset.saturating_add(data.size), size: 256 * 16 };
    let bytes = section(file, table, table.size)?;
    let mut fields = Fields::new(&bytes, big_endian);
    Ok(bits.map_while(|bit| Some((bit, Section::parse(&mut fields)?))).collect())
}

/// The bytes of a feature.
pub(super) fn feature(file: &mut dyn ReadSeek, place: Section) -> std::io::Result<Vec<u8>> {
    section(file, place, LONGEST_FEATURE)
}
