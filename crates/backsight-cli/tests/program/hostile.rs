//! Captures that are broken or mean harm: one clear line that names the file, never a panic.

use std::fs;
use std::path::Path;

use backsight_testing::Random;

use crate::support::{Scratch, backsight, edit, first, line};

/// Every command that reads a capture refuses it with `what`.
#[track_caller]
fn refused(capture: &Path, what: &str) {
    for name in ["info", "packets", "flow", "bench --seconds 0"] {
        line(&format!("{name} {}", capture.display())).could_not(what);
    }
    let output = capture.with_extension("converted");
    line(&format!("convert {} --output {}", capture.display(), output.display())).could_not(what);
}

/// A copy of the bundled capture with one text changed in one file.
fn changed(scratch: &Scratch, name: &str, file: &str, from: &str, to: &str) -> std::path::PathBuf {
    let capture = scratch.copy_of(&first(), name);
    edit(&capture.join(file), from, to);
    capture
}

#[test]
fn files_that_are_missing_are_named_with_the_line_that_wants_them() {
    let scratch = Scratch::new();
    let capture = scratch.copy_of(&first(), "device");
    fs::remove_file(capture.join("unit_0.ini")).expect("remove");
    refused(&capture, "snapshot.ini:7");
    let capture = scratch.copy_of(&first(), "metadata");
    fs::remove_file(capture.join("trace.ini")).expect("remove");
    refused(&capture, "trace.ini");
    let capture = scratch.copy_of(&first(), "trace");
    fs::remove_file(capture.join("trace.bin")).expect("remove");
    line(&format!("packets {}", capture.display())).could_not("trace.bin: there is no such file");
    line(&format!("flow {}", capture.display())).could_not("trace.bin");
}

#[test]
fn missing_memory_contents_are_a_warning_and_a_gap() {
    let scratch = Scratch::new();
    let capture = scratch.copy_of(&first(), "capture");
    fs::remove_file(capture.join("code0.bin")).expect("remove");
    let run = line(&format!("flow {}", capture.display())).done();
    assert!(run.err.contains("warning:") && run.err.contains("code0.bin"), "{}", run.err);
    assert!(run.out.contains("gap: no code at 0x400000"), "{}", run.out);
    let info = line(&format!("info {}", capture.display())).done();
    assert!(info.out.contains("MISSING"), "{}", info.out);
}

#[test]
fn nonsense_in_metadata_is_refused_with_file_and_line() {
    let scratch = Scratch::new();
    for (number, (file, from, to, what)) in [
        ("snapshot.ini", "version=1.0", "version=7.0", "snapshot.ini:2"),
        ("snapshot.ini", "[snapshot]", "[snapshot", "snapshot.ini:1"),
        ("snapshot.ini", "[device_list]", "device_list", "snapshot.ini:5"),
        ("snapshot.ini", "version=1.0", "version=1.0\nversion=1.0", "snapshot.ini:3"),
        ("trace.ini", "buffers=buffer0", "buffers=buffer9", "trace.ini:2"),
        ("trace.ini", "file=trace.bin", "", "trace.ini"),
        ("cpu_0.ini", "address=0x400000", "address=here", "cpu_0.ini:11"),
        ("cpu_0.ini", "address=0x400000", "adress=0x400000", "cpu_0.ini:11"),
        ("cpu_0.ini", "length=0x5c", "length=99999999999999999999999", "cpu_0.ini:12"),
        ("cpu_0.ini", "length=0x5c", "space=nowhere", "cpu_0.ini:12"),
        ("unit_0.ini", "TRCIDR0=", "TRCCONFIGR=0x1\nTRCIDR0=", "unit_0.ini"),
        ("unit_0.ini", "name=ETM_0", "", "unit_0.ini"),
    ]
    .into_iter()
    .enumerate()
    {
        refused(&changed(&scratch, &number.to_string(), file, from, to), what);
    }
}

#[test]
fn paths_that_leave_the_capture_are_refused() {
    let scratch = Scratch::new();
    for (number, path) in ["../trace.bin", "/etc/passwd", "a/../../b", "..\\trace.bin"].iter().enumerate() {
        let name = format!("trace{number}");
        refused(
            &changed(&scratch, &name, "trace.ini", "file=trace.bin", &format!("file={path}")),
            "trace.ini:6",
        );
        let name = format!("code{number}");
        refused(
            &changed(&scratch, &name, "cpu_0.ini", "file=code0.bin", &format!("file={path}")),
            "cpu_0.ini",
        );
        let name = format!("list{number}");
        let capture =
            changed(&scratch, &name, "snapshot.ini", "device0=cpu_0.ini", &format!("device0={path}"));
        refused(&capture, "snapshot.ini:6");
    }
}

#[test]
fn absurd_offsets_and_lengths_of_memory_are_gaps_and_warnings() {
    let scratch = Scratch::new();
    for (number, (from, to)) in [
        ("length=0x5c", "length=0xffffffffffffffff"),
        ("length=0x5c", "length=0x5c\noffset=0xffffffffffffffff"),
        ("length=0x5c", "length=0xffffffffffffffff\noffset=0xffffffffffffffff"),
        ("length=0x5c", "length=0"),
        ("address=0x400000", "address=0xfffffffffffffffc"),
    ]
    .into_iter()
    .enumerate()
    {
        let capture = changed(&scratch, &number.to_string(), "cpu_0.ini", from, to);
        for format in ["text", "pcs"] {
            let run = line(&format!("flow {} --format {format}", capture.display())).done();
            assert!(!run.err.contains("panicked"), "{}", run.err);
        }
        line(&format!("info {}", capture.display())).done();
    }
}

#[test]
fn what_is_no_capture_is_said_to_be_none() {
    let scratch = Scratch::new();
    refused(&scratch.file("empty", ""), "empty");
    refused(&scratch.file("text", "just some text\n"), "text");
    fs::create_dir(scratch.path("folder")).expect("folder");
    refused(&scratch.path("folder"), "folder");
    let folder = scratch.path("folder").display().to_string();
    backsight(&["packets", &folder, "--protocol", "etm4"]).could_not("folder");
    let binary = scratch.file("snapshot.ini", [0xFF, 0, 0xFE, b'\n', 7]);
    refused(&binary, "snapshot.ini");
}

#[test]
fn archives_that_are_cut_or_changed_anywhere_are_refused_or_read_but_never_fatal() {
    let scratch = Scratch::new();
    let archive = scratch.path("first.zip");
    line(&format!("convert FIRST --output {} --quiet", archive.display())).done();
    let bytes = fs::read(&archive).expect("archive");
    for length in [0, 3, 4, 30, bytes.len() / 2, bytes.len() - 30, bytes.len() - 1] {
        let cut = scratch.file(&format!("cut{length}.zip"), &bytes[..length]);
        line(&format!("packets {}", cut.display())).could_not(&format!("cut{length}.zip"));
    }
    let mut random = Random(3);
    for number in 0..24 {
        let mut changed = bytes.clone();
        for _ in 0..4 {
            let place = random.below(changed.len() as u64) as usize;
            changed[place] ^= 1 << random.below(8);
        }
        let file = scratch.file(&format!("changed{number}.zip"), changed);
        let run = line(&format!("flow {}", file.display()));
        assert!(run.status == 0 || run.status == 1, "{run:?}");
        assert!(!run.err.contains("panicked"), "{}", run.err);
    }
}

#[test]
fn snapshots_with_bytes_changed_at_random_are_never_fatal() {
    let scratch = Scratch::new();
    let mut random = Random(11);
    for number in 0..40 {
        let capture = scratch.copy_of(&first(), &number.to_string());
        let files = ["snapshot.ini", "trace.ini", "cpu_0.ini", "unit_0.ini", "trace.bin", "code0.bin"];
        let file = capture.join(files[random.below(6) as usize]);
        let mut bytes = fs::read(&file).expect("file");
        for _ in 0..3 {
            let place = random.below(bytes.len() as u64) as usize;
            bytes[place] = random.next() as u8;
        }
        fs::write(&file, bytes).expect("write");
        let run = line(&format!("flow {} --disasm", capture.display()));
        assert!(run.status == 0 || run.status == 1, "{run:?}");
        assert!(!run.err.contains("panicked"), "{}", run.err);
    }
}
