//! One packet, in each of the formats that packets are listed in.

use std::fmt;
use std::io::{self, Write};

use backsight_arm::etm4;
use backsight_core::TraceId;
use serde_json::{Map, Value, json};

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

/// A packet of any protocol, as far as listings are concerned.
pub trait Listed {
    /// The name that listings use.
    fn name(&self) -> &'static str;
    /// What it says, in words; empty where the name says it all.
    fn details(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result;
    /// What the familiar listing shows behind the name.
    fn opencsd(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result;
    /// What it says, as members of a JSON object.
    fn json(&self, object: &mut Map<String, Value>);
    /// No packet: bytes passed over while looking for one.
    fn is_unsynchronised(&self) -> bool;
}

impl Listed for etm4::Packet {
    fn name(&self) -> &'static str {
        self.name()
    }

    fn details(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&super::etm4::Details(self), f)
    }

    fn opencsd(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        super::etm4::opencsd(self, f)
    }

    fn json(&self, object: &mut Map<String, Value>) {
        super::etm4::json(self, object);
    }

    fn is_unsynchronised(&self) -> bool {
        matches!(self, Self::Unsynchronised)
    }
}

/// Where a packet is.
struct Place<'a> {
    /// Index of the first byte.
    index: u64,
    /// Source.
    id: TraceId,
    /// Number of bytes.
    length: u32,
    /// The bytes.
    bytes: &'a [u8],
}

/// Writes one packet.
pub fn write(out: &mut dyn Write, format: PacketFormat, item: &Item<'_, Packet>) -> io::Result<()> {
    let id = match format {
        // Users of that listing know packets of a raw buffer under the ID 0.
        PacketFormat::Opencsd => item.source.frame_id(),
        _ => item.source.id(),
    };
    let index = item.position().unwrap_or(item.offset);
    let place = Place { index, id, length: item.length, bytes: item.bytes() };
    let packet = item.value.listed();
    match format {
        PacketFormat::Text => text(out, &place, packet),
        PacketFormat::Json => write_json(out, &place, packet),
        PacketFormat::Opencsd => opencsd(out, &place, packet),
    }
}

fn text(out: &mut dyn Write, place: &Place<'_>, packet: &dyn Listed) -> io::Result<()> {
    let mut hex = String::with_capacity(48);
    for byte in place.bytes.iter().take(MOST_TEXT_BYTES) {
        hex.push_str(HEX[usize::from(*byte)]);
    }
    if place.length as usize > MOST_TEXT_BYTES || place.bytes.is_empty() {
        hex = format!("{} bytes", place.length);
    }
    let name = packet.name();
    let details = Shown(|f: &mut fmt::Formatter<'_>| packet.details(f));
    let line = format!("{:>10}  {:02x}  {hex:<32}  {name:<20}  {details}", place.index, place.id.get());
    writeln!(out, "{}", line.trim_end())
}

/// Longer packets are shown by their length.
const MOST_TEXT_BYTES: usize = 16;

fn write_json(out: &mut dyn Write, place: &Place<'_>, packet: &dyn Listed) -> io::Result<()> {
    let mut object = Map::new();
    object.insert("index".into(), json!(place.index));
    object.insert("id".into(), json!(place.id.get()));
    object.insert("packet".into(), json!(packet.name()));
    object.insert("length".into(), json!(place.length));
    object.insert(
        "bytes".into(),
        json!(place.bytes.iter().map(|byte| HEX[usize::from(*byte)]).collect::<String>()),
    );
    packet.json(&mut object);
    serde_json::to_writer(&mut *out, &object)?;
    writeln!(out)
}

fn opencsd(out: &mut dyn Write, place: &Place<'_>, packet: &dyn Listed) -> io::Result<()> {
    write!(out, "Idx:{}; ID:{:x}; [", place.index, place.id.get())?;
    for byte in place.bytes {
        write!(out, "0x{} ", HEX[usize::from(*byte)])?;
    }
    writeln!(out, "];\t{} : {}", packet.name(), Shown(|f: &mut fmt::Formatter<'_>| packet.opencsd(f)))
}

/// Lets a function of a formatter be formatted.
struct Shown<F>(F);

impl<F: Fn(&mut fmt::Formatter<'_>) -> fmt::Result> fmt::Display for Shown<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (self.0)(f)
    }
}

/// Every byte as two digits.
const HEX: [&str; 256] = {
    const DIGITS: [u8; 512] = {
        let mut digits = [0; 512];
        let mut byte = 0;
        while byte < 256 {
            digits[2 * byte] = b"0123456789abcdef"[byte >> 4];
            digits[2 * byte + 1] = b"0123456789abcdef"[byte & 15];
            byte += 1;
        }
        digits
    };
    let mut table = [""; 256];
    let mut byte = 0;
    while byte < 256 {
        let (_, rest) = DIGITS.split_at(2 * byte);
        let (pair, _) = rest.split_at(2);
        table[byte] = match std::str::from_utf8(pair) {
            Ok(text) => text,
            Err(_) => "",
        };
        byte += 1;
    }
    table
};
