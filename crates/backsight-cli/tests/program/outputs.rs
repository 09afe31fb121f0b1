//! Outputs are whole or absent, and nothing is written over what is read (docs/outputs.md).

use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::fs::symlink;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::support::{FIRST_CONFIG, Scratch, command, first, first_stream, run_of, words};

/// Commands that write one file, with `IN` for a capture and `OUT` for the file. `RETIRED` is a file of retired
/// instructions, `PACKED` what `compress` made of it, `SYSTEM` the description of a system.
const FILES: [&str; 22] = [
    "info IN -o OUT",
    "info IN --json -o OUT",
    "doctor IN -o OUT",
    "packets IN -o OUT",
    "packets IN --format json -o OUT",
    "packets IN --format summary -o OUT",
    "flow IN -o OUT",
    "flow IN --format pcs -o OUT",
    "flow IN --truth -o OUT",
    "profile IN -o OUT",
    "profile IN --format json -o OUT",
    "profile IN --format pprof -o OUT",
    "profile IN --format vcd -o OUT",
    "diff IN IN -o OUT",
    "report IN -o OUT",
    "compress IN -o OUT",
    "compress IN --trace -o OUT",
    "compress RETIRED -o OUT",
    "decompress PACKED -o OUT",
    "pieces IN -o OUT",
    "bench IN --seconds 0 --json -o OUT",
    "session SYSTEM --sink etr -o OUT",
];

/// Those that this program has.
fn files() -> impl Iterator<Item = &'static str> {
    FILES.into_iter().filter(|line| cfg!(feature = "tables") || !line.starts_with("pieces"))
}

/// Commands that write a capture.
const CAPTURES: [&str; 5] = [
    "convert IN -o OUT",
    "convert IN -o OUT.zip",
    "convert IN --format core -o OUT",
    "encode IN --truth -o OUT",
    "encode IN -o OUT.zip",
];

/// Commands that write files into a folder.
const FOLDERS: [&str; 4] =
    ["rtl etm4 -o OUT", "rtl etrace -o OUT", "session SYSTEM --sink etr --as package -o OUT", "man OUT"];

/// A capture, and what else commands read.
struct Room {
    scratch: Scratch,
    capture: PathBuf,
}

impl Room {
    fn new() -> Self {
        let scratch = Scratch::new();
        let original = backsight_testing::repository().join("testdata/captures/calls-riscv64");
        let capture = scratch.copy_of(&original, "capture");
        let code = fs::read(original.join("code/calls")).unwrap();
        scratch.file("capture/code/calls", code);
        let room = Self { scratch, capture };
        room.run("compress IN -o PACKED", Path::new("/dev/null")).done();
        room
    }

    fn words(&self, line: &str, out: &Path) -> Vec<String> {
        let system = backsight_testing::repository().join("testdata/systems/four-cores.ini");
        let places = [
            ("IN", self.capture.clone()),
            ("OUT", out.to_owned()),
            ("RETIRED", self.capture.join("truth.retired")),
            ("PACKED", self.scratch.path("packed")),
            ("SYSTEM", system),
        ];
        let place = |word: String| {
            let name = word.strip_suffix(".zip").unwrap_or(&word);
            let found = places.iter().find(|(known, _)| *known == name);
            found.map_or_else(|| word.clone(), |(_, path)| word.replace(name, &path.display().to_string()))
        };
        words(line).into_iter().map(place).collect()
    }

    fn run(&self, line: &str, out: &Path) -> crate::support::Run {
        run_of(command(&self.words(line, out)).output().unwrap())
    }

    /// The same, where no file can be written to.
    fn run_on_a_full_disk(&self, line: &str, out: &Path) -> crate::support::Run {
        let mut shell = Command::new("sh");
        shell.args(["-c", "ulimit -f 0; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_backsight")]);
        run_of(shell.args(self.words(line, out)).stdin(Stdio::null()).output().unwrap())
    }

    /// A new empty folder.
    fn folder(&self, name: &str) -> PathBuf {
        let folder = self.scratch.path(name);
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        folder
    }
}

/// All that is below a folder, with the contents of files.
fn contents(folder: &Path) -> Vec<(PathBuf, Option<Vec<u8>>)> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if fs::symlink_metadata(&path).unwrap().is_dir() {
                folders.push(path.clone());
            }
            let bytes = fs::read(&path).ok();
            found.push((path, bytes));
        }
    }
    found.sort();
    found
}

#[test]
fn every_command_writes_what_it_is_asked_to() {
    let room = Room::new();
    for line in files() {
        let folder = room.folder("out");
        room.run(line, &folder.join("file")).done();
        let found = contents(&folder);
        assert_eq!(found.len(), 1, "{line}: {found:?}");
        assert!(found[0].1.as_ref().is_some_and(|bytes| !bytes.is_empty()), "{line}");
    }
}

#[test]
fn no_command_writes_over_what_it_reads() {
    let room = Room::new();
    let before = contents(&room.capture);
    let outside = room.folder("outside");
    let link = outside.join("link");
    symlink(room.capture.join("trace.bin"), room.capture.join("inner")).unwrap();
    symlink(&room.capture, &link).unwrap();
    let names = ["trace.bin", "trace.ini", "contents.ini", "truth.retired", "code/calls"];
    for line in files().filter(|line| line.contains(" IN ")) {
        for name in names {
            room.run(line, &room.capture.join(name)).wrong_use("that is read");
            room.run(line, &link.join(name)).wrong_use("that is read");
        }
        room.run(line, &room.capture.join("inner")).wrong_use("that is read");
    }
    fs::remove_file(room.capture.join("inner")).unwrap();
    assert!(contents(&room.capture) == before);
    // A name that is not there yet is free, in a capture, too.
    room.run("report IN -o OUT", &room.capture.join("report.html")).done();
}

#[test]
fn single_files_that_are_read_are_known_by_any_name() {
    let room = Room::new();
    let folder = room.folder("names");
    let stream = folder.join("stream.bin");
    fs::write(&stream, first_stream()).unwrap();
    let config = folder.join("config");
    fs::write(&config, "TRCCONFIGR=0x1841\n").unwrap();
    let image = folder.join("image");
    fs::copy(room.capture.join("code/calls"), &image).unwrap();
    symlink(&stream, folder.join("symbolic")).unwrap();
    fs::hard_link(&stream, folder.join("hard")).unwrap();
    let before = contents(&folder);
    let shown = |path: &Path| path.display().to_string();
    let bare = format!("packets {} {FIRST_CONFIG} --config {}", shown(&stream), shown(&config));
    for name in ["stream.bin", "symbolic", "hard", "config", "../names/stream.bin"] {
        room.run(&format!("{bare} -o OUT"), &folder.join(name)).wrong_use("is read by this command");
    }
    for line in ["flow IN", "profile IN", "report IN", "compress IN --trace"] {
        let line = format!("{line} --image {} -o OUT", shown(&image));
        room.run(&line, &image).wrong_use("is read by this command");
    }
    room.run("compress RETIRED -o RETIRED", &image).wrong_use("is read by this command");
    room.run("decompress PACKED -o PACKED", &image).wrong_use("is read by this command");
    room.run(&format!("profile IN --merge {} -o OUT", shown(&stream)), &stream).wrong_use("is read");
    let system = room.scratch.path("system.ini");
    fs::copy(backsight_testing::repository().join("testdata/systems/four-cores.ini"), &system).unwrap();
    room.run(&format!("session {} --sink etr -o OUT", shown(&system)), &system).wrong_use("is read");
    assert!(contents(&folder) == before);
}

#[test]
fn a_capture_is_not_replaced_by_what_is_made_of_it() {
    let room = Room::new();
    let before = contents(&room.capture);
    for line in ["convert IN --force -o IN", "encode IN --force -o IN"] {
        room.run(line, &room.capture).wrong_use("is read by this command");
    }
    let parent = room.capture.parent().unwrap().to_owned();
    room.run("convert IN --force -o OUT", &parent).wrong_use("is read by this command");
    assert!(contents(&room.capture) == before);
}

#[test]
fn on_a_full_disk_nothing_is_left_and_what_was_there_stays() {
    let room = Room::new();
    for line in files().chain(CAPTURES) {
        let folder = room.folder("full");
        let failed = room.run_on_a_full_disk(line, &folder.join("file"));
        assert_eq!(failed.status, 1, "{line}: {failed:?}");
        assert!(failed.err.contains("file"), "{line}: {}", failed.err);
        assert!(contents(&folder).is_empty(), "{line}: {:?}", contents(&folder));
    }
    for line in files() {
        let folder = room.folder("full");
        let file = folder.join("file");
        fs::write(&file, "before").unwrap();
        let failed = room.run_on_a_full_disk(line, &file).could_not("nothing was written");
        assert!(failed.err.contains("what was there before is unchanged"), "{line}: {}", failed.err);
        assert!(contents(&folder) == [(file, Some(b"before".to_vec()))], "{line}");
    }
    for line in FOLDERS {
        let folder = room.folder("full");
        let failed = room.run_on_a_full_disk(line, &folder.join("new"));
        assert_eq!(failed.status, 1, "{line}: {failed:?}");
        assert!(contents(&folder).is_empty(), "{line}: {:?}", contents(&folder));
    }
}

#[test]
fn a_file_is_replaced_as_a_whole_with_the_rights_that_it_had() {
    use std::os::unix::fs::PermissionsExt;
    let room = Room::new();
    for line in files() {
        let folder = room.folder("whole");
        let (file, fresh) = (folder.join("file"), folder.join("fresh"));
        room.run(line, &fresh).done();
        fs::write(&file, vec![b'x'; 1 << 20]).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
        room.run(line, &file).done();
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o640, "{line}");
        // Speeds are never the same.
        if !line.starts_with("bench") {
            assert!(fs::read(&file).unwrap() == fs::read(&fresh).unwrap(), "{line}");
        }
    }
}

#[test]
fn links_are_replaced_and_not_followed() {
    let room = Room::new();
    let folder = room.folder("links");
    let (precious, link) = (folder.join("precious"), folder.join("link"));
    fs::write(&precious, "precious").unwrap();
    symlink(&precious, &link).unwrap();
    room.run("report IN -o OUT", &link).done();
    assert_eq!(fs::read(&precious).unwrap(), b"precious");
    assert!(fs::symlink_metadata(&link).unwrap().is_file());
    // A capture that somebody sent may have links to anywhere in it.
    symlink(&folder, room.capture.join("results")).unwrap();
    room.run("report IN -o OUT", &room.capture.join("results/page.html")).wrong_use("leads out of it");
    assert!(!folder.join("page.html").exists());
}

#[test]
fn what_is_no_file_is_written_directly() {
    let room = Room::new();
    let expected = room.run("flow IN --quiet", Path::new("")).done().out;
    assert_eq!(room.run("flow IN --quiet -o -", Path::new("")).done().out, expected);
    assert_eq!(room.run("flow IN --quiet -o OUT", Path::new("/dev/stdout")).done().out, expected);
    room.run("flow IN --quiet -o OUT", Path::new("/dev/null")).done();
    // Also where standard output is a file, and behind what is in it.
    let file = room.scratch.path("appended");
    fs::write(&file, "before\n").unwrap();
    let output = File::options().append(true).open(&file).unwrap();
    let arguments = room.words("flow IN --quiet -o OUT", Path::new("/dev/stdout"));
    assert!(command(&arguments).stdout(output).status().unwrap().success());
    assert_eq!(fs::read_to_string(&file).unwrap(), format!("before\n{expected}"));
    let pipe = room.scratch.path("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let mut child = command(&room.words("flow IN --quiet -o OUT", &pipe)).spawn().unwrap();
    let mut text = String::new();
    File::open(&pipe).unwrap().read_to_string(&mut text).unwrap();
    assert!(child.wait().unwrap().success());
    assert_eq!(text, expected);
}

#[test]
fn what_exists_is_replaced_with_force_only() {
    let room = Room::new();
    for line in CAPTURES.iter().chain(&FOLDERS).filter(|line| !line.starts_with("man")) {
        let folder = room.folder("force");
        let place = folder.join("place");
        room.run(line, &place).done();
        let before = contents(&folder);
        room.run(line, &place).could_not("exists; choose another name, or replace");
        assert!(contents(&folder) == before, "{line}");
        room.run(&format!("{line} --force"), &place).done();
        let names = |all: &[(PathBuf, _)]| all.iter().map(|(path, _)| path.clone()).collect::<Vec<_>>();
        assert_eq!(names(&contents(&folder)), names(&before), "{line}");
    }
    // Only captures are replaced by captures, and what others put beside our files stays.
    let folder = room.folder("mine");
    fs::write(folder.join("mine"), "mine").unwrap();
    room.run("convert IN --force -o OUT", &folder).could_not("no capture that could be replaced");
    room.run("rtl etm4 --force -o OUT", &folder).done();
    room.run("man OUT", &folder).done();
    assert_eq!(fs::read(folder.join("mine")).unwrap(), b"mine");
}

/// Commands that wait for standard input.
const READERS: [&str; 7] = [
    "packets - CONFIG -o OUT",
    "flow - CONFIG -o OUT",
    "profile - CONFIG -o OUT",
    "report - CONFIG -o OUT",
    "bench - CONFIG --stage packets -o OUT",
    "compress - -o OUT",
    "decompress - -o OUT",
];

#[test]
fn a_signal_leaves_nothing_half() {
    let room = Room::new();
    for (line, (signal, name)) in
        READERS.iter().flat_map(|line| [(2, "SIGINT"), (15, "SIGTERM"), (1, "SIGHUP")].map(|one| (line, one)))
    {
        let folder = room.folder("signal");
        let file = folder.join("file");
        fs::write(&file, "before").unwrap();
        let line = line.replace("CONFIG", FIRST_CONFIG);
        // The tests themselves may run where signals are ignored, as by nohup.
        let mut child = Command::new("env")
            .args(["--default-signal=HUP,INT,TERM", env!("CARGO_BIN_EXE_backsight")])
            .args(room.words(&line, &file))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // It has something to work on, and waits for more.
        let mut input = child.stdin.take().unwrap();
        let whole = match line.split(' ').next() {
            Some("compress") => fs::read(room.capture.join("truth.retired")).unwrap(),
            Some("decompress") => fs::read(room.scratch.path("packed")).unwrap(),
            _ => first_stream(),
        };
        let _ = input.write_all(&whole[..64]);
        while contents(&folder).len() < 2 {
            assert!(child.try_wait().unwrap().is_none(), "{line}: ended before its time");
            std::thread::yield_now();
        }
        end_by((signal, name), child, "file", &line);
        drop(input);
        assert!(contents(&folder) == [(file, Some(b"before".to_vec()))], "{line}: {:?}", contents(&folder));
    }
}

/// Ends a program by a signal: it says that nothing was written at a place.
fn end_by((signal, name): (i32, &str), child: Child, place: &str, what: &str) {
    let id = child.id().to_string();
    assert!(Command::new("kill").args([&format!("-{signal}"), &id]).status().unwrap().success());
    let ended = child.wait_with_output().unwrap();
    assert_eq!(ended.status.signal(), Some(signal), "{what}: {ended:?}");
    let said = String::from_utf8(ended.stderr).unwrap();
    assert!(said.contains(&format!("{place}: nothing was written: ended by {name}")), "{what}: {said}");
}

#[test]
fn a_signal_leaves_nothing_of_what_is_being_encoded() {
    let room = Room::new();
    let log = room.scratch.path("log");
    assert!(Command::new("mkfifo").arg(&log).status().unwrap().success());
    for (out, (signal, name)) in
        ["out", "out.zip"].into_iter().flat_map(|out| [(2, "SIGINT"), (15, "SIGTERM")].map(|one| (out, one)))
    {
        let folder = room.folder("encoding");
        let mut child = Command::new("env")
            .args(["--default-signal=HUP,INT,TERM", env!("CARGO_BIN_EXE_backsight"), "encode"])
            .args([log.as_os_str(), "-o".as_ref(), folder.join(out).as_os_str()])
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // Open for both, so that the program finds no end. It looks at the first bytes, and opens it again.
        let mut input = File::options().read(true).write(true).open(&log).unwrap();
        input.write_all(b"# a comment\n").unwrap();
        for number in 0..1000_u64 {
            let address = 0x8000_0000 + 4 * number;
            writeln!(input, "core   0: 3 0x{address:016x} (0x00000013)").unwrap();
        }
        let part = folder.join(format!("{out}.part"));
        while !part.join(".recording").exists() {
            assert!(child.try_wait().unwrap().is_none(), "{out}: ended before its time");
            std::thread::yield_now();
        }
        end_by((signal, name), child, out, out);
        drop(input);
        assert!(fs::read_dir(&folder).unwrap().next().is_none(), "{out}: {:?}", contents(&folder));
    }
}

#[test]
fn a_signal_that_is_ignored_stays_ignored() {
    let room = Room::new();
    let file = room.folder("nohup").join("file");
    let line = format!("packets - {FIRST_CONFIG} -o OUT");
    let mut shell = Command::new("sh");
    shell.args(["-c", "trap '' HUP; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_backsight")]);
    shell.args(room.words(&line, &file)).stdin(Stdio::piped()).stderr(Stdio::null());
    let mut child = shell.spawn().unwrap();
    while contents(file.parent().unwrap()).is_empty() {
        assert!(child.try_wait().unwrap().is_none());
        std::thread::yield_now();
    }
    assert!(Command::new("kill").args(["-1", &child.id().to_string()]).status().unwrap().success());
    child.stdin.take().unwrap().write_all(&first_stream()).unwrap();
    assert!(child.wait().unwrap().success());
    assert!(!fs::read(&file).unwrap().is_empty());
}

#[test]
fn damage_in_a_compressed_file_leaves_no_file_and_goes_to_standard_output() {
    let room = Room::new();
    let whole = fs::read(room.scratch.path("packed")).unwrap();
    let cut = room.scratch.file("cut", &whole[..whole.len() - 3]);
    let folder = room.folder("restored");
    let line = format!("decompress {} -o OUT", cut.display());
    room.run(&line, &folder.join("file")).could_not("with -o -");
    assert!(contents(&folder).is_empty());
    let streamed = command(&room.words(&line, Path::new("-"))).output().unwrap();
    assert!(streamed.status.code() == Some(1) && !streamed.stdout.is_empty());
}

#[test]
fn a_folder_that_nothing_can_be_made_in_is_named() {
    let room = Room::new();
    let nowhere = room.scratch.path("nowhere");
    for line in files() {
        room.run(line, &nowhere.join("file")).could_not("nothing can be made in the folder");
        room.run(line, &first()).could_not("directory");
    }
}
