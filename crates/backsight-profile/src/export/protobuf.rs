//! Protocol buffers: as much of them as is needed to write some.

use backsight::core::leb128;

/// A message while it is written.
#[derive(Debug, Default)]
pub(super) struct Message(pub Vec<u8>);

impl Message {
    pub fn varint(&mut self, value: u64) {
        leb128::write(value, |byte| self.0.push(byte));
    }

    /// A number; 0 is what is understood where nothing is written.
    pub fn number(&mut self, field: u64, value: u64) {
        if value != 0 {
            self.number_or_zero(field, value);
        }
    }

    /// A number where 0 does not mean the same as nothing.
    pub fn number_or_zero(&mut self, field: u64, value: u64) {
        self.varint(field << 3);
        self.varint(value);
    }

    pub fn bytes(&mut self, field: u64, bytes: &[u8]) {
        self.varint(field << 3 | 2);
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    pub fn message(&mut self, field: u64, message: &Self) {
        self.bytes(field, &message.0);
    }

    pub fn packed(&mut self, field: u64, values: &[u64]) {
        let mut list = Self::default();
        values.iter().for_each(|&value| list.varint(value));
        self.message(field, &list);
    }
}
