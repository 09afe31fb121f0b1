//! Bare files and standard input: what a package would say comes from the command line.

use backsight_arm::etm4::synthetic::WorstCase;
use backsight_arm::frame::Framing;
use backsight_testing::Random;

use crate::support::{
    FIRST_CONFIG, Scratch, backsight, backsight_reading, first, first_stream, framed, line, synthetic, words,
};

/// The packets of a listing without where they are: framing changes that.
fn contents(listing: &str) -> Vec<String> {
    let words = listing.lines().map(|line| line.split_whitespace().skip(2).collect::<Vec<_>>().join(" "));
    words.collect()
}

fn expected() -> Vec<String> {
    contents(&line("packets FIRST --quiet").done().out)
}

#[test]
fn every_coresight_framing_gives_the_packets_of_the_packaged_capture() {
    let (scratch, stream) = (Scratch::new(), first_stream());
    for framing in Framing::ALL {
        let bytes = match framing {
            Framing::Raw => stream.clone(),
            framing => framed(framing, &[(0x10, &stream)]),
        };
        let file = scratch.file(framing.name(), bytes).display().to_string();
        let run = line(&format!("packets {file} {FIRST_CONFIG} --framing {framing} --quiet --strict")).done();
        assert_eq!(contents(&run.out), expected(), "{framing}");
        let flow = line(&format!(
            "flow {file} {FIRST_CONFIG} --framing {framing} --quiet --format pcs --image {}@0x400000",
            first().join("code0.bin").display()
        ));
        assert_eq!(flow.done().out, line("flow FIRST --quiet --format pcs").out, "{framing}");
        let id = if framing == Framing::Raw { "ID 0x00: 349 bytes" } else { "ID 0x10: 349 bytes" };
        let info = line(&format!("info {file} {FIRST_CONFIG} --framing {framing}")).done().out;
        assert!(info.contains(id) && info.contains("236 packets"), "{info}");
    }
}

#[test]
fn raw_is_the_framing_if_none_is_named() {
    let arguments = words(&format!("packets - {FIRST_CONFIG} --quiet"));
    assert_eq!(contents(&backsight_reading(&arguments, &[&first_stream()]).done().out), expected());
}

#[test]
fn configuration_may_stand_in_a_file() {
    let scratch = Scratch::new();
    let registers = "; the trace unit\n[regs]\nTRCCONFIGR = 0x1841 # all that is on\nTRCIDR0=0x28000ea1\n\n\
        TRCIDR1=0x4100f403\nTRCIDR2=0x488\nTRCIDR8=0\n";
    let file = scratch.file("registers", registers).display().to_string();
    let run = |config: &str| {
        backsight_reading(&words(&format!("packets - --protocol etm4 --quiet {config}")), &[&first_stream()])
    };
    assert_eq!(contents(&run(&format!("--config {file}")).done().out), expected());
    let wrong = scratch.file("wrong", "TRCCONFIGR=0x1841\nnonsense\n").display().to_string();
    run(&format!("--config {wrong}")).wrong_use(&format!("{wrong}:2"));
}

#[test]
fn options_say_the_same_as_registers() {
    let arguments = words(
        "packets - --protocol etm4 --quiet --config timestamp_bits=64 --config context_id=32 --config return_stack=1",
    );
    assert_eq!(contents(&backsight_reading(&arguments, &[&first_stream()]).done().out), expected());
}

#[test]
fn one_configuration_serves_all_ids_unless_one_has_its_own() {
    let stream = first_stream();
    let bytes = framed(Framing::Coresight, &[(0x10, &stream), (0x22, &stream)]);
    let of = |listing: &str, id: &str| {
        let lines = listing.lines().filter(|line| line.split_whitespace().nth(1) == Some(id));
        contents(&lines.collect::<Vec<_>>().join("\n"))
    };
    let common = format!("packets - {FIRST_CONFIG} --framing coresight --quiet");
    let run = backsight_reading(&words(&common), &[&bytes]).done();
    assert_eq!(of(&run.out, "0x10"), expected());
    assert_eq!(of(&run.out, "0x22"), expected());

    // Without context IDs, by its size in TRCIDR2, the same bytes are other packets.
    let own = format!("{common} --config 0x22:TRCIDR2=0x408");
    let run = backsight_reading(&words(&own), &[&bytes]).done();
    assert_eq!(of(&run.out, "0x10"), expected());
    assert_ne!(of(&run.out, "0x22"), expected());

    let run = backsight_reading(&words(&format!("{common} --id 0x22")), &[&bytes]).done();
    assert_eq!(contents(&run.out), expected());
    assert!(run.out.lines().all(|line| line.split_whitespace().nth(1) == Some("0x22")));
}

#[test]
fn standard_input_in_any_pieces_gives_the_same_listing() {
    let bytes = framed(Framing::TpiuHsync, &[(0x10, &first_stream()), (0x11, &first_stream())]);
    for format in ["text", "json", "opencsd", "summary"] {
        let arguments = words(&format!("packets - {FIRST_CONFIG} --framing tpiu-hsync --format {format}"));
        let whole = backsight_reading(&arguments, &[&bytes]).done();
        let mut random = Random(7);
        let mut pieces = Vec::new();
        let mut rest = bytes.as_slice();
        while !rest.is_empty() {
            let (piece, others) = rest.split_at((1 + random.below(40) as usize).min(rest.len()));
            pieces.push(piece);
            rest = others;
        }
        let cut = backsight_reading(&arguments, &pieces).done();
        assert_eq!((cut.out, cut.err), (whole.out, whole.err), "{format}");
    }
}

#[test]
fn a_framing_on_the_command_line_wins_over_the_metadata() {
    let scratch = Scratch::new();
    let capture = scratch.copy_of(&first(), "capture");
    let bytes = framed(Framing::Tpiu, &[(0x10, &first_stream())]);
    std::fs::write(capture.join("trace.bin"), bytes).expect("trace");
    let capture = capture.display().to_string();
    let run = line(&format!("packets {capture} --framing tpiu --quiet --strict")).done();
    assert_eq!(contents(&run.out), expected());
    let pcs = line(&format!("flow {capture} --framing tpiu --quiet --format pcs")).done().out;
    assert_eq!(pcs, line("flow FIRST --quiet --format pcs").out);
    assert_ne!(contents(&line(&format!("packets {capture} --quiet")).done().out), expected());
    line(&format!("packets {capture} --framing encap")).wrong_use("encap");
}

#[test]
fn bench_reads_standard_input_once_to_its_end() {
    let stream = synthetic(WorstCase::OneByte, 300_000);
    let frames = framed(Framing::Coresight, &[(0x10, &stream)]);
    for (stage, framing, bytes) in [
        ("frames", Framing::Coresight, &frames),
        ("packets", Framing::Raw, &stream),
        ("flow", Framing::Raw, &stream),
    ] {
        let arguments = words(&format!(
            "bench - --protocol etm4 --framing {framing} --config TRCCONFIGR=0x11 --json --stage {stage}"
        ));
        let out = backsight_reading(&arguments, &[bytes]).done().out;
        assert!(out.contains(&format!("\"bytes\":{}", bytes.len())), "{out}");
        assert!(out.contains("\"passes\":1"), "{out}");
    }
}

#[test]
fn a_configuration_for_an_id_that_is_none_is_wrong_use() {
    backsight(&["packets", "-", "--protocol", "etm4", "--config", "0x99:TRCCONFIGR=1"])
        .wrong_use("0x99:TRCCONFIGR");
}

#[test]
fn the_beats_of_the_thesis_and_their_re_framing_give_the_same_execution() {
    let Some(corpus) = backsight_testing::corpus() else { return };
    let folder = corpus.join("etrace/pulp").display().to_string();
    for (capture, program, last) in [
        ("gpios_all", "gpios_all", "0x80000842"),
        ("hello_culsans", "hello_culsans", "0x80000842"),
        ("l1_test", "l1", "0x80000842"),
    ] {
        let rest = format!("--image {folder}/{program}.riscv --format pcs --quiet");
        let flow = |file: &str, framing: &str| {
            let framing = format!("--protocol etrace --framing {framing}");
            line(&format!("flow {folder}/{capture}.{file} {framing} {rest}"))
        };
        let beats = flow("packets.bin", "pulp").done().out;
        let encap = flow("encap.bin", "encap --config dialect=seed --config time_bytes=8").done().out;
        assert_eq!(beats, encap, "{capture}");
        assert_eq!(beats.lines().last(), Some(last), "{capture}: the loop at the end");
    }
}
