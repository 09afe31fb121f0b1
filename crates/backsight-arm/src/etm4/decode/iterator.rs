//! The packets of a stream that is in memory, one by one: the clear reader alone.

use backsight_core::{Accounting, Located};

use super::reader::ClearReader;
use super::search::Search;
use crate::etm4::{Bad, Config, Packet};

/// The packets of a stream all of which is in memory.
pub fn packets<'a>(config: &Config, bytes: &'a [u8]) -> Packets<'a> {
    Packets { reader: ClearReader::new(config, 0), search: Some(Search::new(0)), rest: bytes }
}

/// Iterator over the packets of a stream, see [`packets`].
#[derive(Clone, Debug)]
pub struct Packets<'a> {
    reader: ClearReader,
    search: Option<Search>,
    rest: &'a [u8],
}

impl Packets<'_> {
    /// What became of the bytes so far.
    pub fn accounting(&self) -> Accounting {
        self.reader.accounting
    }
}

impl Iterator for Packets<'_> {
    type Item = Located<Packet>;

    fn next(&mut self) -> Option<Located<Packet>> {
        if let Some(search) = &mut self.search {
            if !search.is_over() {
                let used = search.feed(self.rest).unwrap_or_else(|| {
                    search.give_up();
                    self.rest.len()
                });
                self.rest = self.rest.get(used..).unwrap_or_default();
            }
            return self.reader.searched(&mut self.search);
        }
        if let Some(packet) = self.reader.read(self.rest) {
            self.rest = self.rest.get(packet.length as usize..).unwrap_or_default();
            return Some(packet);
        }
        if self.rest.is_empty() {
            return None;
        }
        let length = self.rest.len();
        self.rest = &[];
        Some(self.reader.locate(Packet::Bad(Bad::Incomplete), length))
    }
}
