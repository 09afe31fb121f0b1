//! `sources`: a row for each source.

use backsight::Source;
use backsight::core::Accounting;

use super::{OfSource, Rows};
use crate::data::ColumnData;
use crate::table::Field;
use crate::texts::{TextId, Texts};

/// A source.
pub(crate) struct SourceRow {
    pub source: Source,
    /// Bytes of its trace.
    pub bytes: u64,
    /// Its packets, and what became of its bytes, where somebody asks.
    pub counts: Option<(u64, Accounting)>,
}

/// The sources of a capture.
pub(crate) struct Sources {
    pub capture: TextId,
}

impl Sources {
    /// Do its packets have to be counted for a column?
    pub fn needs_counts(fields: &[Field]) -> bool {
        let counted = [Field::Packets, Field::BadBytes, Field::UnsynchronisedBytes];
        fields.iter().any(|field| counted.contains(field))
    }
}

impl Rows for Sources {
    type Row = SourceRow;

    fn fill(&mut self, field: Field, rows: &[SourceRow], out: &mut ColumnData, texts: &mut Texts) {
        for row in rows {
            let SourceRow { source, bytes, counts } = row;
            let one = std::iter::once::<u64>;
            let maybe = std::iter::once::<Option<u64>>;
            match field {
                Field::SourceName => out.words(std::iter::once(texts.id(source.name()))),
                Field::Protocol => {
                    let name = source.protocol().map(|names| names.name);
                    out.words(std::iter::once(texts.optional(name)));
                }
                Field::Format => out.words(std::iter::once(texts.id(source.format()))),
                Field::Configuration => out.long(source.configuration().as_bytes()),
                Field::Decoded => out.flags(std::iter::once(source.is_decoded())),
                Field::CountsCycles => out.flags(std::iter::once(source.counts_cycles())),
                Field::Bytes => out.numbers(one(*bytes)),
                Field::Packets => out.optional_numbers(maybe(counts.map(|(packets, _)| packets))),
                Field::BadBytes => out.optional_numbers(maybe(counts.map(|(_, bytes)| bytes.bad))),
                Field::UnsynchronisedBytes => {
                    out.optional_numbers(maybe(counts.map(|(_, bytes)| bytes.unsynchronised)));
                }
                _ => {
                    OfSource::new(self.capture, source, texts).fill(field, 1, out);
                }
            }
        }
    }
}
