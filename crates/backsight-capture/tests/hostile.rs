//! Captures that nobody should have made: each is refused with file and line, or read with a warning.

mod common;

use backsight_capture::archive::Archive;
use backsight_capture::{Capture, Error};
use common::{bytes, from, open};
use std::io::{Cursor, Read, Write};
use std::sync::Arc;

const SNAPSHOT: &str =
    "[snapshot]\nversion=1.0\n[device_list]\ndevice0=etm.ini\n[trace]\nmetadata=trace.ini\n";
const DEVICE: &str = "[device]\nname=ETM_0\nclass=trace_source\ntype=ETM4\n[regs]\nTRCTRACEIDR=0x10\nTRCCONFIGR=1\n\
    TRCIDR0=0x28000EA1\nTRCIDR2=0x488\n";
const TRACE: &str = "[trace_buffers]\nbuffers=buffer0,\n[buffer0]\nname=ETB_0\nfile=data.bin\nformat=coresight\n\
    [source_buffers]\nETM_0=ETB_0\n";

/// A sound snapshot with one file replaced.
fn with(path: &str, text: &str) -> Result<Capture, Error> {
    let mut files =
        vec![("snapshot.ini", SNAPSHOT), ("etm.ini", DEVICE), ("trace.ini", TRACE), ("data.bin", "data")];
    files.retain(|(other, _)| *other != path);
    files.push((path, text));
    open(&files)
}

fn refusal(path: &str, text: &str) -> String {
    match with(path, text) {
        Ok(_) => panic!("{path} was accepted:\n{text}"),
        Err(error) => error.to_string(),
    }
}

fn warning(path: &str, text: &str) -> String {
    with(path, text).unwrap_or_else(|error| panic!("{error}")).warnings.join("\n")
}

#[test]
fn a_sound_snapshot_is_read_without_a_word() {
    assert_eq!(warning("data.bin", "data"), "");
}

#[test]
fn nonsense_in_ini_files_is_named_with_its_line() {
    for (text, expected) in [
        ("version=1.0\n", "snapshot.ini:1: `version=1.0` stands before any [section]"),
        ("[snapshot\n", "snapshot.ini:1: expected `]` at the end of the section name `[snapshot`"),
        (
            "[snapshot]\nversion=1.0\nwhat is this\n",
            "snapshot.ini:3: expected `[section]` or `key=value`, found `what is this`",
        ),
        ("[snapshot]\nversion=2.0\n", "snapshot.ini:2: snapshot version `2.0`, expected 1.0"),
        ("[snapshot]\ndescription=x\n", "snapshot.ini:1: expected `version=1.0` in [snapshot]"),
        (
            "[snapshot]\nversion=1\nversion=1\n",
            "snapshot.ini:3: `version` is given a second time (first in line 2)",
        ),
        (
            "\u{1F980}\0\u{7F}=[[[\n",
            "snapshot.ini:1: `\u{1F980}\u{FFFD}\u{FFFD}=[[[` stands before any [section]",
        ),
    ] {
        let refusal = refusal("snapshot.ini", text);
        assert!(refusal.starts_with(expected), "{refusal}");
    }
}

#[test]
fn files_that_are_named_and_not_there_are_named_with_the_line() {
    let snapshot = SNAPSHOT.replace("etm.ini", "nowhere.ini");
    assert_eq!(refusal("snapshot.ini", &snapshot), "snapshot.ini:4: nowhere.ini: there is no such file");
    let snapshot = SNAPSHOT.replace("trace.ini", "nowhere.ini");
    assert_eq!(refusal("snapshot.ini", &snapshot), "snapshot.ini:6: nowhere.ini: there is no such file");
    let capture = with("trace.ini", &TRACE.replace("data.bin", "nowhere.bin")).unwrap();
    assert_eq!(capture.warnings, ["trace.ini:5: nowhere.bin: there is no such file"]);
    let error = capture.buffers[0].open().err().unwrap();
    assert_eq!(error.to_string(), "nowhere.bin: there is no such file");
    let dump = format!("{DEVICE}[dump]\nfile=nowhere.bin\naddress=0\n");
    assert_eq!(warning("etm.ini", &dump), "nowhere.bin: these memory contents are not there");
}

#[test]
fn paths_that_leave_the_capture_are_refused() {
    for path in
        ["../data.bin", "a/../../data.bin", "/etc/passwd", "\\\\host\\share", "C:/data.bin", "..", "a\\..\\b"]
    {
        let trace = refusal("trace.ini", &TRACE.replace("data.bin", path));
        assert!(trace.starts_with("trace.ini:5: "), "{trace}");
        let device = refusal("snapshot.ini", &SNAPSHOT.replace("etm.ini", path));
        assert!(device.starts_with("snapshot.ini:4: "), "{device}");
        let metadata = refusal("snapshot.ini", &SNAPSHOT.replace("trace.ini", path));
        assert!(metadata.starts_with("snapshot.ini:6: "), "{metadata}");
        let dump = refusal("etm.ini", &format!("{DEVICE}[dump]\nfile={path}\naddress=0\n"));
        assert!(dump.starts_with("etm.ini:11: "), "{dump}");
    }
}

#[test]
fn absurd_numbers_are_refused_or_kept_without_arithmetic_on_them() {
    let dump = |lines: &str| format!("{DEVICE}[dump]\nfile=data.bin\n{lines}");
    let capture = with(
        "etm.ini",
        &dump("address=0xFFFFFFFFFFFFFFFF\nlength=0xFFFFFFFFFFFFFFFF\noffset=0xFFFFFFFFFFFFFFFF\n"),
    );
    assert_eq!(capture.unwrap().memory[0].offset, u64::MAX);
    for text in ["0x10000000000000000", "-1", "+1", "12x", "089", "", "0x"] {
        let refusal = refusal("etm.ini", &dump(&format!("address={text}\n")));
        assert!(refusal.starts_with("etm.ini:12: `address` is "), "{refusal}");
    }
    let capture = with("etm.ini", &dump("address=010\n")).unwrap();
    assert_eq!(capture.memory[0].address.0, 8, "a leading 0 is octal");
}

#[test]
fn duplicates_are_refused_where_the_format_forbids_them() {
    let registers = format!("{DEVICE}TRCConfigR(0x004)=2\n");
    assert!(
        refusal("etm.ini", &registers).starts_with("etm.ini:10: `TRCConfigR(0x004)` is given a second time")
    );
    assert!(
        refusal("etm.ini", &DEVICE.replace("type=ETM4", "type=ETM4\ntype=ETM4")).starts_with("etm.ini:5: ")
    );
    assert!(
        refusal("trace.ini", &TRACE.replace("format=", "file=x\nformat=")).starts_with("trace.ini:6: `file`")
    );
    let dump = format!("{DEVICE}[dump]\nfile=data.bin\naddress=0\naddress=0\n");
    assert!(refusal("etm.ini", &dump).starts_with("etm.ini:13: `address`"));
    let dump = format!("{DEVICE}[dump]\nfile=data.bin\naddress=0\nflavour=1\n");
    assert!(refusal("etm.ini", &dump).starts_with("etm.ini:13: `flavour` is no key of [dump]"));
    let second = format!(
        "{}buffers=buffer0,buffer1\n[buffer1]\nname=ETB_0\nfile=data.bin\nformat=coresight\n",
        "[trace_buffers]\n"
    );
    let second = format!("{second}[buffer0]\nname=ETB_0\nfile=data.bin\nformat=coresight\n");
    assert!(refusal("trace.ini", &second).contains("a second buffer named `ETB_0`"));
}

#[test]
fn what_does_not_fit_together_is_a_warning() {
    assert!(
        warning("trace.ini", &TRACE.replace("=coresight", "=baked")).contains("format `baked` is not known")
    );
    assert!(warning("trace.ini", &format!("{TRACE}ghost=ETB_0\n")).contains("there is no device ghost"));
    assert!(
        warning("trace.ini", &TRACE.replace("=ETB_0\n[s", "=ETB_1\n[s")).is_empty(),
        "names follow `name=`"
    );
    assert!(
        warning("trace.ini", &TRACE.replace("ETM_0=ETB_0", "ETM_0=ETB_9"))
            .contains("there is no buffer ETB_9")
    );
    assert!(warning("snapshot.ini", "[device_list]\na=etm.ini\n").contains("read as the old format 0.1"));
    assert!(
        refusal("trace.ini", "[trace_buffers]\nbuffers=x\n")
            .starts_with("trace.ini:2: there is no section [x]")
    );
}

#[test]
fn streams_locations_and_unsaid_buffers_are_understood() {
    let capture = with("trace.ini", &format!("{TRACE}ETM_0(stream:1)=ETB_0\n")).unwrap();
    let sources: Vec<_> =
        capture.sources.iter().map(|source| (source.format.as_str(), source.stream)).collect();
    assert_eq!(sources, [("ETM4", 0), ("ETM4", 1)]);
    let capture = with("trace.ini", TRACE.split("[source").next().unwrap()).unwrap();
    assert_eq!(capture.sources[0].buffers, [0], "one buffer and nothing said: all sources use it");
    let capture = open(&[
        ("snapshot.ini", &SNAPSHOT.replace("[trace]", "device1=cpu.ini\n[trace]")),
        ("cpu.ini", "[device]\nname=cpu\nclass=core\ntype=Cortex-A53\n"),
        ("etm.ini", &DEVICE.replace("type=", "location=address:0x1200 # here\ntype=")),
        ("trace.ini", &format!("{TRACE}[core_trace_sources]\ncpu=@address:0x1200\n")),
        ("data.bin", ""),
    ])
    .unwrap();
    assert_eq!(capture.sources[0].core, Some(0));
    let joined = with("trace.ini", &TRACE.replace("file=data.bin", "file=data.bin, \"data.bin\"")).unwrap();
    assert_eq!(bytes(&joined, 0), b"datadata");
    assert_eq!(joined.buffers[0].length(), Some(8));
}

fn package(contents: &str, metadata: &str) -> Result<Capture, Error> {
    open(&[("contents.ini", contents), ("trace.ini", metadata), ("data", "data")])
}

const CONTENTS: &str = "[Trace]\nMetaData=trace.ini\nbuffer0=data\n";
const METADATA: &str = "[buffer]\nformat: coresight\n[trace_0x10]\nformat: ETM4.0\nsource: ETM for CPU #1\n";

#[test]
fn the_package_dialect_is_read_as_it_is_written() {
    let images = "[images]\n/bin/a=data\n/BIN/a: data\nbuild-id:9f31=data\n; a comment\n # another\n";
    let capture = package(&format!("{CONTENTS}{images}"), METADATA).unwrap();
    assert_eq!(capture.warnings, [] as [&str; 0]);
    assert_eq!(capture.sources[0].name, "ETM for CPU #1");
    assert_eq!(capture.sources[0].id.unwrap().get(), 0x10);
    let names: Vec<&str> = capture.images.iter().map(|image| image.name.as_str()).collect();
    assert_eq!(names, ["/bin/a", "/BIN/a", "build-id:9f31"]);
}

#[test]
fn broken_packages_are_refused_with_file_and_line() {
    let refused =
        |contents: &str, metadata: &str| package(contents, metadata).map(drop).unwrap_err().to_string();
    for (metadata, expected) in [
        (METADATA.replace("0x10", "0x70"), "trace.ini:3: [trace_0x70] names no trace ID"),
        (METADATA.replace("0x10", "x"), "trace.ini:3: [trace_x] names no trace ID"),
        (format!("{METADATA}[trace_16]\nformat: ITM\n"), "trace.ini:6: trace ID 0x10 is described twice"),
        (format!("{METADATA}[Buffer]\n"), "trace.ini:6: section [Buffer] is given a second time"),
        (format!("{METADATA}FORMAT=ITM\n"), "trace.ini:6: `FORMAT` is given a second time"),
        (METADATA.replace("format: ETM4.0", ""), "trace.ini:3: expected `format` in [trace_0x10]"),
    ] {
        let refusal = refused(CONTENTS, &metadata);
        assert!(refusal.starts_with(expected), "{refusal}");
    }
    for (contents, expected) in [
        (CONTENTS.replace("=data", "=../data"), "contents.ini:3: "),
        (CONTENTS.replace("=trace.ini", "=none.ini"), "contents.ini:2: none.ini: there is no such file"),
        (CONTENTS.replace("MetaData", "buffer1"), "contents.ini:3: there is no metadata for `buffer0`"),
        (format!("{CONTENTS}[memory]\nfile=data\n"), "contents.ini:4: expected `address` in [memory]"),
        (format!("{CONTENTS}[events]\ncontextidr=lost\n"), "contents.ini:5: `lost` is no use of CONTEXTIDR"),
    ] {
        let refusal = refused(&contents, METADATA);
        assert!(refusal.starts_with(expected), "{refusal}");
    }
}

#[test]
fn a_broken_event_log_does_not_keep_the_trace_from_being_read() {
    let contents = format!("{CONTENTS}[events]\nlog=data\ncontextidr=tid\n");
    let capture = package(&contents, METADATA).unwrap();
    assert!(capture.events.is_none());
    assert_eq!(
        capture.warnings,
        ["data:1: expected `%system-event-log version=1`: the event log is not used"]
    );
}

fn archive(files: &[(&str, &[u8])]) -> Vec<u8> {
    let mut archive = zip::ZipWriter::new(Cursor::new(Vec::new()));
    for (path, contents) in files {
        archive.start_file(*path, zip::write::SimpleFileOptions::default()).unwrap();
        archive.write_all(contents).unwrap();
    }
    archive.finish().unwrap().into_inner()
}

fn open_archive(bytes: Vec<u8>) -> Result<Capture, Error> {
    from(Archive::in_memory(Arc::from(bytes), "a.zip")?)
}

fn sound_archive(top: &str) -> Vec<u8> {
    let data = [b'x'; 5000];
    archive(&[
        (&format!("{top}contents.ini"), CONTENTS.as_bytes()),
        (&format!("{top}trace.ini"), METADATA.as_bytes()),
        (&format!("{top}data"), &data),
    ])
}

/// The places of a pattern.
fn places(bytes: &[u8], pattern: &[u8]) -> Vec<usize> {
    (0..bytes.len()).filter(|&place| bytes[place..].starts_with(pattern)).collect()
}

#[test]
fn an_archive_may_have_one_top_directory() {
    for top in ["", "capture/"] {
        let capture = open_archive(sound_archive(top)).unwrap();
        assert_eq!(bytes(&capture, 0), [b'x'; 5000]);
    }
}

#[test]
fn archives_with_paths_that_leave_them_are_refused() {
    for (from, to) in [("aa/evil", "../evil"), ("aa/evil", "/a/evil"), ("aa/evil", "a/../ev")] {
        let mut bytes = archive(&[("contents.ini", CONTENTS.as_bytes()), (from, b"evil")]);
        for place in places(&bytes, from.as_bytes()) {
            bytes[place..place + to.len()].copy_from_slice(to.as_bytes());
        }
        let error = open_archive(bytes).map(drop).unwrap_err().to_string();
        assert!(error.starts_with("a.zip"), "{error}");
    }
}

#[test]
fn encrypted_archives_are_refused() {
    let mut bytes = sound_archive("");
    for (header, flags) in [(b"PK\x03\x04", 6), (b"PK\x01\x02", 8)] {
        for place in places(&bytes, header) {
            bytes[place + flags] |= 1;
        }
    }
    let error = open_archive(bytes).map(drop).unwrap_err().to_string();
    assert!(error.contains("encrypted"), "{error}");
}

#[test]
fn a_file_that_expands_beyond_what_its_archive_says_is_cut_off() {
    let mut bytes = sound_archive("");
    let last = *places(&bytes, b"PK\x01\x02").last().unwrap();
    bytes[last + 24..last + 28].copy_from_slice(&100_u32.to_le_bytes());
    let capture = open_archive(bytes).unwrap();
    let mut contents = Vec::new();
    let error = capture.buffers[0].open().unwrap().read_to_end(&mut contents).unwrap_err();
    assert_eq!(error.to_string(), "it expands to more than the archive says");
    assert!(contents.len() <= 5000);
}

#[test]
fn metadata_that_expands_without_end_is_refused_early() {
    let mut bomb = Vec::from(b"[trace]\n".as_slice());
    bomb.resize(64 << 20, b' ');
    let error = open_archive(archive(&[("contents.ini", &bomb)])).map(drop).unwrap_err().to_string();
    assert_eq!(error, "a.zip/contents.ini: is longer than the 4194304 bytes expected");
}

#[test]
fn a_file_with_a_wrong_checksum_is_an_error_while_reading() {
    let mut bytes = sound_archive("");
    let last = *places(&bytes, b"PK\x01\x02").last().unwrap();
    bytes[last + 16] ^= 1;
    let capture = open_archive(bytes).unwrap();
    let error = capture.buffers[0].open().unwrap().read_to_end(&mut Vec::new()).unwrap_err();
    assert_eq!(error.to_string(), "its checksum is wrong");
}

#[test]
fn truncated_and_damaged_archives_never_panic() {
    let sound = sound_archive("capture/");
    for length in 0..sound.len() {
        assert!(open_archive(sound[..length].to_vec()).is_err(), "{length}");
    }
    let mut random = backsight_testing::Random(5);
    for _ in 0..2000 {
        let mut bytes = sound.clone();
        for _ in 0..=random.below(4) {
            let place = random.below(bytes.len() as u64) as usize;
            bytes[place] = random.below(256) as u8;
        }
        if let Ok(capture) = open_archive(bytes) {
            for buffer in &capture.buffers {
                if let Ok(mut stream) = buffer.open() {
                    let _ = stream.by_ref().take(1 << 20).read_to_end(&mut Vec::new());
                }
            }
        }
    }
}
