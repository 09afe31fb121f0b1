//! What listings look like, held against golden files. `BLESS=1` writes them.

use backsight_testing::assert_golden;

use crate::support::{Scratch, line};

fn golden(name: &str) -> String {
    format!("crates/backsight-cli/tests/golden/{name}")
}

#[test]
fn packets_in_every_format() {
    for format in ["text", "json", "opencsd", "summary"] {
        let run = line(&format!("packets FIRST --format {format} --limit 60")).done();
        assert_golden(&golden(&format!("packets.{format}")), &run.out);
    }
}

#[test]
fn flow_in_every_format() {
    for format in ["text", "json", "opencsd", "pcs", "branches"] {
        let run = line(&format!("flow FIRST --format {format}")).done();
        let head: String = run.out.lines().take(60).flat_map(|line| [line, "\n"]).collect();
        assert_golden(&golden(&format!("flow.{format}")), &head);
    }
}

#[test]
fn disassembly_stands_below_each_range() {
    let run = line("flow FIRST --disasm").done();
    let head: String = run.out.lines().take(60).flat_map(|line| [line, "\n"]).collect();
    assert_golden(&golden("flow.disasm"), &head);
}

#[test]
fn summaries() {
    assert_golden(&golden("packets.summary-line"), &line("packets FIRST --format summary").done().err);
    assert_golden(&golden("flow.summary-line"), &line("flow FIRST").done().err);
}

#[test]
fn every_line_of_json_is_an_object_with_its_place() {
    for name in ["packets", "flow"] {
        let run = line(&format!("{name} FIRST --format json")).done();
        assert!(run.out.lines().count() > 100);
        for text in run.out.lines() {
            let value: serde_json::Value = serde_json::from_str(text).expect(text);
            assert!(value["index"].is_u64() && value["id"] == 0x10, "{text}");
        }
    }
    let info: serde_json::Value = serde_json::from_str(&line("info FIRST --json").done().out).expect("JSON");
    assert_eq!(info["buffers"][0]["streams"][0]["packets"], 236);
    let bench: serde_json::Value =
        serde_json::from_str(&line("bench FIRST --json --seconds 0").done().out).expect("JSON");
    assert_eq!((&bench["bytes"], &bench["packets"]), (&384.into(), &236.into()));
}

#[test]
fn the_whole_flow_is_the_one_that_was_recorded() {
    let recorded = backsight_testing::repository().join("testdata/captures/first.pcs");
    let recorded = std::fs::read_to_string(recorded).expect("first.pcs");
    assert_eq!(line("flow FIRST --format pcs --quiet").done().out, recorded);
}

#[test]
fn every_packet_of_a_long_raw_buffer_has_its_bytes_and_the_whole_address() {
    let scratch = Scratch::new();
    let (capture, program) = (scratch.path("vm"), backsight_testing::repository());
    let (capture, program) = (capture.display(), program.join("testdata/programs/riscv64/vm"));
    line(&format!("record --quiet --limit 500000 --output {capture} -- {}", program.display())).done();
    let size = std::fs::metadata(scratch.path("vm/trace.bin")).expect("trace").len();
    assert!(size > 1 << 16, "{size}");
    let out = line(&format!("packets {capture} --format json --quiet")).done().out;
    let mut next = 0;
    for text in out.lines() {
        let value: serde_json::Value = serde_json::from_str(text).expect(text);
        let (index, length) = (value["index"].as_u64().expect(text), value["length"].as_u64().expect(text));
        let bytes = value["bytes"].as_str().expect(text);
        assert_eq!((index, 2 * length), (next, bytes.len() as u64), "{text}");
        // A start says where execution is, without the lowest bit: the program's code is at 0x11xxx.
        if value["packet"] == "F3.0_start" {
            assert!(value["address"].as_str().expect(text).starts_with("0x11"), "{text}");
            assert_eq!(value["address_field"].as_u64().expect(text) >> 11, 0x11, "{text}");
        }
        next = index + length;
    }
    assert_eq!(next, size);
}

/// What trc_pkt_lister of OpenCSD 1.3.3 wrote of the same bytes: names, and addresses where there are any.
#[test]
fn stm_and_ptm_are_listed_in_the_words_of_opencsd() {
    let scratch = Scratch::new();
    // Synchronisation and version; a flag with a time and one without, a null packet with one, a trigger without and with.
    let stm = [
        &[0xFF; 10][..],
        &[0x0F, 0x0F, 0x30, 0x2E, 0xBA, 0xEF, 0x0F, 0x21, 0xBA, 0x0F, 0x16, 0xF2, 0x70, 0x21, 0x11],
    ]
    .concat();
    let ptm: Vec<u8> = [
        &[0, 0, 0, 0, 0, 0x80][..],
        &[0x08, 0x00, 0x80, 0x01, 0x00, 0x21],
        &[0x72, 0x11],
        &[0x72, 0x8F, 0x81, 0x81, 0x80, 0x08],
        &[0x72, 0xFF, 0x81, 0x81, 0x80, 0x4F, 0x40],
    ]
    .concat();
    let listed = |name: &str, bytes: &[u8]| {
        let file = scratch.file(name, bytes);
        let line = format!("packets {} --protocol {name} --format opencsd --quiet", file.display());
        let words = |line: &str| line.split_once("\t").expect("a name").1.trim_end().to_owned();
        crate::support::line(&line).done().out.lines().map(words).collect::<Vec<_>>()
    };
    let names: Vec<_> =
        listed("stm", &stm).iter().map(|line| line.split(' ').next().unwrap().to_owned()).collect();
    assert_eq!(names, ["ASYNC", "VERSION", "FLAGTS", "FLAG", "NULL", "TRIG", "TRIGTS"]);
    let ptm = listed("ptm", &ptm);
    assert_eq!(
        ptm[2..],
        [
            "WP_UPDATE : ; Addr=0x00018020;",
            "WP_UPDATE : ; Addr=0x0000811C;",
            "WP_UPDATE : ; Addr=0xE00081FC;",
        ]
    );
}
