//! Rows are what the listings say, line by line.

use std::sync::Arc;

use backsight::decode::{Consumer, Written};
use backsight::listing::{
    BranchWriter, Detail, EventNames, ExecutionFormat, ExecutionWriter, Filter, FilterOptions, PacketFormat,
    PacketWriter, Style,
};
use backsight::{Capture, Error, Item, Packet, Source};
use backsight_table::Table;
use serde_json::Value;

use crate::support::{Row, captures, columns, read};

/// Every source of a capture that is decoded, in the order of tables.
fn sources(capture: &Capture) -> Vec<Source> {
    let of_buffer = |buffer: &backsight::Buffer| {
        let contents = buffer.contents().expect("contents");
        contents.sources.into_iter().map(|(source, _)| source)
    };
    capture.buffers().iter().flat_map(of_buffer).filter(Source::is_decoded).collect()
}

fn everything() -> Filter<'static> {
    let image = backsight::image::Image::new();
    Filter::new(&FilterOptions::default(), || &image).expect("a filter")
}

/// The lines of `flow` of one source after the other.
fn flow(capture: &Capture, format: ExecutionFormat, detail: Detail) -> Vec<String> {
    let code = capture.code().expect("code");
    let mut text = Vec::new();
    for source in sources(capture) {
        let style = Style { format, detail, ..Style::default() };
        let decode = capture.execution().only(source.buffer()).id(source.id().get().into());
        let make = |source: &Source| {
            let writer =
                ExecutionWriter::new(style, source, code.seen_by(source), everything(), Arc::default());
            Ok::<_, Error>(writer)
        };
        let output = |portion: Written<'_>| {
            if let Written::Text(more) = portion {
                text.extend_from_slice(more);
            }
            Ok(())
        };
        decode.write(make, output).expect("a listing");
    }
    String::from_utf8(text).expect("text").lines().map(str::to_owned).collect()
}

fn json(capture: &Capture, detail: Detail) -> Vec<Value> {
    let lines = flow(capture, ExecutionFormat::Json, detail);
    lines.iter().map(|line| serde_json::from_str(line).expect(line)).collect()
}

/// A member of a JSON object as a cell; `object.member` is a member of an object inside.
fn member(object: &Value, name: &str) -> String {
    let value = name.split('.').try_fold(object, |object, name| object.get(name));
    match value {
        None | Some(Value::Null) => "-".to_owned(),
        Some(Value::String(text)) => {
            match text.strip_prefix("0x").map(|digits| u64::from_str_radix(digits, 16)) {
                Some(Ok(address)) => address.to_string(),
                _ => text.clone(),
            }
        }
        Some(other) => other.to_string(),
    }
}

fn members(object: &Value, names: &[&str]) -> Row {
    names.iter().map(|name| member(object, name)).collect()
}

fn assert_same(expected: &[Row], rows: &[Row], what: &str) {
    let first = expected.iter().zip(rows).position(|(one, other)| one != other);
    let at = first.map(|at| (at, &expected[at], &rows[at]));
    assert!(expected == rows, "{what}: {} lines, {} rows, {at:?}", expected.len(), rows.len());
}

#[test]
fn ranges_are_those_that_flow_lists() {
    let mut count = 0;
    for (name, path) in captures() {
        let capture = Capture::open(path).expect("a capture");
        let lines = json(&capture, Detail::Ranges);
        let listed = [
            "id",
            "index",
            "start",
            "end",
            "instructions",
            "isa",
            "last",
            "taken",
            "conditional",
            "function",
            "function_offset",
            "file",
            "line",
        ];
        let mut expected: Vec<_> =
            lines.iter().filter(|line| line["event"] == "range").map(|line| members(line, &listed)).collect();
        for row in &mut expected {
            if row[6].is_empty() {
                row[6] = "-".to_owned();
            }
            if row[12] == "0" {
                row[12] = "-".to_owned();
            }
        }
        let query = columns(
            Table::Ranges,
            &[
                "source",
                "position",
                "start",
                "end",
                "instructions",
                "isa",
                "ending",
                "taken",
                "conditional",
                "function",
                "function_offset",
                "file",
                "line",
            ],
        );
        let rows = read(&query, &capture);
        assert_same(&expected, &rows, &name);
        count += rows.len();
    }
    assert!(count > 2_000, "{count}");
}

/// Time, cycles and context of ranges, by a simple reading of the events before them.
#[test]
fn ranges_have_the_time_cycles_and_context_that_hold() {
    for (name, path) in captures() {
        let capture = Capture::open(path).expect("a capture");
        let (mut expected, mut states) = (Vec::new(), std::collections::BTreeMap::new());
        for line in json(&capture, Detail::Ranges) {
            let key = (member(&line, "id"), member(&line, "hart"), member(&line, "buffer"));
            let unknown = || vec!["-".to_owned(); 5];
            let state = states.entry(key).or_insert_with(unknown);
            match line["event"].as_str() {
                Some("timestamp") => state[0] = member(&line, "timestamp"),
                Some("cycle_count") if !line["cycles"].is_null() => {
                    let before: u64 = state[1].parse().unwrap_or(0);
                    state[1] = (before + line["cycles"].as_u64().expect("cycles")).to_string();
                }
                Some("context") => {
                    let level = [member(&line, "context.level"), member(&line, "context.mode")];
                    state[2] = level.into_iter().find(|level| level != "-").unwrap_or_else(|| "-".to_owned());
                    state[3] = member(&line, "context.vmid");
                    state[4] = member(&line, "context.context_id");
                }
                Some("range") => expected.push(state.clone()),
                _ => {}
            }
        }
        // Several buffers of one ID cannot be told apart in the listing of one buffer at a time; Armv7 has no levels.
        if capture.buffers().len() > 1 {
            continue;
        }
        let query = columns(Table::Ranges, &["time", "cycles", "level", "vmid", "context"]);
        let mut rows = read(&query, &capture);
        if json(&capture, Detail::Ranges).iter().any(|line| line["context"].get("hyp").is_some()) {
            expected.iter_mut().chain(&mut rows).for_each(|row| row[2].clear());
        }
        assert_same(&expected, &rows, &name);
    }
}

const DAMAGE: [&str; 7] =
    ["gap", "address_unknown", "path_unknown", "uncounted_loop", "no_memory", "accesses_lost", "mismatch"];

#[test]
fn events_and_damage_are_what_flow_lists_besides_ranges() {
    let (mut events, mut gaps) = (0, 0);
    for (name, path) in captures() {
        let capture = Capture::open(path).expect("a capture");
        let is_damage = |row: &Row| {
            DAMAGE.contains(&row[1].as_str())
                || row[3].contains("hardware: messages") && row[3].contains("lost")
        };
        let lines = json(&capture, Detail::Ranges);
        let texts = flow(&capture, ExecutionFormat::Text, Detail::Ranges);
        assert_eq!(lines.len(), texts.len());
        let both = lines.iter().zip(&texts).filter(|(line, _)| line["event"] != "range");
        let (damage, others): (Vec<Row>, Vec<Row>) = both
            .map(|(line, text)| {
                let mut row = members(line, &["id", "event", "index"]);
                row.push(text.split_once("-- ").map_or("", |(_, text)| text).to_owned());
                row
            })
            .partition(is_damage);
        let rows = read(&columns(Table::Events, &["source", "event", "position", "detail"]), &capture);
        assert_same(&others, &rows, &format!("events of {name}"));
        events += rows.len();
        let query = columns(Table::Damage, &["source", "event", "position", "reason"]);
        let query = query.filter("event not in ('frames', 'bytes', 'undecoded')").expect("a filter");
        let rows = read(&query, &capture);
        assert_same(&damage, &rows, &format!("damage of {name}"));
        gaps += rows.len();
    }
    assert!(events > 500 && gaps > 5, "{events}, {gaps}");
}

/// What a writer makes of one packet.
fn text_of(writer: &mut PacketWriter, item: Item<'_, Packet>) -> Vec<u8> {
    writer.item(item);
    writer.text().map(std::mem::take).unwrap_or_default()
}

#[test]
fn packets_are_those_that_packets_lists() {
    let mut count = 0;
    for (name, path) in captures() {
        let capture = Capture::open(path).expect("a capture");
        let mut expected = Vec::new();
        for source in sources(&capture) {
            let (mut object, mut line) =
                (PacketWriter::new(PacketFormat::Json), PacketWriter::new(PacketFormat::Text));
            let decode = capture.packets().only(source.buffer()).id(source.id().get().into());
            decode
                .run(|item| {
                    let json = text_of(&mut object, item);
                    let text = text_of(&mut line, item);
                    let json: Value = serde_json::from_slice(&json).expect("JSON");
                    let mut row = members(&json, &["id", "index", "length", "packet"]);
                    row.push(json["bytes"].as_str().expect("bytes").to_owned());
                    expected.push((row, String::from_utf8(text).expect("text")));
                })
                .expect("packets");
        }
        let query = columns(Table::Packets, &["source", "position", "length", "packet", "bytes", "detail"]);
        let rows = read(&query, &capture);
        assert_eq!(rows.len(), expected.len(), "{name}");
        for (row, (listed, text)) in rows.iter().zip(&expected) {
            assert_eq!(row[..5], listed[..], "{name}");
            assert!(text.trim_end().ends_with(row[5].as_str()), "{name}: {text} {row:?}");
        }
        count += rows.len();
    }
    assert!(count > 500, "{count}");
}

#[test]
fn calls_are_those_that_flow_lists() {
    let mut count = 0;
    for (name, path) in captures() {
        let capture = Capture::open(path).expect("a capture");
        let listed = [
            "id",
            "address",
            "function",
            "function_offset",
            "depth",
            "entry",
            "timestamp",
            "own.instructions",
            "own.cycles",
            "own.time",
            "call.instructions",
            "call.cycles",
            "call.time",
        ];
        let lines = json(&capture, Detail::Calls);
        let expected: Vec<_> =
            lines.iter().filter(|line| line["event"] == "visit").map(|line| members(line, &listed)).collect();
        let query = columns(
            Table::Calls,
            &[
                "source",
                "address",
                "function",
                "function_offset",
                "depth",
                "entry",
                "time",
                "own_instructions",
                "own_cycles",
                "own_time",
                "call_instructions",
                "call_cycles",
                "call_time",
            ],
        );
        let rows = read(&query, &capture);
        assert_same(&expected, &rows, &name);
        count += rows.len();
    }
    assert!(count > 100, "{count}");
}

#[test]
fn branches_are_the_ends_of_ranges_and_go_where_flow_says() {
    let mut count = 0;
    for (name, path) in captures() {
        let capture = Capture::open(path).expect("a capture");
        let kinds =
            ["branch", "call", "return", "indirect branch", "indirect call", "exception return", "not taken"];
        let ends: Vec<Row> = json(&capture, Detail::Ranges)
            .iter()
            .filter(|line| line["event"] == "range" && kinds.contains(&line["last"].as_str().unwrap_or("")))
            .map(|line| {
                let end =
                    u64::from_str_radix(&line["end"].as_str().expect("end")[2..], 16).expect("an address");
                let from = end - line["last_size"].as_u64().expect("size");
                let mut row = members(line, &["id", "index", "last", "taken", "conditional"]);
                row.push(from.to_string());
                row
            })
            .collect();
        let query =
            columns(Table::Branches, &["source", "position", "kind", "taken", "conditional", "from_address"]);
        assert_same(&sorted(ends), &sorted(read(&query, &capture)), &name);
        // Where the next range says where a branch went, the list of branches says so too.
        let mut listed = Vec::new();
        for source in sources(&capture) {
            let mut text = Vec::new();
            let decode = capture.execution().only(source.buffer()).id(source.id().get().into());
            let make = |_: &Source| Ok::<_, Error>(BranchWriter::new(everything(), EventNames::default()));
            let output = |portion: Written<'_>| {
                if let Written::Text(more) = portion {
                    text.extend_from_slice(more);
                }
                Ok(())
            };
            decode.write(make, output).expect("a listing");
            let text = String::from_utf8(text).expect("text");
            listed.extend(text.lines().filter_map(|line| {
                let (line, from) = line.split_once("\tfrom 0x")?;
                let to = line.rsplit_once("0x")?.1;
                let number = |digits| u64::from_str_radix(digits, 16).expect("an address").to_string();
                Some(vec![number(from), number(to)])
            }));
        }
        let query = columns(Table::Branches, &["from_address", "to_address"]);
        let rows = read(&query.filter("taken and to_address is not null").expect("a filter"), &capture);
        let mut rest = rows.iter();
        for branch in &listed {
            assert!(rest.any(|row| row == branch), "{name}: {branch:?} is missing, or elsewhere");
        }
        count += rows.len();
    }
    assert!(count > 1_000, "{count}");
}

/// A branch that was not taken has its row at once, one that was when its target is known: with several harts the order of
/// rows is not that of ranges.
fn sorted(mut rows: Vec<Row>) -> Vec<Row> {
    rows.sort();
    rows
}

#[test]
fn sources_are_those_of_the_capture_with_their_bytes() {
    for (name, path) in captures() {
        let capture = Capture::open(path).expect("a capture");
        let mut expected = Vec::new();
        for buffer in capture.buffers() {
            for (source, bytes) in buffer.contents().expect("contents").sources {
                let decode = capture.packets().only(buffer.name()).id(source.id().get().into());
                let packets =
                    source.is_decoded().then(|| decode.count().expect("packets").packets().to_string());
                expected.push(vec![
                    buffer.name().to_owned(),
                    source.id().get().to_string(),
                    source.name().to_owned(),
                    bytes.to_string(),
                    packets.unwrap_or_else(|| "-".to_owned()),
                ]);
            }
        }
        let rows =
            read(&columns(Table::Sources, &["buffer", "source", "name", "bytes", "packets"]), &capture);
        assert_same(&expected, &rows, &name);
    }
}
