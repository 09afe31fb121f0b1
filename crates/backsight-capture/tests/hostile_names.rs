//! Whatever a capture calls its parts, what is written of it can be opened.

use backsight_capture::archive::Archive;
use backsight_capture::folder::{Folder, Memory};
use backsight_capture::{Capture, Core, Error, FileRef, Format, Image, Register};
use proptest::prelude::*;
use std::io::Cursor;
use std::sync::Arc;

fn folder(files: &[(&str, &[u8])]) -> Memory {
    Memory(files.iter().map(|(path, contents)| ((*path).to_owned(), Arc::from(*contents))).collect())
}

fn from(folder: impl Folder + 'static) -> Result<Capture, Error> {
    Capture::from_folder(Arc::new(folder), "capture")
}

/// Names that mean something to readers, to file systems and to people.
fn name() -> impl Strategy<Value = String> {
    let chosen = prop::sample::select(vec![
        "",
        " ",
        "[",
        "]",
        "[trace]",
        "a=b",
        "a: b",
        "a:",
        ";x",
        "#x",
        "x;y",
        "\n[trace]\n",
        "\r\n",
        "\u{feff}",
        "\u{85}",
        "\u{2028}",
        "\"",
        "'",
        "'a'",
        ",",
        "a,b",
        "(",
        "x(id:3)",
        "@",
        "..",
        ".",
        "/etc/passwd",
        "a/../b",
        "a/b",
        "a",
        "A",
        "\\",
        "c:\\x",
        "format",
        "FORMAT",
        "source",
        "stream",
        "core",
        "core_name",
        "wrapped",
        "starts",
        "thread",
        "id",
        "description",
        "timestamp_frequency",
        "truth",
        "__MACOSX/x",
        "trace.ini",
        "contents.ini",
        "snapshot.ini",
        "system-event-log",
        "data",
        "device0.ini",
        "trace_id",
        "\0",
        "\x1b[2J",
    ]);
    prop_oneof![
        4 => chosen.prop_map(str::to_owned),
        1 => "\\PC{0,12}",
        1 => (1..400_usize).prop_map(|length| "n".repeat(length)),
        1 => (1..30_usize).prop_map(|depth| "d/".repeat(depth) + "e"),
    ]
}

/// A sound capture whose parts have other names.
fn renamed(names: &[String], files: &[String]) -> Capture {
    let mut all: Vec<(&str, &[u8])> = vec![
        ("contents.ini", b"[trace]\nmetadata=trace.ini\nbuffer0=t\n[memory]\nfile=rom\naddress=0\n"),
        (
            "trace.ini",
            b"[buffer]\nformat: coresight\nvendor: v\n[trace_16]\nformat: ETM4.2\nsource: s\ncore: c\n",
        ),
        ("t", b"trace"),
        ("rom", b"code"),
    ];
    all.extend(files.iter().filter(|path| !path.ends_with(".ini")).map(|path| (path.as_str(), &b"file"[..])));
    let mut capture = from(folder(&all)).unwrap();
    let mut next = names.iter().cloned().cycle();
    let mut take = || next.next().unwrap_or_default();
    capture.description = Some(take());
    capture.system = (0..4).map(|_| (take(), take())).collect();
    capture.buffers[0].name = take();
    capture.buffers[0].details = (0..3).map(|_| (take(), take())).collect();
    capture.cores.push(Core { name: take(), kind: take(), registers: Vec::new(), location: Some(take()) });
    let core = capture.cores.len() - 1;
    let source = &mut capture.sources[0];
    (source.name, source.location, source.core) = (take(), Some(take()), Some(core));
    source.registers = (0..3).map(|_| Register::new(&take(), "0x1")).collect();
    source.options = (0..3).map(|_| (take(), take())).collect();
    let another = source.clone();
    capture.sources.extend((0..2).map(|_| another.clone()));
    for file in files {
        if let Ok(file) = FileRef::new(&capture.folder, file) {
            capture.images.push(Image { name: take(), file });
        }
    }
    capture
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn what_is_written_can_be_opened(
        names in prop::collection::vec(name(), 1..40),
        files in prop::collection::vec(name(), 0..6),
    ) {
        let capture = renamed(&names, &files);
        for format in [Format::Package, Format::Snapshot] {
            let mut written = Memory::default();
            capture.write(format, &mut written).unwrap();
            let again = from(written).unwrap_or_else(|error| panic!("{error}"));
            prop_assert_eq!(again.format, format);
            prop_assert_eq!((again.buffers.len(), again.memory.len()), (1, 1));
            prop_assert!(!again.sources.is_empty());
            let mut archive = zip::ZipWriter::new(Cursor::new(Vec::new()));
            capture.write(format, &mut archive).unwrap();
            let archive: Arc<[u8]> = archive.finish().unwrap().into_inner().into();
            let again = from(Archive::in_memory(archive, "capture.zip").unwrap());
            prop_assert_eq!(again.unwrap_or_else(|error| panic!("{error}")).format, format);
        }
    }

}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn what_is_saved_in_a_folder_can_be_opened(
        names in prop::collection::vec(name(), 1..40),
        files in prop::collection::vec(name(), 0..6),
    ) {
        let capture = renamed(&names, &files);
        let folder = std::env::temp_dir().join(format!("backsight-names-{}", std::process::id()));
        for (place, format) in [("package", Format::Package), ("snapshot", Format::Snapshot)] {
            let path = folder.join(place);
            let _ = std::fs::remove_dir_all(&path);
            capture.save(&path, format).unwrap_or_else(|error| panic!("{error}"));
            let again = Capture::open(&path).unwrap_or_else(|error| panic!("{error}"));
            prop_assert_eq!(again.format, format);
            let _ = std::fs::remove_dir_all(&path);
        }
    }
}

#[test]
fn more_sources_than_trace_ids_are_reported_and_do_not_spoil_the_package() {
    let mut capture = renamed(&["s".to_owned()], &[]);
    let source = capture.sources[0].clone();
    capture.sources = (0..200).map(|_| source.clone()).collect();
    let mut written = Memory::default();
    let notes = capture.write(Format::Package, &mut written).unwrap();
    assert!(notes.iter().any(|note| note.to_string().contains("no trace ID is left")), "{notes:?}");
    assert_eq!(from(written).unwrap().sources.len(), 0x6F);
}

#[test]
fn metadata_that_readers_would_refuse_is_not_written() {
    let mut capture = renamed(&["s".to_owned()], &[]);
    capture.system = vec![("long".to_owned(), "x".repeat(5 << 20))];
    let error = capture.write(Format::Package, &mut Memory::default()).unwrap_err();
    assert!(error.to_string().contains("readers take"), "{error}");
}
