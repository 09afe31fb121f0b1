//! Captures that name files of the machine they are opened on: nothing is read that the user did not allow, nothing is
//! copied that is not listed.

#![cfg(unix)]

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::{Run, Scratch, backsight, line};

const SECRET: &str = "-----BEGIN PRIVATE KEY-----";
const ID: [u8; 20] = [0xAB; 20];

fn words(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn record(kind: u32, misc: u16, body: &[u8]) -> Vec<u8> {
    let size = u16::try_from(body.len() + 8).expect("a small record");
    [&kind.to_le_bytes()[..], &misc.to_le_bytes(), &size.to_le_bytes(), body].concat()
}

/// A perf.data file whose kernel says that these files were mapped, some with a build ID.
fn perf_data(names: &[(&str, Option<[u8; 20]>)]) -> Vec<u8> {
    let unit = [0x4040_4040_4040_4040, 0, 8, 0x40, 0x10, 0x2800_0EA1, 0x4100_F422, 0x2000_1088, 0, 0x8C, 1];
    let mut data = record(70, 0, &words(&[&[3, 1, 1 | 8 << 32, 0][..], &unit].concat()));
    for (number, (name, id)) in names.iter().enumerate() {
        let pid = 500 | 500 << 32;
        let address = 0x7000_0000 + 0x10_0000 * number as u64;
        let device = match id {
            Some(id) => [&[20, 0, 0, 0][..], id].concat(),
            None => vec![0; 24],
        };
        let misc = if id.is_some() { 2 | 1 << 14 } else { 2 };
        let mut path = name.as_bytes().to_vec();
        path.resize((path.len() + 1).next_multiple_of(8), 0);
        let body = [words(&[pid, address, 0x1000, 0]), device, words(&[5 | 2 << 32]), path].concat();
        data.extend(record(10, misc, &[body, words(&[pid, 0, 0, 77])].concat()));
    }
    let trace = [0; 0x20];
    data.extend(record(71, 0, &words(&[0x20, 0, 0, 0, 0])));
    data.extend(trace);
    data.extend(record(11, 0, &words(&[0, 0x20, 0, 500 | 500 << 32, 100, 0, 77])));
    let (attributes, ids) = (104, 104 + 80);
    let head = [104, 80, attributes, 80, ids + 8, data.len() as u64, 0, 0, 0, 0, 0, 0];
    let attribute = [8 | 64 << 32, 0, 0, 1 << 1 | 1 << 2 | 1 << 7 | 1 << 16, 0, 1 << 18, 0, 0, ids, 8, 77];
    [b"PERFILE2".to_vec(), words(&head), words(&attribute), data].concat()
}

/// A program of one segment and a build ID.
fn program(id: [u8; 20]) -> Vec<u8> {
    let note = [&[4, 0, 0, 0, 20, 0, 0, 0, 3, 0, 0, 0][..], b"GNU\0", &id].concat();
    let size = 64 + 2 * 56 + note.len() as u64;
    let mut file = b"\x7FELF\x02\x01\x01".to_vec();
    file.resize(16, 0);
    file.extend(words(&[2 | 183 << 16 | 1 << 32, 0x40_0000, 64, 0]));
    file.extend([0, 0, 0, 0, 64, 0, 56, 0, 2, 0, 64, 0, 0, 0, 0, 0]);
    file.extend(words(&[1 | 5 << 32, 0, 0x40_0000, 0x40_0000, size, size, 0x1000]));
    file.extend(words(&[4 | 4 << 32, 176, 0x40_00B0, 0x40_00B0, note.len() as u64, note.len() as u64, 4]));
    [file, note].concat()
}

/// A package whose event log says that these images were mapped.
fn package(scratch: &Scratch, name: &str, images: &[&str]) -> PathBuf {
    let capture = backsight_testing::repository().join("testdata/captures/calls-aarch64");
    let to = scratch.copy_of(&capture, name);
    fs::create_dir_all(to.join("code")).expect("folder");
    fs::write(to.join("code/calls"), fs::read(capture.join("code/calls")).expect("code")).expect("code");
    let mut log = fs::read_to_string(to.join("system-event-log")).expect("log");
    for (number, image) in images.iter().enumerate() {
        let pid = number + 10;
        log += &format!("- declare_process START pid={pid} base=0x70000000 image=\"{image}\" size=0x1000\n");
    }
    fs::write(to.join("system-event-log"), log).expect("log");
    to
}

fn files_below(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("folder").map(|entry| entry.expect("entry").path());
    entries.flat_map(|path| if path.is_dir() { files_below(&path) } else { vec![path] }).collect()
}

/// Converts, and sees to it that no byte of the secret and of this process's environment went along.
#[track_caller]
fn converted(scratch: &Scratch, capture: &Path, options: &[&str]) -> (Run, PathBuf) {
    let output = scratch.path("converted");
    let _ = fs::remove_dir_all(&output);
    let (from, to) = (capture.display().to_string(), output.display().to_string());
    let run = backsight(&[&["convert", &from, "-o", &to], options].concat()).done();
    for file in files_below(&output) {
        let bytes = fs::read(&file).expect("file");
        let holds = |text: &str| bytes.windows(text.len()).any(|window| window == text.as_bytes());
        assert!(!holds(SECRET) && !holds("PATH="), "{} holds what it must not: {run:?}", file.display());
    }
    line(&format!("info {to}")).done();
    (run, output)
}

#[test]
fn files_that_perf_data_names_do_not_go_into_a_package() {
    let scratch = Scratch::new();
    let key = scratch.file("secret/id_rsa", SECRET).display().to_string();
    let pipe = scratch.path("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().expect("mkfifo").success());
    let pipe = pipe.display().to_string();
    let inside = scratch.path("x/../secret/id_rsa").display().to_string();
    let names = [&*key, "/proc/self/environ", &pipe, "/dev/zero", "/proc/self/exe", "id_rsa", &inside];
    for id in [None, Some(ID)] {
        let named: Vec<_> = names.iter().map(|name| (*name, id)).collect();
        let capture = scratch.file("perf.data", perf_data(&named));
        for options in [&[][..], &["--host-files"], &["--symfs", "/"]] {
            let (run, output) = converted(&scratch, &capture, options);
            let file = |name: &str| files_below(&output).iter().any(|file| file.ends_with(name));
            assert!(!file("id_rsa") && !file("environ") && !file("pipe") && !file("exe"), "{run:?}");
        }
        for command in ["flow", "profile", "doctor"] {
            let run = line(&format!("{command} {} --host-files", capture.display()));
            assert!(!run.out.contains(SECRET) && !run.err.contains(SECRET), "{run:?}");
        }
    }
}

/// A core file with trace, of a process that had these files mapped.
fn core_file(scratch: &Scratch, names: &[&str]) -> PathBuf {
    let capture = backsight_testing::repository().join("testdata/captures/calls-aarch64");
    let core = scratch.path("core");
    line(&format!("convert {} --format core -o {}", capture.display(), core.display())).done();
    let mut bytes = fs::read(&core).expect("core file");
    let mut files = words(&[names.len() as u64, 0x1000]);
    for number in 0..names.len() as u64 {
        let start = 0x7000_0000 + 0x10_0000 * number;
        files.extend(words(&[start, start + 0x1000, 0]));
    }
    names.iter().for_each(|name| files.extend(name.bytes().chain([0])));
    let mut process = vec![0; 136];
    process[24] = 77;
    let note = |kind: u32, contents: &[u8]| {
        let head = [5, contents.len() as u32, kind].map(u32::to_le_bytes).concat();
        let mut note = [&head, &b"CORE\0\0\0\0"[..], contents].concat();
        note.resize(note.len().next_multiple_of(4), 0);
        note
    };
    let notes = [note(3, &process), note(0x4649_4C45, &files)].concat();
    // The first segment has the notes; these take their place.
    let header =
        usize::try_from(u64::from_le_bytes(bytes[32..40].try_into().expect("eight"))).expect("small");
    assert_eq!(bytes[header], 4, "a segment of notes");
    let position = bytes.len() as u64;
    bytes[header + 8..header + 16].copy_from_slice(&position.to_le_bytes());
    bytes[header + 32..header + 40].copy_from_slice(&(notes.len() as u64).to_le_bytes());
    bytes.extend(notes);
    scratch.file("core", bytes)
}

#[test]
fn files_that_a_core_file_names_are_not_read_without_leave() {
    let scratch = Scratch::new();
    let key = scratch.file("secret/id_rsa", SECRET).display().to_string();
    let own = scratch.file("bin/own", program(ID)).display().to_string();
    let core = core_file(&scratch, &[&key, "/proc/self/environ", &own, "../secret/id_rsa"]);
    let info = line(&format!("info {} --json", core.display())).done();
    // Two of the capture, and a list of four mappings.
    assert!(info.out.contains("\"events\": 8"), "its notes are read: {}", info.out);
    // A core file has no build IDs: nothing says that a program of this machine is the one that ran.
    for options in [&[][..], &["--host-files"]] {
        let (run, output) = converted(&scratch, &core, options);
        let file = |name: &str| files_below(&output).iter().any(|file| file.ends_with(name));
        assert!(!file("id_rsa") && !file("environ") && !file("own"), "{run:?}");
        assert!(run.err.contains(&own), "it is said that {own} is not looked at: {}", run.err);
    }
    for command in ["flow", "profile", "doctor", "info"] {
        let run = line(&format!("{command} {} --host-files", core.display()));
        assert!(!run.out.contains(SECRET) && !run.err.contains(SECRET), "{run:?}");
    }
    // Beneath a folder that the user gave, it is found by its name.
    let (run, output) = converted(&scratch, &core, &["--symfs", "/"]);
    assert!(
        run.err.contains("own, ") && files_below(&output).iter().any(|file| file.ends_with("own")),
        "{run:?}"
    );
    assert!(!files_below(&output).iter().any(|file| file.ends_with("id_rsa")), "{run:?}");
}

#[test]
fn a_program_of_this_machine_needs_leave_and_the_recorded_build_id() {
    let scratch = Scratch::new();
    let own = scratch.file("bin/own", program(ID)).display().to_string();
    let other = scratch.file("bin/other", program([0xCD; 20])).display().to_string();
    let unknown = scratch.file("bin/unknown", program(ID)).display().to_string();
    let named = [(&*own, Some(ID)), (&*other, Some(ID)), (&*unknown, None)];
    let capture = scratch.file("perf.data", perf_data(&named));
    let (run, output) = converted(&scratch, &capture, &[]);
    assert!(!run.err.contains(&format!("copied: {own}")), "{}", run.err);
    assert!(run.err.contains("code that ran is not here") && run.err.contains("--host-files"), "{}", run.err);
    assert!(!files_below(&output).iter().any(|file| file.ends_with("own")));
    let (run, output) = converted(&scratch, &capture, &["--host-files"]);
    let size = program(ID).len();
    assert!(run.err.contains(&format!("copied: {own} → own, {size} bytes\n")), "{}", run.err);
    assert!(run.err.contains(&format!("{other}: is another version")), "{}", run.err);
    assert!(run.err.contains("no build ID was recorded") && run.err.contains(&unknown), "{}", run.err);
    assert_eq!(fs::read(output.join("own")).expect("copied"), program(ID));
    let contents = fs::read_to_string(output.join("contents.ini")).expect("contents");
    assert!(contents.contains(&format!("build-id:{}=own", "ab".repeat(20))), "{contents}");
}

#[test]
fn code_that_was_not_looked_up_is_said_with_the_options_that_help() {
    let Some(corpus) = backsight_testing::corpus() else { return };
    let capture = corpus.join("simpleperf/perf_etm.data").display().to_string();
    for command in ["flow", "profile"] {
        let run = line(&format!("{command} {capture}"));
        assert!(run.err.contains("code that ran is not here: "), "{}", run.err);
        assert!(run.err.contains("--symfs FOLDER") && run.err.contains("--host-files"), "{}", run.err);
    }
}

#[test]
fn names_and_links_do_not_lead_out_of_the_folders_of_symfs() {
    let scratch = Scratch::new();
    scratch.file("secret/id_rsa", SECRET);
    scratch.file("secret/program", program(ID));
    let root = scratch.file("root/bin/inside", program(ID)).parent().expect("bin").to_owned();
    symlink("../../secret/program", root.join("relative")).expect("link");
    symlink(scratch.path("secret/program"), root.join("absolute")).expect("link");
    symlink("../../secret", root.join("folder")).expect("link");
    scratch.file("root/bin/text", SECRET);
    let names = [
        "../secret/id_rsa",
        "/../secret/program",
        "/bin/../../secret/program",
        "/bin/relative",
        "/bin/absolute",
        "/bin/folder/program",
        "/bin/folder/id_rsa",
        "/bin/text",
        "/bin/inside",
    ];
    let perf = scratch.file("perf.data", perf_data(&names.map(|name| (name, None))));
    let symfs = scratch.path("root").display().to_string();
    for capture in [perf, package(&scratch, "package", &names)] {
        let (run, output) = converted(&scratch, &capture, &["--symfs", &symfs]);
        let copies: Vec<&str> = run.err.lines().filter(|line| line.contains("/root/")).collect();
        let (copied, refused): (Vec<&str>, Vec<&str>) =
            copies.into_iter().partition(|line| line.starts_with("copied:"));
        assert!(copied.len() == 1 && copied[0].contains("root/bin/inside → inside"), "{}", run.err);
        assert!(refused.iter().any(|line| line.contains("root/bin/text: is no ELF file")), "{}", run.err);
        assert!(output.join("inside").is_file() && !output.join("program").exists());
    }
}

#[test]
fn links_in_a_capture_do_not_lead_out_of_it() {
    let scratch = Scratch::new();
    let key = scratch.file("secret/id_rsa", SECRET);
    let capture = package(&scratch, "package", &["/linked", "linked"]);
    symlink(&key, capture.join("linked")).expect("link");
    fs::create_dir_all(capture.join("images")).expect("folder");
    symlink("../../secret/id_rsa", capture.join("images/linked")).expect("link");
    converted(&scratch, &capture, &[]);
    fs::remove_file(capture.join("trace.bin")).expect("trace");
    symlink(&key, capture.join("trace.bin")).expect("link");
    let output = scratch.path("again");
    let command = format!("convert {} -o {}", capture.display(), output.display());
    line(&command).could_not("leads out of");
    assert!(!output.exists());
}

#[test]
fn a_pipe_in_a_capture_is_refused_at_once() {
    let scratch = Scratch::new();
    let mkfifo = |path: &Path| {
        assert!(Command::new("mkfifo").arg(path).status().expect("mkfifo").success());
    };
    let folder = scratch.file("folder/note", "").parent().expect("folder").to_owned();
    mkfifo(&folder.join("data"));
    line(&format!("info {}", folder.display())).could_not("holds neither");
    let capture = package(&scratch, "package", &["/pipe"]);
    mkfifo(&capture.join("pipe"));
    line(&format!("flow --limit 10 {}", capture.display())).done();
    fs::remove_file(capture.join("trace.bin")).expect("trace");
    mkfifo(&capture.join("trace.bin"));
    line(&format!("flow {}", capture.display())).could_not("no regular file");
}
