//! From one kind of capture to another and back: packets and flow stay what they were.

use std::path::Path;

use backsight_arm::frame::Framing;

use crate::support::{FIRST_CONFIG, Scratch, first, first_stream, framed, line, run_of};

fn listings(capture: &Path) -> (String, String) {
    let capture = capture.display();
    (
        line(&format!("packets {capture} --format opencsd --quiet")).done().out,
        line(&format!("flow {capture} --format opencsd --quiet")).done().out,
    )
}

#[test]
fn snapshot_to_package_to_zip_to_snapshot_keeps_packets_and_flow() {
    let scratch = Scratch::new();
    let expected = listings(&first());
    let mut from = first();
    for (name, format) in [
        ("package", "package"),
        ("package.zip", "package"),
        ("snapshot", "snapshot"),
        ("snapshot.zip", "snapshot"),
    ] {
        let to = scratch.path(name);
        line(&format!("convert {} --output {} --format {format}", from.display(), to.display())).done();
        assert_eq!(listings(&to), expected, "{name}");
        from = to;
    }
}

#[test]
fn a_place_that_exists_is_not_overwritten() {
    let scratch = Scratch::new();
    let file = scratch.file("out.zip", "precious");
    line(&format!("convert FIRST --output {}", file.display())).could_not("exists");
    assert_eq!(std::fs::read(&file).expect("file"), b"precious");
    let folder = scratch.copy_of(&first(), "folder");
    line(&format!("convert FIRST --output {}", folder.display())).could_not("exists");
}

#[test]
fn a_bare_file_becomes_a_package_with_its_configuration() {
    let scratch = Scratch::new();
    let stream = first_stream();
    for framing in Framing::ALL {
        let bytes = match framing {
            Framing::Raw => stream.clone(),
            framing => framed(framing, &[(0x10, &stream)]),
        };
        let file = scratch.file(framing.name(), bytes);
        for format in ["package", "snapshot"] {
            let to = scratch.path(&format!("{format}-{framing}"));
            let (file, to) = (file.display(), to.display());
            line(&format!(
                "convert {file} {FIRST_CONFIG} --config trace_id=0x10 --framing {framing} --output {to} --format {format}"
            ))
            .done();
            let packets = line(&format!("packets {to} --format summary --strict --quiet")).done().out;
            assert_eq!(packets, line("packets FIRST --format summary --quiet").out, "{format} {framing}");
        }
    }
}

#[test]
fn the_framing_given_is_the_framing_written() {
    let scratch = Scratch::new();
    let capture = scratch.copy_of(&first(), "capture");
    std::fs::write(capture.join("trace.bin"), framed(Framing::Tpiu, &[(0x10, &first_stream())]))
        .expect("trace");
    let to = scratch.path("package");
    line(&format!("convert {} --framing tpiu --output {}", capture.display(), to.display())).done();
    let packets = line(&format!("packets {} --format summary --strict --quiet", to.display())).done().out;
    assert_eq!(packets, line("packets FIRST --format summary --quiet").out);
}

#[test]
fn a_bare_file_with_frames_becomes_a_package_with_the_ids_that_are_in_it() {
    let (scratch, stream) = (Scratch::new(), first_stream());
    let bytes = framed(Framing::Coresight, &[(0x10, &stream), (0x21, &stream), (0x33, &stream)]);
    let file = scratch.file("trace.bin", bytes).display().to_string();
    let bare = format!("{file} {FIRST_CONFIG} --framing coresight");
    let kinds =
        |capture: &str| line(&format!("packets {capture} --format summary --strict --quiet")).done().out;
    for format in ["package", "snapshot"] {
        let to = scratch.path(format).display().to_string();
        let run = line(&format!("convert {bare} --output {to} --format {format}")).done();
        assert!(!run.err.contains("warning"), "{}", run.err);
        assert!(run.err.contains(&format!("backsight info {to}")), "{}", run.err);
        assert_eq!(kinds(&to), kinds(&bare), "{format}");
        for id in ["0x10", "0x21", "0x33"] {
            assert_eq!(kinds(&format!("{to} --id {id}")), kinds("FIRST"), "{format} {id}");
            assert!(line(&format!("info {to}")).done().out.contains(&format!("(ID {id})")), "{format} {id}");
        }
    }
}

#[test]
fn settings_of_one_id_are_written_for_that_source() {
    let (scratch, stream) = (Scratch::new(), first_stream());
    let bytes = framed(Framing::Coresight, &[(0x10, &stream), (0x21, &stream)]);
    let file = scratch.file("trace.bin", bytes).display().to_string();
    let bare = format!(
        "{file} --protocol etm4 --framing coresight --config 0x21:TRCCONFIGR=0x1841 --config 0x33:TRCCONFIGR=1"
    );
    for format in ["package", "snapshot"] {
        let to = scratch.path(format).display().to_string();
        let run = line(&format!("convert {bare} --output {to} --format {format}")).done();
        assert!(run.err.contains("warning: ID 0x33: no data"), "{}", run.err);
        let info = line(&format!("info {to} --fast")).done().out;
        let source = |id: &str| {
            let mut lines = info.lines().filter(|line| line.contains("source"));
            lines.find(|line| line.contains(&format!("(ID {id})"))).expect("a source").to_owned()
        };
        assert!(source("0x21").contains("return stack"), "{format}: {info}");
        assert!(!source("0x10").contains("return stack"), "{format}: {info}");
        assert!(!info.contains("0x33"), "{format}: {info}");
    }
    // A stream without frames has one source.
    let raw = scratch.file("raw.bin", &stream).display().to_string();
    let to = scratch.path("raw").display().to_string();
    line(&format!("convert {raw} --protocol etm4 --config 0x21:TRCCONFIGR=0x1841 --output {to}")).done();
    let info = line(&format!("info {to} --fast")).done().out;
    assert!(info.contains("(ID 0x21)") && info.contains("return stack"), "{info}");
}

#[test]
fn frames_on_standard_input_are_not_read_twice() {
    let to = Scratch::new().path("package").display().to_string();
    let run = line(&format!("convert - --protocol etm4 --framing coresight --output {to}"));
    run.wrong_use("save it to a file first");
}

#[cfg(unix)]
#[test]
fn what_cannot_be_written_to_the_end_is_an_error_and_leaves_nothing() {
    let scratch = Scratch::new();
    let mut random = backsight_testing::Random(7);
    let bytes: Vec<u8> = (0..1 << 16).map(|_| random.next() as u8).collect();
    let file = scratch.file("trace.bin", bytes);
    for name in ["out.zip", "out"] {
        let to = scratch.path(name);
        // The limit is in blocks, on every file that is written.
        let script = "ulimit -f 8; exec \"$0\" convert \"$1\" --protocol etm4 --output \"$2\"";
        let mut shell = std::process::Command::new("sh");
        shell.args(["-c", script, env!("CARGO_BIN_EXE_backsight")]).arg(&file).arg(&to);
        let run = run_of(shell.output().expect("a shell")).could_not("trace.bin: cannot be written");
        assert_eq!(run.err.lines().count(), 1, "{}", run.err);
        assert!(run.err.contains(&format!("nothing was written to {}", to.display())), "{}", run.err);
        assert!(!to.exists(), "{name}");
    }
}
