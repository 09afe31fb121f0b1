//! The tools that read the formats read what is written. `tools/install-profile-readers` installs them; where one is
//! missing, its test says so.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::{capture, exported, profile_of};

/// A tool, by any of its names; `None`, and a word about it, where it is missing.
pub(crate) fn tool(names: &[&str]) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut folders: Vec<PathBuf> = vec!["/usr/lib/llvm-19/bin".into()];
    folders.extend(std::env::split_paths(&path));
    let found = folders.iter().flat_map(|folder| names.iter().map(|name| folder.join(name)));
    let found = found.into_iter().find(|file| file.is_file());
    if found.is_none() {
        let names = names.join(", ");
        backsight_testing::skipped(format_args!("{names} is not installed (tools/install-profile-readers)"));
    }
    found
}

pub(crate) struct Scratch(PathBuf);

impl Scratch {
    pub(crate) fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("backsight-readers-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a temporary folder");
        Self(folder)
    }

    pub(crate) fn write(&self, name: &str, contents: &[u8]) -> PathBuf {
        let path = self.0.join(name);
        std::fs::write(&path, contents).expect("a file");
        path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// What a tool prints; it must succeed.
pub(crate) fn output(command: &mut Command) -> String {
    let output = command.output().expect("the tool runs");
    let (out, error) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{command:?}: {out}{error}");
    format!("{out}{error}")
}

fn program() -> PathBuf {
    capture("calls-aarch64").join("code/calls")
}

#[test]
fn llvm_profdata_reads_text_and_binary_as_the_same_profile() {
    let Some(profdata) = tool(&["llvm-profdata", "llvm-profdata-19", "llvm-profdata-14"]) else { return };
    let scratch = Scratch::new("profdata");
    let profile = profile_of(&capture("calls-aarch64"));
    let merged = |name: &str, format: &str| {
        let file = scratch.write(name, &exported(&profile, format));
        let shown = output(Command::new(&profdata).args(["show", "--sample"]).arg(&file));
        assert!(shown.contains("Function: ackermann"), "{shown}");
        let out = scratch.0.join(format!("{name}.merged"));
        output(Command::new(&profdata).args(["merge", "--sample", "--text", "-o"]).arg(&out).arg(&file));
        std::fs::read_to_string(out).expect("what was merged")
    };
    let (text, binary) = (merged("text", "llvm"), merged("binary", "llvm-binary"));
    assert_eq!(text, binary);
    assert!(text.starts_with("ackermann:") || text.contains("\nackermann:"), "{text}");
}

#[test]
fn llvm_profgen_makes_the_same_heads_of_the_same_ranges() {
    let Some(profgen) = tool(&["llvm-profgen", "llvm-profgen-19"]) else { return };
    let scratch = Scratch::new("profgen");
    let profile = profile_of(&capture("calls-aarch64"));
    let raw = scratch.write("raw", &exported(&profile, "profgen"));
    let out = scratch.0.join("out");
    output(
        Command::new(profgen)
            .arg(format!("--unsymbolized-profile={}", raw.display()))
            .arg(format!("--binary={}", program().display()))
            .arg(format!("--output={}", out.display()))
            .args(["--use-offset=0", "--format=text"]),
    );
    let theirs = std::fs::read_to_string(out).expect("what it made");
    let ours = String::from_utf8(exported(&profile, "llvm")).expect("text");
    let heads = |text: &str| {
        let functions = text.lines().filter(|line| !line.starts_with(' '));
        let parts = functions.filter_map(|line| {
            let mut parts = line.rsplitn(3, ':');
            let (head, total) = (parts.next()?.to_owned(), parts.next()?.to_owned());
            Some((parts.next()?.to_owned(), (head, total)))
        });
        parts.collect::<std::collections::BTreeMap<_, _>>()
    };
    let (ours, theirs) = (heads(&ours), heads(&theirs));
    assert!(theirs.len() >= 3, "{theirs:?}");
    for (name, sums) in &theirs {
        // Where the trace begins nothing branched to: only we know of that entry.
        if name != "_start" {
            assert_eq!(ours.get(name), Some(sums), "{name}");
        }
    }
}

/// Functions between which, or in which, fdata has branches.
fn functions_of_fdata(fdata: &str) -> std::collections::BTreeSet<&str> {
    fdata.lines().flat_map(|line| line.split(' ').skip(1).step_by(3).take(2)).collect()
}

#[test]
fn llvm_bolt_knows_every_function_of_fdata_local_ones_too() {
    let Some(bolt) = tool(&["llvm-bolt", "llvm-bolt-19"]) else { return };
    let scratch = Scratch::new("fdata-functions");
    let fdata = exported(&profile_of(&capture("calls-aarch64")), "fdata");
    let text = String::from_utf8(fdata.clone()).expect("text");
    let functions = functions_of_fdata(&text);
    assert!(functions.contains("ackermann/1") && functions.contains("program"), "{functions:?}");
    let file = scratch.write("program.fdata", &fdata);
    let rewritten = scratch.0.join("rewritten");
    let said = output(Command::new(bolt).arg(program()).arg("-data").arg(&file).arg("-o").arg(&rewritten));
    assert!(!said.contains("objects were ignored") && !said.contains("profile ignored"), "{said}");
    assert!(said.contains(&format!("{} out of ", functions.len())), "{functions:?}: {said}");
}

#[test]
fn perf2bolt_finds_no_range_that_the_code_contradicts() {
    let Some(bolt) = tool(&["perf2bolt"]) else { return };
    let scratch = Scratch::new("bolt");
    let profile = profile_of(&capture("calls-aarch64"));
    let raw = scratch.write("raw", &exported(&profile, "bolt"));
    let said = output(
        Command::new(bolt).args(["-pa", "-p"]).arg(&raw).arg("-o").arg(scratch.0.join("out")).arg(program()),
    );
    assert!(said.contains("wrote") || said.contains("PERF2BOLT"), "{said}");
    let mismatched = said.lines().find(|line| line.contains("mismatching"));
    assert!(mismatched.is_none_or(|line| line.contains(" 0 ") || line.contains("0.0%")), "{said}");
    let fdata = std::fs::read_to_string(scratch.0.join("out")).expect("what it made");
    assert!(fdata.lines().any(|line| line.contains("ackermann")), "{fdata}");
}

#[test]
fn merge_fdata_reads_fdata() {
    let Some(merge) = tool(&["merge-fdata", "merge-fdata-19"]) else { return };
    let scratch = Scratch::new("fdata");
    let profile = profile_of(&capture("calls-aarch64"));
    let file = scratch.write("one", &exported(&profile, "fdata"));
    let again = scratch.write("two", &exported(&profile, "fdata"));
    let merged = output(Command::new(merge).arg(&file).arg(&again));
    let sum = |text: &str| -> u64 {
        let counts = text.lines().filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok());
        counts.sum()
    };
    let ours = String::from_utf8(exported(&profile, "fdata")).expect("text");
    assert_eq!(
        sum(&merged.lines().filter(|line| line.starts_with('1')).collect::<Vec<_>>().join("\n")),
        2 * sum(&ours)
    );
}

#[test]
fn genhtml_reads_coverage() {
    let Some(genhtml) = tool(&["genhtml"]) else { return };
    let scratch = Scratch::new("lcov");
    let profile = profile_of(&capture("calls-aarch64"));
    let sources =
        backsight_testing::repository().join("testdata/programs/src").canonicalize().expect("sources");
    let text = String::from_utf8(exported(&profile, "lcov")).expect("text");
    // The bundled programs name their sources by relative paths.
    let mut placed = String::new();
    for line in text.lines() {
        let name = line.strip_prefix("SF:").and_then(|path| Path::new(path).file_name());
        match name {
            Some(name) => placed.push_str(&format!("SF:{}\n", sources.join(name).display())),
            None => placed.push_str(&format!("{line}\n")),
        }
    }
    let file = scratch.write("coverage.info", placed.as_bytes());
    let said = output(
        Command::new(genhtml).arg("--branch-coverage").arg(&file).arg("-o").arg(scratch.0.join("html")),
    );
    assert!(said.contains("lines......:"), "{said}");
    assert!(scratch.0.join("html/index.html").is_file());
}

#[test]
fn callgrind_annotate_finds_all_instructions() {
    let Some(annotate) = tool(&["callgrind_annotate"]) else { return };
    let scratch = Scratch::new("callgrind");
    let profile = profile_of(&capture("calls-aarch64"));
    let file = scratch.write("callgrind.out", &exported(&profile, "callgrind"));
    let said = output(Command::new(annotate).args(["--threshold=100", "--auto=no"]).arg(&file));
    let total = said.lines().find(|line| line.contains("PROGRAM TOTALS")).expect("totals");
    let digits: String =
        total.split_whitespace().next().unwrap_or("").chars().filter(char::is_ascii_digit).collect();
    assert_eq!(digits, profile.totals.instructions.to_string(), "{total}");
    assert!(said.contains("ackermann"), "{said}");
    // It complains about values that are missing, and goes on.
    assert!(!said.contains("uninitialized"), "{said}");
}

#[test]
fn protoc_reads_pprof() {
    let Some(protoc) = tool(&["protoc"]) else { return };
    let scratch = Scratch::new("pprof");
    let profile = profile_of(&capture("calls-aarch64"));
    let file = scratch.write("profile.pb.gz", &exported(&profile, "pprof"));
    let message = scratch.write("profile.pb", &backsight_testing::gunzip(&file));
    let message = std::fs::File::open(message).expect("the message");
    let said = output(Command::new(protoc).arg("--decode_raw").stdin(message));
    assert!(said.contains("6: \"instructions\""), "{said}");
}

#[test]
fn protoc_reads_perfetto_and_beginnings_and_ends_are_as_many() {
    let Some(protoc) = tool(&["protoc"]) else { return };
    let scratch = Scratch::new("perfetto");
    let profile = profile_of(&capture("calls-aarch64"));
    let schema = "syntax = \"proto2\"; message Trace { repeated Packet packet = 1; }
        message Packet { optional uint64 timestamp = 8; optional uint32 sequence = 10; optional Event event = 11;
          optional Data data = 12; optional uint32 flags = 13; optional Track track = 60; }
        message Event { optional int32 type = 9; optional uint64 name_iid = 10; optional uint64 track_uuid = 11; }
        message Data { repeated Name names = 2; } message Name { optional uint64 iid = 1; optional string name = 2; }
        message Track { optional uint64 uuid = 1; optional Process process = 3; optional Thread thread = 4;
          optional uint64 parent = 5; }
        message Process { optional int32 pid = 1; optional string name = 6; }
        message Thread { optional int32 pid = 1; optional int32 tid = 2; optional string name = 5; }";
    let schema = scratch.write("trace.proto", schema.as_bytes());
    let file = scratch.write("trace.perfetto", &exported(&profile, "perfetto"));
    let folder = schema.parent().expect("a folder");
    let file = std::fs::File::open(file).expect("the trace");
    let mut command = Command::new(protoc);
    let said = output(command.arg("-I").arg(folder).arg("--decode=Trace").arg("trace.proto").stdin(file));
    let count = |what: &str| said.lines().filter(|line| line.trim() == what).count();
    let slices: usize = profile.threads.iter().map(|thread| thread.slices.len()).sum();
    assert!(
        slices > 10 && count("type: 1") == slices && count("type: 2") == slices,
        "{slices} calls: {said}"
    );
    assert!(count("name: \"main\"") + count("name: \"program\"") > 0, "{said}");
    assert_eq!(
        said.lines().filter(|line| line.starts_with(|c: char| c.is_ascii_digit())).count(),
        0,
        "unknown fields"
    );
}

#[test]
fn gcc_takes_its_profile() {
    let Some(gcc) = tool(&["aarch64-linux-gnu-gcc"]) else { return };
    let scratch = Scratch::new("gcc");
    let profile = profile_of(&capture("calls-aarch64"));
    let file = scratch.write("calls.afdo", &exported(&profile, "gcc"));
    let source = backsight_testing::repository().join("testdata/programs/src/calls.c");
    let assembly = |name: &str, options: &[String]| {
        let out = scratch.write(name, b"");
        let mut command = Command::new(&gcc);
        command
            .args(["-O2", "-S", "-std=gnu11", "-ffreestanding", "-fno-builtin", "-o"])
            .arg(&out)
            .arg(&source);
        let said = output(command.args(options));
        (std::fs::read_to_string(out).expect("assembly"), said)
    };
    let (plain, _) = assembly("plain.s", &[]);
    let (profiled, said) = assembly("profiled.s", &[format!("-fauto-profile={}", file.display())]);
    assert!(!said.contains("rofile"), "GCC complains: {said}");
    assert_ne!(plain, profiled, "the profile changes nothing");
}

#[test]
fn an_xml_parser_reads_cobertura() {
    let Some(python) = tool(&["python3"]) else { return };
    let scratch = Scratch::new("cobertura");
    let profile = profile_of(&capture("calls-aarch64"));
    let file = scratch.write("coverage.xml", &exported(&profile, "cobertura"));
    let script = "import sys, xml.etree.ElementTree as e; r = e.parse(sys.argv[1]).getroot(); \
                  print(r.get('lines-covered'), sum(int(l.get('hits')) > 0 for l in r.iter('line')))";
    let said = output(Command::new(python).args(["-c", script]).arg(&file));
    let numbers: Vec<&str> = said.split_whitespace().collect();
    assert!(numbers.len() == 2 && numbers[0] == numbers[1] && numbers[0] != "0", "{said}");
}
