//! One packet, in each of the formats that packets are listed in.

use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use backsight_core::describe::write_text;

use super::digits::{Decimal, hexadecimal};
use super::json::ObjectWriter;
use crate::decode::Consumer;
use crate::protocol::Landmark;
use crate::{Item, Packet};

/// How packets are listed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PacketFormat {
    /// One line a packet, to read.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
    /// The listing that users of OpenCSD know.
    Opencsd,
}

/// Longer packets are shown by their length in text.
const MOST_TEXT_BYTES: usize = 16;

/// An index stands right-aligned in so many columns.
const INDEX_COLUMNS: usize = 10;

const SPACES: &str = "                                ";

/// Lists packets of any protocol, one after the other.
#[derive(Clone, Debug)]
pub struct PacketWriter {
    format: PacketFormat,
    /// Name the buffer in each JSON object: there are several.
    name_buffers: bool,
    /// How many more are wanted, of all sources.
    left: Option<Arc<AtomicU64>>,
    text: Vec<u8>,
    line: String,
    bytes: Vec<u8>,
    object: ObjectWriter,
}

impl PacketWriter {
    /// Lists in that format.
    pub fn new(format: PacketFormat) -> Self {
        let (left, text, line, bytes, object) = Default::default();
        Self { format, name_buffers: false, left, text, line, bytes, object }
    }

    /// JSON objects name their buffer. Text has no room for that: its writer says where a buffer begins.
    pub fn name_buffers(self, name_buffers: bool) -> Self {
        Self { name_buffers, ..self }
    }

    /// Stops after so many packets, of all writers that are clones of this one.
    pub fn limit(self, packets: u64) -> Self {
        Self { left: Some(Arc::new(AtomicU64::new(packets))), ..self }
    }

    /// Index, ID, bytes, name and fields. A line of text takes everything, so that nothing here can fail.
    fn line_of_text(&mut self, item: &Item<'_, Packet>) {
        let (line, bytes) = (&mut self.line, item.bytes());
        line.clear();
        let (mut digits, index) = (Decimal::default(), index(item));
        let index = digits.of(index);
        pad(line, INDEX_COLUMNS.saturating_sub(index.len()));
        let _ = write!(line, "{index}  {}  ", item.source.id());
        let from = line.len();
        if bytes.is_empty() || bytes.len() > MOST_TEXT_BYTES {
            let _ = write!(line, "{} bytes", item.length);
        } else {
            push_hexadecimal(line, bytes, "");
        }
        pad(line, from + 2 * MOST_TEXT_BYTES);
        line.push_str("  ");
        let from = line.len();
        line.push_str(item.value.name());
        let named = line.len();
        pad(line, from + 20);
        line.push_str("  ");
        let fields = line.len();
        let _ = write_text(&item.value, line);
        line.truncate(if line.len() == fields { named } else { line.trim_end().len() });
    }

    fn json(&mut self, item: &Item<'_, Packet>) {
        let object = &mut self.object;
        object.number("index", index(item));
        object.number("id", item.source.id().get().into());
        object.text("packet", item.value.name());
        object.number("length", item.length.into());
        object.bytes("bytes", item.bytes());
        if self.name_buffers {
            object.text("buffer", item.source.buffer());
        }
        object.fields(&item.value);
        // Memory takes everything.
        let _ = object.end(&mut self.text);
    }

    /// That listing knows IDs of frames only, and has a buffer without them under the ID 0.
    fn opencsd(&mut self, item: &Item<'_, Packet>) {
        let line = &mut self.line;
        line.clear();
        self.bytes.clear();
        self.bytes.extend_from_slice(item.bytes());
        let index = index(item) + item.value.opencsd_bytes(&mut self.bytes);
        line.push_str("Idx:");
        line.push_str(Decimal::default().of(index));
        let _ = write!(line, "; ID:{:x}; [", item.source.frame_id().get());
        for &byte in &self.bytes {
            push_hexadecimal(line, &[byte], "0x");
            line.push(' ');
        }
        let _ = write!(line, "];\t{} : ", item.value.opencsd_name());
        let _ = item.value.write_opencsd(line);
    }
}

impl Consumer<Packet> for PacketWriter {
    fn item(&mut self, item: Item<'_, Packet>) {
        if let Some(left) = &self.left {
            // What is passed over is no packet.
            let is_packet = item.value.landmark(None) != Landmark::Unsynchronised;
            let one = u64::from(is_packet);
            if left
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
                    left.checked_sub(one.max(1)).map(|_| left - one)
                })
                .is_err()
            {
                return;
            }
        }
        match self.format {
            PacketFormat::Text => self.line_of_text(&item),
            PacketFormat::Json => return self.json(&item),
            PacketFormat::Opencsd => self.opencsd(&item),
        }
        self.line.push('\n');
        self.text.extend_from_slice(self.line.as_bytes());
    }

    fn has_enough(&self) -> bool {
        self.left.as_ref().is_some_and(|left| left.load(Ordering::Relaxed) == 0)
    }

    fn text(&mut self) -> Option<&mut Vec<u8>> {
        Some(&mut self.text)
    }

    fn can_join(&self) -> bool {
        self.left.is_none()
    }
}

fn index(item: &Item<'_, Packet>) -> u64 {
    item.position().unwrap_or(item.offset)
}

fn push_hexadecimal(line: &mut String, bytes: &[u8], before: &str) {
    for byte in bytes {
        line.push_str(before);
        line.extend(hexadecimal(*byte).map(char::from));
    }
}

/// Spaces up to a column.
fn pad(line: &mut String, column: usize) {
    let mut missing = column.saturating_sub(line.len());
    while missing > 0 {
        let some = missing.min(SPACES.len());
        line.push_str(&SPACES[..some]);
        missing -= some;
    }
}
