//! `flow --messages`: what software wrote.

use backsight::Source;
use backsight::listing::{MessageFormat, MessageWriter};

use super::{Format, MessageText};

/// The writer of a source.
pub(super) fn writer(how: MessageText, format: Format, source: &Source, several: bool) -> MessageWriter {
    let format = match (format, how) {
        (Format::Json, _) => MessageFormat::Json,
        (_, MessageText::Hex) => MessageFormat::Hexadecimal,
        (_, MessageText::Text) => MessageFormat::Text,
    };
    MessageWriter::new(format, source, several)
}
