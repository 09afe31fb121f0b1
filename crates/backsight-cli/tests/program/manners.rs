//! Help, exit statuses, and what goes where.

use std::fs;
use std::io::Read;
use std::process::Stdio;

use backsight_arm::etm4::synthetic::WorstCase;

use crate::support::{
    FIRST_CONFIG, Scratch, backsight, backsight_reading, command, edit, first, first_stream, line, run_of,
    synthetic, words,
};

/// Those that take a capture.
const COMMANDS: [&str; 5] = ["info", "packets", "flow", "convert", "bench"];

#[test]
fn help_names_every_command_and_every_command_has_help() {
    let help = line("--help").done();
    assert_eq!(help.err, "");
    for name in
        COMMANDS.into_iter().chain(["record", "encode", "compress", "decompress", "completions", "man"])
    {
        assert!(help.out.contains(&format!("  {name} ")), "{}", help.out);
        let own = line(&format!("{name} --help")).done();
        assert!(
            own.out.contains(&format!("Usage: backsight {name}")) && own.out.contains("Examples:"),
            "{}",
            own.out
        );
    }
}

#[test]
#[cfg(not(feature = "tables"))]
fn a_program_without_tables_says_how_to_build_one_with_them() {
    line("export FIRST --parquet /nonexistent/out").could_not("--features tables");
    line("export FIRST --table all --describe").could_not("--features tables");
    line("pieces FIRST").could_not("--features tables");
}

#[test]
fn done_is_status_0() {
    let scratch = Scratch::new();
    for arguments in [
        "info FIRST",
        "info FIRST --fast --json",
        "packets FIRST",
        "flow FIRST",
        "bench FIRST --seconds 0 --stage frames,packets,flow",
    ] {
        line(arguments).done();
    }
    let output = scratch.path("package").display().to_string();
    line(&format!("convert FIRST --output {output}")).done();
}

#[test]
fn every_stage_of_bench_does_what_the_command_does() {
    let run = line("bench FIRST --seconds 0 --stage flow,count,calls,text,pcs --json --quiet").done();
    let stages: Vec<serde_json::Value> =
        run.out.lines().map(|line| serde_json::from_str(line).expect("an object")).collect();
    let lists = ["", "", "flow FIRST --calls", "flow FIRST", "flow FIRST --format pcs"];
    assert_eq!(stages.len(), lists.len());
    for (stage, list) in stages.iter().zip(lists) {
        assert!(stage["instructions"].as_u64() > Some(0), "{stage}");
        assert_eq!(stage["instructions"], stages[0]["instructions"], "{stage}");
        let text = if list.is_empty() { 0 } else { line(&format!("{list} --quiet")).done().out.len() };
        assert_eq!(stage["text_bytes"], text, "{stage}");
    }
    backsight_reading(&words("bench - --protocol etm4 --stage count"), &[])
        .wrong_use("frames, packets and flow");
}

#[test]
fn could_not_is_status_1_with_one_line_that_says_why() {
    for name in COMMANDS {
        let output = if name == "convert" { "--output /nonexistent/folder/out" } else { "" };
        line(&format!("{name} /nonexistent/capture {output}")).could_not("/nonexistent/capture");
    }
    line("convert FIRST --output /proc/nothing").could_not("/proc/nothing");
    line("packets FIRST --output /nonexistent/out").could_not("/nonexistent/out");
}

#[test]
fn wrong_use_is_status_2() {
    line("").wrong_use("Usage");
    line("tidy FIRST").wrong_use("tidy");
    for name in COMMANDS {
        line(name).wrong_use("CAPTURE");
        line(&format!("{name} FIRST --no-such-option")).wrong_use("--no-such-option");
    }
    line("convert FIRST").wrong_use("--output");
    line("convert FIRST --output -").wrong_use("folder");
    line("packets FIRST --framing parcels").wrong_use("tpiu-hsync");
    line("packets FIRST --format yaml").wrong_use("opencsd");
    line("packets FIRST --id 0x80").wrong_use("0x7f");
    line("packets FIRST --id ten").wrong_use("ten");
    line("packets FIRST --config TRCWHAT=1").wrong_use("no such register");
    line("packets FIRST --config 0x11:TRCCONFIGR=1").wrong_use("no source has the ID 0x11");
    line("bench FIRST --seconds nan").wrong_use("0 to 86400");
    line("bench FIRST --seconds=-1").wrong_use("0 to 86400");
    line("packets -").wrong_use("--protocol");
    line("packets - --protocol etm4 --config NOSUCH=1").wrong_use("NOSUCH");
    line("packets - --protocol etm4 --config TRCCONFIGR=many").wrong_use("many");
    line("packets - --protocol etm4 --config /nonexistent/registers").wrong_use("/nonexistent/registers");
    line("flow FIRST --range 9").wrong_use("FROM..TO");
    line("flow FIRST --range 0x20..0x10").wrong_use("empty");
    line("flow FIRST --event 9=X").wrong_use("0 to 3");
    line("flow FIRST --event X").wrong_use("N=NAME");
    line("flow FIRST --calls --disasm").wrong_use("--disasm");
    line("bench - --protocol etm4 --stage frames,packets").wrong_use("one --stage");
}

#[test]
fn unknown_names_list_what_exists() {
    line("packets FIRST --buffer ETB_9").wrong_use("ETB_0");
    line("flow FIRST --id 0x33").wrong_use("0x10");
    line("info FIRST --id 1").wrong_use("0x10");
    line("flow FIRST --function main").could_not("no function of that name");
}

#[test]
fn a_bare_file_without_the_wanted_id_says_which_ids_it_has() {
    let file = first().join("trace.bin").display().to_string();
    for name in ["packets", "flow"] {
        let run = line(&format!("{name} {file} {FIRST_CONFIG} --framing coresight --id 0x33")).done();
        assert_eq!(run.out, "");
        assert!(run.err.contains("ID 0x33: no data; IDs in this file: 0x10"), "{}", run.err);
    }
}

#[test]
fn results_go_to_standard_output_and_the_rest_to_standard_error() {
    for name in ["packets", "flow"] {
        let run = line(&format!("{name} FIRST")).done();
        assert!(run.err.contains("bytes decoded"), "{}", run.err);
        assert!(!run.out.contains("bytes decoded"));
        let quiet = line(&format!("{name} FIRST --quiet")).done();
        assert_eq!((quiet.out, quiet.err.as_str()), (run.out, ""));
    }
    assert_eq!(line("info FIRST").done().err, "");
    assert_eq!(line("bench FIRST --seconds 0").done().err, "");
}

#[test]
fn warnings_are_silenced_by_quiet_and_errors_are_not() {
    let scratch = Scratch::new();
    let capture = scratch.copy_of(&first(), "capture");
    edit(&capture.join("unit_0.ini"), "TRCIDR2=0x488\n", "");
    let capture = capture.display().to_string();
    assert!(
        line(&format!("packets {capture}")).done().err.contains("warning: source ETM_0: register TRCIDR2")
    );
    assert_eq!(line(&format!("packets {capture} --quiet")).done().err, "");
    line("packets /nonexistent --quiet").could_not("/nonexistent");
}

#[test]
fn output_goes_to_the_file_named() {
    let scratch = Scratch::new();
    for (name, option) in [("packets", "--output"), ("flow", "-o"), ("info", "--output")] {
        let file = scratch.path(name);
        let run = line(&format!("{name} FIRST {option} {}", file.display())).done();
        assert_eq!(run.out, "");
        assert_eq!(fs::read_to_string(file).expect("output"), line(&format!("{name} FIRST")).out);
        assert_eq!(line(&format!("{name} FIRST --output -")).out, line(&format!("{name} FIRST")).out);
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_an_error() {
    for name in ["packets", "flow", "info", "bench --seconds 0"] {
        line(&format!("{name} FIRST --output /dev/full")).could_not("/dev/full");
        let full = fs::OpenOptions::new().write(true).open("/dev/full").expect("/dev/full");
        let arguments = words(&format!("{name} {}", first().display()));
        run_of(command(&arguments).stdout(full).output().expect("runs")).could_not("standard output");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_closed_standard_error_is_no_reason_to_fail() {
    for name in ["packets", "flow", "packets --id 0x33"] {
        let full = fs::OpenOptions::new().write(true).open("/dev/full").expect("/dev/full");
        let arguments = words(&format!("{name} {}", first().display()));
        let status = command(&arguments).stderr(full).status().expect("runs");
        assert_eq!(status.code(), Some(if name.contains("0x33") { 2 } else { 0 }), "{name}");
    }
}

#[test]
fn a_closed_pipe_ends_the_program_quietly_even_while_input_goes_on() {
    let stream = synthetic(WorstCase::OneByte, 1 << 20);
    for arguments in [
        "packets - --protocol etm4 --config TRCCONFIGR=0x11",
        "packets - --protocol etm4 --config TRCCONFIGR=0x11 --format json",
        "flow - --protocol etm4 --config TRCCONFIGR=0x11 --format branches",
    ] {
        let mut child = command(&words(arguments)).stdin(Stdio::piped()).spawn().expect("starts");
        let mut input = child.stdin.take().expect("input");
        // Reads a little, then hangs up, as `head -1` does.
        let mut output = child.stdout.take().expect("output");
        let reader = std::thread::spawn(move || output.read_exact(&mut [0; 10]).expect("a line"));
        // The input never ends: only the closed pipe can end the program.
        while std::io::Write::write_all(&mut input, &stream).is_ok() {}
        reader.join().expect("reader");
        let mut said = String::new();
        child.stderr.take().expect("errors").read_to_string(&mut said).expect("text");
        assert_eq!((child.wait().expect("ends").code(), said.as_str()), (Some(0), ""), "{arguments}");
    }
}

#[test]
fn a_limit_ends_an_endless_listing() {
    let stream = synthetic(WorstCase::OneByte, 100_000);
    let arguments = words("packets - --protocol etm4 --config TRCCONFIGR=0x11 --limit 3 --quiet");
    let mut child = command(&arguments).stdin(Stdio::piped()).spawn().expect("starts");
    let mut input = child.stdin.take().expect("input");
    while std::io::Write::write_all(&mut input, &stream).is_ok() {}
    let run = run_of(child.wait_with_output().expect("ends")).done();
    assert_eq!(run.out.lines().count(), 3);
    assert_eq!(line("packets FIRST --limit 0").done().out, "");
}

#[test]
fn strict_makes_damage_a_failure_and_nothing_else() {
    for name in ["packets", "flow", "info"] {
        line(&format!("{name} FIRST --strict")).done();
    }
    let mut stream = first_stream();
    // Behind a packet, an extension header that is neither Async, Discard nor Overflow.
    stream.splice(26..26, [0x00, 0x02]);
    for name in ["packets", "flow", "info"] {
        let arguments = words(&format!("{name} - {FIRST_CONFIG}"));
        backsight_reading(&arguments, &[&stream]).done();
        let strict = words(&format!("{name} - {FIRST_CONFIG} --strict"));
        backsight_reading(&strict, &[&stream]).could_not("damaged");
    }
}

#[test]
fn a_cut_frame_is_damage() {
    let bytes = fs::read(first().join("trace.bin")).expect("trace");
    let arguments = words(&format!("packets - {FIRST_CONFIG} --framing coresight --strict"));
    let run = backsight_reading(&arguments, &[&bytes[..bytes.len() - 3]]).could_not("damaged");
    assert!(run.err.contains("13 bytes of frames that were cut off"), "{}", run.err);
}

#[test]
fn an_empty_stream_is_no_failure() {
    for name in ["packets", "flow", "info", "bench"] {
        backsight_reading(&words(&format!("{name} - --protocol etm4")), &[]).done();
    }
    let scratch = Scratch::new();
    let empty = scratch.file("empty", "");
    backsight(&["packets", &empty.display().to_string(), "--protocol", "etm4"]).done();
}
