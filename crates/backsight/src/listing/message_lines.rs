//! Messages of software, put together, in each of the formats.

use std::io::Write;

use backsight_flow::{Channel, Event, SourceTime};

use super::digits::hexadecimal;
use super::json::ObjectWriter;
use super::label::Label;
use crate::decode::Consumer;
use crate::messages::{Message, Messages};
use crate::{Item, Source};
use backsight_core::Printable;

/// How messages are listed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MessageFormat {
    /// As text; what is none in hexadecimal.
    #[default]
    Text,
    /// In hexadecimal.
    Hexadecimal,
    /// One JSON object a line, with both.
    Json,
}

/// Lists the messages of one source.
pub struct MessageWriter {
    format: MessageFormat,
    label: Label,
    messages: Messages,
    /// The time that the source reported last.
    now: Option<u64>,
    object: ObjectWriter,
    text: Vec<u8>,
}

impl MessageWriter {
    /// A writer for one source; JSON names the buffer where there are several.
    pub fn new(format: MessageFormat, source: &Source, name_buffers: bool) -> Self {
        let label = Label::of(source, name_buffers);
        let (messages, now, object, text) = Default::default();
        Self { format, label, messages, now, object, text }
    }
}

impl Consumer<Event> for MessageWriter {
    fn item(&mut self, item: Item<'_, Event>) {
        let Self { format, label, messages, now, object, text } = self;
        match &item.value {
            Event::Timestamp { value, .. } | Event::SourceTime(SourceTime::Global { value, .. }) => {
                *now = Some(*value);
            }
            Event::Software(written) => {
                let index = item.position().unwrap_or(item.offset);
                let mut each = |message: Message<'_>| write(*format, label, object, &message, text);
                messages.push(item.sub_source, written, *now, index, &mut each);
            }
            _ => {}
        }
    }

    fn finish(&mut self) {
        let Self { format, label, messages, object, text, .. } = self;
        messages.finish(&mut |message| write(*format, label, object, &message, text));
    }

    fn text(&mut self) -> Option<&mut Vec<u8>> {
        Some(&mut self.text)
    }
}

/// Writes one message. Memory takes everything.
fn write(
    format: MessageFormat,
    label: &Label,
    object: &mut ObjectWriter,
    message: &Message<'_>,
    out: &mut Vec<u8>,
) {
    if format == MessageFormat::Json {
        label.members(object, message.sub_source, message.index);
        channel_members(object, message.channel);
        object.bytes("bytes", message.bytes);
        if let Some(text) = message.text() {
            object.text("text", text);
        }
        if let Some(time) = message.time {
            object.number("time", time);
        }
        if let Some(after) = message.after {
            object.number("after", after);
        }
        let _ = object.end(out);
        return;
    }
    let _ = label.write(out, message.sub_source);
    if let Some(time) = message.time {
        let _ = write!(out, "{time:#x}  ");
    } else if let Some(after) = message.after {
        let _ = write!(out, "{after:#x}..  ");
    }
    let _ = match message.channel {
        Channel::ExceptionLevel(level) => write!(out, "EL{level}: "),
        Channel::Port(port) => write!(out, "port {port}: "),
        Channel::Master { master, channel } => write!(out, "master {master} channel {channel}: "),
        Channel::Unknown => write!(out, "unknown master: "),
    };
    match message.text().filter(|_| format == MessageFormat::Text) {
        Some(text) => drop(write!(out, "{}", Printable(text))),
        None => {
            let digits = message.bytes.iter().map(|&byte| hexadecimal(byte));
            for (number, digits) in digits.enumerate() {
                if number > 0 {
                    out.push(b' ');
                }
                out.extend(digits);
            }
        }
    }
    out.push(b'\n');
}

fn channel_members(object: &mut ObjectWriter, channel: Channel) {
    match channel {
        Channel::ExceptionLevel(level) => object.number("level", level.into()),
        Channel::Port(port) => object.number("port", port.into()),
        Channel::Master { master, channel } => {
            object.number("master", master.into());
            object.number("channel", channel.into());
        }
        Channel::Unknown => {}
    }
}
