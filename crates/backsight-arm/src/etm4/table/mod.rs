//! The header map: one row for each range of header bytes, in the order of the bytes.
//!
//! ```text
//!   header byte       payload
//!  ┌─┬─┬─┬─┬─┬─┬─┬─┐ ┌──────────┐ ┌───
//!  │7│6│5│4│3│2│1│0│ │ 0 … 30   │ │ next header
//!  └─┴─┴─┴─┴─┴─┴─┴─┘ └──────────┘ └───
//! ```
//!
//! Everything that knows a header byte knows it from here: the dispatch of the decoder, the headers that the encoder
//! writes, the lengths that the fast engine works out, the names in listings, and this page. A header whose low bits
//! are a field is a row of several bytes; the field is the distance from the lowest of its kind ([`Kind::field`],
//! [`Kind::with`]). Whether a header is valid depends on the version and the configuration of the trace unit: the
//! `when` column.

mod kind;
mod part;
mod rows;
#[cfg(test)]
mod tests;

pub use kind::Kind;
pub use part::Part;
pub(super) use part::{ASYNC_BYTES, COUNT_BYTES, NUMBER_BYTES, SECTIONS};
pub use rows::ROWS;

use super::{Bad, Config};

/// When a header is valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// In every trace unit.
    Always,
    /// In none.
    Never,
    /// In ETMv4 only.
    Etm4,
    /// In ETE only.
    Ete,
    /// From this version on.
    Since(u8),
    /// Armv8-M from v4.2 on.
    FunctionReturn,
    /// With Q element support.
    Q,
    /// With data trace on.
    DataTrace,
    /// With conditional instruction tracing on.
    Conditional,
}

impl When {
    /// Is a header of this column valid in that configuration, and if not, how is it to be called?
    pub const fn check(self, config: &Config) -> Result<(), Bad> {
        let (valid, otherwise) = match self {
            Self::Always => (true, Bad::Reserved),
            Self::Never => (false, Bad::Reserved),
            Self::Etm4 => (!config.is_ete(), Bad::ReservedByConfiguration),
            Self::Ete => (config.is_ete(), Bad::NotImplemented),
            Self::Since(version) => (config.version().0 >= version, Bad::NotImplemented),
            Self::FunctionReturn => (config.function_return(), Bad::NotImplemented),
            Self::Q => (config.q_elements(), Bad::NotImplemented),
            Self::DataTrace => (config.data_trace(), Bad::ReservedByConfiguration),
            Self::Conditional => (config.conditional(), Bad::ReservedByConfiguration),
        };
        if valid { Ok(()) } else { Err(otherwise) }
    }
}

/// One row of the header map.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// First header byte.
    pub first: u8,
    /// Last header byte.
    pub last: u8,
    /// What it introduces.
    pub kind: Kind,
    /// Its name in listings.
    pub name: &'static str,
    /// What follows, in the order of the bytes.
    pub payload: &'static [Part],
    /// When it is valid.
    pub when: When,
    /// Its name in the manual, and what its bits say.
    pub title: &'static str,
}

impl Row {
    /// Is the packet its header alone in that configuration?
    pub fn is_header_only(&self, config: &Config) -> bool {
        self.payload.iter().all(|part| part.is_absent(config))
    }
}

/// The row of each header byte.
const ROW_OF: [u8; 256] = {
    let mut rows = [0; 256];
    let mut index = 0;
    while index < ROWS.len() {
        let mut header = ROWS[index].first as usize;
        while header <= ROWS[index].last as usize {
            rows[header] = index as u8;
            header += 1;
        }
        index += 1;
    }
    rows
};

/// The row that a header byte matches.
#[inline]
pub const fn lookup(header: u8) -> &'static Row {
    &ROWS[ROW_OF[header as usize] as usize]
}

const KINDS: usize = Kind::AtomF3 as usize + 1;

/// Bytes of the longest packet: a Trace Info with all of its sections.
pub const MAX_PACKET: usize = {
    let mut longest = 0;
    let mut index = 0;
    while index < ROWS.len() {
        let payload = ROWS[index].payload;
        let (mut length, mut part) = (1, 0);
        while part < payload.len() {
            length += payload[part].longest();
            part += 1;
        }
        if length > longest {
            longest = length;
        }
        index += 1;
    }
    longest
};

/// Headers that follow one another.
#[derive(Clone, Copy, Debug)]
pub(super) struct HeaderRange {
    first: u8,
    count: u8,
}

impl HeaderRange {
    /// From the lowest header of one kind to the highest of another.
    pub const fn new(first: Kind, last: Kind) -> Self {
        let mut index = ROWS.len() - 1;
        while ROWS[index].kind as u8 != last as u8 {
            index -= 1;
        }
        Self { first: first.header(), count: ROWS[index].last - first.header() + 1 }
    }

    /// The header of a kind with that value in its field, alone.
    pub const fn only(kind: Kind, field: u8) -> Self {
        match kind.with(field) {
            Some(header) => Self { first: header, count: 1 },
            None => panic!("no such header"),
        }
    }

    /// From the lowest header of one kind to the highest of another, of kinds whose payload is
    /// so many bytes; gives those as well.
    pub const fn of_bytes(first: Kind, last: Kind) -> (Self, u8) {
        let [Part::Bytes(bytes)] = lookup(first.header()).payload else {
            panic!("no payload of fixed length")
        };
        let [Part::Bytes(same)] = lookup(last.header()).payload else { panic!("no payload of fixed length") };
        assert!(*bytes == *same, "payloads of different lengths");
        (Self::new(first, last), *bytes)
    }

    /// Is this header one of them?
    #[inline(always)]
    pub const fn contains(self, header: u8) -> bool {
        header.wrapping_sub(self.first) < self.count
    }
}
