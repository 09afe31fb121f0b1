//! `packets`: every packet.

use std::ops::Range;

use backsight::core::describe::write_text;
use backsight::{Item, Packet};

use super::{OfSource, Rows};
use crate::data::ColumnData;
use crate::table::Field;
use crate::texts::Texts;

/// A packet.
pub(crate) struct PacketRow {
    packet: Packet,
    hart: u16,
    offset: u64,
    position: u64,
    length: u32,
    /// Where its bytes are kept.
    bytes: Range<usize>,
}

/// The packets of a source.
pub(crate) struct Packets {
    of: OfSource,
    /// Somebody asks for their bytes.
    keeps_bytes: bool,
    bytes: Vec<u8>,
    text: String,
}

impl Packets {
    pub fn new(of: OfSource, fields: &[Field]) -> Self {
        let keeps_bytes = fields.contains(&Field::PacketBytes);
        Self { of, keeps_bytes, bytes: Vec::new(), text: String::new() }
    }

    /// Takes a packet.
    pub fn packet(&mut self, item: &Item<'_, Packet>, rows: &mut Vec<PacketRow>) {
        let from = self.bytes.len();
        if self.keeps_bytes {
            self.bytes.extend_from_slice(item.bytes());
        }
        rows.push(PacketRow {
            packet: item.value,
            hart: item.sub_source,
            offset: item.offset,
            position: item.position().unwrap_or(item.offset),
            length: item.length,
            bytes: from..self.bytes.len(),
        });
    }
}

impl Rows for Packets {
    type Row = PacketRow;

    /// The bytes of all of them are kept, and may be many.
    const CHUNK: usize = 1024;

    fn fill(&mut self, field: Field, rows: &[PacketRow], out: &mut ColumnData, texts: &mut Texts) {
        match field {
            Field::Hart => out.numbers(rows.iter().map(|row| row.hart.into())),
            Field::Position => out.numbers(rows.iter().map(|row| row.position)),
            Field::Offset => out.numbers(rows.iter().map(|row| row.offset)),
            Field::Length => out.numbers(rows.iter().map(|row| row.length.into())),
            Field::PacketKind => out.words(rows.iter().map(|row| texts.id(row.packet.name()))),
            Field::PacketBytes => {
                rows.iter().for_each(|row| out.long(self.bytes.get(row.bytes.clone()).unwrap_or_default()));
            }
            Field::Detail => rows.iter().for_each(|row| {
                self.text.clear();
                // A text takes everything.
                let _ = write_text(&row.packet, &mut self.text);
                out.long(self.text.trim_end().as_bytes());
            }),
            _ => {
                self.of.fill(field, rows.len(), out);
            }
        }
    }

    fn clear(&mut self) {
        self.bytes.clear();
    }
}
