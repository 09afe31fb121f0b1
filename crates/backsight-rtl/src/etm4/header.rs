//! `etm4_header`: what a byte is as a header, and what its payload is made of.

use backsight_arm::etm4::{Bad, Config, Part, ROWS, Row};

use super::text::{capitals, patterns};

/// The parts of a payload that are in the configuration.
fn parts(row: &Row, config: &Config) -> Vec<Part> {
    row.payload.iter().copied().filter(|part| !part.is_absent(config)).collect()
}

/// The name of a part in the emitted text.
fn name(part: Part) -> String {
    match part {
        Part::Bytes(count) => format!("BYTES{count}"),
        Part::Continued(_) if part == Part::NUMBER => "NUMBER".into(),
        Part::Continued(_) => "COUNT".into(),
        // A commit count that is there is a number like others.
        Part::Commit => "NUMBER".into(),
        other => capitals(&format!("{other:?}")),
    }
}

/// Where the bytes of a part go.
fn place(part: Part) -> &'static str {
    match part {
        Part::Continued(_) if part == Part::NUMBER => "NUMBER",
        Part::Continued(_) => "COUNT",
        Part::Commit => "NUMBER",
        Part::Result => "RESULT",
        Part::Context => "INFO",
        Part::TraceInfo => "CONTROL",
        _ => "RAW",
    }
}

/// Does the part end with a byte whose bit 7 is 0, and is it bad if there is none?
const fn ends(part: Part) -> (bool, bool) {
    match part {
        Part::Continued(_) | Part::Commit | Part::Result | Part::TraceInfo => (true, true),
        Part::Timestamp | Part::ShortAddress => (true, false),
        _ => (false, false),
    }
}

/// All parts that a payload can begin with, each once.
fn first_parts(config: &Config) -> Vec<Part> {
    let mut all: Vec<Part> = Vec::new();
    for row in ROWS.iter().filter(|row| row.when.check(config).is_ok()) {
        if let Some(&part) = parts(row, config).first()
            && !all.iter().any(|&other| name(other) == name(part))
        {
            all.push(part);
        }
    }
    all
}

/// The name of a reason for which a header is bad.
fn why(why: Bad) -> String {
    format!("WHY_{}", capitals(&format!("{why:?}")))
}

/// The line of one row.
fn line(row: &Row, config: &Config) -> String {
    let parts = parts(row, config);
    let (first, then, why) = match row.when.check(config) {
        Ok(()) => (
            parts.first().map_or_else(|| "NOTHING".into(), |&part| name(part)),
            parts.get(1).map_or_else(|| "NOTHING".into(), |&part| name(part)),
            "WHY_NONE".into(),
        ),
        Err(bad) => ("NOTHING".into(), "NOTHING".into(), why(bad)),
    };
    format!(
        "            // {}\n            {}:\n                {{first, next, why}} = {{PART_{first}, THEN_{then}, etm4_pkg::{why}}};\n",
        row.title,
        patterns(row.first, row.last),
    )
}

/// Bytes of a part, at most. That of a Trace Info is PLCTL; its sections are parts of their own.
const fn longest(part: Part) -> usize {
    match part {
        Part::TraceInfo => Part::NUMBER.longest(),
        _ => part.longest(),
    }
}

/// How long a part is and how it ends.
fn part_line(part: Part) -> String {
    let (stop, limit) = ends(part);
    let is = |which: Part| u8::from(part == which);
    format!(
        "            PART_{}: {{left, stop, limit, extension, info, exception, control, place}} =\n                \
         {{12'h{:03x}, 1'b{}, 1'b{}, 1'b{}, 1'b{}, 1'b{}, 1'b{}, etm4_pkg::PLACE_{}}};\n",
        name(part),
        1 << (longest(part) - 1),
        u8::from(stop),
        u8::from(limit),
        is(Part::Extension),
        is(Part::Context),
        is(Part::Exception),
        is(Part::TraceInfo),
        place(part),
    )
}

/// The text of the module.
pub fn module(config: &Config) -> String {
    let firsts = first_parts(config);
    let codes: String = firsts
        .iter()
        .enumerate()
        .map(|(index, &part)| format!("    localparam logic [3:0] PART_{} = 4'd{};\n", name(part), index + 1))
        .collect();
    let rows: String = ROWS
        .iter()
        .filter(|row| row.when.check(config) != Err(Bad::Reserved))
        .map(|row| line(row, config))
        .collect();
    let lengths: String = firsts.iter().map(|&part| part_line(part)).collect();
    include_str!("sv/etm4_header.in")
        .replace("@CODES@\n", &codes)
        .replace("@ROWS@\n", &rows)
        .replace("@LENGTHS@\n", &lengths)
}
