//! `etm4_meaning`: what a packet is, by its header.

use backsight_arm::etm4::{Config, Kind, Packet, ROWS, packets};

use super::text::{capitals, patterns};

/// What can be said of a packet by its header, in the order of the bits.
pub const FLAGS: [(&str, &str); 19] = [
    ("PUSH", "the packet has an address, which becomes the newest"),
    ("EXACT", "it is one of the last three"),
    ("EXACT1", "the second of them"),
    ("EXACT2", "the third"),
    ("IS1", "its instruction set flag"),
    ("LONG", "bits 31:0 are in the packet"),
    ("LONG64", "so are bits 63:32"),
    ("TRACE_INFO", "Trace Info"),
    ("TIMESTAMP", "has a timestamp"),
    ("CONTEXT", "has a context"),
    ("EXCEPTION", "Exception"),
    ("EVENT", "Event"),
    ("BRANCH", "an address where execution continues"),
    ("EXTENSION", "Async, Discard or Overflow"),
    ("SETS_TAKEN", "an address that follows is the target of a branch"),
    ("CLEARS_TAKEN", "it is none"),
    ("CYCLES1", "Cycle Count format 1"),
    ("CYCLES2", "format 2"),
    ("CYCLES3", "format 3"),
];

/// The address of a packet in flags.
fn address(kind: Kind, field: u8) -> &'static [&'static str] {
    match (kind, field) {
        (Kind::AddressExact | Kind::SourceExact | Kind::Q, 0) => &["PUSH", "EXACT"],
        (Kind::AddressExact | Kind::SourceExact | Kind::Q, 1) => &["PUSH", "EXACT", "EXACT1"],
        (Kind::AddressExact | Kind::SourceExact | Kind::Q, 2) => &["PUSH", "EXACT", "EXACT2"],
        (Kind::AddressShortIs0 | Kind::SourceShortIs0, _) | (Kind::Q, 5) => &["PUSH"],
        (Kind::AddressShortIs1 | Kind::SourceShortIs1, _) | (Kind::Q, 6) => &["PUSH", "IS1"],
        (Kind::Address32Is0 | Kind::Source32Is0 | Kind::AddressContext32Is0, _) | (Kind::Q, 0xA) => {
            &["PUSH", "LONG"]
        }
        (Kind::Address32Is1 | Kind::Source32Is1 | Kind::AddressContext32Is1, _) | (Kind::Q, 0xB) => {
            &["PUSH", "LONG", "IS1"]
        }
        (Kind::Address64Is0 | Kind::Source64Is0 | Kind::AddressContext64Is0, _) => {
            &["PUSH", "LONG", "LONG64"]
        }
        (Kind::Address64Is1 | Kind::Source64Is1 | Kind::AddressContext64Is1, _) => {
            &["PUSH", "LONG", "LONG64", "IS1"]
        }
        // Those that have no address of their own push address 0.
        (Kind::Exception, _) => &["EXCEPTION", "LONG", "LONG64"],
        _ => &[],
    }
}

/// What a packet does to the expectation that the next address is the target of a taken branch.
fn taken(kind: Kind, header: u8, config: &Config) -> &'static [&'static str] {
    match kind {
        Kind::AtomF1 | Kind::AtomF2 | Kind::AtomF3 | Kind::AtomF4 | Kind::AtomF5 | Kind::AtomF6 => {
            if last_atom(header, config) {
                &["SETS_TAKEN"]
            } else {
                &["CLEARS_TAKEN"]
            }
        }
        Kind::SourceExact
        | Kind::SourceShortIs0
        | Kind::SourceShortIs1
        | Kind::Source32Is0
        | Kind::Source32Is1
        | Kind::Source64Is0
        | Kind::Source64Is1 => &["SETS_TAKEN"],
        Kind::AddressExact
        | Kind::AddressShortIs0
        | Kind::AddressShortIs1
        | Kind::Address32Is0
        | Kind::Address32Is1
        | Kind::Address64Is0
        | Kind::Address64Is1 => &["BRANCH", "CLEARS_TAKEN"],
        Kind::AddressContext32Is0
        | Kind::AddressContext32Is1
        | Kind::AddressContext64Is0
        | Kind::AddressContext64Is1 => &["CONTEXT", "BRANCH", "CLEARS_TAKEN"],
        Kind::TraceOn
        | Kind::Exception
        | Kind::Q
        | Kind::CancelF1
        | Kind::CancelF1Mispredict
        | Kind::CancelF2
        | Kind::CancelF3
        | Kind::Mispredict => &["CLEARS_TAKEN"],
        _ => &[],
    }
}

/// Is the newest atom of a header an E?
fn last_atom(header: u8, config: &Config) -> bool {
    let stream = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x80, header];
    packets(config, &stream).any(|packet| match packet.value {
        Packet::Atoms(atoms) => atoms.iter().last() == Some(true),
        _ => false,
    })
}

/// All that a header says.
fn flags(kind: Kind, header: u8, config: &Config) -> Vec<&'static str> {
    let field = kind.field(header);
    let mut flags = address(kind, field).to_vec();
    flags.extend(taken(kind, header, config));
    flags.extend(match kind {
        Kind::TraceInfo => Some("TRACE_INFO"),
        Kind::Timestamp | Kind::TimestampCycles => Some("TIMESTAMP"),
        Kind::Context if field == 1 => Some("CONTEXT"),
        Kind::Event => Some("EVENT"),
        Kind::Extension => Some("EXTENSION"),
        Kind::CycleCountF1 => Some("CYCLES1"),
        Kind::CycleCountF2 => Some("CYCLES2"),
        Kind::CycleCountF3 => Some("CYCLES3"),
        _ => None,
    });
    flags
}

/// The text of the module.
pub fn module(config: &Config) -> String {
    let mut rows = String::new();
    for row in ROWS.iter().filter(|row| row.when.check(config).is_ok()) {
        let mut first = row.first;
        for header in row.first..=row.last {
            let said = flags(row.kind, header, config);
            if header < row.last && flags(row.kind, header + 1, config) == said {
                continue;
            }
            let names: Vec<String> = said.iter().map(|flag| format!("etm4_pkg::{flag}")).collect();
            let said = if names.is_empty() { "etm4_pkg::NO_FLAGS".into() } else { names.join(" | ") };
            rows += &format!(
                "            {}:\n                {{kind, flags}} = {{etm4_pkg::KIND_{}, {said}}};\n",
                patterns(first, header),
                capitals(&format!("{:?}", row.kind)),
            );
            first = header.wrapping_add(1);
        }
    }
    include_str!("sv/etm4_meaning.in").replace("@ROWS@\n", &rows)
}
