//! Calls over time in Perfetto's own form: protocol buffers, a packet for each beginning and end.
//!
//! Much smaller than Chrome's trace events, and without their limit of a million or so. Names are sent once and meant by
//! numbers afterwards. Time is counted in instructions: one is shown as a nanosecond.

use std::io::Write;

use super::chrome::{Phase, events_of};
use super::protobuf::Message;
use super::{ExportError, ExportOptions, Format, Need};
use crate::{Profile, Thread};

pub(super) const FORMAT: Format = Format {
    name: "perfetto",
    title: "Calls over time, thread by thread, as protocol buffers",
    readers: "ui.perfetto.dev, trace_processor",
    needs: &[Need::Symbols, Need::Timeline],
    write,
};

/// Fields of TracePacket, TrackDescriptor and TrackEvent.
mod field {
    pub const PACKET: u64 = 1;
    pub const TIMESTAMP: u64 = 8;
    pub const SEQUENCE: u64 = 10;
    pub const TRACK_EVENT: u64 = 11;
    pub const INTERNED_DATA: u64 = 12;
    pub const SEQUENCE_FLAGS: u64 = 13;
    pub const TRACK_DESCRIPTOR: u64 = 60;
}

const PROCESS: u64 = 1;
const STATE_CLEARED: u64 = 1;
const NEEDS_STATE: u64 = 2;

fn write(profile: &Profile, options: &ExportOptions, out: &mut dyn Write) -> Result<(), ExportError> {
    let mut process = Message::default();
    process.number(1, PROCESS);
    process.bytes(6, options.title.as_bytes());
    let mut descriptor = Message::default();
    descriptor.number(1, PROCESS);
    descriptor.message(3, &process);
    describe(&descriptor, out)?;
    for (thread, number) in profile.threads.iter().zip(2..) {
        write_thread(profile, thread, number, out)?;
    }
    Ok(())
}

fn put(packet: &Message, out: &mut dyn Write) -> std::io::Result<()> {
    let mut file = Message::default();
    file.message(field::PACKET, packet);
    out.write_all(&file.0)
}

fn describe(descriptor: &Message, out: &mut dyn Write) -> std::io::Result<()> {
    let mut packet = Message::default();
    packet.number(field::SEQUENCE, PROCESS);
    packet.message(field::TRACK_DESCRIPTOR, descriptor);
    put(&packet, out)
}

/// A track, and a sequence of packets, for each thread.
fn write_thread(
    profile: &Profile,
    thread: &Thread,
    number: u64,
    out: &mut dyn Write,
) -> Result<(), ExportError> {
    let name = format!("{} (1 ns = 1 instruction)", thread.full_name(true));
    let mut of_thread = Message::default();
    of_thread.number(1, PROCESS);
    of_thread.number(2, number);
    of_thread.bytes(5, name.as_bytes());
    let mut descriptor = Message::default();
    descriptor.number(1, number);
    descriptor.number(5, PROCESS);
    descriptor.message(4, &of_thread);
    describe(&descriptor, out)?;
    let mut is_sent = vec![false; profile.functions.len()];
    let mut flags = STATE_CLEARED | NEEDS_STATE;
    for event in events_of(&thread.slices) {
        let mut track_event = Message::default();
        track_event.number(11, number);
        let mut packet = Message::default();
        match event.phase {
            Phase::Begin => {
                track_event.number(9, 1);
                track_event.number(10, u64::from(event.function) + 1);
                if let Some(sent) = is_sent.get_mut(event.function as usize)
                    && !std::mem::replace(sent, true)
                {
                    packet.message(field::INTERNED_DATA, &interned(profile, event.function));
                }
            }
            Phase::End => track_event.number(9, 2),
        }
        packet.number_or_zero(field::TIMESTAMP, event.at);
        packet.number(field::SEQUENCE, number);
        packet.number(field::SEQUENCE_FLAGS, std::mem::replace(&mut flags, NEEDS_STATE));
        packet.message(field::TRACK_EVENT, &track_event);
        put(&packet, out)?;
    }
    Ok(())
}

/// The name of a function, with its number.
fn interned(profile: &Profile, function: u32) -> Message {
    let name = profile.functions.get(function as usize).map_or("?", |function| &function.name);
    let mut entry = Message::default();
    entry.number(1, u64::from(function) + 1);
    entry.bytes(2, name.as_bytes());
    let mut data = Message::default();
    data.message(2, &entry);
    data
}
