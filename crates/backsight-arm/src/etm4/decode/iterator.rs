//! The packets of a stream that is in memory, one by one: the clear reader alone.

use backsight_core::{Accounting, Located};

use super::super::{Bad, Config, Packet};
use super::hunt::Hunt;
use super::reader::Reader;

/// The packets of a whole stream that is in memory.
pub fn packets<'a>(config: &Config, bytes: &'a [u8]) -> Packets<'a> {
    Packets { reader: Reader::new(config, 0), hunt: Some(Hunt::new(0)), rest: bytes }
}

/// Iterator over the packets of a stream, see [`packets`].
#[derive(Clone, Debug)]
pub struct Packets<'a> {
    reader: Reader,
    hunt: Option<Hunt>,
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
        if let Some(hunt) = &mut self.hunt {
            if !hunt.is_over() {
                let used = hunt.feed(self.rest).unwrap_or_else(|| {
                    hunt.give_up();
                    self.rest.len()
                });
                self.rest = self.rest.get(used..).unwrap_or_default();
            }
            return self.reader.hunted(&mut self.hunt);
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
        Some(self.reader.place(Packet::Bad(Bad::Incomplete), length))
    }
}
